//! What admission webhooks have to do with a write: what they are told beside its object, what
//! they have said so far, and what they are still to be asked.
//!
//! The store asks nobody: a write that hangs on a webhook's word ends, with nothing done, in the
//! questions. Whoever holds the store puts them (`calls`) and tries the write again, which now
//! knows the answers. What changed meanwhile makes other questions.

use std::sync::Arc;

use jiff::Timestamp;

use crate::error::ApiError;
use schedlab_json::Value;

/// Who writes, as webhooks are told, and what they have said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Consultation {
    /// `userInfo`.
    pub(crate) user: Value,
    /// The request's options, without their kind.
    pub(crate) options: Value,
    /// The version in the request's path.
    pub(crate) version: String,
    /// The subresource in the request's path; empty for the object itself.
    pub(crate) subresource: String,
    /// It is about a whole collection: no object is named.
    pub(crate) of_collection: bool,
    pub(crate) said: Vec<Said>,
    pub(crate) begun: Option<Begun>,
}

/// What an earlier try of the same write has drawn, so that the next one asks the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) now: Timestamp,
    /// Of a new object.
    pub(crate) uid: String,
    /// Of a new object whose name is generated.
    pub(crate) name: String,
}

/// What is to be asked of one webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    /// Of this question alone.
    pub(crate) uid: String,
    pub(crate) webhook: Arc<Webhook>,
    /// `request` of the `AdmissionReview`, without `uid`.
    pub(crate) request: Value,
}

/// Who is asked, and how.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Webhook {
    /// The configuration's name and the webhook's place in it.
    pub(crate) place: (String, usize),
    pub(crate) name: String,
    pub(crate) mutates: bool,
    /// `clientConfig`.
    pub(crate) client: Value,
    pub(crate) timeout_secs: u64,
    /// The whole webhook, as configured.
    pub(crate) spec: Value,
}

/// A question and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) webhook: Arc<Webhook>,
    pub(crate) request: Value,
    pub(crate) answer: Answer,
}

/// A webhook's word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Let it pass, changed by the operations of this JSON Patch.
    Allowed(Option<Value>),
    /// Refused, with the `Status` that says why.
    Denied(Value),
    /// No word: why.
    Failed(String),
}

/// Why a write is not done.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is refused.
    Refused(ApiError),
    /// It hangs on what webhooks say.
    Asks(Vec<Question>, Begun),
}

impl Stop {
    /// A refusal warns of what it passed over, too.
    pub(crate) fn warning(mut self, warnings: &[String]) -> Self {
        if let Self::Refused(error) = &mut self {
            error.warnings.splice(..0, warnings.iter().cloned());
        }
        self
    }
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}
