//! Random clusters: nodes, bound pods and pending pods. They are small, so that most constraints of
//! a pod affect its decision.

use schedlab_api::{Value, json};

use crate::{random_pods, rng::SeededRng};

/// Namespaces of all clusters: name, and value of the label `place`.
pub(crate) const NAMESPACES: [(&str, &str); 2] = [("blue", "sea"), ("green", "wood")];

/// Name of the node that is added last, and of a pod that fits on it only: once that pod is bound,
/// the scheduler has seen all earlier objects.
pub(crate) const LAST: &str = "last";

/// The objects of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Nodes; the last one is [`LAST`].
    pub(crate) nodes: Vec<Value>,
    /// Pods that are created with a node name.
    pub(crate) bound_pods: Vec<Value>,
    /// Namespace and name of the bound pods that are then deleted with a grace period.
    pub(crate) terminating: Vec<(&'static str, String)>,
    /// Pods without a node, in the order of their creation.
    pub(crate) pending: Vec<Value>,
}

impl Cluster {
    /// The cluster of a seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let count = rng.between(2, 8);
        let mut nodes: Vec<Value> = (0..count).map(|at| node(&mut rng, at)).collect();
        nodes.push(last_node());
        let mut cluster =
            Self { nodes, bound_pods: Vec::new(), terminating: Vec::new(), pending: Vec::new() };
        for at in 0..rng.between(0, 3 * count) {
            let mut pod = random_pods::pod(&mut rng, &format!("standing-{at}"));
            pod["spec"]["nodeName"] = json!(format!("node-{}", rng.between(0, count - 1)));
            if rng.percent(10) {
                let namespace = random_pods::namespace_of(&pod);
                cluster.terminating.push((namespace, format!("standing-{at}")));
            }
            cluster.bound_pods.push(pod);
        }
        let pending = (0..3).map(|at| random_pods::pod(&mut rng, &format!("waiting-{seed}-{at}")));
        cluster.pending = pending.collect();
        cluster
    }
}

/// The pod that fits on node [`LAST`] only.
pub(crate) fn last_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": LAST, "namespace": NAMESPACES[0].0 },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": LAST },
            "tolerations": [{ "key": LAST, "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "registry.example/last:1" }],
        },
    })
}

fn last_node() -> Value {
    let mut node = bare_node(LAST, &json!({ "cpu": "1", "memory": "1Gi", "pods": "2" }));
    node["spec"] = json!({ "taints": [{ "key": LAST, "effect": "NoSchedule" }] });
    node
}

fn bare_node(name: &str, capacity: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": {
            "capacity": capacity, "allocatable": capacity,
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn node(rng: &mut SeededRng, at: u64) -> Value {
    let capacity = json!({
        "cpu": rng.pick(&["2", "4", "7500m", "16"]),
        "memory": rng.pick(&["4Gi", "8Gi", "31Gi", "64Gi"]),
        "pods": rng.pick(&["3", "8", "110"]),
        "ephemeral-storage": rng.pick(&["1Gi", "100Gi"]),
        "nvidia.com/gpu": rng.pick(&["0", "1", "4", "8"]),
    });
    let mut node = bare_node(&format!("node-{at}"), &capacity);
    let labels = &mut node["metadata"]["labels"];
    if rng.percent(85) {
        labels["topology.kubernetes.io/zone"] = json!(rng.pick(&["a", "b", "c"]));
    }
    if rng.percent(70) {
        labels["disk"] = json!(rng.pick(&["ssd", "hdd"]));
    }
    if rng.percent(70) {
        labels["generation"] = json!(rng.pick(&["1", "3", "5", "new"]));
    }
    if rng.percent(10) {
        node["spec"]["unschedulable"] = json!(true);
    }
    let mut taints = Vec::new();
    for key in ["dedicated", "spot", "old"] {
        if rng.percent(15) {
            taints.push(taint(rng, key));
        }
    }
    if !taints.is_empty() {
        node["spec"]["taints"] = json!(taints);
    }
    let mut images = Vec::new();
    for (name, size) in random_pods::IMAGES {
        if rng.percent(40) {
            images.push(image(name, size));
        }
    }
    node["status"]["images"] = json!(images);
    node
}

fn image(name: &str, megabytes: u64) -> Value {
    json!({ "names": [name], "sizeBytes": megabytes * 1_000_000 })
}

fn taint(rng: &mut SeededRng, key: &str) -> Value {
    let effect = rng.pick(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]);
    json!({ "key": key, "value": rng.pick(&["", "x", "y"]), "effect": effect })
}
