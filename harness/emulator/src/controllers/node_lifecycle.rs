//! The node lifecycle controller: sets the conditions of a node to unknown when its lease expires,
//! and taints nodes that are unreachable, not ready or cordoned.
//!
//! Left out: zones and their eviction rates, pressure taints.

use jiff::Timestamp;

use crate::kubelet::node::{is_final_renewal, keys_to_reconcile as concerns_node, lease_key};
use crate::reconcile::fields::{Condition, format_time, set_condition, time_after_secs, time_at};
use crate::reconcile::resources::{LEASES, NODES, PODS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value, conditions, json,
    object::{condition, is_deleting, list, name, set, text},
    taints,
};

/// The time without a renewal of its lease after which a node becomes unknown.
const RENEWAL_GRACE_SECS: i64 = 40;

/// The taints that this controller manages.
const OWN_TAINTS: [(&str, &str); 5] = [
    (taints::NOT_READY, "NoSchedule"),
    (taints::UNREACHABLE, "NoSchedule"),
    (taints::UNSCHEDULABLE, "NoSchedule"),
    (taints::NOT_READY, "NoExecute"),
    (taints::UNREACHABLE, "NoExecute"),
];

/// The node lifecycle controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "node-life",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&PODS, &NODES, &LEASES]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource != *PODS {
        return concerns_node(change, cache);
    }
    // A pod bound to an unreachable node is not ready either.
    let bound = change.after.as_ref().map_or("", |pod| text(pod, &["spec", "nodeName"]));
    let key = Key { resource: NODES.clone(), namespace: "".into(), name: bound.into() };
    let silent =
        cache.get(&key).is_some_and(|node| condition(node, conditions::READY) == Some("Unknown"));
    if silent { vec![key] } else { Vec::new() }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(node) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(node) {
        return ReconcileResult::nothing_to_do();
    }
    let silent_at = lease_expiry(node, ctx.cache);
    if silent_at.is_some_and(|at| at <= ctx.now)
        && condition(node, conditions::READY) != Some("Unknown")
    {
        return ReconcileResult::from_writes(mark_node_unknown(key, node, ctx));
    }
    let mut writes: Vec<ApiRequest> = sync_taints(key, node, ctx.now).into_iter().collect();
    if condition(node, conditions::READY) == Some("Unknown") {
        writes.extend(mark_pods_not_ready(node, ctx));
    }
    ReconcileResult::from_writes(writes).requeue_by(silent_at.filter(|at| *at > ctx.now))
}

/// The time at which a node that is down becomes unknown; `None` for a node that is up.
fn lease_expiry(node: &Value, cache: &InformerCache) -> Option<Timestamp> {
    let lease = cache.get(&lease_key(node)).filter(|lease| is_final_renewal(lease))?;
    Some(time_after_secs(time_at(lease, &["spec", "renewTime"])?, RENEWAL_GRACE_SECS))
}

/// Sets the conditions of an unreachable node to unknown.
fn mark_node_unknown(key: &Key, node: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let mut unknown = node.clone();
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", conditions::READY] {
        let condition = Condition {
            kind,
            status: "Unknown",
            reason: "NodeStatusUnknown",
            message: "Kubelet stopped posting node status.",
        };
        set_condition(&mut unknown, &condition, ctx.now);
    }
    let notice = EventSpec {
        component: "node-controller",
        kind: "Normal",
        reason: "NodeNotReady",
        message: format!("Node {} status is now: NodeNotReady", name(node)),
    };
    ApiRequest::status_update(key, node, unknown)
        .into_iter()
        .chain([notice.record(node, ctx)])
        .collect()
}

/// Updates the taints of a node to match its conditions; `None` if they match already.
fn sync_taints(key: &Key, node: &Value, now: Timestamp) -> Option<ApiRequest> {
    let health = match condition(node, conditions::READY) {
        Some("True") => None,
        Some("Unknown") => Some(taints::UNREACHABLE),
        Some(_) => Some(taints::NOT_READY),
        // The kubelet has not reported yet: the node keeps its initial taint.
        None => return None,
    };
    let cordoned = crate::reconcile::fields::flag_at(node, &["spec", "unschedulable"]);
    let before = list(node, &["spec", "taints"]);
    let is_due = |(taint, _): &(&str, &str)| {
        health == Some(*taint) || (cordoned && *taint == taints::UNSCHEDULABLE)
    };
    let is = |one: &Value, (taint, effect): &(&str, &str)| {
        text(one, &["key"]) == *taint && text(one, &["effect"]) == *effect
    };
    let keeps = |one: &&Value| OWN_TAINTS.iter().find(|own| is(one, own)).is_none_or(is_due);
    let mut after: Vec<Value> = before.iter().filter(keeps).cloned().collect();
    for own in OWN_TAINTS.iter().filter(|own| is_due(own)) {
        if !after.iter().any(|one| is(one, own)) {
            after.push(json!({"key": own.0, "effect": own.1, "timeAdded": format_time(now)}));
        }
    }
    if before == after.as_slice() {
        return None;
    }
    let mut node = node.clone();
    set(&mut node, &["spec", "taints"], Value::Array(after));
    Some(ApiRequest::update(key, node))
}

/// Sets the pods of an unreachable node to not ready.
fn mark_pods_not_ready(node: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let ready = ctx
        .cache
        .pods_on(name(node))
        .filter(|(_, pod)| condition(pod, conditions::READY) == Some("True"));
    let writes = ready.filter_map(|(key, pod)| {
        let mut unready = Value::clone(pod);
        let condition =
            Condition { kind: conditions::READY, status: "False", reason: "", message: "" };
        set_condition(&mut unready, &condition, ctx.now);
        ApiRequest::status_update(key, pod, unready)
    });
    writes.collect()
}
