//! Random devices of dynamic resource allocation, and pods that claim them: devices with taints,
//! partitions that share counters, devices that several claims share, devices of several nodes of all
//! these kinds, extended resources that a class serves, and admin access.

use schedlab_api::{Value, json};

use crate::{
    clusters::NAMESPACES,
    random_pods::{self, ZONE},
    rng::SeededRng,
};

const DRIVER: &str = "gpu.example.com";
/// Classes of devices. Those of class `net` are devices that several nodes can use; the other
/// classes have such devices, too.
const CLASSES: [&str; 5] = ["gpu", "large", "shared", "part", "net"];
/// Prefix of the pools of devices that several nodes can use.
const MULTI_NODE_POOL: &str = "wide-";
/// The extended resource that class `gpu` serves.
const RESOURCE: &str = "example.com/gpu";

/// Device classes, slices and claims.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceObjects {
    pub(crate) classes: Vec<Value>,
    pub(crate) slices: Vec<Value>,
    pub(crate) claims: Vec<Value>,
}

/// Devices of some of the nodes, and six claims.
pub(crate) fn devices(rng: &mut SeededRng, seed: u64, nodes: u64) -> DeviceObjects {
    let mut slices = Vec::new();
    for at in 0..nodes {
        if rng.percent(75) {
            let node = format!("node-{at}");
            let place = json!({ "nodeName": node });
            slices.extend(pool(rng, &format!("{node}-{seed}"), &place, Reach::Node));
        }
    }
    if rng.percent(60) {
        slices.extend(multi_node_pool(rng, &format!("{MULTI_NODE_POOL}{seed}"), nodes));
    }
    let claims = (0..6).map(|at| claim(rng, &format!("claim-{seed}-{at}"))).collect();
    DeviceObjects { classes: CLASSES.into_iter().map(class).collect(), slices, claims }
}

fn class(name: &str) -> Value {
    let kind = format!("device.attributes['{DRIVER}'].kind");
    let expression = match name {
        "large" => format!("{kind} == 'gpu' && device.attributes['{DRIVER}'].size >= 40"),
        kind_name => format!("{kind} == '{kind_name}'"),
    };
    let mut spec = json!({ "selectors": [{ "cel": { "expression": expression } }] });
    if name == "gpu" {
        spec["extendedResourceName"] = json!(RESOURCE);
    }
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// One of `count` slices of a pool: what it contains, and the nodes that can use it.
fn slice(pool: &str, place: &Value, content: &Value, suffix: &str, count: u64) -> Value {
    let mut spec = json!({
        "driver": DRIVER,
        "pool": { "name": pool, "generation": 1, "resourceSliceCount": count },
    });
    add_fields(&mut spec, place);
    add_fields(&mut spec, content);
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": { "name": format!("{pool}-{suffix}") }, "spec": spec,
    })
}

/// Adds the fields of another object.
fn add_fields(object: &mut Value, others: &Value) {
    for (key, value) in others.as_object().into_iter().flatten() {
        object[key.as_str()] = value.clone();
    }
}

/// Whether a claim got a device that several nodes can use, or that one node has beside such devices.
pub(crate) fn has_multi_node_device(claim: &Value) -> bool {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array();
    let mut pools = results.into_iter().flatten().filter_map(|result| result["pool"].as_str());
    pools.any(|pool| pool.starts_with(MULTI_NODE_POOL))
}

/// The nodes that can use the devices of a pool.
#[derive(Clone, Copy)]
enum Reach {
    Node,
    Several,
}

/// The slices of a pool of several nodes: all, those of a zone, or those that each device names.
fn multi_node_pool(rng: &mut SeededRng, name: &str, nodes: u64) -> Vec<Value> {
    if rng.percent(60) {
        let place = nodes_of_zone_or_all(rng);
        return pool(rng, name, &place, Reach::Several);
    }
    let place = json!({ "perDeviceNodeSelection": true });
    let mut slices = pool(rng, name, &place, Reach::Several);
    let devices = slices.iter_mut().filter_map(|slice| slice["spec"].get_mut("devices"));
    for device in devices.filter_map(Value::as_array_mut).flatten() {
        let place = if rng.percent(30) {
            json!({ "nodeName": format!("node-{}", rng.between(0, nodes - 1)) })
        } else {
            nodes_of_zone_or_all(rng)
        };
        add_fields(device, &place);
    }
    slices
}

fn nodes_of_zone_or_all(rng: &mut SeededRng) -> Value {
    if rng.percent(50) {
        return json!({ "allNodes": true });
    }
    let term = json!({ "key": ZONE, "operator": "In", "values": [rng.pick(&["a", "b"])] });
    json!({ "nodeSelector": { "nodeSelectorTerms": [{ "matchExpressions": [term] }] } })
}

/// The slices of a pool: whole and shared devices, or partitions with their counters.
fn pool(rng: &mut SeededRng, name: &str, place: &Value, reach: Reach) -> Vec<Value> {
    let slice =
        |suffix: &str, count: u64, content: &Value| slice(name, place, content, suffix, count);
    if rng.percent(35) {
        let total = rng.pick(&["2", "3", "4"]);
        let counters = json!({ "sharedCounters": [
            { "name": "card", "counters": { "slices": { "value": total } } },
        ] });
        let sizes = (0..rng.between(1, 4)).map(|at| (at, rng.pick(&["1", "2", "3"])));
        let sizes: Vec<(u64, &str)> = sizes.collect();
        let parts: Vec<Value> = sizes.into_iter().map(|(at, size)| part(rng, at, size)).collect();
        return vec![
            slice("counters", 2, &counters),
            slice("parts", 2, &json!({ "devices": parts })),
        ];
    }
    let devices = (0..rng.between(1, 4)).map(|at| match reach {
        Reach::Several if rng.percent(50) => network_device(rng, at),
        Reach::Several | Reach::Node => device(rng, at),
    });
    let devices: Vec<Value> = devices.collect();
    vec![slice("devices", 1, &json!({ "devices": devices }))]
}

/// A partition that consumes a counter of its pool; a third of them can be shared.
fn part(rng: &mut SeededRng, at: u64, size: &str) -> Value {
    let mut part = json!({
        "name": format!("part-{at}"),
        "attributes": { "kind": { "string": "part" }, "size": { "int": at } },
        "consumesCounters": [
            { "counterSet": "card", "counters": { "slices": { "value": size } } },
        ],
    });
    if rng.percent(30) {
        part["allowMultipleAllocations"] = json!(true);
        part["capacity"] = json!({ "memory": { "value": "20Gi" } });
    }
    part
}

fn network_device(rng: &mut SeededRng, at: u64) -> Value {
    json!({
        "name": format!("device-{at}"),
        "attributes": {
            "kind": { "string": "net" },
            "size": { "int": rng.pick(&[20, 40, 80]) },
            "model": { "string": rng.pick(&["a", "b"]) },
        },
    })
}

fn device(rng: &mut SeededRng, at: u64) -> Value {
    let is_shared = rng.percent(30);
    let kind = if is_shared { "shared" } else { "gpu" };
    let mut device = json!({
        "name": format!("device-{at}"),
        "attributes": {
            "kind": { "string": kind },
            "size": { "int": rng.pick(&[20, 40, 80]) },
            "model": { "string": rng.pick(&["a", "b"]) },
        },
        "capacity": { "memory": { "value": rng.pick(&["20Gi", "40Gi"]) } },
    });
    if is_shared {
        device["allowMultipleAllocations"] = json!(true);
        if rng.percent(40) {
            device["capacity"]["memory"]["requestPolicy"] =
                json!({ "default": "5Gi", "validRange": { "min": "5Gi", "step": "5Gi" } });
        }
    }
    if rng.percent(20) {
        let effect = rng.pick(&["NoSchedule", "NoExecute", "None"]);
        device["taints"] = json!([{ "key": "worn", "value": "x", "effect": effect }]);
    }
    device
}

fn claim(rng: &mut SeededRng, name: &str) -> Value {
    let namespace = rng.pick(&NAMESPACES).0;
    let count = if rng.percent(70) { 1 } else { 2 };
    let mut shares = true;
    let mut requests = Vec::new();
    for at in 0..count {
        let request = if rng.percent(20) {
            let tried: Vec<Value> = (0..2).map(|sub| named(rng, &format!("sub-{sub}"))).collect();
            shares &= tried.iter().all(|request| request["deviceClassName"] == "shared");
            json!({ "firstAvailable": tried })
        } else {
            let mut exactly = requested(rng);
            shares &= exactly["deviceClassName"] == "shared";
            if namespace == NAMESPACES[1].0 && rng.percent(15) {
                exactly["adminAccess"] = json!(true);
            }
            json!({ "exactly": exactly })
        };
        let mut request = request;
        request["name"] = json!(format!("request-{at}"));
        requests.push(request);
    }
    let mut devices = json!({ "requests": requests });
    let attribute = format!("{DRIVER}/{}", rng.pick(&["model", "size"]));
    if rng.percent(25) {
        devices["constraints"] = json!([{ "matchAttribute": attribute }]);
    } else if rng.percent(25) || shares && rng.percent(30) {
        devices["constraints"] = json!([{ "distinctAttribute": attribute }]);
    }
    claim_object(name, namespace, &devices)
}

fn claim_object(name: &str, namespace: &str, devices: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "devices": devices },
    })
}

fn named(rng: &mut SeededRng, name: &str) -> Value {
    let mut request = requested(rng);
    request["name"] = json!(name);
    request
}

fn requested(rng: &mut SeededRng) -> Value {
    let class = rng.pick(&CLASSES);
    let mut request = json!({ "deviceClassName": class });
    if rng.percent(10) {
        request["allocationMode"] = json!("All");
    } else {
        request["count"] = json!(rng.pick(&[1, 1, 1, 2]));
    }
    if class == "shared" && rng.percent(75) {
        let memory = rng.pick(&["3Gi", "10Gi", "15Gi", "25Gi"]);
        request["capacity"] = json!({ "requests": { "memory": memory } });
    }
    if rng.percent(25) {
        let expression = format!("device.attributes['{DRIVER}'].size >= 40");
        request["selectors"] = json!([{ "cel": { "expression": expression } }]);
    }
    if rng.percent(30) {
        let effect = rng.pick(&["", "NoSchedule", "NoExecute"]);
        let mut toleration = json!({ "key": "worn", "operator": "Exists" });
        if !effect.is_empty() {
            toleration["effect"] = json!(effect);
        }
        request["tolerations"] = json!([toleration]);
    }
    request
}

/// A pod that uses up to two of the claims of its namespace, or requests the extended resource.
pub(crate) fn pod(rng: &mut SeededRng, name: &str, claims: &[Value]) -> Value {
    let mut pod = random_pods::small_pod(rng, name);
    let namespace = random_pods::namespace_of(&pod);
    let usable: Vec<&str> = claims
        .iter()
        .filter(|claim| claim["metadata"]["namespace"] == namespace)
        .filter_map(|claim| claim["metadata"]["name"].as_str())
        .collect();
    let spec = &mut pod["spec"];
    if usable.is_empty() || rng.percent(25) {
        let count = rng.pick(&["1", "1", "2"]);
        for kind in ["requests", "limits"] {
            spec["containers"][0]["resources"][kind][RESOURCE] = json!(count);
        }
    } else {
        let mut used = vec![rng.pick(&usable)];
        if rng.percent(25) {
            used.push(rng.pick(&usable));
            used.dedup();
        }
        let entries = used.iter().enumerate().map(
            |(at, claim)| json!({ "name": format!("claim-{at}"), "resourceClaimName": claim }),
        );
        spec["resourceClaims"] = entries.collect();
    }
    pod
}
