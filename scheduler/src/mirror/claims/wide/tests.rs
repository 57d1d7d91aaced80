use insta::assert_snapshot;
use schedlab_scheduler_core::model::{DeviceClaim, Labels};

use super::*;
use crate::mirror::Mirror;

/// The nodes of a zone.
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

/// Takes the devices of a driver that is called as it is.
fn class(name: &str) -> Value {
    let expression = format!("device.driver == '{name}'");
    json!({ "kind": "DeviceClass", "metadata": { "name": name },
            "spec": { "selectors": [{ "cel": { "expression": expression } }] } })
}

fn claim(name: &str, devices: &Value) -> Value {
    json!({ "kind": "ResourceClaim", "metadata": { "namespace": "ns", "name": name },
            "spec": { "devices": devices } })
}

/// A claim on so many devices of a class.
fn exactly(name: &str, class: &str, count: i64) -> Value {
    let exactly = json!({ "deviceClassName": class, "count": count });
    claim(name, &json!({ "requests": [{ "name": "r", "exactly": exactly }] }))
}

/// It has these devices of the driver `net`.
fn allocated(mut claim: Value, devices: &[&str], selector: &Value) -> Value {
    let result =
        |device: &&str| json!({ "request": "r", "driver": "net", "pool": "p", "device": device });
    let results: Vec<Value> = devices.iter().map(result).collect();
    claim["status"] =
        json!({ "allocation": { "devices": { "results": results }, "nodeSelector": selector } });
    claim
}

/// A pod that waits with these claims.
fn pod(claims: &[&str]) -> Value {
    let entry = |name: &&str| json!({ "name": name, "resourceClaimName": name });
    let claims: Vec<Value> = claims.iter().map(entry).collect();
    json!({ "metadata": { "namespace": "ns", "name": "pod", "uid": "pod" },
            "spec": { "schedulerName": "kai-scheduler", "resourceClaims": claims } })
}

fn key(name: &str) -> Key {
    Key { namespace: "ns".into(), name: name.into() }
}

fn mirror(objects: impl IntoIterator<Item = Value>) -> Mirror {
    let mut mirror = Mirror::of(&objects.into_iter().collect::<Vec<_>>());
    mirror.claims.refresh();
    mirror.look_at_unused_claims();
    mirror
}

/// Two devices of a driver for all nodes, one for those of zone a, and one of node n.
fn published() -> [Value; 2] {
    let devices = json!([
        { "name": "d-1", "allNodes": true }, { "name": "d-0", "allNodes": true },
        { "name": "of-a", "nodeSelector": zone("a") }, { "name": "of-n", "nodeName": "n" },
        { "name": "of-none", "nodeSelector": { "nodeSelectorTerms": [] } },
    ]);
    [slice("mixed", json!({ "perDeviceNodeSelection": true }), devices), class("mixed")]
}

/// What the pod takes by its claims.
fn taken(mirror: &Mirror) -> String {
    let pod = &mirror.pods[&key("pod")];
    let claimed = match mirror.claims.of_pod(&key("pod"), pod, &mirror.pods) {
        Ok(claimed) => claimed,
        Err(problem) => return format!("{problem}; {}", problem.remedy()),
    };
    let told = claimed.shared.iter().map(|DeviceClaim { name, devices, reach, .. }| {
        let of_node =
            format!("{:?} and {} milli-GPUs of one node", devices.extended, devices.gpu_milli);
        let told = |wishes: &[DeviceWish]| {
            let wish = |wish: &DeviceWish| {
                let devices = wish.devices.iter().map(|device| &*device.name);
                format!("one of {}", devices.collect::<Vec<_>>().join(" "))
            };
            wishes.iter().map(wish).collect::<Vec<_>>().join(" and ")
        };
        let reach = match reach {
            DeviceReach::OneNode => of_node,
            DeviceReach::Had(None) => "used from all nodes".to_owned(),
            DeviceReach::Had(Some(terms)) => format!("used from {:?}", terms[0].labels[0].values),
            DeviceReach::Open(wishes) => told(wishes),
            DeviceReach::Beside(wishes) => format!("{}, and {of_node}", told(wishes)),
        };
        format!("{name}: {reach}")
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn devices_say_for_themselves_or_with_their_slice_which_nodes_can_use_them() {
    let mirror = mirror(published());
    let wide = mirror.claims.wide.devices.iter().map(|wide| {
        let nodes = wide.given.reach.affinity.as_ref().map(|terms| &terms[0].labels[0].values);
        format!("{} {nodes:?}", wide.given.name)
    });
    assert_snapshot!(wide.collect::<Vec<_>>().join("\n"), @r#"
    mixed/p/of-a Some(["a"])
    mixed/p/d-0 None
    mixed/p/d-1 None
    "#);
    let of_node = mirror.claims.devices_of(&"n".into()).iter().map(|device| &*device.id.device);
    assert_eq!(of_node.collect::<Vec<_>>(), ["of-n"]);
}

#[test]
fn a_claim_gets_one_free_device_of_several_nodes_for_each_that_it_asks_for() {
    let slices = || {
        let devices = json!([{ "name": "b" }, { "name": "a" }, { "name": "c" }]);
        [slice("net", json!({ "allNodes": true }), devices), class("net")]
    };
    let with = |claims: &[Value]| {
        let pod = pod(&["x"]);
        taken(&mirror(slices().into_iter().chain(claims.iter().cloned()).chain([pod])))
    };
    let x = || exactly("x", "net", 2);
    let other = exactly("other", "net", 1);
    assert_snapshot!(with(&[x()]), @"ns/x: one of net/p/a net/p/b net/p/c and one of net/p/a net/p/b net/p/c");
    assert_snapshot!(with(&[x(), allocated(other.clone(), &["a"], &Value::Null)]), @"ns/x: one of net/p/b net/p/c and one of net/p/b net/p/c");
    assert_snapshot!(with(&[allocated(x(), &["a", "b"], &Value::Null)]), @"ns/x: used from all nodes");
    assert_snapshot!(with(&[allocated(x(), &["a", "b"], &zone("a"))]), @r#"ns/x: used from ["a"]"#);
    let mut left_over = allocated(x(), &["a", "b"], &zone("a"));
    left_over["status"]["reservedFor"] =
        json!([{ "resource": "pods", "name": "pod", "uid": "pod" }]);
    assert_snapshot!(with(&[left_over]), @"ns/x: one of net/p/a net/p/b net/p/c and one of net/p/a net/p/b net/p/c");
}

#[test]
fn who_may_get_devices_of_one_node_gets_no_others() {
    let with = |slices: [Value; 2], claim: Value| {
        taken(&mirror(slices.into_iter().chain([claim, pod(&["x"])])))
    };
    assert_snapshot!(with(published(), exactly("x", "mixed", 1)), @r#"ns/x: {"devices of class mixed": 1} and 0 milli-GPUs of one node"#);
}

#[test]
fn what_only_devices_of_several_nodes_could_serve_and_they_do_not_is_told() {
    let told = |devices: Value| {
        let wide = json!({ "allNodes": true });
        let objects = [
            slice("net", wide.clone(), json!([{ "name": "a" }])),
            slice("gpu.x", wide, json!([{ "name": "g" }])),
            slice("local", json!({ "nodeName": "n" }), json!([{ "name": "l" }])),
        ];
        let classes = ["net", "gpu.x", "local"].map(class);
        let pod = pod(&["x"]);
        taken(&mirror(objects.into_iter().chain(classes).chain([claim("x", &devices), pod])))
    };
    let of = |class: &str| json!({ "name": class, "exactly": { "deviceClassName": class } });
    let all = json!({ "deviceClassName": "net", "allocationMode": "All" });
    let first = |classes: [&str; 2]| {
        let all = classes.map(|class| json!({ "name": class, "deviceClassName": class }));
        json!({ "requests": [{ "name": "r", "firstAvailable": all }] })
    };
    let alike = json!([{ "matchAttribute": "net/zone" }]);
    assert_snapshot!(told(json!({ "requests": [{ "name": "r", "exactly": all }] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: found allocationMode All of devices of several nodes, allowed: allocationMode ExactCount; mend ResourceClaim x: spec.devices.requests allows allocationMode ExactCount");
    assert_snapshot!(told(json!({ "requests": [of("net")], "constraints": alike })), @"ResourceClaim x cannot be allocated: spec.devices.constraints: found some on devices of several nodes, allowed: none; mend ResourceClaim x: spec.devices.constraints allows none");
    let mut local = of("local");
    local["exactly"]["adminAccess"] = json!(true);
    assert_snapshot!(told(json!({ "requests": [of("net"), local] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: found adminAccess beside devices of several nodes, allowed: a claim for either; mend ResourceClaim x: spec.devices.requests allows a claim for either");
    assert_snapshot!(told(json!({ "requests": [of("gpu.x")] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: found GPUs, which queues pay for, among devices of several nodes, allowed: GPUs of one node; mend ResourceClaim x: spec.devices.requests allows GPUs of one node");
    let many = json!({ "deviceClassName": "net", "count": i64::MAX });
    assert_snapshot!(told(json!({ "requests": [{ "name": "r", "exactly": many }] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: found 9223372036854775807 devices, allowed: 32 devices at most; mend ResourceClaim x: spec.devices.requests allows 32 devices at most");
    let looks = json!({ "deviceClassName": "net", "adminAccess": true });
    assert_snapshot!(told(json!({ "requests": [{ "name": "r", "exactly": looks }] })), @"ResourceClaim x cannot be allocated: spec.devices.requests: found adminAccess to devices of several nodes, allowed: adminAccess to devices of one node; mend ResourceClaim x: spec.devices.requests allows adminAccess to devices of one node");
    assert_snapshot!(told(first(["net", "net"])), @"ResourceClaim x cannot be allocated: spec.devices.requests: found firstAvailable of devices of several nodes, allowed: exactly; mend ResourceClaim x: spec.devices.requests allows exactly");
    assert_snapshot!(told(first(["net", "local"])), @r#"ns/x: {"the first to be had of 1 of class net, or 1 of class local": 1} and 0 milli-GPUs of one node"#);
    assert_snapshot!(told(json!({ "requests": [of("net")] })), @"ns/x: one of net/p/a");
}

/// Two devices for all nodes, and two of node n.
fn both() -> impl Iterator<Item = Value> {
    let of_node = json!({ "nodeName": "n" });
    let net = slice("net", json!({ "allNodes": true }), json!([{ "name": "a" }, { "name": "b" }]));
    let gpus = slice("gpu.x", of_node, json!([{ "name": "0" }, { "name": "1" }]));
    [net, gpus].into_iter().chain(["net", "gpu.x"].map(class))
}

/// A claim on two devices of the node, or on all, after one for all nodes.
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
fn devices_of_a_node_are_claimed_beside_those_of_several() {
    let two = || beside(&json!({ "deviceClassName": "gpu.x", "count": 2 }));
    let with = |claims: &[Value]| {
        taken(&mirror(both().chain(claims.iter().cloned()).chain([pod(&["x"])])))
    };
    assert_snapshot!(with(&[two()]), @"ns/x: one of net/p/a net/p/b, and {} and 2000 milli-GPUs of one node");
    let other = allocated(exactly("other", "net", 1), &["a"], &Value::Null);
    assert_snapshot!(with(&[two(), other]), @"ns/x: one of net/p/b, and {} and 2000 milli-GPUs of one node");
    let mut had = allocated(two(), &["a"], &Value::Null);
    let results = had["status"]["allocation"]["devices"]["results"].as_array_mut().unwrap();
    results[0]["request"] = json!("nic");
    results.extend(["0", "1"].map(
        |device| json!({ "request": "gpus", "driver": "gpu.x", "pool": "p", "device": device }),
    ));
    assert_snapshot!(with(&[had]), @"ns/x: {} and 2000 milli-GPUs of one node");
}

#[test]
fn a_claim_gets_both_or_nothing_and_is_of_the_node_then() {
    let all = json!({ "deviceClassName": "gpu.x", "allocationMode": "All" });
    let two = json!({ "deviceClassName": "gpu.x", "count": 2 });
    let node = Node { name: "n".into(), ..Node::default() };
    let picked = |objects: &[Value]| {
        let mirror = mirror(both().chain(objects.iter().cloned()));
        let picked = mirror.claims.pick_all(&[(&key("x"), vec![&node])]);
        let Some(picked) = picked.get(&key("x")) else { return "nothing".to_owned() };
        let one = |one: &Pick| format!("{}:{}", one.request, one.device.device);
        let told = picked.iter().map(one).collect::<Vec<_>>().join(" ");
        format!("{told} {}", mirror.claims.node_selector(picked, &"n".into()).unwrap_or_default())
    };
    assert_snapshot!(picked(&[beside(&two)]), @r#"nic:a gpus:0 gpus:1 {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}"#);
    assert_snapshot!(picked(&[beside(&all)]), @r#"nic:a gpus:0 gpus:1 {"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}"#);
    let others = allocated(exactly("other", "net", 2), &["a", "b"], &Value::Null);
    assert_snapshot!(picked(&[beside(&two), others]), @"nothing");
    let three = json!({ "deviceClassName": "gpu.x", "count": 3 });
    assert_snapshot!(picked(&[beside(&three)]), @"nothing");
}

#[test]
fn claims_that_are_allocated_at_once_get_devices_that_all_their_nodes_can_use() {
    let wide = |name: &str, zone: &str| json!({ "name": name, "nodeSelector": self::zone(zone) });
    let per_device = json!({ "perDeviceNodeSelection": true });
    let devices = json!([
        { "name": "all-0", "allNodes": true }, { "name": "all-1", "allNodes": true },
        wide("a-0", "a"), wide("a-1", "a"),
    ]);
    let claims = [exactly("x", "net", 1), exactly("y", "net", 1), exactly("z", "net", 2)];
    let slices = [slice("net", per_device, devices), class("net")];
    let mut mirror = mirror(slices.into_iter().chain(claims));
    let node = |name: &str, zone: &str| Node {
        name: name.into(),
        labels: Labels::from([("zone".into(), zone.into())]),
        ..Node::default()
    };
    let (a, b) = (node("a", "a"), node("b", "b"));
    let picked = |mirror: &Mirror, uses: &[(&str, &[&Node])]| {
        let keys: Vec<Key> = uses.iter().map(|(name, _)| key(name)).collect();
        let uses: Vec<(&Key, Vec<&Node>)> =
            keys.iter().zip(uses).map(|(key, (_, nodes))| (key, nodes.to_vec())).collect();
        let told = mirror.claims.pick_wide(&uses).into_iter().map(|(key, picked)| {
            let devices =
                picked.iter().map(|one| &*one.device.device).collect::<Vec<_>>().join(" ");
            let selector = mirror.claims.node_selector(&picked, &"n".into());
            format!("{}: {devices} {}", key.name, selector.unwrap_or_default())
        });
        told.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(picked(&mirror, &[("x", &[&a]), ("y", &[&a, &b]), ("z", &[&a])]), @r#"
    x: a-0 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    y: all-0 null
    z: a-1 all-1 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    "#);
    assert_snapshot!(picked(&mirror, &[("x", &[&b]), ("y", &[&b]), ("z", &[&b])]), @"
    x: all-0 null
    y: all-1 null
    ");
    mirror.upsert_claim(
        &key("y"),
        ClaimRecord::read(&allocated(exactly("y", "net", 1), &["all-0"], &Value::Null)),
    );
    assert_snapshot!(picked(&mirror, &[("x", &[&b]), ("z", &[&a])]), @r#"
    x: all-1 null
    z: a-0 a-1 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}
    "#);
}
