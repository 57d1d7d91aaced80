//! The `ResourceQuota` controller: recomputes the usage of a quota when the quota changes, and when
//! counted objects are removed. Quota admission adds the usage of new objects.

use crate::admission::quota::{
    CountedObject, counted_quota_status, counted_resources, has_released_resources, release_time,
};
use crate::reconcile::resources::{PODS, QUOTAS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value,
    object::{at, is_deleting, set},
};

/// The quota controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "resourcequota",
    manager: "kube-controller-manager",
    watches: WatchedKinds::All,
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let ObjectChange { key, before, after } = change;
    if key.resource == *QUOTAS {
        let spec = |quota: &Value| at(quota, &["spec"]).cloned();
        let is_new = before.as_ref().map(|old| spec(old)) != after.as_ref().map(|new| spec(new));
        return after.as_ref().filter(|_| is_new).map(|_| key.clone()).into_iter().collect();
    }
    if key.namespace.is_empty() || !(after.is_none() || releases_quota(change)) {
        return Vec::new();
    }
    let quotas = cache.objects_in_namespace(&QUOTAS, &key.namespace);
    let counting = quotas.filter(|(_, quota)| counted_resources(quota).contains(&key.resource));
    counting.map(|(key, _)| key.clone()).collect()
}

/// Whether a change can release quota: a pod ended, or started to terminate. A terminating pod
/// counts until its grace period ends.
fn releases_quota(change: &ObjectChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    let ended = |pod: &Value| has_released_resources(pod, jiff::Timestamp::MIN);
    change.key.resource == *PODS
        && (ended(before) != ended(after) || is_deleting(before) != is_deleting(after))
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(quota) = ctx.cache.get(key).filter(|quota| !is_deleting(quota)) else {
        return ReconcileResult::nothing_to_do();
    };
    let mut seen = Value::clone(quota);
    // The status is computed from the spec alone.
    set(&mut seen, &["status"], Value::Null);
    let collections = counted_resources(&seen);
    let items = collections.iter().flat_map(|resource| {
        let objects = ctx.cache.objects_in_namespace(resource, &key.namespace);
        objects.map(move |(_, object)| CountedObject { resource, object, now: ctx.now })
    });
    let counted = counted_quota_status(&seen, items);
    set(&mut seen, &["status"], counted);
    let leaving = collections.iter().filter(|resource| **resource == *PODS);
    let leaving = leaving.flat_map(|pods| ctx.cache.objects_in_namespace(pods, &key.namespace));
    let later = leaving.filter_map(|(_, pod)| release_time(pod)).filter(|time| *time >= ctx.now);
    let again = later.min().map(|time| crate::reconcile::fields::time_after_secs(time, 1));
    ReconcileResult::from_writes(ApiRequest::status_update(key, quota, seen)).requeue_by(again)
}
