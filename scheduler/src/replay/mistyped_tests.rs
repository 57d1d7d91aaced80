//! A value of the wrong type does not count as missing: it becomes a note, and the object is not
//! used for placements.

use std::io::{Cursor, Write as _};

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{Overrides, replay};

/// A valid cluster: two racks with a node of 4 GPUs each, queue `q` below a queue with a limit of 2
/// GPUs, and a gang of two pods that needs one rack.
fn valid_cluster() -> Value {
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

/// Notes and first cycle of a replay of the valid cluster with the value at `pointer` replaced.
fn replay_text_with(pointer: &str, value: Value) -> String {
    let mut cluster = valid_cluster();
    *cluster.pointer_mut(pointer).expect("a place in the cluster") = value;
    replay_text(&cluster)
}

/// Notes and first cycle of a replay.
fn replay_text(cluster: &Value) -> String {
    let snapshot = json!({ "rawObjects": cluster }).to_string();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("snapshot.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(snapshot.as_bytes()).unwrap();
    let rendered = replay(zip.finish().unwrap(), &Overrides::default(), 1).unwrap();
    let lines = rendered.lines().skip(1).map(str::trim);
    let lines = lines.take_while(|line| !["waiting", "no pod group waits"].contains(line));
    let headings = ["", "notes on the snapshot", "cycle 1"];
    lines.filter(|line| !headings.contains(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_gang_is_bound_when_all_fields_are_valid() {
    assert_snapshot!(replay_text_with("/pods/0/spec/nodeSelector", json!({})), @r"
    bind ns/a to n1
    bind ns/b to n1
    ");
}

#[test]
fn an_expression_that_cannot_be_evaluated_is_noted() {
    let of_class = |expression: &str| {
        let mut cluster = valid_cluster();
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
        replay_text(&cluster)
    };
    assert_snapshot!(of_class("device.driver =="), @r"
    Pod ns/a: ResourceClaim c: expression device.driver == (DeviceClass x) selects no device: it cannot be evaluated for device d of node n1: it is not a valid CEL expression
    no decisions
    ");
    assert_snapshot!(of_class("1 + 1"), @r"
    Pod ns/a: ResourceClaim c: expression 1 + 1 (DeviceClass x) selects no device: it cannot be evaluated for device d of node n1: its result is neither true nor false
    no decisions
    ");
}

#[test]
fn a_pod_with_a_mistyped_value_is_noted_and_not_bound() {
    let places = [
        ("/pods/0/spec", json!("str")),
        ("/pods/0/spec/schedulerName", json!({})),
        ("/pods/0/spec/nodeSelector", json!(["rack=r9"])),
        ("/pods/0/spec/tolerations", json!({})),
        ("/pods/0/spec/containers", json!({})),
        ("/pods/0/spec/containers/0/resources", json!("str")),
        ("/pods/0/metadata/namespace", json!({})),
    ];
    let rendered = places.map(|(place, value)| replay_text_with(place, value));
    assert_snapshot!(rendered.join("\n"), @r#"
    Pod ns/a: spec: got "str", expected an object; it is not placed
    no decisions
    Pod ns/a: spec.schedulerName: got {}, expected a string; it is not placed
    no decisions
    Pod ns/a: spec.nodeSelector: got ["rack=r9"], expected an object; it is not placed
    no decisions
    Pod ns/a: spec.tolerations: got {}, expected an array; it is not placed
    no decisions
    Pod ns/a: spec.containers: got {}, expected an array; it is not placed
    no decisions
    Pod ns/a: spec.containers[0].resources: got "str", expected an object; it is not placed
    no decisions
    rawObjects.pods[0].metadata.namespace: got {}, expected a name; it is ignored
    no decisions
    "#);
}

#[test]
fn mistyped_objects_that_a_pod_depends_on_are_noted_and_not_used() {
    let places = [
        ("/podGroups/0/spec", json!("str")),
        ("/podGroups/0/spec/queue", json!(["q"])),
        ("/podGroups/0/spec/topologyConstraint", json!("t/rack")),
        ("/queues/1/spec/parentQueue", json!(["top"])),
        ("/queues/0/spec/resources", json!([])),
        ("/topologies/0/spec", json!("str")),
        ("/nodes/0/metadata/labels", json!("str")),
    ];
    let rendered = places.map(|(place, value)| replay_text_with(place, value));
    assert_snapshot!(rendered.join("\n"), @r#"
    PodGroup ns/g: spec: got "str", expected an object; none of its pods is placed
    no decisions
    PodGroup ns/g: spec.queue: got ["q"], expected a string; none of its pods is placed
    no decisions
    PodGroup ns/g: spec.topologyConstraint: got "t/rack", expected an object; none of its pods is placed
    no decisions
    Queue q: spec.parentQueue: got ["top"], expected a string; no workloads run in it or its children
    no decisions
    Queue top: spec.resources: got [], expected an object; no workloads run in it or its children
    no decisions
    Topology t: spec: got "str", expected an object; it is ignored
    no decisions
    Node n1: metadata.labels: got "str", expected an object; no pods are placed on it
    bind ns/a to n2
    bind ns/b to n2
    "#);
}
