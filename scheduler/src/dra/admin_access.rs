//! Tests of claims with `adminAccess`: what nodes provide for them, and the devices that they get.

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler_core::model::{DeviceAccess, Node};

use super::*;
use crate::cache::ClusterCache;

/// Parses requests of class `gpu.x` from text such as `r=2, s=All admin`: name, count, and whether
/// they have admin access.
fn parse_requests(text: &str) -> Vec<Value> {
    let request = |words: &str| {
        let (wanted, is_admin) = match words.strip_suffix(" admin") {
            Some(wanted) => (wanted, true),
            None => (words, false),
        };
        let (name, count) = wanted.split_once('=').unwrap();
        let mut exactly = json!({ "deviceClassName": "gpu.x" });
        match count.parse::<i64>() {
            Ok(count) => exactly["count"] = json!(count),
            Err(_) => exactly["allocationMode"] = json!(count),
        }
        if is_admin {
            exactly["adminAccess"] = json!(true);
        }
        json!({ "name": name, "exactly": exactly })
    };
    text.split(", ").map(request).collect()
}

/// Parses devices of node `n` from text such as `a b=1 c*`: name, zone, and `*` if another claim
/// holds the device.
fn parse_published_devices(text: &str) -> Vec<Value> {
    let (mut devices, mut had) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        let device = word.trim_end_matches('*');
        let (name, zone) = device.split_once('=').unwrap_or((device, ""));
        let zone = (!zone.is_empty()).then(|| json!({ "zone": { "string": zone } }));
        devices.push(json!({ "name": name, "attributes": zone }));
        if word.ends_with('*') {
            had.push(json!({ "request": "r", "driver": "gpu.x", "pool": "n", "device": name }));
        }
    }
    let count = had.len();
    let slice = json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
        "nodeName": "n", "driver": "gpu.x", "devices": devices,
        "pool": { "name": "n", "generation": 1, "resourceSliceCount": 1 },
    } });
    let class = json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.x" }, "spec": {} });
    let other = json!({
        "kind": "ResourceClaim", "metadata": { "name": "other", "namespace": "ns" },
        "spec": { "devices": { "requests": parse_requests(&format!("r={}", count.max(1))) } },
        "status": { "allocation": { "devices": { "results": had } } },
    });
    if count == 0 { vec![slice, class] } else { vec![slice, class, other] }
}

fn claim_object(name: &str, requests: &str, constraints: &Value) -> Value {
    json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "ns" },
            "spec": { "devices": { "requests": parse_requests(requests), "constraints": constraints } } })
}

fn claim_key(name: &str) -> ObjectKey {
    ObjectKey { namespace: "ns".into(), name: name.into() }
}

fn cache_with(objects: &[Value]) -> ClusterCache {
    let mut cache = ClusterCache::from_objects(objects);
    cache.resource_claims.refresh();
    cache
}

fn picked_devices_text(cache: &ClusterCache, claims: &[&str]) -> String {
    let keys: Vec<ObjectKey> = claims.iter().map(|name| claim_key(name)).collect();
    let node = Node { name: "n".into(), ..Node::default() };
    let on_node: Vec<(&ObjectKey, Vec<&Node>)> =
        keys.iter().map(|key| (key, vec![&node])).collect();
    let picked = cache.resource_claims.pick_for_nodes(&on_node);
    let of = |key: &ObjectKey| {
        let Some(picked) = picked.get(key) else { return "nothing".to_owned() };
        let rendered =
            picked.iter().map(|PickedDevice { request, device, access, .. }| match access {
                DeviceAccess::Exclusive => format!("{request}:{}", device.device),
                DeviceAccess::Admin => format!("{request}:{} (admin)", device.device),
            });
        rendered.collect::<Vec<_>>().join(" ")
    };
    keys.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// How many times the node provides the device set of the claim, and the devices that it gets.
fn offered_and_picked_text(devices: &str, requests: &str, constraints: &Value) -> String {
    let mut objects = parse_published_devices(devices);
    objects.push(claim_object("c", requests, constraints));
    let cache = cache_with(&objects);
    let wanted = cache.resource_claims.claims[&claim_key("c")].requests.as_ref().unwrap();
    let node = Node { name: "n".into(), ..Node::default() };
    let offered = cache
        .resource_claims
        .with_devices(&node)
        .allocatable
        .extended_amount(&wanted.counted_name().unwrap());
    let offered = if offered > 100 { "to all".to_owned() } else { format!("{offered} times") };
    format!("{requests} of {devices}: {offered}, {}", picked_devices_text(&cache, &["c"]))
}

#[test]
fn admin_access_gets_devices_that_other_claims_hold() {
    let rendered = |devices, requests| offered_and_picked_text(devices, requests, &json!([]));
    let rendered = [
        rendered("a b", "w=1 admin"),
        rendered("a* b*", "w=1 admin"),
        rendered("a* b", "w=2 admin"),
        rendered("a* b", "w=All admin"),
        rendered("a* b", "w=3 admin"),
        rendered("a b", "v=1 admin, w=1 admin"),
        rendered("a b", "v=1 admin, w=All admin"),
        rendered("", "w=1 admin"),
        rendered("", "w=All admin"),
    ];
    assert_snapshot!(rendered.join("\n"), @"
    w=1 admin of a b: to all, w:a (admin)
    w=1 admin of a* b*: to all, w:a (admin)
    w=2 admin of a* b: to all, w:a (admin) w:b (admin)
    w=All admin of a* b: to all, w:a (admin) w:b (admin)
    w=3 admin of a* b: 0 times, nothing
    v=1 admin, w=1 admin of a b: to all, v:a (admin) w:b (admin)
    v=1 admin, w=All admin of a b: 0 times, nothing
    w=1 admin of : 0 times, nothing
    w=All admin of : 0 times, nothing
    ");
}

#[test]
fn exclusive_requests_get_free_devices_and_no_device_is_in_a_claim_twice() {
    let rendered = |devices, requests| offered_and_picked_text(devices, requests, &json!([]));
    let rendered = [
        rendered("a* b c", "r=1, w=2 admin"),
        rendered("a* b c", "w=2 admin, r=1"),
        rendered("a* b", "r=1, w=1 admin"),
        rendered("a* b*", "r=1, w=1 admin"),
        rendered("a b", "r=1, w=2 admin"),
        rendered("a b", "r=1, w=All admin"),
        rendered("a b c d e f g h i* j* k* l* m* n* o* p*", "w=15 admin, r=1"),
    ];
    assert_snapshot!(rendered.join("\n"), @"
    r=1, w=2 admin of a* b c: to all, r:b w:a (admin) w:c (admin)
    w=2 admin, r=1 of a* b c: to all, w:a (admin) w:c (admin) r:b
    r=1, w=1 admin of a* b: to all, r:b w:a (admin)
    r=1, w=1 admin of a* b*: to all, nothing
    r=1, w=2 admin of a b: 0 times, nothing
    r=1, w=All admin of a b: 0 times, nothing
    w=15 admin, r=1 of a b c d e f g h i* j* k* l* m* n* o* p*: to all, w:b (admin) w:c (admin) w:d (admin) w:e (admin) w:f (admin) w:g (admin) w:h (admin) w:i (admin) w:j (admin) w:k (admin) w:l (admin) w:m (admin) w:n (admin) w:o (admin) w:p (admin) r:a
    ");
}

#[test]
fn constraints_hold_for_admin_access_too() {
    let alike = json!([{ "matchAttribute": "gpu.x/zone" }]);
    let rendered = |devices, requests| offered_and_picked_text(devices, requests, &alike);
    let rendered = [
        rendered("a=1* b=2* c=1*", "w=2 admin"),
        rendered("a=1* b=2*", "w=2 admin"),
        rendered("a=1* b=2 c=1 d=2*", "r=1, w=1 admin"),
        rendered("a=1* b=2*", "r=1, w=1 admin"),
    ];
    assert_snapshot!(rendered.join("\n"), @"
    w=2 admin of a=1* b=2* c=1*: to all, w:a (admin) w:c (admin)
    w=2 admin of a=1* b=2*: 0 times, nothing
    r=1, w=1 admin of a=1* b=2 c=1 d=2*: 4 times, r:b w:d (admin)
    r=1, w=1 admin of a=1* b=2*: 0 times, nothing
    ");
}

#[test]
fn several_claims_have_admin_access_to_a_device_that_another_holds() {
    let mut objects = parse_published_devices("a");
    for (name, of) in [("v", "v=1 admin"), ("w", "w=1 admin"), ("r", "r=1")] {
        objects.push(claim_object(name, of, &json!([])));
    }
    assert_snapshot!(picked_devices_text(&cache_with(&objects), &["v", "w", "r"]), @"v:a (admin); w:a (admin); r:a");
}

#[test]
fn admin_access_to_all_devices_needs_a_complete_pool_of_at_most_32_devices() {
    let of = |count: usize, slices: u32| {
        let names: Vec<String> = (0..count).map(|at| format!("d{at}")).collect();
        let mut objects = parse_published_devices(&names.join(" "));
        objects[0]["spec"]["pool"]["resourceSliceCount"] = json!(slices);
        objects.push(claim_object("c", "w=All admin", &json!([])));
        picked_devices_text(&cache_with(&objects), &["c"])
            .split(' ')
            .filter(|word| *word != "(admin)")
            .count()
    };
    assert_eq!((of(2, 1), of(32, 1)), (2, 32));
    assert_eq!((of(2, 2), of(33, 1)), (1, 1), "nothing");
}

#[test]
fn names_of_device_sets_show_admin_access() {
    let name = |requests: &str, constraints: Value| {
        let claim = ClaimRecord::from_object(&claim_object("c", requests, &constraints));
        claim.requests.unwrap().counted_name().unwrap().to_string()
    };
    let alike = || json!([{ "matchAttribute": "gpu.x/zone" }]);
    let names = [
        name("w=2 admin", json!([])),
        name("v=2 admin, w=All admin", json!([])),
        name("r=1, w=2 admin", json!([])),
        name("w=2 admin", alike()),
        name("r=1, w=2 admin", alike()),
    ];
    assert_snapshot!(names.join("\n"), @"
    devices with adminAccess: 2 of class gpu.x
    devices with adminAccess: 2 of class gpu.x and all of class gpu.x
    devices together: 1 of class gpu.x and 2 of class gpu.x with adminAccess
    devices with adminAccess, alike in gpu.x/zone: 2 of class gpu.x
    devices alike in gpu.x/zone: 1 of class gpu.x and 2 of class gpu.x with adminAccess
    ");
}

#[test]
fn gpus_with_admin_access_are_not_charged() {
    let paid = |requests: &str| {
        let claim = ClaimRecord::from_object(&claim_object("c", requests, &json!([])));
        claim.requests.unwrap().requested_gpus(|_| true).unwrap()
    };
    assert_eq!((paid("w=2 admin"), paid("r=1, w=2 admin"), paid("w=All admin")), (0, 1, 0));
}

#[test]
fn admin_access_in_an_alternative_is_malformed() {
    let one = json!({ "name": "a", "deviceClassName": "gpu.x", "adminAccess": true });
    let request = json!({ "name": "r", "firstAvailable": [one] });
    let claim = json!({ "spec": { "devices": { "requests": [request] } } });
    assert_snapshot!(ClaimRecord::from_object(&claim).requests.unwrap_err(), @"spec.devices.requests[0].firstAvailable[0].adminAccess: got true, expected adminAccess in exactly alone");
}
