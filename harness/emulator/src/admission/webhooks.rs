//! Matching of admission webhooks: which configured webhooks apply to a request, the
//! `AdmissionReview` they get, and the meaning of their response. It does no IO; `client`
//! makes the calls. `policies` matches and evaluates validating admission policies.

pub(crate) mod client;

mod conditions;
mod matching;
mod policies;
mod review;

use std::sync::{Arc, LazyLock};

use crate::api_types::kinds::Kind;
use crate::api_types::resource::Resource;
use crate::store::{Store, Webhook, WebhookContext};
use schedlab_api::{
    Value,
    object::{list, name, number, text},
};

pub(crate) use conditions::uses_authorizer;
pub(crate) use review::{admission_review, denial_error, failed_call_error, parse_response};

static MUTATING: LazyLock<Resource> = LazyLock::new(|| configuration_resource("mutating"));
static VALIDATING: LazyLock<Resource> = LazyLock::new(|| configuration_resource("validating"));

const GROUP: &str = "admissionregistration.k8s.io";

fn configuration_resource(webhook_kind: &str) -> Resource {
    Resource::new(GROUP, &format!("{webhook_kind}webhookconfigurations"))
}

/// One write request, as the rules of webhooks and policies see it. Objects are in the storage
/// version.
pub(crate) struct AdmissionAttributes<'r> {
    /// The kind that the request path names.
    pub(crate) kind: &'r Kind,
    pub(crate) context: &'r WebhookContext,
    /// The operation: `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    /// Version and kind of a request body that is not the object itself, for instance a binding or
    /// a scale.
    pub(crate) body_kind: Option<(&'static str, &'static str)>,
    pub(crate) object: Option<&'r Value>,
    pub(crate) old: Option<&'r Value>,
    pub(crate) dry_run: bool,
}

/// Whether any webhook is configured, or a validating admission policy is bound.
pub(crate) fn has_webhooks(store: &Store) -> bool {
    store.count(&MUTATING) + store.count(&VALIDATING) > 0 || policies::has_policies(store)
}

/// All mutating (or all validating) webhooks, in the order in which they are called.
pub(crate) fn configured_webhooks(store: &Store, is_mutating: bool) -> Vec<Arc<Webhook>> {
    let resource = if is_mutating { &*MUTATING } else { &*VALIDATING };
    let all = store.list(resource, None).flat_map(|configuration| {
        let configuration_name = name(configuration);
        let webhooks = list(configuration, &["webhooks"]).iter().enumerate();
        webhooks.map(move |(index, spec)| {
            Arc::new(parse_webhook(configuration_name, index, is_mutating, spec))
        })
    });
    all.collect()
}

fn parse_webhook(configuration_name: &str, index: usize, mutates: bool, spec: &Value) -> Webhook {
    let timeout = number(spec, &["timeoutSeconds"]).and_then(|secs| u64::try_from(secs).ok());
    Webhook {
        source: (configuration_name.to_owned(), index),
        name: text(spec, &["name"]).to_owned(),
        is_mutating: mutates,
        client_config: spec["clientConfig"].clone(),
        timeout_secs: timeout.unwrap_or(10),
        spec: spec.clone(),
    }
}

/// Whether webhooks are never called for this kind: the kinds that configure admission.
pub(crate) fn is_exempt(kind: &Kind) -> bool {
    *kind.resource.group == *GROUP
}
