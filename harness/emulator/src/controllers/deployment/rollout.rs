//! Rollouts from old ReplicaSets to the new one.

use super::{
    DESIRED_REPLICAS_ANNOTATION, DeploymentSets, MAX_REPLICAS_ANNOTATION, has_pods,
    new_replica_set, scaled_event, status,
};
use crate::controllers::workload::{clamped_count_at, int_or_percent_of, set_metadata_entries};
use crate::reconcile::resources::REPLICA_SETS;
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{at, name, set, text},
};

/// `maxSurge` and `maxUnavailable` as numbers of pods.
pub(super) struct RolloutLimits {
    pub(super) surge: i64,
    unavailable: i64,
}

pub(super) fn rollout_limits(sets: &DeploymentSets) -> RolloutLimits {
    let desired = sets.desired_replicas();
    let of = |field, up, default: i64| {
        let value = at(sets.deployment, &["spec", "strategy", "rollingUpdate", field]);
        int_or_percent_of(value, desired, up).unwrap_or(default)
    };
    let surge = of("maxSurge", true, (desired + 3) / 4);
    let unavailable = of("maxUnavailable", false, desired / 4).min(desired);
    RolloutLimits { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
}

/// How many of the desired pods of a Deployment may be unavailable.
pub(super) fn unavailable_max(sets: &DeploymentSets) -> i64 {
    if has_recreate_strategy(sets) { 0 } else { rollout_limits(sets).unavailable }
}

/// Annotates a ReplicaSet with the desired and maximum replicas of the Deployment.
pub(super) fn annotate_desired_replicas(replica_set: &mut Value, sets: &DeploymentSets) {
    let desired = sets.desired_replicas();
    let most =
        if has_recreate_strategy(sets) { desired } else { desired + rollout_limits(sets).surge };
    let [desired, most] = [desired, most].map(|count| count.to_string());
    set_metadata_entries(
        replica_set,
        "annotations",
        &[(DESIRED_REPLICAS_ANNOTATION, &desired), (MAX_REPLICAS_ANNOTATION, &most)],
    );
}

pub(super) fn has_recreate_strategy(sets: &DeploymentSets) -> bool {
    text(sets.deployment, &["spec", "strategy", "type"]) == "Recreate"
}

pub(super) fn spec_replicas(set: &Value) -> i64 {
    clamped_count_at(set, &["spec", "replicas"], 1)
}

fn available_replicas(set: &Value) -> i64 {
    clamped_count_at(set, &["status", "availableReplicas"], 0)
}

/// Creates the ReplicaSet of a new template.
pub(super) fn start_rollout(sets: &DeploymentSets, ctx: &Context) -> Vec<ApiRequest> {
    let desired = sets.desired_replicas();
    let old: i64 = sets.old.iter().map(|(_, set)| spec_replicas(set)).sum();
    if has_recreate_strategy(sets) {
        if let Some(writes) = scale_down_old_sets(sets, ctx) {
            return writes;
        }
        return create_replica_set(sets, desired, ctx);
    }
    let free = if old == 0 { desired } else { desired + rollout_limits(sets).surge - old };
    create_replica_set(sets, free.clamp(0, desired), ctx)
}

fn create_replica_set(sets: &DeploymentSets, replicas: i64, ctx: &Context) -> Vec<ApiRequest> {
    let replica_set = new_replica_set(sets, replicas);
    let event = (replicas > 0).then(|| scaled_event(&replica_set, 0, replicas, sets, ctx));
    let status = status::status_with_created_set(sets.deployment, name(&replica_set), ctx.now);
    let status = ApiRequest::status_update(sets.key, sets.deployment, status);
    [ApiRequest::create(&REPLICA_SETS, replica_set)]
        .into_iter()
        .chain(event)
        .chain(status)
        .collect()
}

/// Scales down all old ReplicaSets, for the strategy `Recreate`. `None` once their pods are gone.
fn scale_down_old_sets(sets: &DeploymentSets, ctx: &Context) -> Option<Vec<ApiRequest>> {
    let down: Vec<ApiRequest> =
        sets.old.iter().flat_map(|(key, set)| scale_replica_set(key, set, 0, sets, ctx)).collect();
    let running = sets.old.iter().any(|(_, set)| has_pods(set, ctx));
    (running || !down.is_empty()).then_some(down)
}

/// Advances a rolling update or a recreation by one step.
pub(super) fn continue_rollout(
    sets: &DeploymentSets,
    new_key: &Key,
    new: &Object,
    ctx: &Context,
) -> Vec<ApiRequest> {
    if has_recreate_strategy(sets) {
        if let Some(writes) = scale_down_old_sets(sets, ctx) {
            return writes;
        }
        return scale_replica_set(new_key, new, sets.desired_replicas(), sets, ctx);
    }
    let up = scale_up_new_set(sets, new_key, new, ctx);
    if up.is_empty() { scale_down_old_sets_gradually(sets, new, ctx) } else { up }
}

fn scale_up_new_set(
    sets: &DeploymentSets,
    new_key: &Key,
    new: &Object,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let (desired, has) = (sets.desired_replicas(), spec_replicas(new));
    if has >= desired {
        return scale_replica_set(new_key, new, desired, sets, ctx);
    }
    let total: i64 = sets.all_sets().map(|(_, set)| spec_replicas(set)).sum();
    let old = total - has;
    let limit = if old == 0 { desired } else { desired + rollout_limits(sets).surge };
    let more = (limit - total).clamp(0, desired - has);
    scale_replica_set(new_key, new, has + more, sets, ctx)
}

/// Scales old ReplicaSets down: first their unavailable pods, then surplus available ones.
fn scale_down_old_sets_gradually(
    sets: &DeploymentSets,
    new: &Value,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let total: i64 = sets.all_sets().map(|(_, set)| spec_replicas(set)).sum();
    let least = sets.desired_replicas() - rollout_limits(sets).unavailable;
    let coming = (spec_replicas(new) - available_replicas(new)).max(0);
    let mut may_go = total - least - coming;
    let mut spare: i64 =
        sets.all_sets().map(|(_, set)| available_replicas(set)).sum::<i64>() - least;
    let mut writes = Vec::new();
    for (key, old) in &sets.old {
        let has = spec_replicas(old);
        let broken = (has - available_replicas(old)).clamp(0, may_go.max(0));
        let healthy = (has - broken).min(spare.max(0)).min((may_go - broken).max(0));
        may_go -= broken + healthy;
        spare -= healthy;
        writes.extend(scale_replica_set(key, old, has - broken - healthy, sets, ctx));
    }
    writes
}

/// Scales a ReplicaSet and records an event.
pub(super) fn scale_replica_set(
    key: &Key,
    replica_set: &Object,
    to: i64,
    sets: &DeploymentSets,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let from = spec_replicas(replica_set);
    if from == to {
        return Vec::new();
    }
    let mut scaled = Value::clone(replica_set);
    set(&mut scaled, &["spec", "replicas"], json!(to));
    annotate_desired_replicas(&mut scaled, sets);
    let event = scaled_event(replica_set, from, to, sets, ctx);
    vec![ApiRequest::update(key, scaled), event]
}
