//! Random pods.

use schedlab_api::{Map, Value, json};

use crate::{clusters::NAMESPACES, rng::SeededRng};

/// Images and their sizes in megabytes.
pub(crate) const IMAGES: [(&str, u64); 4] = [
    ("registry.example/small:1", 20),
    ("registry.example/train:1", 900),
    ("registry.example/serve:latest", 2500),
    ("registry.example/serve@sha256:0123", 2500),
];

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOST: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["a", "b", "c"];

/// The namespace of a random pod.
pub(crate) fn namespace_of(pod: &Value) -> &'static str {
    let named = |(name, _): &&(&str, &str)| pod["metadata"]["namespace"] == **name;
    NAMESPACES.iter().find(named).map_or(NAMESPACES[0].0, |(name, _)| name)
}

/// A pod with random requests and constraints.
pub(crate) fn pod(rng: &mut SeededRng, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert("app".to_owned(), json!(rng.pick(&APPS)));
    if rng.percent(50) {
        labels.insert("tier".to_owned(), json!(rng.pick(&["front", "back"])));
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": rng.pick(&NAMESPACES).0, "labels": labels,
        },
        "spec": spec(rng),
    })
}

/// A pod with random requests of one container, which most nodes have room for, and no constraints
/// towards nodes or other pods.
pub(crate) fn small_pod(rng: &mut SeededRng, name: &str) -> Value {
    let mut pod = pod(rng, name);
    let requests = json!({
        "cpu": rng.pick(&["100m", "400m", "1"]), "memory": rng.pick(&["100Mi", "500Mi", "1Gi"]),
    });
    let container = json!({
        "name": "main", "image": rng.pick(&[IMAGES[0].0, IMAGES[1].0]),
        "resources": { "requests": requests, "limits": {} },
    });
    let mut spec = json!({ "containers": [container], "terminationGracePeriodSeconds": 600 });
    if rng.percent(60) {
        spec["tolerations"] = json!([{ "key": "dedicated", "operator": "Exists" },
                                     { "key": "spot", "operator": "Exists" },
                                     { "key": "old", "operator": "Exists" }]);
    }
    pod["spec"] = spec;
    pod
}

fn spec(rng: &mut SeededRng) -> Value {
    let count = rng.between(1, 2);
    let containers: Vec<Value> =
        (0..count).map(|at| container(rng, &format!("main-{at}"))).collect();
    let mut spec = json!({ "containers": containers, "terminationGracePeriodSeconds": 600 });
    if rng.percent(15) {
        let mut first = container(rng, "first");
        if rng.percent(50) {
            first["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([first]);
    }
    if rng.percent(25) {
        let label = rng.pick(&[("disk", "ssd"), ("disk", "hdd"), (ZONE, "a")]);
        spec["nodeSelector"] = json!({ (label.0): label.1 });
    }
    let mut tolerations = Vec::new();
    for key in ["dedicated", "spot", ""] {
        if rng.percent(20) {
            tolerations.push(toleration(rng, key));
        }
    }
    spec["tolerations"] = json!(tolerations);
    spec["affinity"] = affinity(rng);
    if rng.percent(35) {
        let count = rng.between(1, 2);
        let constraints: Vec<Value> = (0..count).map(|at| spread(rng, at)).collect();
        spec["topologySpreadConstraints"] = json!(constraints);
    }
    spec
}

fn container(rng: &mut SeededRng, name: &str) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    if rng.percent(75) {
        requests.insert("cpu".to_owned(), json!(rng.pick(&["100m", "500m", "1", "2300m"])));
    }
    if rng.percent(75) {
        requests.insert("memory".to_owned(), json!(rng.pick(&["100Mi", "1Gi", "3Gi", "9Gi"])));
    }
    if rng.percent(10) {
        requests.insert("ephemeral-storage".to_owned(), json!("2Gi"));
    }
    if rng.percent(30) {
        limits.insert("nvidia.com/gpu".to_owned(), json!(rng.pick(&["1", "2"])));
    }
    let image = rng.pick(&[IMAGES[0].0, IMAGES[1].0, "registry.example/serve", IMAGES[3].0]);
    let mut container = json!({
        "name": name, "image": image,
        "resources": { "requests": requests, "limits": limits },
    });
    if name != "first" && rng.percent(10) {
        let ip = rng.pick(&["", "10.0.0.1", "10.0.0.2"]);
        // The containers of a pod must have different host ports.
        let port = if name == "main-0" { 8080 } else { 9090 };
        let protocol = rng.pick(&["TCP", "UDP"]);
        container["ports"] = json!([{
            "containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol,
        }]);
    }
    container
}

fn toleration(rng: &mut SeededRng, key: &str) -> Value {
    let effect = rng.pick(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    if key.is_empty() || rng.percent(50) {
        json!({ "key": key, "operator": "Exists", "effect": effect })
    } else {
        json!({ "key": key, "operator": "Equal", "value": rng.pick(&["", "x"]), "effect": effect })
    }
}

fn affinity(rng: &mut SeededRng) -> Value {
    let mut affinity = Map::new();
    if rng.percent(30) {
        affinity.insert("nodeAffinity".to_owned(), node_affinity(rng));
    }
    for (kind, chance) in [("podAffinity", 20), ("podAntiAffinity", 25)] {
        if rng.percent(chance) {
            affinity.insert(kind.to_owned(), pod_affinity(rng));
        }
    }
    Value::Object(affinity)
}

pub(crate) fn node_affinity(rng: &mut SeededRng) -> Value {
    let mut affinity = json!({});
    if rng.percent(50) {
        let count = rng.between(1, 2);
        let terms: Vec<Value> = (0..count).map(|_| node_term(rng)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": terms });
    }
    let count = rng.between(0, 2);
    let preferred: Vec<Value> = (0..count)
        .map(|_| json!({ "weight": rng.between(1, 100), "preference": node_term(rng) }))
        .collect();
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
    affinity
}

fn node_term(rng: &mut SeededRng) -> Value {
    let requirement = match rng.between(0, 6) {
        0 => json!({ "key": "disk", "operator": "In", "values": ["ssd", "nvme"] }),
        1 => json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] }),
        2 => json!({ "key": ZONE, "operator": "Exists" }),
        3 => json!({ "key": "disk", "operator": "DoesNotExist" }),
        4 => json!({ "key": "generation", "operator": "Gt", "values": ["1"] }),
        5 => json!({ "key": "generation", "operator": "Lt", "values": ["5"] }),
        _ => {
            let field = json!({ "key": "metadata.name", "operator": "In", "values": ["node-1"] });
            return json!({ "matchFields": [field] });
        }
    };
    json!({ "matchExpressions": [requirement] })
}

fn pod_affinity(rng: &mut SeededRng) -> Value {
    let mut affinity = json!({});
    if rng.percent(50) {
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!([pod_term(rng)]);
    }
    let count = rng.between(0, 2);
    let preferred: Vec<Value> = (0..count)
        .map(|_| json!({ "weight": rng.between(1, 100), "podAffinityTerm": pod_term(rng) }))
        .collect();
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
    affinity
}

fn pod_term(rng: &mut SeededRng) -> Value {
    let mut term = json!({ "topologyKey": rng.pick(&[HOST, ZONE, "disk"]) });
    if rng.percent(90) {
        term["labelSelector"] = selector(rng);
    }
    match rng.between(0, 5) {
        0 => term["namespaces"] = json!([NAMESPACES[0].0]),
        1 => term["namespaceSelector"] = json!({}),
        2 => {
            let name = rng.pick(&NAMESPACES).0;
            term["namespaceSelector"] =
                json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
        }
        _ => {}
    }
    if rng.percent(15) && may_match_tier(&term) {
        let keys = rng.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[keys] = json!(["tier"]);
    }
    term
}

/// Whether `tier` may be a match label key: it must not be in the selector as well.
fn may_match_tier(term: &Value) -> bool {
    term.get("labelSelector").is_some_and(|selector| !selector.to_string().contains("tier"))
}

fn selector(rng: &mut SeededRng) -> Value {
    match rng.between(0, 4) {
        0 => json!({}),
        1 => json!({ "matchExpressions": [{ "key": "tier", "operator": "Exists" }] }),
        2 => json!({ "matchExpressions": [
            { "key": "app", "operator": "NotIn", "values": [rng.pick(&APPS)] },
        ] }),
        _ => json!({ "matchLabels": { "app": rng.pick(&APPS) } }),
    }
}

fn spread(rng: &mut SeededRng, at: u64) -> Value {
    let hard = rng.percent(50);
    // The API server rejects two constraints with the same key and effect.
    let key = if at == 0 { rng.pick(&[HOST, ZONE]) } else { "disk" };
    let mut constraint = json!({
        "maxSkew": rng.between(1, 3),
        "topologyKey": key,
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if rng.percent(90) {
        constraint["labelSelector"] = selector(rng);
    }
    if hard && rng.percent(25) {
        constraint["minDomains"] = json!(rng.between(1, 4));
    }
    if rng.percent(25) {
        constraint["nodeAffinityPolicy"] = json!(rng.pick(&["Honor", "Ignore"]));
    }
    if rng.percent(25) {
        constraint["nodeTaintsPolicy"] = json!(rng.pick(&["Honor", "Ignore"]));
    }
    if rng.percent(20) && may_match_tier(&constraint) {
        constraint["matchLabelKeys"] = json!(["tier"]);
    }
    constraint
}
