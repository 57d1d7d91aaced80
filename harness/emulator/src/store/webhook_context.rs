//! The state of a write that passes admission webhooks: request attributes, completed calls and
//! pending calls.
//!
//! The store itself calls no webhook. A write that needs a verdict changes nothing and returns the
//! pending calls. The caller (`calls`) makes them and retries the write with the verdicts. If the
//! object changed in the meantime, the retry returns different calls.

use std::sync::Arc;

use jiff::Timestamp;

use crate::api_types::error::ApiError;
use crate::store::PendingRules;
use schedlab_api::Value;

/// The request attributes that webhooks receive, and the verdicts so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WebhookContext {
    /// The `userInfo` of the client.
    pub(crate) user: Value,
    /// The `options` of the request, without their kind.
    pub(crate) options: Value,
    /// The version in the request's path.
    pub(crate) version: String,
    /// The subresource in the request's path; empty for the object itself.
    pub(crate) subresource: String,
    /// Whether the request deletes a collection, so that the review names no object.
    pub(crate) is_collection: bool,
    pub(crate) completed_calls: Vec<CompletedCall>,
    pub(crate) first_attempt: Option<FirstAttempt>,
}

/// Generated values of the first attempt of a write. Retries reuse them, so that they send the same
/// reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstAttempt {
    pub(crate) now: Timestamp,
    /// The uid of a new object.
    pub(crate) uid: String,
    /// The generated name of a new object; empty if the name is not generated.
    pub(crate) name: String,
}

/// A webhook call that has to be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingCall {
    /// The uid of this call.
    pub(crate) uid: String,
    pub(crate) webhook: Arc<Webhook>,
    /// `request` of the `AdmissionReview`, without `uid`.
    pub(crate) request: Value,
}

/// A webhook of a webhook configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Webhook {
    /// The name of the configuration, and the index of the webhook in it.
    pub(crate) source: (String, usize),
    pub(crate) name: String,
    pub(crate) is_mutating: bool,
    /// The `clientConfig` of the webhook.
    pub(crate) client_config: Value,
    pub(crate) timeout_secs: u64,
    /// The webhook's entry in the configuration.
    pub(crate) spec: Value,
}

/// A webhook call and its verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletedCall {
    pub(crate) webhook: Arc<Webhook>,
    pub(crate) request: Value,
    pub(crate) verdict: WebhookVerdict,
}

/// The result of a webhook call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WebhookVerdict {
    /// The webhook allows the request, with the JSON Patch operations to apply.
    Allowed(Option<Value>),
    /// The webhook denies the request with this `Status`.
    Denied(Value),
    /// The webhook call failed for this reason.
    Failed(String),
}

/// Why a write did not complete.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The write is refused.
    Refused(ApiError),
    /// The write needs the verdicts of these calls.
    NeedsWebhooks(Vec<PendingCall>, FirstAttempt),
    /// The write needs the verdict of these costly rules.
    NeedsRules(Box<PendingRules>),
}

impl WriteError {
    /// Adds the warnings collected so far to a refusal.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        if let Self::Refused(error) = &mut self {
            error.warnings.splice(..0, warnings.iter().cloned());
        }
        self
    }

    /// Adds the generated values of this attempt to rules that must be evaluated.
    pub(crate) fn with_first_attempt(mut self, values: &FirstAttempt) -> Self {
        if let Self::NeedsRules(pending) = &mut self {
            pending.first_attempt = Some(values.clone());
        }
        self
    }
}

impl From<ApiError> for WriteError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}
