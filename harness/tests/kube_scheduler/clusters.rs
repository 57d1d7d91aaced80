//! Random clusters: nodes, pods that stand on them, pods that wait. Small, so that much of what a
//! pod may ask for decides about it.

use schedlab_json::{Value, json};

use crate::{dice::Dice, wishes};

/// Namespaces that all clusters share, with their labels.
pub(crate) const NAMESPACES: [(&str, &str); 2] = [("blue", "sea"), ("green", "wood")];

/// A node that is added last, and a pod that fits nowhere else: once it is bound, the scheduler
/// has seen everything that was made before.
pub(crate) const LAST: &str = "last";

/// One cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Nodes; the last one is [`LAST`].
    pub(crate) nodes: Vec<Value>,
    /// Pods with a node.
    pub(crate) standing: Vec<Value>,
    /// Those of them that are asked to leave.
    pub(crate) leaving: Vec<(&'static str, String)>,
    /// Pods without one, in the order in which they come.
    pub(crate) waiting: Vec<Value>,
}

impl Cluster {
    /// Equal seeds make equal clusters.
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let count = dice.from(2, 8);
        let mut nodes: Vec<Value> = (0..count).map(|at| node(&mut dice, at)).collect();
        nodes.push(last_node());
        let mut cluster =
            Self { nodes, standing: Vec::new(), leaving: Vec::new(), waiting: Vec::new() };
        for at in 0..dice.from(0, 3 * count) {
            let mut pod = wishes::pod(&mut dice, &format!("standing-{at}"));
            pod["spec"]["nodeName"] = json!(format!("node-{}", dice.from(0, count - 1)));
            if dice.percent(10) {
                let namespace = wishes::namespace_of(&pod);
                cluster.leaving.push((namespace, format!("standing-{at}")));
            }
            cluster.standing.push(pod);
        }
        let waiting = (0..3).map(|at| wishes::pod(&mut dice, &format!("waiting-{seed}-{at}")));
        cluster.waiting = waiting.collect();
        cluster
    }
}

/// The pod for which everybody waits.
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

fn bare_node(name: &str, offers: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": {
            "capacity": offers, "allocatable": offers,
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn node(dice: &mut Dice, at: u64) -> Value {
    let offers = json!({
        "cpu": dice.pick(&["2", "4", "7500m", "16"]),
        "memory": dice.pick(&["4Gi", "8Gi", "31Gi", "64Gi"]),
        "pods": dice.pick(&["3", "8", "110"]),
        "ephemeral-storage": dice.pick(&["1Gi", "100Gi"]),
        "nvidia.com/gpu": dice.pick(&["0", "1", "4", "8"]),
    });
    let mut node = bare_node(&format!("node-{at}"), &offers);
    let labels = &mut node["metadata"]["labels"];
    if dice.percent(85) {
        labels["topology.kubernetes.io/zone"] = json!(dice.pick(&["a", "b", "c"]));
    }
    if dice.percent(70) {
        labels["disk"] = json!(dice.pick(&["ssd", "hdd"]));
    }
    if dice.percent(70) {
        labels["generation"] = json!(dice.pick(&["1", "3", "5", "new"]));
    }
    if dice.percent(10) {
        node["spec"]["unschedulable"] = json!(true);
    }
    let mut taints = Vec::new();
    for key in ["dedicated", "spot", "old"] {
        if dice.percent(15) {
            taints.push(taint(dice, key));
        }
    }
    if !taints.is_empty() {
        node["spec"]["taints"] = json!(taints);
    }
    let mut images = Vec::new();
    for (name, size) in wishes::IMAGES {
        if dice.percent(40) {
            images.push(image(name, size));
        }
    }
    node["status"]["images"] = json!(images);
    node
}

fn image(name: &str, megabytes: u64) -> Value {
    json!({ "names": [name], "sizeBytes": megabytes * 1_000_000 })
}

fn taint(dice: &mut Dice, key: &str) -> Value {
    let effect = dice.pick(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]);
    json!({ "key": key, "value": dice.pick(&["", "x", "y"]), "effect": effect })
}
