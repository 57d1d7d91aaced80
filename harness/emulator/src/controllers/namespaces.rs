//! Namespace deletion: deletes the content of a terminating namespace, then the namespace. Its
//! conditions show the remaining content.

use std::collections::BTreeMap;

use crate::reconcile::fields::{Condition, set_condition};
use crate::reconcile::resources::NAMESPACES;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object, Op, Subresource};
use schedlab_api::{
    Value, json,
    object::{finalizers, is_deleting, list, set},
};

/// The namespace controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "namespaces",
    manager: "kube-controller-manager",
    watches: WatchedKinds::All,
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *NAMESPACES {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.namespace.is_empty() {
        return Vec::new();
    }
    let name = change.key.namespace.clone();
    let home = Key { resource: NAMESPACES.clone(), namespace: "".into(), name };
    let goes = cache.get(&home).is_some_and(|namespace| is_deleting(namespace));
    if goes { vec![home] } else { Vec::new() }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(namespace) = ctx.cache.get(key).filter(|namespace| is_deleting(namespace)) else {
        return ReconcileResult::nothing_to_do();
    };
    let contents = ctx.cache.namespace_contents(&key.name);
    let contents: Vec<(&Key, &Object)> =
        contents.filter_map(|key| Some((key, ctx.cache.get(key)?))).collect();
    let staying = contents.iter().filter(|(_, object)| !is_deleting(object));
    let deletes: Vec<ApiRequest> =
        staying.map(|(key, object)| ApiRequest::delete(key, object)).collect();
    if !deletes.is_empty() {
        return ReconcileResult::from_writes(deletes);
    }
    if !contents.is_empty() {
        let updated = with_content_conditions(namespace, &contents, ctx);
        return ReconcileResult::from_writes(ApiRequest::status_update(key, namespace, updated));
    }
    if list(namespace, &["spec", "finalizers"]).is_empty() {
        return ReconcileResult::nothing_to_do();
    }
    let mut empty = Value::clone(namespace);
    set(&mut empty, &["spec", "finalizers"], json!([]));
    let op = Op::Update(Subresource::Finalize, empty);
    ReconcileResult::from_writes([ApiRequest { key: key.clone(), op }])
}

/// The namespace with the conditions that report its remaining content, with the texts of
/// Kubernetes.
fn with_content_conditions(
    namespace: &Value,
    contents: &[(&Key, &Object)],
    ctx: &Context,
) -> Value {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut holding: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, object) in contents {
        let kind = format!("{}.{}", key.resource.plural, key.resource.group);
        *kinds.entry(kind).or_default() += 1;
        for finalizer in finalizers(object) {
            *holding.entry(finalizer).or_default() += 1;
        }
    }
    let kinds = kinds.iter().map(|(kind, count)| format!("{kind} has {count} resource instances"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let held = !holding.is_empty();
    let holding =
        holding.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
    let holding = holding.collect::<Vec<_>>().join(", ");
    let kinds = format!("Some resources are remaining: {kinds}");
    let holding = format!("Some content in the namespace has finalizers remaining: {holding}");
    let finalizers = if held {
        ("True", "SomeFinalizersRemain", &*holding)
    } else {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
    };
    let deleted = "All content successfully deleted, may be waiting on finalization";
    let all = [
        (
            "DiscoveryFailure",
            ("False", "ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "GroupVersionParsingFailure",
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        ("ContentFailure", ("False", "ContentDeleted", deleted)),
    ];
    let mut updated = namespace.clone();
    let deletion = all.map(|(kind, condition)| (format!("NamespaceDeletion{kind}"), condition));
    let left = [
        ("NamespaceContentRemaining".to_owned(), ("True", "SomeResourcesRemain", &*kinds)),
        ("NamespaceFinalizersRemaining".to_owned(), finalizers),
    ];
    for (kind, (status, reason, message)) in deletion.into_iter().chain(left) {
        set_condition(&mut updated, &Condition { kind: &kind, status, reason, message }, ctx.now);
    }
    updated
}
