//! The controller that protects pod groups: a deleted group stays until its pods have ended.

use crate::reconcile::pod_status::{group_name, is_finished};
use crate::reconcile::resources::{POD_GROUPS, PODS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value,
    finalizers::POD_GROUP_PROTECTION,
    object::{finalizers, is_deleting, namespace},
};

/// The controller that protects pod groups.
pub(super) const CONTROLLER: Controller = Controller {
    name: "podgroup-protection-controller",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&POD_GROUPS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, _cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *POD_GROUPS {
        return change.after.iter().map(|_| change.key.clone()).collect();
    }
    if change.key.resource != *PODS {
        return Vec::new();
    }
    let groups = change.states().filter_map(|pod| {
        Some(Key {
            resource: POD_GROUPS.clone(),
            namespace: namespace(pod).into(),
            name: group_name(pod)?.into(),
        })
    });
    let mut keys: Vec<Key> = groups.collect();
    keys.dedup();
    keys
}

/// Removes the finalizer of a deleted group without pods that have not ended.
fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(group) = ctx.cache.get(key) else { return ReconcileResult::done() };
    if !is_deleting(group) || !finalizers(group).any(|one| one == POD_GROUP_PROTECTION) {
        return ReconcileResult::done();
    }
    let uses = |pod: &Value| group_name(pod) == Some(&*key.name) && !is_finished(pod);
    if ctx.cache.in_namespace(&PODS, &key.namespace).any(|(_, pod)| uses(pod)) {
        return ReconcileResult::done();
    }
    ReconcileResult::from_writes([ApiRequest::remove_finalizer(key, group, POD_GROUP_PROTECTION)])
}
