//! Random clusters: nodes, bound pods and pending pods. They are small, so that most constraints of
//! a pod affect its decision.

use schedlab_api::{Value, json};

use crate::{
    devices::{self, DeviceObjects},
    gangs::{self, Gang},
    random_pods,
    rng::SeededRng,
};

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
    /// Device classes, slices and claims.
    pub(crate) devices: DeviceObjects,
    /// What the scheduler decides, in the order of its creation.
    pub(crate) pending: Vec<Pending>,
}

/// What the scheduler decides as one.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// A pod without a node.
    Pod(Value),
    /// A PodGroup with its pods.
    Gang(Gang),
}

/// What a cluster has besides nodes and plain pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addition {
    None,
    Gangs,
    Devices,
}

impl Addition {
    /// Three clusters of five have none.
    const fn of_seed(seed: u64) -> Self {
        match seed % 5 {
            3 => Self::Gangs,
            4 => Self::Devices,
            _ => Self::None,
        }
    }
}

impl Cluster {
    /// The cluster of a seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let count = rng.between(2, 8);
        let mut nodes: Vec<Value> = (0..count).map(|at| node(&mut rng, at)).collect();
        nodes.push(last_node());
        let mut cluster = Self {
            nodes,
            bound_pods: Vec::new(),
            terminating: Vec::new(),
            devices: DeviceObjects::default(),
            pending: Vec::new(),
        };
        for at in 0..rng.between(0, 3 * count) {
            let mut pod = random_pods::pod(&mut rng, &format!("standing-{at}"));
            pod["spec"]["nodeName"] = json!(format!("node-{}", rng.between(0, count - 1)));
            if rng.percent(10) {
                let namespace = random_pods::namespace_of(&pod);
                cluster.terminating.push((namespace, format!("standing-{at}")));
            }
            cluster.bound_pods.push(pod);
        }
        let name = |at: u64| format!("waiting-{seed}-{at}");
        match Addition::of_seed(seed) {
            Addition::None => {
                let pods = (0..3).map(|at| Pending::Pod(random_pods::pod(&mut rng, &name(at))));
                cluster.pending = pods.collect();
            }
            Addition::Gangs => {
                let gangs = (0..2).map(|at| Pending::Gang(gangs::gang(&mut rng, &name(at))));
                cluster.pending = gangs.collect();
                let standing = gangs::standing_members(&mut rng, &cluster.pending, count);
                cluster.bound_pods.extend(standing);
            }
            Addition::Devices => {
                cluster.devices = devices::devices(&mut rng, seed, count);
                let pods = (0..4).map(|at| {
                    Pending::Pod(devices::pod(&mut rng, &name(at), &cluster.devices.claims))
                });
                cluster.pending = pods.collect();
            }
        }
        cluster
    }
}

/// The pod that fits on node [`LAST`] only.
pub(crate) fn last_pod() -> Value {
    pod_on_last_node(LAST)
}

/// A pod of any name that fits on node [`LAST`] only.
pub(crate) fn pod_on_last_node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACES[0].0 },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": LAST },
            "tolerations": [{ "key": LAST, "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "registry.example/last:1" }],
        },
    })
}

fn last_node() -> Value {
    let mut node = bare_node(LAST, &json!({ "cpu": "1", "memory": "1Gi", "pods": "4" }));
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
