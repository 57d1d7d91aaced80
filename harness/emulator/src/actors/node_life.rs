//! The node controller: what the cluster makes of a node's health. A node that is silent for the
//! grace period is unknown and tainted; a healthy one is not. Cordoned nodes are tainted too.
//!
//! Left out: zones and their eviction rates, pressure taints.

use jiff::Timestamp;

use super::fields::{Condition, after_secs, set_condition, stamp, time};
use super::kinds::{LEASES, NODES, PODS};
use super::node::{concerns as concerns_node, is_marked, lease_key};
use super::step::Notice;
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::admit::{NOT_READY, UNREACHABLE};
use crate::object::{condition, is_deleting, list, name, set, text};
use crate::store::Key;
use schedlab_json::{Value, json};

/// How long a node may be silent.
const GRACE_SECS: i64 = 40;

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The taints that are this controller's own.
const OWN: [(&str, &str); 5] = [
    (NOT_READY, "NoSchedule"),
    (UNREACHABLE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
];

/// The node controller.
pub(super) const ACTOR: Actor = Actor {
    name: "node-life",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&PODS, &NODES, &LEASES]),
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource != *PODS {
        return concerns_node(change, view);
    }
    // A pod bound to a silent node is not ready either.
    let bound = change.after.as_ref().map_or("", |pod| text(pod, &["spec", "nodeName"]));
    let key = Key { resource: NODES.clone(), namespace: "".into(), name: bound.into() };
    let silent = view.get(&key).is_some_and(|node| condition(node, "Ready") == Some("Unknown"));
    if silent { vec![key] } else { Vec::new() }
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(node) = ctx.view.get(key) else { return Step::rest() };
    if is_deleting(node) {
        return Step::rest();
    }
    let silent_at = silent_at(node, ctx.view);
    if silent_at.is_some_and(|at| at <= ctx.now) && condition(node, "Ready") != Some("Unknown") {
        return Step::of(lose(key, node, ctx));
    }
    let mut writes: Vec<Request> = taint(key, node, ctx.now).into_iter().collect();
    if condition(node, "Ready") == Some("Unknown") {
        writes.extend(unready_pods(node, ctx));
    }
    Step::of(writes).by(silent_at.filter(|at| *at > ctx.now))
}

/// When a dead node is noticed.
fn silent_at(node: &Value, view: &View) -> Option<Timestamp> {
    let lease = view.get(&lease_key(node)).filter(|lease| is_marked(lease))?;
    Some(after_secs(time(lease, &["spec", "renewTime"])?, GRACE_SECS))
}

/// Gives a silent node up.
fn lose(key: &Key, node: &Value, ctx: &Context) -> Vec<Request> {
    let mut unknown = node.clone();
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
        let condition = Condition {
            kind,
            status: "Unknown",
            reason: "NodeStatusUnknown",
            message: "Kubelet stopped posting node status.",
        };
        set_condition(&mut unknown, &condition, ctx.now);
    }
    let notice = Notice {
        component: "node-controller",
        kind: "Normal",
        reason: "NodeNotReady",
        message: format!("Node {} status is now: NodeNotReady", name(node)),
    };
    Request::status(key, node, unknown).into_iter().chain([notice.about(node, ctx)]).collect()
}

/// The taints that a node's state asks for, where it has others.
fn taint(key: &Key, node: &Value, now: Timestamp) -> Option<Request> {
    let health = match condition(node, "Ready") {
        Some("True") => None,
        Some("Unknown") => Some(UNREACHABLE),
        Some(_) => Some(NOT_READY),
        // Its kubelet has not spoken yet: it keeps the taint it came with.
        None => return None,
    };
    let cordoned = super::fields::flag(node, &["spec", "unschedulable"]);
    let before = list(node, &["spec", "taints"]);
    let wanted =
        |(taint, _): &(&str, &str)| health == Some(*taint) || (cordoned && *taint == UNSCHEDULABLE);
    let is = |one: &Value, (taint, effect): &(&str, &str)| {
        text(one, &["key"]) == *taint && text(one, &["effect"]) == *effect
    };
    let keeps = |one: &&Value| OWN.iter().find(|own| is(one, own)).is_none_or(wanted);
    let mut after: Vec<Value> = before.iter().filter(keeps).cloned().collect();
    for own in OWN.iter().filter(|own| wanted(own)) {
        if !after.iter().any(|one| is(one, own)) {
            after.push(json!({"key": own.0, "effect": own.1, "timeAdded": stamp(now)}));
        }
    }
    if before == after.as_slice() {
        return None;
    }
    let mut node = node.clone();
    set(&mut node, &["spec", "taints"], Value::Array(after));
    Some(Request::update(key, node))
}

/// The pods of a silent node are not ready.
fn unready_pods(node: &Value, ctx: &Context) -> Vec<Request> {
    let ready =
        ctx.view.pods_on(name(node)).filter(|(_, pod)| condition(pod, "Ready") == Some("True"));
    let writes = ready.filter_map(|(key, pod)| {
        let mut unready = Value::clone(pod);
        let condition = Condition { kind: "Ready", status: "False", reason: "", message: "" };
        set_condition(&mut unready, &condition, ctx.now);
        Request::status(key, pod, unready)
    });
    writes.collect()
}
