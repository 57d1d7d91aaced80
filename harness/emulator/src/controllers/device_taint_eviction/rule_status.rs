//! The condition `EvictionInProgress` of a `DeviceTaintRule`.

use std::collections::BTreeSet;

use super::{eviction, matches_device};
use crate::reconcile::fields::{
    Condition, find_condition, set_condition, set_condition_field, set_condition_time,
    time_after_secs, time_at,
};
use crate::reconcile::resources::{PODS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use crate::reconcile::{ApiRequest, Context, InformerCache, ReconcileResult};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{list, number, text, uid},
};

const IN_PROGRESS: &str = "EvictionInProgress";
/// The condition changes at most once in this time, unless the rule changes.
const CHECK_INTERVAL_SECS: i64 = 10;

/// The pods that a rule evicts or would evict.
struct PendingPods {
    pods: usize,
    namespaces: usize,
}

/// Reports the progress of a rule in its status.
pub(super) fn report(key: &Key, rule: &Object, ctx: &Context) -> ReconcileResult {
    let generation = number(rule, &["metadata", "generation"]).unwrap_or(0);
    let before = find_condition(rule, IN_PROGRESS);
    if let Some(before) = before
        && number(before, &["observedGeneration"]) == Some(generation)
        && let Some(last) = time_at(before, &["lastTransitionTime"])
        && ctx.now < time_after_secs(last, CHECK_INTERVAL_SECS)
    {
        return ReconcileResult::requeue_at(time_after_secs(last, CHECK_INTERVAL_SECS));
    }
    let (status, reason, message) = progress(rule, before, ctx.cache);
    let condition = Condition { kind: IN_PROGRESS, status, reason, message: &message };
    let is_same = before.is_some_and(|before| {
        text(before, &["status"]) == status
            && text(before, &["reason"]) == reason
            && text(before, &["message"]) == message
            && number(before, &["observedGeneration"]) == Some(generation)
    });
    if is_same {
        return ReconcileResult::nothing_to_do();
    }
    let mut changed = Value::clone(rule);
    set_condition(&mut changed, &condition, ctx.now);
    set_condition_time(&mut changed, IN_PROGRESS, "lastTransitionTime", ctx.now);
    set_condition_field(&mut changed, IN_PROGRESS, "message", &json!(message));
    set_condition_field(&mut changed, IN_PROGRESS, "observedGeneration", &generation.into());
    ReconcileResult::from_writes(ApiRequest::status_update(key, rule, changed))
}

/// Status, reason and message of the condition.
fn progress(
    rule: &Object,
    before: Option<&Value>,
    cache: &InformerCache,
) -> (&'static str, &'static str, String) {
    match text(rule, &["spec", "taint", "effect"]) {
        "NoExecute" => {
            let pending = pending_pods(rule, None, cache);
            let has_evicted = before.is_some_and(|before| {
                ["PodsPendingEviction", "Completed"].contains(&text(before, &["reason"]))
            });
            match (pending.pods, has_evicted) {
                (0, true) => ("False", "Completed", String::new()),
                (0, false) => ("False", "NotStarted", String::new()),
                (1, _) => {
                    let namespaces = pending.in_namespaces();
                    let message = format!("1 pod needs to be evicted in {namespaces}.");
                    ("True", "PodsPendingEviction", message)
                }
                (pods, _) => {
                    let namespaces = pending.in_namespaces();
                    let message = format!("{pods} pods need to be evicted in {namespaces}.");
                    ("True", "PodsPendingEviction", message)
                }
            }
        }
        "None" => ("False", "NoEffect", preview(rule, cache)),
        _ => {
            let message = "Eviction only happens for the NoExecute effect.".to_owned();
            ("False", "OtherEffect", message)
        }
    }
}

/// What the rule would do with the effect `NoExecute`.
fn preview(rule: &Object, cache: &InformerCache) -> String {
    let devices = |count: usize, kind: &str| match count {
        1 => format!("1 {kind} device selected."),
        count => format!("{count} {kind} devices selected."),
    };
    let pending = pending_pods(rule, Some(rule), cache);
    let pods = if pending.pods == 1 { "pod" } else { "pods" };
    format!(
        "{} {} {} {pods} would be evicted in {} if the effect was NoExecute. This information will \
         not be updated again. Recreate the DeviceTaintRule to trigger an update.",
        devices(published_devices(rule, cache), "published"),
        devices(allocated_devices(rule, cache), "allocated"),
        pending.pods,
        pending.in_namespaces(),
    )
}

impl PendingPods {
    fn in_namespaces(&self) -> String {
        match self.namespaces {
            1 => "1 namespace".to_owned(),
            count => format!("{count} different namespaces"),
        }
    }
}

fn pending_pods(rule: &Object, simulated: Option<&Object>, cache: &InformerCache) -> PendingPods {
    let is_pending = |pod: &Object| {
        eviction(pod, simulated, cache).is_some_and(|eviction| eviction.rules.contains(uid(rule)))
    };
    let pods: Vec<&Key> =
        cache.all(&PODS).filter(|(_, pod)| is_pending(pod)).map(|(key, _)| key).collect();
    let namespaces: BTreeSet<&str> = pods.iter().map(|key| &*key.namespace).collect();
    PendingPods { pods: pods.len(), namespaces: namespaces.len() }
}

fn published_devices(rule: &Value, cache: &InformerCache) -> usize {
    let slices = cache.all(&RESOURCE_SLICES).map(|(_, slice)| slice);
    let devices = slices.flat_map(|slice| {
        let (driver, pool) = (&slice["spec"]["driver"], &slice["spec"]["pool"]["name"]);
        let devices = list(slice, &["spec", "devices"]).iter();
        devices.map(move |device| json!({"driver": driver, "pool": pool, "device": device["name"]}))
    });
    devices.filter(|device| matches_device(rule, device)).count()
}

fn allocated_devices(rule: &Value, cache: &InformerCache) -> usize {
    let claims = cache.all(&RESOURCE_CLAIMS).map(|(_, claim)| claim);
    let results =
        claims.flat_map(|claim| list(claim, &["status", "allocation", "devices", "results"]));
    results.filter(|result| matches_device(rule, result)).count()
}
