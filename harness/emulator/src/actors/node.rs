//! The node half of a kubelet: it registers its node, keeps its status and its lease.
//!
//! Heartbeats are lazy: nothing is written while nothing changes. A node dies by the annotation
//! `schedlab.dev/down: "true"`; its last heartbeat, at the moment it is seen to be dead, is the
//! lease's last renewal, marked with the same annotation so that whoever waits for the next one
//! knows that none will come.

use std::sync::Arc;

use super::fields::{Condition, micro_stamp, set_condition, stamp_condition};
use super::kinds::{LEASES, NODES};
use super::kubelet::{DOWN, host_address, is_down};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{
    annotation, at, condition, is_deleting, name, number, remove, set, set_default, text, uid,
};
use crate::store::Key;
use schedlab_json::{Value, json};

/// Where nodes' leases live.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECS: i64 = 40;

/// What a healthy node says of itself: condition, status, reason, message.
const HEALTHY: [Condition<'static>; 4] = [
    Condition {
        kind: "MemoryPressure",
        status: "False",
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
    },
    Condition {
        kind: "DiskPressure",
        status: "False",
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
    },
    Condition {
        kind: "PIDPressure",
        status: "False",
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
    },
    Condition {
        kind: "Ready",
        status: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
    },
];

/// The node half of all kubelets.
pub(super) const ACTOR: Actor = Actor {
    name: "node",
    manager: "kubelet",
    watches: Watched::Kinds(&[&NODES, &LEASES]),
    concerns,
    step,
};

/// A node's own changes and those of its lease.
pub(super) fn concerns(change: &Change, _: &View) -> Vec<Key> {
    if change.key.resource == *NODES {
        return vec![change.key.clone()];
    }
    if change.key.resource == *LEASES && &*change.key.namespace == LEASE_NAMESPACE {
        let node = Arc::clone(&change.key.name);
        return vec![Key { resource: NODES.clone(), namespace: "".into(), name: node }];
    }
    Vec::new()
}

/// Where a node's lease is.
pub(super) fn lease_key(node: &Value) -> Key {
    Key { resource: LEASES.clone(), namespace: LEASE_NAMESPACE.into(), name: name(node).into() }
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(node) = ctx.view.get(key) else { return Step::rest() };
    if is_deleting(node) {
        return Step::rest();
    }
    let lease = lease(node, ctx);
    if is_down(node) {
        return Step::of(lease);
    }
    let mut healthy = Value::clone(node);
    register(&mut healthy);
    for wanted in &HEALTHY {
        if condition(node, wanted.kind) != Some(wanted.status) {
            set_condition(&mut healthy, wanted, ctx.now);
            stamp_condition(&mut healthy, wanted.kind, "lastHeartbeatTime", ctx.now);
        }
    }
    Step::of(Request::status(key, node, healthy).into_iter().chain(lease))
}

/// What a node says of itself and its maker left out.
fn register(node: &mut Value) {
    for [from, to] in [["capacity", "allocatable"], ["allocatable", "capacity"]] {
        if let Some(amounts) = at(node, &["status", from]).cloned() {
            set_default(node, &["status", to], amounts);
        }
    }
    let addresses = json!([
        {"type": "InternalIP", "address": host_address(node)},
        {"type": "Hostname", "address": name(node)},
    ]);
    set_default(node, &["status", "addresses"], addresses);
    let port = ["status", "daemonEndpoints", "kubeletEndpoint", "Port"];
    if number(node, &port).unwrap_or(0) == 0 {
        set(node, &port, json!(10250));
    }
    let own = uid(node).to_owned();
    for (field, value) in [
        ("machineID", own.as_str()),
        ("systemUUID", own.as_str()),
        ("bootID", own.as_str()),
        ("kernelVersion", "6.8.0-schedlab"),
        ("osImage", "schedlab"),
        ("containerRuntimeVersion", "schedlab://1.0.0"),
        ("kubeletVersion", "v1.35.0"),
        ("operatingSystem", "linux"),
        ("architecture", "amd64"),
    ] {
        let path = ["status", "nodeInfo", field];
        if text(node, &path).is_empty() {
            set(node, &path, json!(value));
        }
    }
}

/// The lease as it should be, where it is not.
fn lease(node: &Value, ctx: &Context) -> Option<Request> {
    let key = lease_key(node);
    let dead = is_down(node);
    let Some(old) = ctx.view.get(&key) else {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name(node),
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)},
                ],
            },
            "spec": {"holderIdentity": name(node), "leaseDurationSeconds": LEASE_SECS},
        });
        renew(&mut lease, dead, ctx);
        return Some(Request { key, op: crate::store::Op::Create(lease) });
    };
    if is_deleting(old) || is_marked(old) == dead {
        return None;
    }
    let mut lease = Value::clone(old);
    renew(&mut lease, dead, ctx);
    Some(Request::update(&key, lease))
}

/// Whether a lease had its last renewal.
pub(super) fn is_marked(lease: &Value) -> bool {
    annotation(lease, DOWN) == Some("true")
}

fn renew(lease: &mut Value, dead: bool, ctx: &Context) {
    set(lease, &["spec", "renewTime"], json!(micro_stamp(ctx.now)));
    if dead {
        set(lease, &["metadata", "annotations", DOWN], json!("true"));
    } else {
        remove(lease, &["metadata", "annotations", DOWN]);
    }
}
