//! Claims that look after devices (`adminAccess`), whoever has them: what nodes offer them, what
//! they take, and what they get.

use insta::assert_snapshot;
use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::Node;

use super::*;

/// `r=2, s=All admin, t=1`: requests of class `gpu.x`, and how many devices each wants.
fn requests(text: &str) -> Vec<Value> {
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

/// `a b=1 c*`: devices of node n, the zone that each is in, and a star where another claim has it.
fn published(text: &str) -> Vec<Value> {
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
        "spec": { "devices": { "requests": requests(&format!("r={}", count.max(1))) } },
        "status": { "allocation": { "devices": { "results": had } } },
    });
    if count == 0 { vec![slice, class] } else { vec![slice, class, other] }
}

fn claim(name: &str, of: &str, constraints: &Value) -> Value {
    json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "ns" },
            "spec": { "devices": { "requests": requests(of), "constraints": constraints } } })
}

fn key(name: &str) -> Key {
    Key { namespace: "ns".into(), name: name.into() }
}

fn mirror(objects: &[Value]) -> Mirror {
    let mut mirror = Mirror::of(objects);
    mirror.claims.refresh();
    mirror
}

fn picked(mirror: &Mirror, claims: &[&str]) -> String {
    let keys: Vec<Key> = claims.iter().map(|name| key(name)).collect();
    let picked = mirror.claims.pick(&"n".into(), &keys.iter().collect::<Vec<_>>());
    let of = |key: &Key| {
        let Some(picked) = picked.get(key) else { return "nothing".to_owned() };
        let told = picked.iter().map(|Pick { request, device, access }| match access {
            Access::Alone => format!("{request}:{}", device.device),
            Access::Admin => format!("{request}:{} (admin)", device.device),
        });
        told.collect::<Vec<_>>().join(" ")
    };
    keys.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// How often the node offers what the claim asks for together, and which devices it gets.
fn told((devices, requests): (&str, &str), constraints: &Value) -> String {
    let mut objects = published(devices);
    objects.push(claim("c", requests, constraints));
    let mirror = mirror(&objects);
    let wanted = mirror.claims.known[&key("c")].wanted.as_ref().unwrap();
    let node = Node { name: "n".into(), ..Node::default() };
    let offered = mirror.claims.offered(&node).allocatable.extended_of(&wanted.name().unwrap());
    let offered = if offered > 100 { "to all".to_owned() } else { format!("{offered} times") };
    format!("{requests} of {devices}: {offered}, {}", picked(&mirror, &["c"]))
}

#[test]
fn who_looks_after_devices_gets_them_whoever_has_them() {
    let told = |devices, requests| told((devices, requests), &json!([]));
    let told = [
        told("a b", "w=1 admin"),
        told("a* b*", "w=1 admin"),
        told("a* b", "w=2 admin"),
        told("a* b", "w=All admin"),
        told("a* b", "w=3 admin"),
        told("a b", "v=1 admin, w=1 admin"),
        told("a b", "v=1 admin, w=All admin"),
        told("", "w=1 admin"),
        told("", "w=All admin"),
    ];
    assert_snapshot!(told.join("\n"), @"
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
fn what_is_taken_beside_is_free_and_no_device_is_in_a_claim_twice() {
    let told = |devices, requests| told((devices, requests), &json!([]));
    let told = [
        told("a* b c", "r=1, w=2 admin"),
        told("a* b c", "w=2 admin, r=1"),
        told("a* b", "r=1, w=1 admin"),
        told("a* b*", "r=1, w=1 admin"),
        told("a b", "r=1, w=2 admin"),
        told("a b", "r=1, w=All admin"),
        told("a b c d e f g h i* j* k* l* m* n* o* p*", "w=15 admin, r=1"),
    ];
    assert_snapshot!(told.join("\n"), @"
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
fn devices_that_are_looked_after_are_alike_where_they_have_to_be() {
    let alike = json!([{ "matchAttribute": "gpu.x/zone" }]);
    let told = |devices, requests| told((devices, requests), &alike);
    let told = [
        told("a=1* b=2* c=1*", "w=2 admin"),
        told("a=1* b=2*", "w=2 admin"),
        told("a=1* b=2 c=1 d=2*", "r=1, w=1 admin"),
        told("a=1* b=2*", "r=1, w=1 admin"),
    ];
    assert_snapshot!(told.join("\n"), @"
    w=2 admin of a=1* b=2* c=1*: to all, w:a (admin) w:c (admin)
    w=2 admin of a=1* b=2*: 0 times, nothing
    r=1, w=1 admin of a=1* b=2 c=1 d=2*: 2 times, r:b w:d (admin)
    r=1, w=1 admin of a=1* b=2*: 0 times, nothing
    ");
}

#[test]
fn several_look_after_the_same_device_and_who_uses_it_gets_it() {
    let mut objects = published("a");
    for (name, of) in [("v", "v=1 admin"), ("w", "w=1 admin"), ("r", "r=1")] {
        objects.push(claim(name, of, &json!([])));
    }
    assert_snapshot!(picked(&mirror(&objects), &["v", "w", "r"]), @"v:a (admin); w:a (admin); r:a");
}

#[test]
fn all_are_looked_after_where_it_is_known_which_they_are_and_they_are_not_too_many() {
    let of = |count: usize, slices: u32| {
        let names: Vec<String> = (0..count).map(|at| format!("d{at}")).collect();
        let mut objects = published(&names.join(" "));
        objects[0]["spec"]["pool"]["resourceSliceCount"] = json!(slices);
        objects.push(claim("c", "w=All admin", &json!([])));
        picked(&mirror(&objects), &["c"]).split(' ').filter(|word| *word != "(admin)").count()
    };
    assert_eq!((of(2, 1), of(32, 1)), (2, 32));
    assert_eq!((of(2, 2), of(33, 1)), (1, 1), "nothing");
}

#[test]
fn devices_are_called_as_who_looks_after_them_asks() {
    let name = |requests: &str, constraints: Value| {
        let claim = ClaimRecord::read(&claim("c", requests, &constraints));
        claim.wanted.unwrap().name().unwrap().to_string()
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
fn nobody_pays_for_gpus_that_are_looked_after() {
    let paid = |requests: &str| {
        let claim = ClaimRecord::read(&claim("c", requests, &json!([])));
        claim.wanted.unwrap().gpus(|_| true).unwrap()
    };
    assert_eq!((paid("w=2 admin"), paid("r=1, w=2 admin"), paid("w=All admin")), (0, 1, 0));
}

#[test]
fn an_alternative_cannot_be_for_looking() {
    let one = json!({ "name": "a", "deviceClassName": "gpu.x", "adminAccess": true });
    let request = json!({ "name": "r", "firstAvailable": [one] });
    let claim = json!({ "spec": { "devices": { "requests": [request] } } });
    assert_snapshot!(ClaimRecord::read(&claim).wanted.unwrap_err(), @"spec.devices.requests[0].firstAvailable[0].adminAccess: found true, allowed: adminAccess in exactly alone");
}
