//! Allocated claims that no pod with a node uses.

use schedlab_scheduler_core::model::NodeDevice;

use super::*;

/// Node n1 with two GPUs in a slice.
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

/// A claim that holds one of them.
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

/// A pod that names the claim.
fn claiming(spec: &Value, phase: &str) -> Value {
    let mut pod = in_phase(pod("p", "", spec), phase);
    pod["metadata"]["uid"] = json!("p");
    pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": "c" }]);
    pod
}

fn held(built: &BuiltSnapshot) -> String {
    let node = &built.snapshot.nodes[0];
    let held = node.unused_claims.iter().map(|held| {
        let soon = if held.is_deallocating { ", soon free" } else { "" };
        let (gpus, of) = (held.devices.gpu_milli, node.allocatable.gpu_milli);
        format!("{} has {gpus} of {of}{soon}", held.name)
    });
    held.reduce(|all, one| all + &one).unwrap_or_else(|| "nothing is held".to_owned())
}

#[test]
fn unused_claims_hold_their_devices() {
    let rendered = |users: &[(&str, &str)], spec: Value, phase: &str| {
        let objects: Vec<Value> =
            published().into_iter().chain([claim(users), claiming(&spec, phase)]).collect();
        format!("{users:?} {phase} {spec}: {}", held(&build(cache(&objects), Flavor::Kai)))
    };
    let on_n1 = || json!({ "nodeName": "n1" });
    let rendered = [
        rendered(&[], json!({}), "Pending"),
        rendered(&[("pods", "gone")], json!({}), "Pending"),
        rendered(&[("pods", "p")], on_n1(), "Succeeded"),
        rendered(&[("pods", "gone"), ("podgroups", "g")], json!({}), "Pending"),
        rendered(&[("pods", "p")], json!({ "schedulerName": "other" }), "Pending"),
        rendered(&[("pods", "p")], json!({}), "Pending"),
        rendered(&[("pods", "p")], on_n1(), "Running"),
    ];
    assert_snapshot!(rendered.join("\n"), @r#"
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
fn held_claims_follow_changes_of_claims_and_pods() {
    let mut cache = cache(&published());
    let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
    let mut rendered = |change: &dyn Fn(&mut ClusterCache)| {
        change(&mut cache);
        builder.refresh(&mut cache);
        held(&builder.built)
    };
    let (at, pod) =
        (ObjectKey::from_object(&claim(&[])), claiming(&json!({ "nodeName": "n1" }), "Running"));
    let rendered = [
        rendered(&|cache| cache.upsert(Kind::ResourceClaim, &claim(&[("pods", "p")]))),
        rendered(&|cache| cache.upsert(Kind::Pod, &pod)),
        rendered(&|cache| cache.remove(Kind::Pod, ObjectKey::from_object(&pod), 1)),
        rendered(&|cache| cache.upsert(Kind::ResourceClaim, &claim(&[]))),
        rendered(&|cache| cache.remove(Kind::ResourceClaim, ObjectKey::clone(&at), 1)),
    ];
    assert_snapshot!(rendered.join("\n"), @r"
    ns/c has 1000 of 2000, soon free
    nothing is held
    ns/c has 1000 of 2000, soon free
    ns/c has 1000 of 2000
    nothing is held
    ");
}

/// A claim on all devices of a class, and a pod that names it.
fn wanting_all(selectors: &Value) -> [Value; 2] {
    let exactly =
        json!({ "deviceClassName": "gpu.x", "allocationMode": "All", "selectors": selectors });
    let claim = json!({
        "kind": "ResourceClaim",
        "metadata": { "name": "c", "namespace": "ns" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
    });
    [claim, claiming(&json!({}), "Pending")]
}

fn in_group(mut pod: Value) -> Value {
    pod["metadata"]["annotations"]["pod-group-name"] = json!("g");
    pod
}

#[test]
fn allocation_mode_all_counts_the_devices_that_the_node_publishes() {
    let first = |selectors: Value, change: &dyn Fn(&mut Value)| {
        let [mut slice, class, node] = published();
        change(&mut slice);
        let [claim, pod] = wanting_all(&selectors);
        let objects = [slice, class, node, claim, in_group(pod), group("g", &json!({}))];
        let built = build(cache(&objects), Flavor::Kai);
        let claim = &built.snapshot.shapes[0].claims[0];
        let gpus = claim.devices_on(&built.snapshot.nodes[0]).gpu_milli;
        if gpus < 1_000_000 {
            format!("{gpus} milli-GPUs")
        } else {
            "more than any node has".into()
        }
    };
    let of_one = json!([{ "cel": { "expression": "has(device.attributes['gpu.x'].fast)" } }]);
    let fast = |slice: &mut Value| {
        slice["spec"]["devices"][1]["attributes"] = json!({ "fast": { "bool": true } });
    };
    let half = |slice: &mut Value| slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
    let whole = |slice: &mut Value| slice["spec"]["pool"]["resourceSliceCount"] = json!(1);
    let many = |count: usize| {
        move |slice: &mut Value| {
            let devices = (0..count).map(|at| json!({ "name": format!("gpu-{at}") }));
            slice["spec"]["devices"] = devices.collect();
        }
    };
    let rendered = [
        ("two are there", first(json!([]), &whole)),
        ("one is selected", first(of_one.clone(), &fast)),
        ("none is: at least one is needed", first(of_one, &whole)),
        ("half of the pool is published", first(json!([]), &half)),
        ("a claim may have 32", first(json!([]), &many(32))),
        ("and no more", first(json!([]), &many(33))),
    ];
    let rendered = rendered.map(|(of, gpus)| format!("{of}: {gpus}"));
    assert_snapshot!(rendered.join("\n"), @r"
    two are there: 2000 milli-GPUs
    one is selected: 1000 milli-GPUs
    none is: at least one is needed: 1000 milli-GPUs
    half of the pool is published: more than any node has
    a claim may have 32: 32000 milli-GPUs
    and no more: more than any node has
    ");
}

#[test]
fn an_allocated_claim_on_all_devices_keeps_the_allocated_ones() {
    let [claim, _] = wanting_all(&json!([]));
    let mut claim = claim;
    let device = json!({ "request": "r", "driver": "gpu.x", "pool": "n1", "device": "gpu-1" });
    claim["status"] = json!({ "allocation": { "devices": { "results": [device] } },
                              "reservedFor": [{ "resource": "pods", "name": "p", "uid": "p" }] });
    let pod = claiming(&json!({ "nodeName": "n1" }), "Running");
    let objects: Vec<Value> = published().into_iter().chain([claim, pod]).collect();
    let built = build(cache(&objects), Flavor::Kai);
    let claim = &built.snapshot.shapes[0].claims[0];
    assert_eq!((claim.devices.gpu_milli, claim.allocate_all.len()), (1000, 0));
}

#[test]
fn under_profile_kube_devices_are_not_gpus_and_claims_are_separate() {
    let [claim, pod] = wanting_all(&json!([]));
    let mut own = claim.clone();
    own["metadata"]["name"] = json!("own");
    own["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "q", "controller": true }]);
    own["spec"]["devices"]["requests"][0]["exactly"] = json!({ "deviceClassName": "gpu.x" });
    let mut other = pod.clone();
    other["metadata"] = json!({ "name": "q", "namespace": "ns", "uid": "q" });
    other["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": "own" }]);
    let [slice, class, mut node] = published();
    node["status"]["allocatable"] = json!({ "nvidia.com/gpu": "1" });
    let objects = [slice, class, node, claim, own, pod, other];
    let built = build(cache(&objects).with_flavor(Flavor::Kube), Flavor::Kube);
    let snapshot = &built.snapshot;
    let node = &snapshot.nodes[0];
    let mut rendered =
        vec![format!("{} by claim: {}, {:?}", node.name, node.gpus_via_dra, node.allocatable)];
    rendered.extend(snapshot.pods.iter().map(|pod| {
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        let claims = shape.claims.iter().map(|claim| {
            let own = if claim.is_pod_owned { " (own)" } else { "" };
            format!("{}{own} {:?}", claim.name, claim.devices_on(node).extended)
        });
        let claims = claims.collect::<Vec<_>>().join(", ");
        format!(
            "{} asks for {:?}: {claims}",
            pod.name,
            shape.requests.positive_amounts().collect::<Vec<_>>()
        )
    }));
    assert_snapshot!(rendered.join("\n"), @r#"
    n1 by claim: false, Resources { gpu_milli: 1000, cpu_milli: 0, memory_bytes: 0, pods: 0, extended: {"devices of class gpu.x": 2} }
    p asks for [(Gpu, 1000), (Pods, 1)]: ns/c {"devices of class gpu.x": 2}
    q asks for [(Gpu, 1000), (Pods, 1)]: ns/own (own) {"devices of class gpu.x": 1}
    "#);
}

#[test]
fn gpu_classes_of_a_claim_are_known_without_published_devices() {
    let class =
        |name: &str| json!({ "kind": "DeviceClass", "metadata": { "name": name }, "spec": {} });
    let [claim, mut pod] = wanting_all(&json!([]));
    let mut other = claim.clone();
    other["metadata"]["name"] = json!("d");
    other["spec"]["devices"]["requests"][0]["exactly"] = json!({ "deviceClassName": "net.x" });
    let claims = json!([
        { "name": "c", "resourceClaimName": "c" }, { "name": "d", "resourceClaimName": "d" },
    ]);
    pod["spec"]["resourceClaims"] = claims;
    let objects = [
        class("gpu.x"),
        class("net.x"),
        node("n1"),
        claim,
        other,
        in_group(pod),
        group("g", &json!({})),
    ];
    let built = build(cache(&objects), Flavor::Kai);
    assert_eq!(built.snapshot.shapes[0].gpu_classes, ["gpu.x".into()]);
}

#[test]
fn waiting_pods_see_the_free_multi_node_devices() {
    let slice = json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
        "allNodes": true, "driver": "net.x", "pool": { "name": "p", "generation": 1 },
        "devices": [{ "name": "0" }, { "name": "1" }],
    } });
    let class = json!({ "kind": "DeviceClass", "metadata": { "name": "net.x" }, "spec": {} });
    let claim = |name: &str, device: Option<&str>| {
        let result = |device| json!({ "driver": "net.x", "pool": "p", "device": device });
        let results: Vec<Value> = device.map(result).into_iter().collect();
        let allocation = json!({ "devices": { "results": results } });
        json!({ "kind": "ResourceClaim", "metadata": { "name": name, "namespace": "ns" },
                "spec": { "devices": { "requests": [
                    { "name": "r", "exactly": { "deviceClassName": "net.x" } }] } },
                "status": device.map(|_| json!({ "allocation": allocation })) })
    };
    let pod = in_group(claiming(&json!({}), "Pending"));
    let objects = [slice, class, node("n1"), group("g", &json!({})), claim("c", None), pod];
    let mut cache = cache(&objects);
    let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
    let mut rendered = |change: &dyn Fn(&mut ClusterCache)| {
        change(&mut cache);
        builder.refresh(&mut cache);
        let snapshot = &builder.built.snapshot;
        let devices = snapshot.nodes[0].devices.iter();
        let free = devices.filter(|device| device.allocated_to.is_none());
        free.map(|device| &*device.name).collect::<Vec<_>>().join(" ")
    };
    let other = claim("d", Some("0"));
    let rendered = [
        rendered(&|_| {}),
        rendered(&|cache| cache.upsert(Kind::ResourceClaim, &other)),
        rendered(&|cache| cache.remove(Kind::ResourceClaim, ObjectKey::from_object(&other), 1)),
    ];
    assert_eq!(rendered, ["net.x/p/0 net.x/p/1", "net.x/p/1", "net.x/p/0 net.x/p/1"]);
}

/// The devices of node n1, with the claims that they are allocated to.
fn devices(cache: ClusterCache) -> String {
    let built = build(cache, Flavor::Kai);
    let device = |device: &NodeDevice| match &device.allocated_to {
        Some(claim) => format!("{} of {claim}", device.name),
        None => device.name.to_string(),
    };
    built.snapshot.nodes[0].devices.iter().map(device).collect::<Vec<_>>().join(", ")
}

#[test]
fn devices_belong_to_their_claim_until_it_is_left_over() {
    let with = |users: &[(&str, &str)], spec: Value, phase: &str| {
        let objects = published().into_iter().chain([claim(users), claiming(&spec, phase)]);
        devices(cache(&objects.collect::<Vec<_>>()))
    };
    let rendered = [
        with(&[("pods", "p")], json!({ "nodeName": "n1" }), "Running"),
        with(&[], json!({}), "Pending"),
        with(&[("pods", "p")], json!({}), "Pending"),
    ];
    assert_snapshot!(rendered.join("\n"), @"
    gpu.x/n1/gpu-0, gpu.x/n1/gpu-1 of ns/c
    gpu.x/n1/gpu-0, gpu.x/n1/gpu-1 of ns/c
    gpu.x/n1/gpu-0, gpu.x/n1/gpu-1
    ");
}

#[test]
fn pods_with_equal_claims_of_their_own_share_a_shape() {
    let own = |name: &str| {
        let mut claim = claim(&[]);
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["ownerReferences"] =
            json!([{ "kind": "Pod", "name": name, "uid": name, "controller": true }]);
        claim["status"] = json!({});
        let mut pod = in_group(pod(name, "", &json!({})));
        pod["metadata"]["uid"] = json!(name);
        pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": name }]);
        [claim, pod]
    };
    let objects = published().into_iter().chain(own("a")).chain(own("b"));
    let objects = objects.chain([group("g", &json!({}))]);
    let snapshot = build(cache(&objects.collect::<Vec<_>>()), Flavor::Kai).snapshot;
    let claims = snapshot.pods.iter().map(|pod| pod.own_claims.join(" "));
    assert_eq!(claims.collect::<Vec<_>>(), ["ns/a", "ns/b"]);
    assert_eq!(snapshot.pods[0].shape, snapshot.pods[1].shape);
    let shape = &snapshot.shapes[snapshot.pods[0].shape.0 as usize];
    assert_eq!(&*shape.own_claims[0].alternatives[0].requests[0].selection, "gpu.x");
}
