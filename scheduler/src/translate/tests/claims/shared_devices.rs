//! Devices that several nodes reach.

use super::*;

/// Nodes n1 and n2 of rack r1, n3 of rack r2, a class of network cards, and slices with these specs.
fn cluster(slices: &[Value]) -> Vec<Value> {
    let in_rack = |name: &str, rack: &str| {
        let mut node = node(name);
        node["metadata"]["labels"] = json!({ "rack": rack });
        node["status"]["allocatable"] = json!({});
        node
    };
    let mut objects = vec![
        in_rack("n1", "r1"),
        in_rack("n2", "r1"),
        in_rack("n3", "r2"),
        json!({ "kind": "DeviceClass", "metadata": { "name": "nic.x" }, "spec": {} }),
    ];
    objects.extend(slices.iter().enumerate().map(|(at, spec)| {
        let mut spec = spec.clone();
        spec["driver"] = json!("nic.x");
        spec["pool"] = json!({ "name": at.to_string(), "generation": 1 });
        json!({ "kind": "ResourceSlice", "metadata": { "name": at.to_string() }, "spec": spec })
    }));
    objects
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

/// Selects nodes of a rack.
fn rack(name: &str) -> Value {
    let label = json!({ "key": "rack", "operator": "In", "values": [name] });
    json!({ "nodeSelectorTerms": [{ "matchExpressions": [label] }] })
}

/// One slice for a rack, one for all, and one of which each device speaks for itself.
fn slices() -> [Value; 3] {
    let own = [
        json!({ "name": "d", "nodeName": "n3" }),
        json!({ "name": "e", "nodeSelector": rack("r2") }),
        json!({ "name": "f", "allNodes": true }),
        json!({ "name": "nobody-s" }),
    ];
    [
        json!({ "nodeSelector": rack("r1"), "devices": named(&["a", "b"]) }),
        json!({ "allNodes": true, "devices": named(&["c"]) }),
        json!({ "perDeviceNodeSelection": true, "devices": own }),
    ]
}

/// A claim that has these devices, from where this node selector says.
fn claim(name: &str, count: u32, had: &[(&str, &str)], selector: &Value) -> Value {
    let results: Vec<Value> = had
        .iter()
        .map(|(pool, device)| {
            json!({ "request": "r", "driver": "nic.x", "pool": pool, "device": device })
        })
        .collect();
    let allocation = json!({ "devices": { "results": results }, "nodeSelector": selector });
    let exactly = json!({ "deviceClassName": "nic.x", "count": count });
    json!({
        "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "ns" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
        "status": if had.is_empty() { json!({}) } else { json!({ "allocation": allocation }) },
    })
}

fn reach(reach: &Reach) -> String {
    match reach {
        Reach::Node(node) => node.to_string(),
        Reach::Nodes(nodes) => nodes.iter().map(|node| &**node).collect::<Vec<_>>().join("|"),
        Reach::All => "all".to_owned(),
    }
}

/// What nodes offer, and the stocks: all, free and returning devices.
fn told(translation: &Translation) -> String {
    const KIND: &str = "devices of class nic.x";
    let Snapshot { nodes, stocks, .. } = &translation.snapshot;
    let nodes = nodes
        .iter()
        .map(|node| format!("{} offers {}", node.name, node.allocatable.extended_of(KIND)));
    let count = |devices: &BTreeMap<Name, i64>| devices.get(KIND).copied().unwrap_or(0);
    let stocks = stocks.iter().map(|stock| {
        let [all, free, returning] = [&stock.all, &stock.free, &stock.returning].map(count);
        format!("{}: {all} {free} {returning}", reach(&stock.reach))
    });
    nodes.chain(stocks).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_node_offers_what_it_reaches_and_stocks_say_how_often() {
    let told = |more: &[Value]| {
        let objects = [cluster(&slices()), more.to_vec()].concat();
        told(&translate(mirror(&objects), Flavor::Kai))
    };
    let had = claim("c", 2, &[("0", "b"), ("1", "c")], &rack("r1"));
    let mut gone = had.clone();
    gone["status"]["reservedFor"] = json!([{ "resource": "pods", "name": "p", "uid": "p" }]);
    let told = [told(&[]), told(&[had]), told(&[gone])];
    assert_snapshot!(told.join("\n"), @r"
    n1 offers 4, n2 offers 4, n3 offers 4, n3: 1 1 0, n1|n2: 2 2 0, n3: 1 1 0, all: 2 2 0
    n1 offers 4, n2 offers 4, n3 offers 4, n3: 1 1 0, n1|n2: 2 1 0, n3: 1 1 0, all: 2 1 0
    n1 offers 4, n2 offers 4, n3 offers 4, n3: 1 1 0, n1|n2: 2 1 1, n3: 1 1 0, all: 2 1 1
    ");
    let local = [json!({ "nodeName": "n1", "devices": named(&["a"]) })];
    let without = translate(mirror(&cluster(&local)), Flavor::Kai);
    assert!(without.snapshot.stocks.is_empty(), "each device is its node's own");
}

#[test]
fn nodes_that_get_other_labels_reach_other_devices() {
    let mut mirror = mirror(&cluster(&slices()));
    let mut translator = Translator::new(Flavor::Kai, 0);
    let mut refreshed = |change: &dyn Fn(&mut Mirror)| {
        change(&mut mirror);
        translator.refresh(&mut mirror);
        told(&translator.translation)
    };
    let labelled = |name: &str, rack: &str| {
        let mut node = node(name);
        node["metadata"]["labels"] = json!({ "rack": rack });
        node["metadata"]["resourceVersion"] = json!("2");
        node
    };
    let told = [
        refreshed(&|_| {}),
        refreshed(&|mirror| mirror.upsert(Kind::Node, &labelled("n2", "r2"))),
        refreshed(&|mirror| mirror.upsert(Kind::Node, &labelled("n4", "r1"))),
    ];
    assert_snapshot!(told.join("\n"), @r"
    n1 offers 4, n2 offers 4, n3 offers 4, n3: 1 1 0, n1|n2: 2 2 0, n3: 1 1 0, all: 2 2 0
    n1 offers 4, n2 offers 3, n3 offers 4, n3: 1 1 0, n1: 2 2 0, n2|n3: 1 1 0, all: 2 2 0
    n1 offers 4, n2 offers 3, n3 offers 4, n4 offers 4, n3: 1 1 0, n1|n4: 2 2 0, n2|n3: 1 1 0, all: 2 2 0
    ");
}

#[test]
fn gpus_that_several_nodes_reach_are_nobody_s_where_queues_pay_for_gpus() {
    let slice = json!({ "kind": "ResourceSlice", "metadata": { "name": "g" }, "spec": {
        "allNodes": true, "driver": "gpu.x", "pool": { "name": "g", "generation": 1 },
        "devices": [{ "name": "g" }],
    } });
    let objects = [cluster(&[]), vec![slice]].concat();
    let told = [Flavor::Kai, Flavor::Kube]
        .map(|flavor| told(&translate(mirror(&objects).of_flavor(flavor), flavor)));
    assert_snapshot!(told.join("\n"), @r"
    n1 offers 0, n2 offers 0, n3 offers 0
    n1 offers 1, n2 offers 1, n3 offers 1, all: 1 1 0
    ");
}

#[test]
fn a_pod_knows_where_its_claims_can_be_used_and_what_they_have() {
    let told = |claim: Value| {
        let mut pod = pod("p", "", &json!({}));
        pod["metadata"]["annotations"]["pod-group-name"] = json!("g");
        pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": "c" }]);
        let objects = [cluster(&slices()), vec![claim, pod, group("g", &json!({}))]].concat();
        let translation = translate(mirror(&objects), Flavor::Kai);
        let claim = &translation.snapshot.shapes[0].claims[0];
        let has = claim.from_stocks.iter().map(|(id, devices)| {
            let stock = &translation.snapshot.stocks[id.0 as usize];
            format!("{} of {}", devices.values().sum::<i64>(), reach(&stock.reach))
        });
        let has: Vec<String> = has.collect();
        let on = claim.allocated_on.as_ref().map_or("nowhere".to_owned(), reach);
        let has = if has.is_empty() { "nothing".to_owned() } else { has.join(", ") };
        format!("on {on}: {has}")
    };
    let told = [
        told(claim("c", 1, &[], &json!(null))),
        told(claim("c", 2, &[("0", "b"), ("1", "c")], &rack("r1"))),
        told(claim("c", 1, &[("1", "c")], &json!(null))),
        told(claim("c", 2, &[("2", "d"), ("1", "c")], &json!(null))),
    ];
    assert_snapshot!(told.join("\n"), @r"
    on nowhere: nothing
    on n1|n2: 1 of n1|n2, 1 of all
    on all: 1 of all
    on n3: 1 of n3, 1 of all
    ");
}

#[test]
fn claims_get_each_device_once_and_those_first_that_few_nodes_reach() {
    let told = |wanted: &[(&str, &str, u32)]| {
        let claims = wanted.iter().map(|(name, _, count)| claim(name, *count, &[], &json!(null)));
        let mut mirror = mirror(&[cluster(&slices()), claims.collect()].concat());
        Translator::new(Flavor::Kai, 0).refresh(&mut mirror);
        let key = |name: &str| Key { namespace: "ns".into(), name: name.into() };
        let keys: Vec<(Name, Key)> =
            wanted.iter().map(|(name, node, _)| (Name::from(*node), key(name))).collect();
        let mut by_node: BTreeMap<&Name, Vec<&Key>> = BTreeMap::new();
        for (node, key) in &keys {
            by_node.entry(node).or_default().push(key);
        }
        let picked = mirror.claims.pick(&by_node);
        let told = keys.iter().map(|(node, key)| {
            let Some(picked) = picked.get(key) else { return format!("{}: none", key.name) };
            let devices: Vec<&str> = picked.iter().map(|(_, id)| &*id.device).collect();
            let selector = mirror.claims.node_selector(node, picked);
            let selector = selector.map_or("everywhere".to_owned(), |it| it.to_string());
            let selector = selector.replace('"', "");
            format!("{} on {node}: {} {selector}", key.name, devices.join(" "))
        });
        told.collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(told(&[("p", "n1", 1), ("q", "n2", 2), ("r", "n3", 3)]), @r"
    p on n1: a {nodeSelectorTerms:[{matchExpressions:[{key:rack,operator:In,values:[r1]}]}]}
    q on n2: b c {nodeSelectorTerms:[{matchExpressions:[{key:rack,operator:In,values:[r1]}]}]}
    r on n3: d e f {nodeSelectorTerms:[{matchFields:[{key:metadata.name,operator:In,values:[n3]}]}]}
    ");
    assert_snapshot!(told(&[("p", "n1", 3), ("q", "n3", 3)]), @r"
    p on n1: a b c {nodeSelectorTerms:[{matchExpressions:[{key:rack,operator:In,values:[r1]}]}]}
    q on n3: d e f {nodeSelectorTerms:[{matchFields:[{key:metadata.name,operator:In,values:[n3]}]}]}
    ");
    assert_snapshot!(told(&[("p", "n1", 3), ("q", "n2", 1), ("r", "n3", 3)]), @r"
    p on n1: a b c {nodeSelectorTerms:[{matchExpressions:[{key:rack,operator:In,values:[r1]}]}]}
    q on n2: f everywhere
    r: none
    ");
}
