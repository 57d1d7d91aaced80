//! Claims that are allocated and that no pod with a node uses.

use super::*;

/// Node n1 publishes two GPUs.
fn published() -> [Value; 3] {
    let slice = json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
        "nodeName": "n1", "driver": "gpu.x", "pool": { "name": "n1", "generation": 1 },
        "devices": [{ "name": "gpu-0" }, { "name": "gpu-1" }],
    } });
    let class = json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.x" }, "spec": {} });
    let mut node = node("n1");
    node["status"]["allocatable"] = json!({});
    [slice, class, node]
}

/// A claim that has one of them.
fn claim(users: &[(&str, &str)]) -> Value {
    let users: Vec<Value> = users
        .iter()
        .map(|(resource, name)| json!({ "resource": resource, "name": name, "uid": name }))
        .collect();
    let exactly = json!({ "deviceClassName": "gpu.x" });
    let device = json!({ "request": "r", "driver": "gpu.x", "pool": "n1", "device": "gpu-1" });
    json!({
        "kind": "ResourceClaim",
        "metadata": { "name": "c", "namespace": "ns" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
        "status": { "allocation": { "devices": { "results": [device] } }, "reservedFor": users },
    })
}

/// A pod that names it.
fn claiming(spec: &Value, phase: &str) -> Value {
    let mut pod = in_phase(pod("p", "", spec), phase);
    pod["metadata"]["uid"] = json!("p");
    pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": "c" }]);
    pod
}

fn held(translation: &Translation) -> String {
    let node = &translation.snapshot.nodes[0];
    let held = node.held_claims.iter().map(|held| {
        let soon = if held.is_given_back { ", soon free" } else { "" };
        let (gpus, of) = (held.devices.gpu_milli, node.allocatable.gpu_milli);
        format!("{} has {gpus} of {of}{soon}", held.name)
    });
    held.reduce(|all, one| all + &one).unwrap_or_else(|| "nothing is held".to_owned())
}

#[test]
fn they_hold_their_devices() {
    let told = |users: &[(&str, &str)], spec: Value, phase: &str| {
        let objects: Vec<Value> =
            published().into_iter().chain([claim(users), claiming(&spec, phase)]).collect();
        format!("{users:?} {phase} {spec}: {}", held(&translate(mirror(&objects), Flavor::Kai)))
    };
    let on_n1 = || json!({ "nodeName": "n1" });
    let told = [
        told(&[], json!({}), "Pending"),
        told(&[("pods", "gone")], json!({}), "Pending"),
        told(&[("pods", "p")], on_n1(), "Succeeded"),
        told(&[("pods", "gone"), ("podgroups", "g")], json!({}), "Pending"),
        told(&[("pods", "p")], json!({ "schedulerName": "other" }), "Pending"),
        told(&[("pods", "p")], json!({}), "Pending"),
        told(&[("pods", "p")], on_n1(), "Running"),
    ];
    assert_snapshot!(told.join("\n"), @r#"
    [] Pending {}: ns/c has 1000 of 2000
    [("pods", "gone")] Pending {}: ns/c has 1000 of 2000, soon free
    [("pods", "p")] Succeeded {"nodeName":"n1"}: ns/c has 1000 of 2000, soon free
    [("pods", "gone"), ("podgroups", "g")] Pending {}: ns/c has 1000 of 2000
    [("pods", "p")] Pending {"schedulerName":"other"}: ns/c has 1000 of 2000
    [("pods", "p")] Pending {}: nothing is held
    [("pods", "p")] Running {"nodeName":"n1"}: nothing is held
    "#);
}

#[test]
fn they_are_followed() {
    let mut mirror = mirror(&published());
    let mut translator = Translator::new(Flavor::Kai, 0);
    let mut told = |change: &dyn Fn(&mut Mirror)| {
        change(&mut mirror);
        translator.refresh(&mut mirror);
        held(&translator.translation)
    };
    let (at, pod) = (Key::of(&claim(&[])), claiming(&json!({ "nodeName": "n1" }), "Running"));
    let told = [
        told(&|mirror| mirror.upsert(Kind::ResourceClaim, &claim(&[("pods", "p")]))),
        told(&|mirror| mirror.upsert(Kind::Pod, &pod)),
        told(&|mirror| mirror.remove(Kind::Pod, Key::of(&pod), 1)),
        told(&|mirror| mirror.upsert(Kind::ResourceClaim, &claim(&[]))),
        told(&|mirror| mirror.remove(Kind::ResourceClaim, Key::clone(&at), 1)),
    ];
    assert_snapshot!(told.join("\n"), @r"
    ns/c has 1000 of 2000, soon free
    nothing is held
    ns/c has 1000 of 2000, soon free
    ns/c has 1000 of 2000
    nothing is held
    ");
}
