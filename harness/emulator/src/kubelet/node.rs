//! The node part of a kubelet: registers its node and maintains its status and lease.
//!
//! Unlike a kubelet, it writes heartbeats only when something changes. The annotation
//! `schedlab.dev/down: "true"` takes a node down. The lease is then renewed for the last time and
//! annotated too, so that the node lifecycle controller knows that no renewal will follow.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api_types::kubelet_timing::unhealthy_gpus;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::kubelet::{host_address, is_down};
use crate::reconcile::fields::{Condition, format_micro_time, set_condition, set_condition_time};
use crate::reconcile::resources::{LEASES, NODES};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value, annotations, conditions, json,
    object::{
        annotation, at, condition, is_deleting, name, number, remove, set, set_default, text, uid,
    },
    object_names, resources,
};

const LEASE_SECS: i64 = 40;

/// The conditions of a healthy node.
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
        kind: conditions::READY,
        status: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
    },
];

/// The node part of all kubelets.
pub(crate) const CONTROLLER: Controller = Controller {
    name: "node",
    manager: "kubelet",
    watches: WatchedKinds::Kinds(&[&NODES, &LEASES]),
    keys_to_reconcile,
    reconcile,
};

/// The node that changed, or whose lease changed.
pub(crate) fn keys_to_reconcile(change: &ObjectChange, _: &InformerCache) -> Vec<Key> {
    if change.key.resource == *NODES {
        return vec![change.key.clone()];
    }
    if change.key.resource == *LEASES
        && &*change.key.namespace == object_names::NODE_LEASE_NAMESPACE
    {
        let node = Arc::clone(&change.key.name);
        return vec![Key { resource: NODES.clone(), namespace: "".into(), name: node }];
    }
    Vec::new()
}

/// The key of a node's lease.
pub(crate) fn lease_key(node: &Value) -> Key {
    Key {
        resource: LEASES.clone(),
        namespace: object_names::NODE_LEASE_NAMESPACE.into(),
        name: name(node).into(),
    }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(node) = ctx.cache.get(key) else { return ReconcileResult::done() };
    if is_deleting(node) {
        return ReconcileResult::done();
    }
    let lease = lease(node, ctx);
    if is_down(node) {
        return ReconcileResult::from_writes(lease);
    }
    let mut healthy = Value::clone(node);
    register(&mut healthy);
    withhold_unhealthy_gpus(&mut healthy);
    for healthy_condition in &HEALTHY {
        if condition(node, healthy_condition.kind) != Some(healthy_condition.status) {
            set_condition(&mut healthy, healthy_condition, ctx.now);
            set_condition_time(&mut healthy, healthy_condition.kind, "lastHeartbeatTime", ctx.now);
        }
    }
    ReconcileResult::from_writes(
        ApiRequest::status_update(key, node, healthy).into_iter().chain(lease),
    )
}

/// Fills in the status fields that a kubelet reports.
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
        ("kubeletVersion", KubernetesVersion::default().git_version()),
        ("operatingSystem", "linux"),
        ("architecture", "amd64"),
    ] {
        let path = ["status", "nodeInfo", field];
        if text(node, &path).is_empty() {
            set(node, &path, json!(value));
        }
    }
}

/// Takes unhealthy GPUs out of the allocatable ones, as the device manager does: pods that have such
/// a GPU keep running. An empty annotation means that all are healthy again.
fn withhold_unhealthy_gpus(node: &mut Value) {
    let all = at(node, &["status", "capacity", resources::GPU]).and_then(Value::as_str);
    let all = all.and_then(|text| text.parse::<usize>().ok());
    let (Some(all), Some(_)) = (all, annotation(node, annotations::UNHEALTHY_GPUS)) else { return };
    let unhealthy: BTreeSet<u64> = unhealthy_gpus(node).collect();
    let left = all.saturating_sub(unhealthy.len());
    set(node, &["status", "allocatable", resources::GPU], json!(left.to_string()));
}

/// Creates or renews the lease, if necessary.
fn lease(node: &Value, ctx: &Context) -> Option<ApiRequest> {
    let key = lease_key(node);
    let dead = is_down(node);
    let Some(old) = ctx.cache.get(&key) else {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name(node),
                "namespace": object_names::NODE_LEASE_NAMESPACE,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)},
                ],
            },
            "spec": {"holderIdentity": name(node), "leaseDurationSeconds": LEASE_SECS},
        });
        renew(&mut lease, dead, ctx);
        return Some(ApiRequest { key, op: crate::store::Op::Create(lease) });
    };
    if is_deleting(old) || is_final_renewal(old) == dead {
        return None;
    }
    let mut lease = Value::clone(old);
    renew(&mut lease, dead, ctx);
    Some(ApiRequest::update(&key, lease))
}

/// Whether the lease had its last renewal.
pub(crate) fn is_final_renewal(lease: &Value) -> bool {
    annotation(lease, annotations::NODE_DOWN) == Some("true")
}

fn renew(lease: &mut Value, dead: bool, ctx: &Context) {
    set(lease, &["spec", "renewTime"], json!(format_micro_time(ctx.now)));
    if dead {
        set(lease, &["metadata", "annotations", annotations::NODE_DOWN], json!("true"));
    } else {
        remove(lease, &["metadata", "annotations", annotations::NODE_DOWN]);
    }
}
