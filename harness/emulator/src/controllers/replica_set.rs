//! The ReplicaSet controller: maintains the desired number of active pods, and adopts matching
//! orphans.

use super::WriteRefusal;
use super::adoption::{adopt_and_release_objects, adopting_owners};
use super::workload::{
    NEW_PODS_MAX, api_count, availability_time, clamped_count_at, create_pod, delete_pod,
    free_pod_names, is_active, is_ready, owner_keys, pod_with_generated_name, pods_to_delete,
    to_usize,
};
use crate::reconcile::fields::{
    Condition, find_condition, remove_condition, set_condition, set_counts,
};
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::resources::{PODS, REPLICA_SETS};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value,
    object::{is_deleting, name, number, uid},
};

const COMPONENT: &str = "replicaset-controller";

/// The ReplicaSet controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&REPLICA_SETS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

/// The ReplicaSet that changed, and the owner or adopters of a changed pod.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let mut keys = owner_keys(change, cache, &REPLICA_SETS, &PODS);
    keys.extend(adopting_owners(change, cache, &REPLICA_SETS, &PODS));
    keys
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(set) = ctx.cache.get(key).filter(|set| !is_deleting(set)) else {
        return ReconcileResult::nothing_to_do();
    };
    let claims = adopt_and_release_objects(set, &PODS, is_active, ctx);
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let all = ctx.cache.controlled_by(uid(set), &PODS);
    let active: Vec<(&Key, &Object)> = all.filter(|(_, pod)| is_active(pod)).collect();
    let desired = clamped_count_at(set, &["spec", "replicas"], 1);
    let existing = api_count(&active);
    if existing < desired {
        return ReconcileResult::from_writes(create_pods(
            set,
            to_usize(desired - existing).min(NEW_PODS_MAX),
            ctx,
        ));
    }
    if existing > desired {
        let surplus = pods_to_delete(active, to_usize(existing - desired));
        return ReconcileResult::from_writes(
            surplus.into_iter().flat_map(|(key, pod)| delete_pod(key, pod, set, COMPONENT, ctx)),
        );
    }
    sync_status(key, set, &active, None, ctx)
}

/// The status update that reports refused creations or deletions of pods.
pub(super) fn failure_update(
    key: &Key,
    refusal: &WriteRefusal,
    ctx: &Context,
) -> Option<ApiRequest> {
    let set = ctx.cache.get(key).filter(|set| !is_deleting(set))?;
    let all = ctx.cache.controlled_by(uid(set), &PODS);
    let active: Vec<(&Key, &Object)> = all.filter(|(_, pod)| is_active(pod)).collect();
    let why = Condition {
        kind: "ReplicaFailure",
        status: "True",
        reason: if refusal.is_create { "FailedCreate" } else { "FailedDelete" },
        message: &refusal.error.message,
    };
    sync_status(key, set, &active, Some(&why), ctx).writes.pop()
}

fn create_pods(set: &Value, count: usize, ctx: &Context) -> Vec<ApiRequest> {
    let template = &set["spec"]["template"];
    let prefix = format!("{}-", name(set));
    let names = free_pod_names(set, &prefix, count, ctx);
    let pods = names.iter().map(|name| pod_with_generated_name(template, set, [&prefix, name]));
    pods.flat_map(|pod| create_pod(pod, set, COMPONENT, ctx)).collect()
}

fn sync_status(
    key: &Key,
    replica_set: &Value,
    active: &[(&Key, &Object)],
    failure: Option<&Condition>,
    ctx: &Context,
) -> ReconcileResult {
    let all = ctx.cache.controlled_by(uid(replica_set), &PODS);
    let terminating = all.filter(|(_, pod)| is_deleting(pod) && !is_finished(pod));
    let min_ready_secs = clamped_count_at(replica_set, &["spec", "minReadySeconds"], 0);
    let moments = active.iter().filter_map(|(_, pod)| availability_time(pod, min_ready_secs));
    let (available, later): (Vec<_>, Vec<_>) = moments.partition(|moment| *moment <= ctx.now);
    let mut seen = replica_set.clone();
    let always = [("replicas", api_count(active)), ("terminatingReplicas", api_count(terminating))];
    let if_any = [
        ("fullyLabeledReplicas", api_count(active)),
        ("readyReplicas", api_count(active.iter().filter(|(_, pod)| is_ready(pod)))),
        ("availableReplicas", api_count(available)),
        ("observedGeneration", number(replica_set, &["metadata", "generation"]).unwrap_or(0)),
    ];
    set_counts(&mut seen, &always, &if_any);
    let is_known = find_condition(&seen, "ReplicaFailure").is_some();
    match failure {
        // The first message stays: every retry has other pod names.
        Some(why) if !is_known => set_condition(&mut seen, why, ctx.now),
        None if is_known => remove_condition(&mut seen, "ReplicaFailure"),
        Some(_) | None => {}
    }
    ReconcileResult::from_writes(ApiRequest::status_update(key, replica_set, seen))
        .requeue_by(later.into_iter().min())
}
