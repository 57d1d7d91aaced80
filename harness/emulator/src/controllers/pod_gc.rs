//! Pod garbage collection: deletes pods whose node does not exist, and fails deleted pods that were
//! never scheduled and are kept by a finalizer.
//!
//! Pods are deleted 40 s after their node was deleted, or after their binding to a missing node.
//! Kubernetes checks only every 20 s, so there it can take up to 20 s longer.
//!
//! Left out: the removal of finished pods beyond 12,500.

use jiff::Timestamp;

use crate::reconcile::fields::{
    Condition, find_condition, set_condition, time_after_secs, time_at,
};
use crate::reconcile::pod_status::{is_finished, node_name};
use crate::reconcile::resources::{NODES, PODS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, conditions, json,
    object::{is_deleting, set},
};

const QUARANTINE_SECS: i64 = 40;
/// The interval in which Kubernetes checks for orphaned pods, in seconds.
const CHECK_INTERVAL_SECS: i64 = 20;

/// The pod garbage collector.
pub(super) const CONTROLLER: Controller = Controller {
    name: "pod-gc",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&NODES, &PODS]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *NODES && change.after.is_none() {
        return cache.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect();
    }
    let concerns = |pod: &Object| is_node_missing(pod, cache) || is_stuck_unscheduled(pod);
    let lost = change.key.resource == *PODS && change.after.as_ref().is_some_and(concerns);
    if lost { vec![change.key.clone()] } else { Vec::new() }
}

fn is_node_missing(pod: &Value, cache: &InformerCache) -> bool {
    !node_name(pod).is_empty() && cache.get(&node_key_of(pod)).is_none()
}

fn node_key_of(pod: &Value) -> Key {
    Key { resource: NODES.clone(), namespace: "".into(), name: node_name(pod).into() }
}

/// Whether a pod is being deleted, was never scheduled and has not ended.
fn is_stuck_unscheduled(pod: &Value) -> bool {
    node_name(pod).is_empty() && is_deleting(pod) && !is_finished(pod)
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    if let Some(pod) = ctx.cache.get(key).filter(|pod| is_stuck_unscheduled(pod)) {
        return fail_stuck_pod(key, pod, ctx);
    }
    let Some(pod) = ctx.cache.get(key).filter(|pod| is_node_missing(pod, ctx.cache)) else {
        return ReconcileResult::nothing_to_do();
    };
    let bound = find_condition(pod, conditions::POD_SCHEDULED)
        .and_then(|condition| time_at(condition, &["lastTransitionTime"]))
        .or_else(|| time_at(pod, &["metadata", "creationTimestamp"]))
        .unwrap_or(Timestamp::MIN);
    let missed = ctx.cache.node_gone_since(&node_key_of(pod)).map_or(bound, |gone| gone.max(bound));
    let due = time_after_secs(missed, QUARANTINE_SECS);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    let mut lost = Value::clone(pod);
    if !is_finished(pod) {
        set(&mut lost, &["status", "phase"], json!("Failed"));
        let condition = Condition {
            kind: conditions::DISRUPTION_TARGET,
            status: "True",
            reason: conditions::DELETION_BY_POD_GC,
            message: "PodGC: node no longer exists",
        };
        set_condition(&mut lost, &condition, ctx.now);
    }
    let status = ApiRequest::status_update(key, pod, lost);
    ReconcileResult::from_writes(status.into_iter().chain([ApiRequest::delete_now(key, pod)]))
}

fn fail_stuck_pod(key: &Key, pod: &Value, ctx: &Context) -> ReconcileResult {
    let due = time_at(pod, &["metadata", "deletionTimestamp"]).unwrap_or(ctx.now);
    let due = time_after_secs(due, CHECK_INTERVAL_SECS);
    if ctx.now < due {
        return ReconcileResult::requeue_at(due);
    }
    let mut ended = pod.clone();
    set(&mut ended, &["status", "phase"], json!("Failed"));
    ReconcileResult::from_writes(ApiRequest::status_update(key, pod, ended))
}
