//! Random PodGroups of Kubernetes: gangs with a minimum, groups without one, groups that need one
//! topology domain, and groups whose pods have another priority.

use schedlab_api::{Map, Value, json};

use crate::{
    clusters::{NAMESPACES, Pending},
    random_pods::{self, HOST, ZONE},
    rng::SeededRng,
};

/// A PodGroup and its pods.
#[derive(Clone, Debug)]
pub(crate) struct Gang {
    pub(crate) group: Value,
    pub(crate) pods: Vec<Value>,
}

impl Gang {
    pub(crate) fn namespace(&self) -> &'static str {
        random_pods::namespace_of(&self.group)
    }

    pub(crate) fn name(&self) -> &str {
        self.group["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Names of its pods.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        let names = self.pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }
}

/// The class of PodGroups whose priority differs from that of their pods.
pub(crate) const LOW_CLASS: &str = "low";

/// A group with two to six pods. Pods have no constraints towards other pods, but that no two of
/// the group share a node: then the number of pods that fit does not depend on how
/// kube-scheduler chooses among nodes with equal scores.
pub(crate) fn gang(rng: &mut SeededRng, name: &str) -> Gang {
    let namespace = rng.pick(&NAMESPACES).0;
    let count = rng.between(2, 6);
    let (kinds, is_apart) = (if rng.percent(30) { 2 } else { 1 }, rng.percent(20));
    let templates: Vec<Value> = (0..kinds).map(|_| pod(rng, namespace, name, is_apart)).collect();
    let pods = (0..count).map(|at| {
        let template = if rng.percent(50) { templates.first() } else { templates.last() };
        let mut pod = template.cloned().unwrap_or_default();
        pod["metadata"]["name"] = json!(format!("{name}-{at}"));
        pod
    });
    let pods = pods.collect();
    Gang { group: group(rng, namespace, name, count), pods }
}

fn group(rng: &mut SeededRng, namespace: &str, name: &str, count: u64) -> Value {
    let policy = match rng.between(0, 9) {
        0 => json!({ "basic": {} }),
        1..=4 => json!({ "gang": { "minCount": rng.between(1, count) } }),
        _ => json!({ "gang": { "minCount": count } }),
    };
    let mut spec = json!({ "schedulingPolicy": policy });
    if rng.percent(60) {
        let key = rng.pick(&[ZONE, ZONE, "disk", "generation"]);
        spec["schedulingConstraints"] = json!({ "topology": [{ "key": key }] });
    }
    if rng.percent(10) {
        spec["priorityClassName"] = json!(LOW_CLASS);
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

fn pod(rng: &mut SeededRng, namespace: &str, group: &str, is_apart: bool) -> Value {
    let mut pod = random_pods::small_pod(rng, group);
    pod["metadata"]["namespace"] = json!(namespace);
    pod["metadata"]["labels"]["group"] = json!(group);
    let spec = &mut pod["spec"];
    spec["schedulingGroup"] = json!({ "podGroupName": group });
    if rng.percent(25) {
        spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
    }
    let mut affinity = Map::new();
    if rng.percent(25) {
        affinity.insert("nodeAffinity".to_owned(), random_pods::node_affinity(rng));
    }
    if is_apart {
        let term = json!({
            "topologyKey": HOST, "labelSelector": { "matchLabels": { "group": group } },
        });
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        affinity.insert("podAntiAffinity".to_owned(), required);
    }
    spec["affinity"] = Value::Object(affinity);
    pod
}

/// Pods of some of the groups that are bound already. They are created before the groups.
pub(crate) fn standing_members(rng: &mut SeededRng, pending: &[Pending], nodes: u64) -> Vec<Value> {
    let mut standing = Vec::new();
    for pending in pending {
        let Pending::Gang(gang) = pending else { continue };
        let Some(first) = gang.pods.first().filter(|_| rng.percent(25)) else { continue };
        let mut pod = first.clone();
        pod["metadata"]["name"] = json!(format!("{}-standing", gang.name()));
        pod["spec"]["nodeName"] = json!(format!("node-{}", rng.between(0, nodes - 1)));
        standing.push(pod);
    }
    standing
}
