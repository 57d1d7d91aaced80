//! Admission webhooks, as far as can be known without asking them: which of those that are
//! configured a request is for, what they are told (`AdmissionReview`), and what their answers
//! mean. It asks nobody.

mod conditions;
mod matching;
mod review;

use std::sync::{Arc, LazyLock};

use crate::kinds::{Kind, Resource};
use crate::object::{list, name, number, text};
use crate::store::{Consultation, Store, Webhook};
use schedlab_json::Value;

pub(crate) use conditions::needs_authorizer;
pub(crate) use review::{answered, denial, failure, review};

static MUTATING: LazyLock<Resource> = LazyLock::new(|| configurations("mutating"));
static VALIDATING: LazyLock<Resource> = LazyLock::new(|| configurations("validating"));

const GROUP: &str = "admissionregistration.k8s.io";

fn configurations(sort: &str) -> Resource {
    Resource::new(GROUP, &format!("{sort}webhookconfigurations"))
}

/// One request, as rules and webhooks see it. Objects are in stored form.
pub(crate) struct Asked<'r> {
    /// The kind under whose name it was asked for.
    pub(crate) kind: &'r Kind,
    pub(crate) consultation: &'r Consultation,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(crate) operation: &'static str,
    pub(crate) namespace: &'r str,
    pub(crate) name: &'r str,
    /// Version and kind of the body where it is not the object: a binding, a scale.
    pub(crate) part: Option<(&'static str, &'static str)>,
    pub(crate) object: Option<&'r Value>,
    pub(crate) old: Option<&'r Value>,
    pub(crate) dry_run: bool,
}

/// Whether any webhook is configured.
pub(crate) fn any(store: &Store) -> bool {
    store.count(&MUTATING) + store.count(&VALIDATING) > 0
}

/// The webhooks that change objects (or those that only judge), in the order in which they are
/// asked.
pub(crate) fn configured(store: &Store, mutates: bool) -> Vec<Arc<Webhook>> {
    let resource = if mutates { &*MUTATING } else { &*VALIDATING };
    let all = store.list(resource, None).flat_map(|configuration| {
        let of = name(configuration);
        let webhooks = list(configuration, &["webhooks"]).iter().enumerate();
        webhooks.map(move |(index, spec)| Arc::new(webhook((of, index), mutates, spec)))
    });
    all.collect()
}

fn webhook((of, index): (&str, usize), mutates: bool, spec: &Value) -> Webhook {
    let timeout = number(spec, &["timeoutSeconds"]).and_then(|secs| u64::try_from(secs).ok());
    Webhook {
        place: (of.to_owned(), index),
        name: text(spec, &["name"]).to_owned(),
        mutates,
        client: spec["clientConfig"].clone(),
        timeout_secs: timeout.unwrap_or(10),
        spec: spec.clone(),
    }
}

/// Whether objects of this kind configure admission itself: webhooks are never asked about them.
pub(crate) fn is_exempt(kind: &Kind) -> bool {
    *kind.resource.group == *GROUP
}
