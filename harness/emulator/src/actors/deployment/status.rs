//! What a deployment says of itself.

use jiff::Timestamp;

use super::{Sets, rollout};
use crate::actors::fields::{
    Condition, after_secs, drop_condition, find_condition, set_condition, set_counts,
    stamp_condition, time,
};
use crate::actors::workload::count_at;
use crate::actors::{Context, Request, Step};
use crate::object::{list, name, number, set, text};
use schedlab_json::Value;

/// How long a rollout may stand still, by default.
const PROGRESS_SECS: i64 = 600;
const FAILURE: &str = "ReplicaFailure";
const PROGRESS: &str = "Progressing";

pub(super) fn observe(sets: &Sets, ctx: &Context) -> Step {
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
        ("unavailableReplicas", (total.max(sets.wanted()) - available).max(0)),
    ];
    set_counts(&mut seen, &[("terminatingReplicas", sum("terminatingReplicas"))], &if_any);
    let is_enough = available >= sets.wanted() - rollout::unavailable_max(sets);
    say(&mut seen, &availability(is_enough), ctx.now);
    note_failure(sets, &mut seen, ctx);
    let wanted = sets.wanted();
    let done = updated == wanted && total == wanted && new("availableReplicas") == wanted;
    let again = progress(sets, &mut seen, done, ctx);
    Step::of(Request::status(sets.key, deployment, seen)).by(again)
}

/// Why a ReplicaSet cannot make its pods, as that set says it: the new one's word comes first.
fn note_failure(sets: &Sets, seen: &mut Value, ctx: &Context) {
    let all = sets.new.into_iter().chain(sets.old.iter().copied());
    match all.into_iter().find_map(|(_, set)| find_condition(set, FAILURE)) {
        None if find_condition(seen, FAILURE).is_some() => drop_condition(seen, FAILURE),
        None => {}
        Some(found) => {
            let [status, reason, message] =
                ["status", "reason", "message"].map(|field| text(found, &[field]));
            say(seen, &Condition { kind: FAILURE, status, reason, message }, ctx.now);
        }
    }
}

fn availability(enough: bool) -> Condition<'static> {
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

/// The condition `Progressing`, and when a rollout that stands still is given up.
fn progress(sets: &Sets, seen: &mut Value, done: bool, ctx: &Context) -> Option<Timestamp> {
    let (_, new) = sets.new?;
    let limit = number(sets.deployment, &["spec", "progressDeadlineSeconds"]);
    let limit = limit.unwrap_or(PROGRESS_SECS);
    if limit == i64::from(i32::MAX) {
        drop_condition(seen, PROGRESS);
        return None;
    }
    let before = find_condition(sets.deployment, PROGRESS);
    let is_over = before.is_some_and(|one| text(one, &["reason"]) == "NewReplicaSetAvailable");
    // Once a rollout is over, pods that are lost or still to come do not begin it anew.
    if is_over && count(seen, "replicas") == count(seen, "updatedReplicas") {
        return None;
    }
    if done {
        let message = format!("ReplicaSet \"{}\" has successfully progressed.", name(new));
        say(seen, &progressing(["True", "NewReplicaSetAvailable", &message]), ctx.now);
        return None;
    }
    if before.is_none() {
        let message = format!("Found new replica set \"{}\"", name(new));
        say(seen, &progressing(["True", "FoundNewReplicaSet", &message]), ctx.now);
    }
    if has_moved(sets.deployment, seen) {
        let message = format!("ReplicaSet \"{}\" is progressing.", name(new));
        say(seen, &progressing(["True", "ReplicaSetUpdated", &message]), ctx.now);
        touch(seen, PROGRESS, ctx.now);
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
    say(seen, &progressing(["False", "ProgressDeadlineExceeded", &message]), ctx.now);
    None
}

fn count(deployment: &Value, field: &str) -> i64 {
    count_at(deployment, &["status", field], 0)
}

/// Whether new pods have come or become ready, or old ones have gone.
fn has_moved(before: &Value, now: &Value) -> bool {
    let grew = |field| count(now, field) > count(before, field);
    let old = |deployment| count(deployment, "replicas") - count(deployment, "updatedReplicas");
    ["updatedReplicas", "readyReplicas", "availableReplicas"].into_iter().any(grew)
        || old(now) < old(before)
}

/// A deployment whose ReplicaSet was just made: that has no pods yet.
pub(super) fn begun(deployment: &Value, set: &str, now: Timestamp) -> Value {
    let mut seen = deployment.clone();
    let generation = number(deployment, &["metadata", "generation"]).unwrap_or(0);
    set_counts(&mut seen, &[], &[("observedGeneration", generation), ("updatedReplicas", 0)]);
    if number(deployment, &["spec", "progressDeadlineSeconds"]) != Some(i64::from(i32::MAX)) {
        let message = format!("Created new replica set \"{set}\"");
        say(&mut seen, &progressing(["True", "NewReplicaSetCreated", &message]), now);
    }
    seen
}

/// A deployment whose ReplicaSet could not be made.
pub(super) fn failed(deployment: &Value, why: &str, now: Timestamp) -> Value {
    let mut seen = deployment.clone();
    say(&mut seen, &progressing(["False", "ReplicaSetCreateError", why]), now);
    seen
}

fn progressing([status, reason, message]: [&str; 3]) -> Condition<'_> {
    Condition { kind: PROGRESS, status, reason, message }
}

/// Sets a condition, and notes when it was last updated: when its status or its reason changed.
fn say(seen: &mut Value, is: &Condition, now: Timestamp) {
    let same = find_condition(seen, is.kind).is_some_and(|one| {
        text(one, &["status"]) == is.status && text(one, &["reason"]) == is.reason
    });
    set_condition(seen, is, now);
    if !same {
        touch(seen, is.kind, now);
    }
}

/// Notes when the condition was last updated. The one that was updated last stands last.
fn touch(seen: &mut Value, kind: &str, now: Timestamp) {
    stamp_condition(seen, kind, "lastUpdateTime", now);
    if let Some(last) = find_condition(seen, kind).cloned() {
        drop_condition(seen, kind);
        let mut all = list(seen, &["status", "conditions"]).to_vec();
        all.push(last);
        set(seen, &["status", "conditions"], Value::Array(all));
    }
}
