//! A value of another type than its field has is no value that is left out: it is noted, and nobody
//! is placed by it.

use std::io::{Cursor, Write as _};

use insta::assert_snapshot;
use schedlab_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{Wanted, replay};

/// Two racks with a node of 4 GPUs each, queue `q` with a limit of 2 GPUs above it, and a gang of
/// two pods that wants one rack.
fn cluster() -> Value {
    let node = |name: &str, rack: &str| {
        json!({
        "metadata": { "name": name, "labels": { "rack": rack } },
        "status": { "allocatable": { "nvidia.com/gpu": "4", "cpu": "8", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] } })
    };
    let queue = |name: &str, parent: Value, limit: i32| {
        json!({
        "metadata": { "name": name },
        "spec": { "parentQueue": parent, "resources": {
            "gpu": { "quota": 2, "limit": limit, "overQuotaWeight": 1 },
            "cpu": { "quota": -1, "limit": -1 }, "memory": { "quota": -1, "limit": -1 } } } })
    };
    let pod = |name: &str| {
        json!({
        "metadata": { "namespace": "ns", "name": name, "annotations": { "pod-group-name": "g" } },
        "spec": { "schedulerName": "kai-scheduler", "nodeSelector": {}, "tolerations": [],
                  "containers": [{ "name": "c", "resources": { "limits": { "nvidia.com/gpu": "1" } } }] } })
    };
    let constraint = json!({ "topology": "t", "requiredTopologyLevel": "rack" });
    json!({
        "nodes": [node("n1", "r1"), node("n2", "r2")],
        "queues": [queue("top", Value::Null, 2), queue("q", json!("top"), -1)],
        "topologies": [{ "metadata": { "name": "t" }, "spec": { "levels": [{ "nodeLabel": "rack" }] } }],
        "podGroups": [{ "metadata": { "namespace": "ns", "name": "g" },
                        "spec": { "queue": "q", "minMember": 2, "topologyConstraint": constraint } }],
        "pods": [pod("a"), pod("b")],
    })
}

/// The notes and the first cycle, with this instead of what stands at a place.
fn with(place: &str, value: Value) -> String {
    let mut cluster = cluster();
    *cluster.pointer_mut(place).expect("a place in the cluster") = value;
    told(&cluster)
}

/// The notes and the first cycle.
fn told(cluster: &Value) -> String {
    let snapshot = json!({ "rawObjects": cluster }).to_string();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("snapshot.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(snapshot.as_bytes()).unwrap();
    let told = replay(zip.finish().unwrap(), &Wanted::default(), 1).unwrap();
    let lines = told.lines().skip(1).map(str::trim);
    let lines = lines.take_while(|line| !["waiting", "nobody waits"].contains(line));
    let headings = ["", "notes on the snapshot", "cycle 1"];
    lines.filter(|line| !headings.contains(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn as_it_stands_the_gang_is_bound() {
    assert_snapshot!(with("/pods/0/spec/nodeSelector", json!({})), @r"
    bind ns/a to n1
    bind ns/b to n1
    ");
}

#[test]
fn an_expression_that_selects_no_device_as_it_cannot_be_judged_is_noted() {
    let of_class = |expression: &str| {
        let mut cluster = cluster();
        let selectors = json!([{ "cel": { "expression": expression } }]);
        let class = json!({ "metadata": { "name": "x" }, "spec": { "selectors": selectors } });
        let exactly = json!({ "deviceClassName": "x" });
        let requests = json!([{ "name": "r", "exactly": exactly }]);
        cluster["deviceClasses"] = json!([class]);
        cluster["resourceSlices"] = json!([{ "metadata": { "name": "s" }, "spec": {
            "nodeName": "n1", "driver": "x", "pool": { "name": "n1", "generation": 1 },
            "devices": [{ "name": "d" }] } }]);
        cluster["resourceClaims"] = json!([{ "metadata": { "namespace": "ns", "name": "c" },
                                             "spec": { "devices": { "requests": requests } } }]);
        cluster["pods"][0]["spec"]["resourceClaims"] =
            json!([{ "name": "own", "resourceClaimName": "c" }]);
        told(&cluster)
    };
    assert_snapshot!(of_class("device.driver =="), @r"
    Pod ns/a: ResourceClaim c: no device is selected by device.driver == (DeviceClass x), which cannot be judged of device d of node n1: it is no CEL expression
    nothing to decide
    ");
    assert_snapshot!(of_class("1 + 1"), @r"
    Pod ns/a: ResourceClaim c: no device is selected by 1 + 1 (DeviceClass x), which cannot be judged of device d of node n1: it is neither true nor false
    nothing to decide
    ");
}

#[test]
fn a_pod_with_a_value_of_another_type_is_noted_and_not_bound() {
    let places = [
        ("/pods/0/spec", json!("str")),
        ("/pods/0/spec/schedulerName", json!({})),
        ("/pods/0/spec/nodeSelector", json!(["rack=r9"])),
        ("/pods/0/spec/tolerations", json!({})),
        ("/pods/0/spec/containers", json!({})),
        ("/pods/0/spec/containers/0/resources", json!("str")),
        ("/pods/0/metadata/namespace", json!({})),
    ];
    let told = places.map(|(place, value)| with(place, value));
    assert_snapshot!(told.join("\n"), @r#"
    Pod ns/a: spec: found "str", allowed: an object; it is not placed
    nothing to decide
    Pod ns/a: spec.schedulerName: found {}, allowed: a string; it is not placed
    nothing to decide
    Pod ns/a: spec.nodeSelector: found ["rack=r9"], allowed: an object; it is not placed
    nothing to decide
    Pod ns/a: spec.tolerations: found {}, allowed: an array; it is not placed
    nothing to decide
    Pod ns/a: spec.containers: found {}, allowed: an array; it is not placed
    nothing to decide
    Pod ns/a: spec.containers[0].resources: found "str", allowed: an object; it is not placed
    nothing to decide
    rawObjects.pods[0].metadata.namespace: found {}, allowed: a name; it is left out
    nothing to decide
    "#);
}

#[test]
fn what_a_pod_depends_on_is_noted_and_not_gone_by() {
    let places = [
        ("/podGroups/0/spec", json!("str")),
        ("/podGroups/0/spec/queue", json!(["q"])),
        ("/podGroups/0/spec/topologyConstraint", json!("t/rack")),
        ("/queues/1/spec/parentQueue", json!(["top"])),
        ("/queues/0/spec/resources", json!([])),
        ("/topologies/0/spec", json!("str")),
        ("/nodes/0/metadata/labels", json!("str")),
    ];
    let told = places.map(|(place, value)| with(place, value));
    assert_snapshot!(told.join("\n"), @r#"
    PodGroup ns/g: spec: found "str", allowed: an object; none of its pods is placed
    nothing to decide
    PodGroup ns/g: spec.queue: found ["q"], allowed: a string; none of its pods is placed
    nothing to decide
    PodGroup ns/g: spec.topologyConstraint: found "t/rack", allowed: an object; none of its pods is placed
    nothing to decide
    Queue q: spec.parentQueue: found ["top"], allowed: a string; nothing runs in it or below it
    nothing to decide
    Queue top: spec.resources: found [], allowed: an object; nothing runs in it or below it
    nothing to decide
    Topology t: spec: found "str", allowed: an object; it is left out
    nothing to decide
    Node n1: metadata.labels: found "str", allowed: an object; nobody is placed on it
    bind ns/a to n2
    bind ns/b to n2
    "#);
}
