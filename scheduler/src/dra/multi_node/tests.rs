use insta::assert_snapshot;
use schedlab_scheduler_core::model::{DeviceClaim, Labels};

use super::*;
use crate::{cache::ClusterCache, dra::PickedDevice};

/// Selects the nodes of a zone.
fn zone(zone: &str) -> Value {
    let expression = json!({ "key": "zone", "operator": "In", "values": [zone] });
    json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] })
}

fn slice(driver: &str, mut spec: Value, devices: Value) -> Value {
    spec["driver"] = json!(driver);
    spec["pool"] = json!({ "name": "p", "generation": 1 });
    spec["devices"] = devices;
    json!({ "kind": "ResourceSlice", "metadata": { "name": driver }, "spec": spec })
}

/// A class of the devices of the driver with its name.
fn class(name: &str) -> Value {
    let expression = format!("device.driver == '{name}'");
    json!({ "kind": "DeviceClass", "metadata": { "name": name },
            "spec": { "selectors": [{ "cel": { "expression": expression } }] } })
}

fn claim(name: &str, devices: &Value) -> Value {
    json!({ "kind": "ResourceClaim", "metadata": { "namespace": "ns", "name": name },
            "spec": { "devices": devices } })
}

/// A claim on this many devices of a class.
fn exactly(name: &str, class: &str, count: i64) -> Value {
    let exactly = json!({ "deviceClassName": class, "count": count });
    claim(name, &json!({ "requests": [{ "name": "r", "exactly": exactly }] }))
}

/// Allocates these devices of driver `net` to the claim.
fn allocated(mut claim: Value, devices: &[&str], selector: &Value) -> Value {
    let result =
        |device: &&str| json!({ "request": "r", "driver": "net", "pool": "p", "device": device });
    let results: Vec<Value> = devices.iter().map(result).collect();
    claim["status"] =
        json!({ "allocation": { "devices": { "results": results }, "nodeSelector": selector } });
    claim
}

/// A waiting pod with these claims.
fn pod(claims: &[&str]) -> Value {
    let entry = |name: &&str| json!({ "name": name, "resourceClaimName": name });
    let claims: Vec<Value> = claims.iter().map(entry).collect();
    json!({ "metadata": { "namespace": "ns", "name": "pod", "uid": "pod" },
            "spec": { "schedulerName": "kai-scheduler", "resourceClaims": claims } })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { namespace: "ns".into(), name: name.into() }
}

fn cache(objects: impl IntoIterator<Item = Value>) -> ClusterCache {
    let mut cache = ClusterCache::from_objects(&objects.into_iter().collect::<Vec<_>>());
    cache.resource_claims.refresh();
    cache.refresh_unused_claims();
    cache
}

/// Two devices for all nodes, one for those of zone a, and one of node n.
fn published() -> [Value; 2] {
    let devices = json!([
        { "name": "d-1", "allNodes": true }, { "name": "d-0", "allNodes": true },
        { "name": "of-a", "nodeSelector": zone("a") }, { "name": "of-n", "nodeName": "n" },
        { "name": "of-none", "nodeSelector": { "nodeSelectorTerms": [] } },
    ]);
    [slice("mixed", json!({ "perDeviceNodeSelection": true }), devices), class("mixed")]
}

/// The resources that the pod gets by its claims.
fn taken(cache: &ClusterCache) -> String {
    let pod = &cache.pods[&key("pod")];
    let claimed = match cache.resource_claims.resources_claimed_by(&key("pod"), pod, &cache.pods) {
        Ok(claimed) => claimed,
        Err(problem) => return format!("{problem}; {}", problem.remedy()),
    };
    let rendered = claimed.shared.iter().map(|DeviceClaim { name, devices, reach, .. }| {
        let of_node =
            format!("{:?} and {} milli-GPUs of one node", devices.extended, devices.gpu_milli);
        let reach = match reach {
            DeviceReach::NodeLocal => of_node,
            DeviceReach::Allocated(None) => "used from all nodes".to_owned(),
            DeviceReach::Allocated(Some(terms)) => {
                format!("used from {:?}", terms[0].labels[0].values)
            }
            DeviceReach::Pending => "from several nodes".to_owned(),
            DeviceReach::PendingWithNodeLocal => format!("from several nodes, and {of_node}"),
        };
        format!("{name}: {reach}")
    });
    rendered.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_device_or_its_slice_selects_the_nodes() {
    let cache = cache(published());
    let wide = cache.resource_claims.multi_node.devices.iter().map(|wide| {
        let nodes = wide.term.as_ref().map(|term| &term.parsed.labels[0].values);
        format!("{} {nodes:?}", wide.device.id)
    });
    assert_snapshot!(wide.collect::<Vec<_>>().join("\n"), @r#"
    mixed/p/of-a Some(["a"])
    mixed/p/d-0 None
    mixed/p/d-1 None
    "#);
    let listed = |name: &str, zone: &str| {
        let devices = cache.resource_claims.with_devices(&node(name, zone)).devices;
        devices.iter().map(|device| device.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listed("n", "b"), "mixed/p/of-n mixed/p/d-0 mixed/p/d-1");
    assert_eq!(listed("m", "a"), "mixed/p/of-a mixed/p/d-0 mixed/p/d-1");
    let of_node =
        cache.resource_claims.devices_of(&"n".into()).iter().map(|device| &*device.id.device);
    assert_eq!(of_node.collect::<Vec<_>>(), ["of-n"]);
}

fn node(name: &str, zone: &str) -> Node {
    let labels = Labels::from([("zone".into(), zone.into())]);
    Node { name: name.into(), labels, ..Node::default() }
}

#[test]
fn a_claim_that_may_get_multi_node_devices_can_be_used_where_these_can() {
    let slices = || {
        let devices = json!([{ "name": "b" }, { "name": "a" }, { "name": "c" }]);
        [slice("net", json!({ "allNodes": true }), devices), class("net")]
    };
    let with = |claims: &[Value]| {
        let pod = pod(&["x"]);
        taken(&cache(slices().into_iter().chain(claims.iter().cloned()).chain([pod])))
    };
    let x = || exactly("x", "net", 2);
    assert_snapshot!(with(&[x()]), @"ns/x: from several nodes");
    assert_snapshot!(with(&[allocated(x(), &["a", "b"], &Value::Null)]), @"ns/x: used from all nodes");
    assert_snapshot!(with(&[allocated(x(), &["a", "b"], &zone("a"))]), @r#"ns/x: used from ["a"]"#);
    let mut left_over = allocated(x(), &["a", "b"], &zone("a"));
    left_over["status"]["reservedFor"] =
        json!([{ "resource": "pods", "name": "pod", "uid": "pod" }]);
    assert_snapshot!(with(&[left_over]), @"ns/x: from several nodes");
}

#[test]
fn nodes_list_the_claims_of_multi_node_devices_but_leftover_ones() {
    let listed = |claims: &[Value]| {
        let devices = json!([{ "name": "b" }, { "name": "a" }]);
        let net = [slice("net", json!({ "allNodes": true }), devices), class("net")];
        let cache = cache(net.into_iter().chain(claims.iter().cloned()).chain([pod(&["x"])]));
        let devices = cache.resource_claims.with_devices(&node("n", "a")).devices;
        let device = |device: &NodeDevice| match &device.allocated_to {
            Some(claim) => format!("{} of {claim}", device.name),
            None => device.name.to_string(),
        };
        devices.iter().map(device).collect::<Vec<_>>().join(", ")
    };
    let mut x = allocated(exactly("x", "net", 1), &["a"], &Value::Null);
    assert_snapshot!(listed(&[]), @"net/p/a, net/p/b");
    assert_snapshot!(listed(&[x.clone()]), @"net/p/a of ns/x, net/p/b");
    x["status"]["reservedFor"] = json!([{ "resource": "pods", "name": "pod", "uid": "pod" }]);
    assert_snapshot!(listed(&[x]), @"net/p/a, net/p/b");
}

#[test]
fn a_request_that_both_kinds_can_satisfy_takes_nothing_of_its_node() {
    let with = |slices: [Value; 2], claim: Value| {
        taken(&cache(slices.into_iter().chain([claim, pod(&["x"])])))
    };
    assert_snapshot!(with(published(), exactly("x", "mixed", 1)), @"ns/x: from several nodes");
}

/// What the pod takes for a claim with these devices, where `net` and `gpu.x` are for all nodes and
/// `local` is of one.
fn taken_for(devices: &Value) -> String {
    let wide = json!({ "allNodes": true });
    let objects = [
        slice("net", wide.clone(), json!([{ "name": "a" }])),
        slice("gpu.x", wide, json!([{ "name": "g" }])),
        slice("local", json!({ "nodeName": "n" }), json!([{ "name": "l" }])),
    ];
    let classes = ["net", "gpu.x", "local"].map(class);
    let pod = pod(&["x"]);
    taken(&cache(objects.into_iter().chain(classes).chain([claim("x", devices), pod])))
}

#[test]
fn multi_node_gpus_are_reported_since_queues_are_charged_for_gpus() {
    let of = |class: &str| json!({ "name": class, "exactly": { "deviceClassName": class } });
    assert_snapshot!(taken_for(&json!({ "requests": [of("gpu.x")] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: got GPUs among multi-node devices, expected node-local GPUs, since queues are charged for GPUs; fix ResourceClaim x: spec.devices.requests: expected node-local GPUs, since queues are charged for GPUs");
    assert_snapshot!(taken_for(&json!({ "requests": [of("net")] })), @"ns/x: from several nodes");
}

#[test]
fn every_kind_of_request_may_get_multi_node_devices() {
    let of = |class: &str| json!({ "name": class, "exactly": { "deviceClassName": class } });
    let with = |class: &str, key: &str, value: Value| {
        let mut request = of(class);
        request["exactly"][key] = value;
        request
    };
    let first = |classes: [&str; 2]| {
        let all = classes.map(|class| json!({ "name": class, "deviceClassName": class }));
        json!({ "requests": [{ "name": "r", "firstAvailable": all }] })
    };
    let alike = json!([{ "matchAttribute": "net/zone" }]);
    let all = with("net", "allocationMode", json!("All"));
    assert_snapshot!(taken_for(&json!({ "requests": [all] })), @"ns/x: from several nodes");
    assert_snapshot!(taken_for(&json!({ "requests": [of("net")], "constraints": alike })), @"ns/x: from several nodes");
    let local = with("local", "adminAccess", json!(true));
    assert_snapshot!(taken_for(&json!({ "requests": [of("net"), local] })), @"ns/x: from several nodes, and {} and 0 milli-GPUs of one node");
    assert_snapshot!(taken_for(&json!({ "requests": [with("net", "adminAccess", json!(true))] })), @"ns/x: from several nodes");
    assert_snapshot!(taken_for(&first(["net", "net"])), @"ns/x: from several nodes");
    assert_snapshot!(taken_for(&first(["net", "local"])), @"ns/x: from several nodes");
    assert_snapshot!(taken_for(&first(["local", "local"])), @r#"ns/x: {"devices of class local": 1, "the first available of 1 of class local, or 1 of class local": 1} and 0 milli-GPUs of one node"#);
    let many = with("net", "count", json!(i64::MAX));
    assert_snapshot!(taken_for(&json!({ "requests": [many] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: got 9223372036854775807 devices, expected at most 32 devices; fix ResourceClaim x: spec.devices.requests: expected at most 32 devices");
}

/// Two devices for all nodes, and two of node n.
fn both() -> impl Iterator<Item = Value> {
    let of_node = json!({ "nodeName": "n" });
    let net = slice("net", json!({ "allNodes": true }), json!([{ "name": "a" }, { "name": "b" }]));
    let gpus = slice("gpu.x", of_node, json!([{ "name": "0" }, { "name": "1" }]));
    [net, gpus].into_iter().chain(["net", "gpu.x"].map(class))
}

/// A claim on one device for all nodes, and on these of the node.
fn beside(of_node: &Value) -> Value {
    claim(
        "x",
        &json!({ "requests": [
            { "name": "nic", "exactly": { "deviceClassName": "net" } },
            { "name": "gpus", "exactly": of_node },
        ] }),
    )
}

#[test]
fn a_claim_gets_node_local_and_multi_node_devices() {
    let two = || beside(&json!({ "deviceClassName": "gpu.x", "count": 2 }));
    let with =
        |claims: &[Value]| taken(&cache(both().chain(claims.iter().cloned()).chain([pod(&["x"])])));
    assert_snapshot!(with(&[two()]), @"ns/x: from several nodes, and {} and 2000 milli-GPUs of one node");
    let other = allocated(exactly("other", "net", 1), &["a"], &Value::Null);
    assert_snapshot!(with(&[two(), other]), @"ns/x: from several nodes, and {} and 2000 milli-GPUs of one node");
    let mut had = allocated(two(), &["a"], &Value::Null);
    let results = had["status"]["allocation"]["devices"]["results"].as_array_mut().unwrap();
    results[0]["request"] = json!("nic");
    results.extend(["0", "1"].map(
        |device| json!({ "request": "gpus", "driver": "gpu.x", "pool": "p", "device": device }),
    ));
    assert_snapshot!(with(&[had]), @"ns/x: {} and 2000 milli-GPUs of one node");
}

#[test]
fn a_mixed_claim_gets_all_of_its_devices_or_none_and_is_bound_to_the_node() {
    let all = json!({ "deviceClassName": "gpu.x", "allocationMode": "All" });
    let two = json!({ "deviceClassName": "gpu.x", "count": 2 });
    let node = Node { name: "n".into(), ..Node::default() };
    let picked = |objects: &[Value]| {
        let cache = cache(both().chain(objects.iter().cloned()));
        let picked = cache.resource_claims.pick_for_nodes(&[(&key("x"), vec![&node])]);
        let Some(picked) = picked.get(&key("x")) else { return "nothing".to_owned() };
        let one = |one: &PickedDevice| format!("{}:{}", one.request, one.device.device);
        let rendered = picked.iter().map(one).collect::<Vec<_>>().join(" ");
        format!(
            "{rendered} {}",
            cache.resource_claims.node_selector(picked, &"n".into()).unwrap_or_default()
        )
    };
    assert_snapshot!(picked(&[beside(&two)]), @r#"nic:a gpus:0 gpus:1 {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}"#);
    assert_snapshot!(picked(&[beside(&all)]), @r#"nic:a gpus:0 gpus:1 {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}"#);
    let others = allocated(exactly("other", "net", 2), &["a", "b"], &Value::Null);
    assert_snapshot!(picked(&[beside(&two), others]), @"nothing");
    let three = json!({ "deviceClassName": "gpu.x", "count": 3 });
    assert_snapshot!(picked(&[beside(&three)]), @"nothing");
}

#[test]
fn claims_allocated_together_get_devices_that_all_their_nodes_can_use() {
    let wide = |name: &str, zone: &str| json!({ "name": name, "nodeSelector": self::zone(zone) });
    let per_device = json!({ "perDeviceNodeSelection": true });
    let devices = json!([
        { "name": "all-0", "allNodes": true }, { "name": "all-1", "allNodes": true },
        wide("a-0", "a"), wide("a-1", "a"),
    ]);
    let claims = [exactly("x", "net", 1), exactly("y", "net", 1), exactly("z", "net", 2)];
    let slices = [slice("net", per_device, devices), class("net")];
    let mut cache = cache(slices.into_iter().chain(claims));
    let (a, b) = (node("a", "a"), node("b", "b"));
    let picked = |cache: &ClusterCache, uses: &[(&str, &[&Node])]| {
        let keys: Vec<ObjectKey> = uses.iter().map(|(name, _)| key(name)).collect();
        let uses: Vec<(&ObjectKey, Vec<&Node>)> =
            keys.iter().zip(uses).map(|(key, (_, nodes))| (key, nodes.to_vec())).collect();
        let rendered =
            cache.resource_claims.pick_for_nodes(&uses).into_iter().map(|(key, picked)| {
                let devices =
                    picked.iter().map(|one| &*one.device.device).collect::<Vec<_>>().join(" ");
                let selector = cache.resource_claims.node_selector(&picked, &"n".into());
                format!("{}: {devices} {}", key.name, selector.unwrap_or_default())
            });
        rendered.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(picked(&cache, &[("x", &[&a]), ("y", &[&a, &b]), ("z", &[&a])]), @r#"
    x: a-0 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    y: all-0 null
    z: a-1 all-1 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    "#);
    assert_snapshot!(picked(&cache, &[("x", &[&b]), ("y", &[&b]), ("z", &[&b])]), @"
    x: all-0 null
    y: all-1 null
    ");
    cache.upsert_claim(
        &key("y"),
        ClaimRecord::from_object(&allocated(exactly("y", "net", 1), &["all-0"], &Value::Null)),
    );
    assert_snapshot!(picked(&cache, &[("x", &[&b]), ("z", &[&a])]), @r#"
    x: all-1 null
    z: a-0 a-1 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    "#);
}
