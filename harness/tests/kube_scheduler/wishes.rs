//! What random pods ask for.

use schedlab_json::{Map, Value, json};

use crate::{clusters::NAMESPACES, dice::Dice};

/// Images and their sizes in megabytes.
pub(crate) const IMAGES: [(&str, u64); 4] = [
    ("registry.example/small:1", 20),
    ("registry.example/train:1", 900),
    ("registry.example/serve:latest", 2500),
    ("registry.example/serve@sha256:0123", 2500),
];

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APPS: [&str; 3] = ["a", "b", "c"];

/// The namespace of a pod that was made here.
pub(crate) fn namespace_of(pod: &Value) -> &'static str {
    let named = |(name, _): &&(&str, &str)| pod["metadata"]["namespace"] == **name;
    NAMESPACES.iter().find(named).map_or(NAMESPACES[0].0, |(name, _)| name)
}

/// A pod of one of a few kinds of wishes.
pub(crate) fn pod(dice: &mut Dice, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert("app".to_owned(), json!(dice.pick(&APPS)));
    if dice.percent(50) {
        labels.insert("tier".to_owned(), json!(dice.pick(&["front", "back"])));
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": dice.pick(&NAMESPACES).0, "labels": labels,
        },
        "spec": spec(dice),
    })
}

fn spec(dice: &mut Dice) -> Value {
    let count = dice.from(1, 2);
    let containers: Vec<Value> =
        (0..count).map(|at| container(dice, &format!("main-{at}"))).collect();
    let mut spec = json!({ "containers": containers, "terminationGracePeriodSeconds": 600 });
    if dice.percent(15) {
        let mut first = container(dice, "first");
        if dice.percent(50) {
            first["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([first]);
    }
    if dice.percent(25) {
        let wanted = dice.pick(&[("disk", "ssd"), ("disk", "hdd"), (ZONE, "a")]);
        spec["nodeSelector"] = json!({ (wanted.0): wanted.1 });
    }
    let mut tolerations = Vec::new();
    for key in ["dedicated", "spot", ""] {
        if dice.percent(20) {
            tolerations.push(toleration(dice, key));
        }
    }
    spec["tolerations"] = json!(tolerations);
    spec["affinity"] = affinity(dice);
    if dice.percent(35) {
        let count = dice.from(1, 2);
        let constraints: Vec<Value> = (0..count).map(|at| spread(dice, at)).collect();
        spec["topologySpreadConstraints"] = json!(constraints);
    }
    spec
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let mut requests = Map::new();
    let mut limits = Map::new();
    if dice.percent(75) {
        requests.insert("cpu".to_owned(), json!(dice.pick(&["100m", "500m", "1", "2300m"])));
    }
    if dice.percent(75) {
        requests.insert("memory".to_owned(), json!(dice.pick(&["100Mi", "1Gi", "3Gi", "9Gi"])));
    }
    if dice.percent(10) {
        requests.insert("ephemeral-storage".to_owned(), json!("2Gi"));
    }
    if dice.percent(30) {
        limits.insert("nvidia.com/gpu".to_owned(), json!(dice.pick(&["1", "2"])));
    }
    let image = dice.pick(&[IMAGES[0].0, IMAGES[1].0, "registry.example/serve", IMAGES[3].0]);
    let mut container = json!({
        "name": name, "image": image,
        "resources": { "requests": requests, "limits": limits },
    });
    if name != "first" && dice.percent(10) {
        let ip = dice.pick(&["", "10.0.0.1", "10.0.0.2"]);
        // Two containers of one pod may not ask for the same.
        let port = if name == "main-0" { 8080 } else { 9090 };
        let protocol = dice.pick(&["TCP", "UDP"]);
        container["ports"] = json!([{
            "containerPort": port, "hostPort": port, "hostIP": ip, "protocol": protocol,
        }]);
    }
    container
}

fn toleration(dice: &mut Dice, key: &str) -> Value {
    let effect = dice.pick(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"]);
    if key.is_empty() || dice.percent(50) {
        json!({ "key": key, "operator": "Exists", "effect": effect })
    } else {
        json!({ "key": key, "operator": "Equal", "value": dice.pick(&["", "x"]), "effect": effect })
    }
}

fn affinity(dice: &mut Dice) -> Value {
    let mut affinity = Map::new();
    if dice.percent(30) {
        affinity.insert("nodeAffinity".to_owned(), node_affinity(dice));
    }
    for (kind, chance) in [("podAffinity", 20), ("podAntiAffinity", 25)] {
        if dice.percent(chance) {
            affinity.insert(kind.to_owned(), pod_affinity(dice));
        }
    }
    Value::Object(affinity)
}

fn node_affinity(dice: &mut Dice) -> Value {
    let mut affinity = json!({});
    if dice.percent(50) {
        let count = dice.from(1, 2);
        let terms: Vec<Value> = (0..count).map(|_| node_term(dice)).collect();
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": terms });
    }
    let count = dice.from(0, 2);
    let preferred: Vec<Value> = (0..count)
        .map(|_| json!({ "weight": dice.from(1, 100), "preference": node_term(dice) }))
        .collect();
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
    affinity
}

fn node_term(dice: &mut Dice) -> Value {
    let requirement = match dice.from(0, 6) {
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

fn pod_affinity(dice: &mut Dice) -> Value {
    let mut affinity = json!({});
    if dice.percent(50) {
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!([pod_term(dice)]);
    }
    let count = dice.from(0, 2);
    let preferred: Vec<Value> = (0..count)
        .map(|_| json!({ "weight": dice.from(1, 100), "podAffinityTerm": pod_term(dice) }))
        .collect();
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
    affinity
}

fn pod_term(dice: &mut Dice) -> Value {
    let mut term = json!({ "topologyKey": dice.pick(&[HOST, ZONE, "disk"]) });
    if dice.percent(90) {
        term["labelSelector"] = selector(dice);
    }
    match dice.from(0, 5) {
        0 => term["namespaces"] = json!([NAMESPACES[0].0]),
        1 => term["namespaceSelector"] = json!({}),
        2 => {
            let name = dice.pick(&NAMESPACES).0;
            term["namespaceSelector"] =
                json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
        }
        _ => {}
    }
    if dice.percent(15) && may_name_tier(&term) {
        let keys = dice.pick(&["matchLabelKeys", "mismatchLabelKeys"]);
        term[keys] = json!(["tier"]);
    }
    term
}

/// Keys to match by may not stand in the selector, too.
fn may_name_tier(term: &Value) -> bool {
    term.get("labelSelector").is_some_and(|selector| !selector.to_string().contains("tier"))
}

fn selector(dice: &mut Dice) -> Value {
    match dice.from(0, 4) {
        0 => json!({}),
        1 => json!({ "matchExpressions": [{ "key": "tier", "operator": "Exists" }] }),
        2 => json!({ "matchExpressions": [
            { "key": "app", "operator": "NotIn", "values": [dice.pick(&APPS)] },
        ] }),
        _ => json!({ "matchLabels": { "app": dice.pick(&APPS) } }),
    }
}

fn spread(dice: &mut Dice, at: u64) -> Value {
    let hard = dice.percent(50);
    // Two constraints of one key and one effect are refused.
    let key = if at == 0 { dice.pick(&[HOST, ZONE]) } else { "disk" };
    let mut constraint = json!({
        "maxSkew": dice.from(1, 3),
        "topologyKey": key,
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if dice.percent(90) {
        constraint["labelSelector"] = selector(dice);
    }
    if hard && dice.percent(25) {
        constraint["minDomains"] = json!(dice.from(1, 4));
    }
    if dice.percent(25) {
        constraint["nodeAffinityPolicy"] = json!(dice.pick(&["Honor", "Ignore"]));
    }
    if dice.percent(25) {
        constraint["nodeTaintsPolicy"] = json!(dice.pick(&["Honor", "Ignore"]));
    }
    if dice.percent(20) && may_name_tier(&constraint) {
        constraint["matchLabelKeys"] = json!(["tier"]);
    }
    constraint
}
