//! The status of a Deployment.

use jiff::Timestamp;

use super::{DeploymentSets, rollout};
use crate::controllers::workload::clamped_count_at;
use crate::reconcile::fields::{
    Condition, find_condition, remove_condition, set_condition, set_condition_time, set_counts,
    time_after_secs, time_at,
};
use crate::reconcile::{ApiRequest, Context, ReconcileResult};
use schedlab_api::{
    Value,
    object::{list, name, number, set, text},
};

/// The default of `progressDeadlineSeconds`.
const PROGRESS_DEADLINE_SECS: i64 = 600;
const REPLICA_FAILURE_CONDITION: &str = "ReplicaFailure";
const PROGRESSING_CONDITION: &str = "Progressing";

pub(super) fn sync_status(sets: &DeploymentSets, ctx: &Context) -> ReconcileResult {
    let deployment = sets.deployment;
    let sum = |field| -> i64 {
        sets.all_sets().map(|(_, set)| clamped_count_at(set, &["status", field], 0)).sum()
    };
    let new = |field| sets.new.map_or(0, |(_, set)| clamped_count_at(set, &["status", field], 0));
    let (total, available) = (sum("replicas"), sum("availableReplicas"));
    let updated = new("replicas");
    let mut seen = Value::clone(deployment);
    let if_any = [
        ("observedGeneration", number(deployment, &["metadata", "generation"]).unwrap_or(0)),
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (total.max(sets.desired_replicas()) - available).max(0)),
    ];
    set_counts(&mut seen, &[("terminatingReplicas", sum("terminatingReplicas"))], &if_any);
    let is_enough = available >= sets.desired_replicas() - rollout::unavailable_max(sets);
    set_timed_condition(&mut seen, &available_condition(is_enough), ctx.now);
    copy_replica_failure(sets, &mut seen, ctx);
    let desired = sets.desired_replicas();
    let done = updated == desired && total == desired && new("availableReplicas") == desired;
    let again = sync_progress(sets, &mut seen, done, ctx);
    ReconcileResult::from_writes(ApiRequest::status_update(sets.key, deployment, seen))
        .requeue_by(again)
}

/// Copies the `ReplicaFailure` condition of a ReplicaSet, preferably of the new one, to the
/// Deployment.
fn copy_replica_failure(sets: &DeploymentSets, deployment: &mut Value, ctx: &Context) {
    let all = sets.new.into_iter().chain(sets.old.iter().copied());
    match all.into_iter().find_map(|(_, set)| find_condition(set, REPLICA_FAILURE_CONDITION)) {
        None if find_condition(deployment, REPLICA_FAILURE_CONDITION).is_some() => {
            remove_condition(deployment, REPLICA_FAILURE_CONDITION);
        }
        None => {}
        Some(found) => {
            let [status, reason, message] =
                ["status", "reason", "message"].map(|field| text(found, &[field]));
            set_timed_condition(
                deployment,
                &Condition { kind: REPLICA_FAILURE_CONDITION, status, reason, message },
                ctx.now,
            );
        }
    }
}

fn available_condition(has_minimum: bool) -> Condition<'static> {
    if has_minimum {
        return Condition {
            kind: "Available",
            status: "True",
            reason: "MinimumReplicasAvailable",
            message: "Deployment has minimum availability.",
        };
    }
    Condition {
        kind: "Available",
        status: "False",
        reason: "MinimumReplicasUnavailable",
        message: "Deployment does not have minimum availability.",
    }
}

/// Updates the `Progressing` condition. Returns the time at which a stalled rollout times out.
fn sync_progress(
    sets: &DeploymentSets,
    seen: &mut Value,
    done: bool,
    ctx: &Context,
) -> Option<Timestamp> {
    let (_, new) = sets.new?;
    let limit = number(sets.deployment, &["spec", "progressDeadlineSeconds"]);
    let limit = limit.unwrap_or(PROGRESS_DEADLINE_SECS);
    if limit == i64::from(i32::MAX) {
        remove_condition(seen, PROGRESSING_CONDITION);
        return None;
    }
    let before = find_condition(sets.deployment, PROGRESSING_CONDITION);
    let is_over = before.is_some_and(|one| text(one, &["reason"]) == "NewReplicaSetAvailable");
    // A completed rollout does not restart when pods are lost or added.
    if is_over && status_count(seen, "replicas") == status_count(seen, "updatedReplicas") {
        return None;
    }
    if done {
        let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(new));
        set_timed_condition(
            seen,
            &progressing_condition(["True", "NewReplicaSetAvailable", &message]),
            ctx.now,
        );
        return None;
    }
    if before.is_none() {
        let message = format!("Found new replica set \"{}\"", name(new));
        set_timed_condition(
            seen,
            &progressing_condition(["True", "FoundNewReplicaSet", &message]),
            ctx.now,
        );
    }
    if has_progressed(sets.deployment, seen) {
        let message = format!("ReplicaSet \"{}\" is progressing.", name(new));
        set_timed_condition(
            seen,
            &progressing_condition(["True", "ReplicaSetUpdated", &message]),
            ctx.now,
        );
        mark_condition_updated(seen, PROGRESSING_CONDITION, ctx.now);
    } else if is_over {
        return None;
    }
    let since = find_condition(seen, PROGRESSING_CONDITION)
        .and_then(|one| time_at(one, &["lastUpdateTime"]))
        .unwrap_or(ctx.now);
    let deadline = time_after_secs(since, limit);
    if ctx.now < deadline {
        return Some(deadline);
    }
    let message = format!("ReplicaSet \"{}\" has timed out progressing.", name(new));
    set_timed_condition(
        seen,
        &progressing_condition(["False", "ProgressDeadlineExceeded", &message]),
        ctx.now,
    );
    None
}

fn status_count(deployment: &Value, field: &str) -> i64 {
    clamped_count_at(deployment, &["status", field], 0)
}

/// Whether a rollout has progressed: new pods were created or became ready, or old pods were
/// removed.
fn has_progressed(before: &Value, now: &Value) -> bool {
    let grew = |field| status_count(now, field) > status_count(before, field);
    let old = |deployment| {
        status_count(deployment, "replicas") - status_count(deployment, "updatedReplicas")
    };
    ["updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().any(grew)
        || old(now) < old(before)
}

/// The Deployment with the status after the creation of a ReplicaSet, which has no pods yet.
pub(super) fn status_with_created_set(deployment: &Value, set: &str, now: Timestamp) -> Value {
    let mut seen = deployment.clone();
    let generation = number(deployment, &["metadata", "generation"]).unwrap_or(0);
    set_counts(&mut seen, &[], &[("observedGeneration", generation), ("updatedReplicas", 0)]);
    if number(deployment, &["spec", "progressDeadlineSeconds"]) != Some(i64::from(i32::MAX)) {
        let message = format!("Created new replica set \"{set}\"");
        set_timed_condition(
            &mut seen,
            &progressing_condition(["True", "NewReplicaSetCreated", &message]),
            now,
        );
    }
    seen
}

/// The Deployment with the status after a refused creation of a ReplicaSet.
pub(super) fn status_with_refused_set(deployment: &Value, why: &str, now: Timestamp) -> Value {
    let mut seen = deployment.clone();
    set_timed_condition(
        &mut seen,
        &progressing_condition(["False", "ReplicaSetCreateError", why]),
        now,
    );
    seen
}

fn progressing_condition([status, reason, message]: [&str; 3]) -> Condition<'_> {
    Condition { kind: PROGRESSING_CONDITION, status, reason, message }
}

/// Sets a condition. `lastUpdateTime` changes only if the status or reason of the condition
/// changes.
fn set_timed_condition(deployment: &mut Value, condition: &Condition, now: Timestamp) {
    let same = find_condition(deployment, condition.kind).is_some_and(|one| {
        text(one, &["status"]) == condition.status && text(one, &["reason"]) == condition.reason
    });
    set_condition(deployment, condition, now);
    if !same {
        mark_condition_updated(deployment, condition.kind, now);
    }
}

/// Sets `lastUpdateTime` of the condition `kind` and moves the condition to the end of the list.
fn mark_condition_updated(deployment: &mut Value, kind: &str, now: Timestamp) {
    set_condition_time(deployment, kind, "lastUpdateTime", now);
    if let Some(last) = find_condition(deployment, kind).cloned() {
        remove_condition(deployment, kind);
        let mut all = list(deployment, &["status", "conditions"]).to_vec();
        all.push(last);
        set(deployment, &["status", "conditions"], Value::Array(all));
    }
}
