use schedlab_api::json;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::Resource;
use schedlab_emulator::{Emulator, Options};

use super::*;
use crate::upgrade::monitor::InvariantMonitor;
use schedlab_clusters::api::Api;
use schedlab_clusters::scheduler_objects::install_scheduler_objects;

const POD: &str = "/api/v1/namespaces/default/pods/a";
const NODE: &str = "/api/v1/nodes/n";
const GROUP: &str = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g";

/// Violations when a version makes these writes on a cluster with a node, a running pod and its
/// group.
async fn broken_by(writes: &[(&str, Value)]) -> Vec<String> {
    let emulator =
        Emulator::start(Options::with_clock(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
    let api = Api::new(emulator.client());
    install_scheduler_objects(&api).await.unwrap();
    let create = |(group, plural): (&str, &str), object: Value| {
        emulator.create(&Resource::new(group, plural), object).unwrap();
    };
    let room = json!({"nvidia.com/gpu": "8", "cpu": "8", "memory": "8Gi", "pods": "9"});
    create(
        ("", "nodes"),
        json!({"metadata": {"name": "n", "labels": {"zone": "a"}},
               "status": {"capacity": room, "allocatable": room}}),
    );
    let uid = api.get(NODE).await.unwrap()["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    create(
        ("scheduling.run.ai", "podgroups"),
        json!({"metadata": {"name": "g", "namespace": "default", "labels": {"team": "x"},
                            "annotations": {"kai.scheduler/last-start-timestamp": "1"},
                            "ownerReferences": [owner]},
               "spec": {"minMember": 1, "queue": "q"}}),
    );
    let used = json!({"resourcesStatus": {"allocated": {"nvidia.com/gpu": 1}},
                      "schedulingConditions": [{"type": "UnschedulableOnNodePool"}]});
    api.merge_patch(&format!("{GROUP}/status"), &json!({"status": used})).await.unwrap();
    create(
        ("", "pods"),
        json!({"metadata": {"name": "a", "namespace": "default",
                            "annotations": {"pod-group-name": "g"}},
               "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}),
    );
    let running = json!({"status": {"phase": "Running"}});
    api.merge_patch(&format!("{POD}/status"), &running).await.unwrap();
    let mut watching = InvariantMonitor::open(&api).await.unwrap();
    watching.wait_until_quiet().await.unwrap();
    watching.clear_violations();
    let before = watching.capture();
    for (path, change) in writes {
        api.merge_patch(path, change).await.unwrap();
    }
    watching.wait_until_quiet().await.unwrap();
    let checks = check_all(&before, &watching.capture(), watching.violations());
    let claim = |check: InvariantCheck| {
        let claim = check.claim;
        check.violations.into_iter().map(move |broken| format!("{claim}: {broken}"))
    };
    checks.into_iter().flat_map(claim).collect()
}

fn metadata(field: &str, value: &Value) -> Value {
    json!({"metadata": {field: value}})
}

#[tokio::test(start_paused = true)]
async fn a_version_that_writes_nothing_breaks_nothing() {
    assert_eq!(broken_by(&[]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_gets_no_finalizer() {
    let touched = "no running pod is touched: default/a:";
    let finalizers = metadata("finalizers", &json!(["x.y/z"]));
    let broken = broken_by(&[(POD, finalizers)]).await;
    assert_eq!(broken, [format!(r#"{touched} finalizers is new: ["x.y/z"]"#)]);
}

#[tokio::test(start_paused = true)]
async fn a_version_may_add_ungrouped_pods_to_a_group() {
    let grouped = json!({"kai.scheduler/subgroup-name": "s"});
    assert_eq!(broken_by(&[(POD, metadata("labels", &grouped))]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_group_keeps_labels_annotations_and_owners() {
    let lost = "objects of the old version still load: pod group default/g:";
    let fields = ["labels", "annotations", "ownerReferences"];
    let writes = fields.map(|field| (GROUP, metadata(field, &Value::Null)));
    let broken = broken_by(&writes).await;
    let [times, team, owners] = &*broken else { panic!("{broken:#?}") };
    let start = "annotation kai.scheduler/last-start-timestamp";
    assert_eq!(*times, format!(r#"{lost} {start} was "1" and is gone"#));
    assert_eq!(*team, format!(r#"{lost} label team was "x" and is gone"#));
    assert!(owners.starts_with(&format!("{lost} ownerReferences was ")), "{owners}");
    let held = broken_by(&[(GROUP, metadata("finalizers", &json!(["x.y/z"])))]).await;
    assert_eq!(held, [format!(r#"{lost} finalizers is new: ["x.y/z"]"#)]);
}

#[tokio::test(start_paused = true)]
async fn a_version_may_update_timestamps_and_add_scheduler_annotations() {
    let notes = json!({"kai.scheduler/last-start-timestamp": "2", "kai.scheduler/new": "1"});
    assert_eq!(broken_by(&[(GROUP, metadata("annotations", &notes))]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_group_keeps_its_status_except_pending_conditions() {
    let status = format!("{GROUP}/status");
    let part = |part: &str| json!({"status": {part: null}});
    let lost = "objects of the old version still load: pod group default/g lost status:";
    let broken = broken_by(&[(&status, json!({"status": null}))]).await;
    assert_eq!(broken, [format!("{lost} resourcesStatus, schedulingConditions")]);
    let broken = broken_by(&[(&status, part("resourcesStatus"))]).await;
    assert_eq!(broken, [format!("{lost} resourcesStatus")]);
    assert_eq!(broken_by(&[(&status, part("schedulingConditions"))]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_stays_schedulable_and_keeps_its_labels() {
    let left = "nodes are unchanged: node n:";
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let broken = broken_by(&[(NODE, taint("mine"))]).await;
    assert_eq!(broken, [format!(r#"{left} taint mine:NoSchedule is new: """#)]);
    let broken = broken_by(&[(NODE, json!({"spec": {"unschedulable": true}}))]).await;
    assert_eq!(broken, [format!("{left} unschedulable is new: true")]);
    let broken = broken_by(&[(NODE, metadata("labels", &json!({"zone": null, "b": "x"})))]).await;
    let gone = format!(r#"{left} label zone was "a" and is gone"#);
    assert_eq!(broken, [gone, format!(r#"{left} label b is new: "x""#)]);
}

#[tokio::test(start_paused = true)]
async fn node_conditions_and_heartbeats_may_change() {
    let beat = metadata("annotations", &json!({"beat": "1"}));
    let lost = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let writes = [(NODE, beat), (NODE, json!({"spec": {"taints": [lost]}}))];
    assert_eq!(broken_by(&writes).await, [""; 0]);
}
