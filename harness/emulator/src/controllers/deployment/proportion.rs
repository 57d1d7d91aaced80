//! Proportional scaling: a Deployment that is scaled during a rollout or while it is paused
//! distributes the change over its ReplicaSets by size.

use std::cmp::Reverse;

use super::rollout::{
    annotate_desired_replicas, has_recreate_strategy, rollout_limits, scale_replica_set,
    spec_replicas,
};
use super::{
    DESIRED_REPLICAS_ANNOTATION, DeploymentSets, MAX_REPLICAS_ANNOTATION, age_sort_key,
    scaled_event,
};
use crate::controllers::workload::clamped_count_at;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{annotation, set},
};

type ReplicaSetEntry<'v> = (&'v Key, &'v Object);

/// Whether the Deployment was scaled since its ReplicaSets were last annotated.
pub(super) fn was_deployment_scaled(sets: &DeploymentSets) -> bool {
    let is_of_old = |set: &Value| {
        annotated_count(set, DESIRED_REPLICAS_ANNOTATION)
            .is_some_and(|all| all != sets.desired_replicas())
    };
    sets.all_sets().any(|(_, set)| spec_replicas(set) > 0 && is_of_old(set))
}

/// A replica count of the Deployment that is recorded in the annotation `field` of a ReplicaSet.
fn annotated_count(set: &Value, field: &str) -> Option<i64> {
    annotation(set, field)?.parse().ok()
}

/// Scales the active ReplicaSets to the desired replicas.
pub(super) fn scale_active_sets(sets: &DeploymentSets, ctx: &Context) -> Vec<ApiRequest> {
    let desired = sets.desired_replicas();
    let active: Vec<ReplicaSetEntry> =
        sets.all_sets().filter(|(_, set)| spec_replicas(set) > 0).collect();
    match active.as_slice() {
        [] => {
            let newest = sets.new.or(sets.old.last().copied());
            newest
                .map(|(key, set)| scale_replica_set(key, set, desired, sets, ctx))
                .unwrap_or_default()
        }
        [(key, set)] => scale_replica_set(key, set, desired, sets, ctx),
        _ if sets.new.is_some_and(|(_, new)| is_saturated(new, desired)) => {
            let old = sets.old.iter().filter(|(_, set)| spec_replicas(set) > 0);
            old.flat_map(|(key, set)| scale_replica_set(key, set, 0, sets, ctx)).collect()
        }
        _ if has_recreate_strategy(sets) => Vec::new(),
        _ => scale_proportionally(active, sets, ctx),
    }
}

fn is_saturated(new: &Value, desired: i64) -> bool {
    spec_replicas(new) == desired
        && annotated_count(new, DESIRED_REPLICAS_ANNOTATION) == Some(desired)
        && clamped_count_at(new, &["status", "availableReplicas"], 0) == desired
}

/// Scales the active ReplicaSets in proportion to their sizes: larger ones first, and the first
/// gets the remainder. Of equal sizes, newer ones grow first and older ones shrink first.
fn scale_proportionally(
    mut active: Vec<ReplicaSetEntry>,
    sets: &DeploymentSets,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let desired = sets.desired_replicas();
    let allowed = if desired == 0 { 0 } else { desired + rollout_limits(sets).surge };
    let more = allowed - active.iter().map(|(_, set)| spec_replicas(set)).sum::<i64>();
    active.sort_by_key(|(key, set)| age_sort_key(key, set));
    if more > 0 {
        active.reverse();
    }
    active.sort_by_key(|(_, set)| Reverse(spec_replicas(set)));
    let mut remaining = more;
    let mut sizes = Vec::with_capacity(active.len());
    for (_, set) in &active {
        let fraction = proportional_change(set, sets);
        let part = if more > 0 { fraction.min(remaining) } else { fraction.max(remaining) };
        let part = if remaining == 0 { 0 } else { part };
        remaining -= part;
        sizes.push(spec_replicas(set) + part);
    }
    sizes[0] = (sizes[0] + remaining).max(0);
    active
        .into_iter()
        .zip(sizes)
        .flat_map(|((key, set), to)| resize_replica_set(key, set, to, sets, ctx))
        .collect()
}

/// The change of a ReplicaSet's size by which it keeps its share of the Deployment's replicas.
fn proportional_change(replica_set: &Value, sets: &DeploymentSets) -> i64 {
    let (has, desired) = (spec_replicas(replica_set), sets.desired_replicas());
    if desired == 0 {
        return -has;
    }
    let most_before =
        annotated_count(replica_set, MAX_REPLICAS_ANNOTATION).filter(|most| *most > 0);
    let most_before = most_before
        .unwrap_or_else(|| clamped_count_at(sets.deployment, &["status", "replicas"], 0));
    if most_before == 0 {
        return 0;
    }
    let most = desired + rollout_limits(sets).surge;
    let size = has.saturating_mul(most).saturating_mul(2).saturating_add(most_before);
    size / most_before.saturating_mul(2) - has
}

/// Scales a ReplicaSet, or only updates its annotations if the size stays the same.
fn resize_replica_set(
    key: &Key,
    old: &Object,
    to: i64,
    sets: &DeploymentSets,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let from = spec_replicas(old);
    let mut new = Value::clone(old);
    set(&mut new, &["spec", "replicas"], json!(to));
    annotate_desired_replicas(&mut new, sets);
    if new == **old {
        return Vec::new();
    }
    let event = (from != to).then(|| scaled_event(old, from, to, sets, ctx));
    [ApiRequest::update(key, new)].into_iter().chain(event).collect()
}
