//! The status of a Deployment.

use jiff::Timestamp;

use super::{DeploymentSets, rollout};
use crate::controllers::workload::count_at;
use crate::reconcile::fields::{
    Condition, after_secs, drop_condition, find_condition, set_condition, set_condition_time,
    set_counts, time,
};
use crate::reconcile::{ApiRequest, Context, ReconcileResult};
use schedlab_api::{
    Value,
    object::{list, name, number, set, text},
};

/// The default of `progressDeadlineSeconds`.
const PROGRESS_SECS: i64 = 600;
const FAILURE: &str = "ReplicaFailure";
const PROGRESS: &str = "Progressing";

pub(super) fn sync_status(sets: &DeploymentSets, ctx: &Context) -> ReconcileResult {
    let deployment = sets.deployment;
    let sum =
        |field| -> i64 { sets.all().map(|(_, set)| count_at(set, &["status", field], 0)).sum() };
    let new = |field| sets.new.map_or(0, |(_, set)| count_at(set, &["status", field], 0));
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

/// Copies the `ReplicaFailure` condition of a ReplicaSet, preferably of the new one.
fn copy_replica_failure(sets: &DeploymentSets, seen: &mut Value, ctx: &Context) {
    let all = sets.new.into_iter().chain(sets.old.iter().copied());
    match all.into_iter().find_map(|(_, set)| find_condition(set, FAILURE)) {
        None if find_condition(seen, FAILURE).is_some() => drop_condition(seen, FAILURE),
        None => {}
        Some(found) => {
            let [status, reason, message] =
                ["status", "reason", "message"].map(|field| text(found, &[field]));
            set_timed_condition(
                seen,
                &Condition { kind: FAILURE, status, reason, message },
                ctx.now,
            );
        }
    }
}

fn available_condition(enough: bool) -> Condition<'static> {
    if enough {
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

/// Updates the `Progressing` condition. Returns when a stalled rollout times out.
fn sync_progress(
    sets: &DeploymentSets,
    seen: &mut Value,
    done: bool,
    ctx: &Context,
) -> Option<Timestamp> {
    let (_, new) = sets.new?;
    let limit = number(sets.deployment, &["spec", "progressDeadlineSeconds"]);
    let limit = limit.unwrap_or(PROGRESS_SECS);
    if limit == i64::from(i32::MAX) {
        drop_condition(seen, PROGRESS);
        return None;
    }
    let before = find_condition(sets.deployment, PROGRESS);
    let is_over = before.is_some_and(|one| text(one, &["reason"]) == "NewReplicaSetAvailable");
    // A completed rollout does not restart when pods are lost or added.
    if is_over && count(seen, "replicas") == count(seen, "updatedReplicas") {
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
        mark_updated(seen, PROGRESS, ctx.now);
    } else if is_over {
        return None;
    }
    let since = find_condition(seen, PROGRESS)
        .and_then(|one| time(one, &["lastUpdateTime"]))
        .unwrap_or(ctx.now);
    let deadline = after_secs(since, limit);
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

fn count(deployment: &Value, field: &str) -> i64 {
    count_at(deployment, &["status", field], 0)
}

/// Whether new pods were created or became ready, or old ones were removed.
fn has_progressed(before: &Value, now: &Value) -> bool {
    let grew = |field| count(now, field) > count(before, field);
    let old = |deployment| count(deployment, "replicas") - count(deployment, "updatedReplicas");
    ["updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().any(grew)
        || old(now) < old(before)
}

/// The status after the creation of a ReplicaSet, which has no pods yet.
pub(super) fn new_set_status(deployment: &Value, set: &str, now: Timestamp) -> Value {
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

/// The status after a refused creation of a ReplicaSet.
pub(super) fn failure_status(deployment: &Value, why: &str, now: Timestamp) -> Value {
    let mut seen = deployment.clone();
    set_timed_condition(
        &mut seen,
        &progressing_condition(["False", "ReplicaSetCreateError", why]),
        now,
    );
    seen
}

fn progressing_condition([status, reason, message]: [&str; 3]) -> Condition<'_> {
    Condition { kind: PROGRESS, status, reason, message }
}

/// Sets a condition; `lastUpdateTime` changes with its status or reason.
fn set_timed_condition(seen: &mut Value, is: &Condition, now: Timestamp) {
    let same = find_condition(seen, is.kind).is_some_and(|one| {
        text(one, &["status"]) == is.status && text(one, &["reason"]) == is.reason
    });
    set_condition(seen, is, now);
    if !same {
        mark_updated(seen, is.kind, now);
    }
}

/// Sets `lastUpdateTime` and moves the condition to the end of the list.
fn mark_updated(seen: &mut Value, kind: &str, now: Timestamp) {
    set_condition_time(seen, kind, "lastUpdateTime", now);
    if let Some(last) = find_condition(seen, kind).cloned() {
        drop_condition(seen, kind);
        let mut all = list(seen, &["status", "conditions"]).to_vec();
        all.push(last);
        set(seen, &["status", "conditions"], Value::Array(all));
    }
}
