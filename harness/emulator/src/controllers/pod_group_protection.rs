//! The controller that protects pod groups: a deleted group stays until its pods have ended.

use crate::reconcile::pod_status::{group_key, group_members, is_finished};
use crate::reconcile::resources::{POD_GROUPS, PODS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::finalizers::POD_GROUP_PROTECTION;
use schedlab_api::object::{finalizers, is_deleting};

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
    let mut keys: Vec<Key> = change.states().filter_map(|pod| group_key(pod)).collect();
    keys.dedup();
    keys
}

/// Removes the finalizer of a deleted group without pods that have not ended.
fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(group) = ctx.cache.get(key) else { return ReconcileResult::done() };
    if !is_deleting(group) || !finalizers(group).any(|one| one == POD_GROUP_PROTECTION) {
        return ReconcileResult::done();
    }
    if group_members(key, ctx.cache).any(|(_, pod)| !is_finished(pod)) {
        return ReconcileResult::done();
    }
    ReconcileResult::from_writes([ApiRequest::remove_finalizer(key, group, POD_GROUP_PROTECTION)])
}
