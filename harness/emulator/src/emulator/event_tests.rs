//! Counts of repeated Events.

use crate::emulator::test_cluster::TestCluster;
use crate::store::EventKind;
use schedlab_api::{
    json,
    object::{number, set, text},
};

/// The Events with a reason as lines: count, first and last time, message.
fn recorded_events(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events = cluster.objects_of("events");
    let of = events.iter().filter(|event| text(event, &["reason"]) == reason);
    let line = of.map(|event| {
        let [first, last] = ["firstTimestamp", "lastTimestamp"]
            .map(|field| text(event, &[field]).trim_start_matches("2026-01-01T"));
        let count = number(event, &["count"]).unwrap();
        format!("{count}x {first}..{last} {}", text(event, &["message"]))
    });
    line.collect()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_increments_its_count() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db}
        spec:
          selector: {matchLabels: {app: db}}
          template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}
        ",
    );
    cluster.bind_and_run(5).await;
    cluster.delete("pods", "db-0");
    cluster.bind_and_run(5).await;
    assert_eq!(
        recorded_events(&cluster, "SuccessfulCreate"),
        ["2x 00:00:00Z..00:00:06Z Create Pod db-0 in StatefulSet db successful"]
    );
}

#[tokio::test(start_paused = true)]
async fn every_refused_attempt_increments_the_event_count() {
    let cluster = TestCluster::new();
    cluster.apply(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db}
        spec:
          selector: {matchLabels: {app: db}}
          template:
            metadata: {labels: {app: db}}
            spec: {priorityClassName: none, containers: [{name: c, image: i}]}
        ",
    );
    cluster.advance_secs(8).await;
    let refused = recorded_events(&cluster, "FailedCreate");
    assert_eq!(refused.len(), 1);
    assert!(refused[0].starts_with("4x 00:00:00Z..00:00:07Z Error creating: "), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_generated_name_shows_the_stem() {
    let cluster = TestCluster::new();
    cluster.apply(
        "
        apiVersion: apps/v1
        kind: ReplicaSet
        metadata: {name: r}
        spec:
          selector: {matchLabels: {app: r}}
          template:
            metadata: {labels: {app: r}}
            spec: {priorityClassName: none, containers: [{name: c, image: i}]}
        ",
    );
    cluster.settle().await;
    let refused = recorded_events(&cluster, "FailedCreate");
    let why = "Error creating: pods \"r-\" is forbidden: no PriorityClass with name none was found";
    assert!(refused.len() == 1 && refused[0].ends_with(why), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_persistent_condition_is_recorded_once() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          nodeName: n1
          containers: [{name: c, image: i, envFrom: [{configMapRef: {name: none}}]}]
        ",
    );
    for value in ["1", "2", "3"] {
        cluster.edit("pods", "p", |pod| set(pod, &["metadata", "labels", "v"], json!(value)));
        cluster.advance_secs(1).await;
    }
    let failed = recorded_events(&cluster, "Failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("1x "), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_is_removed_an_hour_after_its_last_write() {
    let cluster = TestCluster::new();
    let event = |name: &str| {
        format!(
            "
            apiVersion: v1
            kind: Event
            metadata: {{name: {name}}}
            involvedObject: {{kind: Pod, name: p, namespace: default}}
            reason: {name}
            "
        )
    };
    cluster.apply(&event("repeated"));
    cluster.apply(&event("single"));
    cluster.advance_secs(1800).await;
    cluster.edit("events", "default/repeated", |event| set(event, &["count"], 2.into()));
    cluster.advance_secs(1799).await;
    cluster.create_gpu_nodes(&["n1"]).await;
    assert_eq!(cluster.event_reasons("p"), ["repeated", "single"]);
    cluster.advance_secs(1).await;
    cluster.create_gpu_nodes(&["n2"]).await;
    assert_eq!(cluster.event_reasons("p"), ["repeated"]);
    cluster.advance_secs(1800).await;
    cluster.create_gpu_nodes(&["n3"]).await;
    assert_eq!(cluster.event_reasons("p"), [""; 0]);
    let removed = cluster.change_log();
    let removed = removed.iter().filter(|entry| entry.kind == EventKind::Deleted);
    let removed: Vec<(&str, &str)> =
        removed.map(|entry| (&*entry.key.name, &*entry.manager)).collect();
    assert_eq!(removed, [("single", "kube-apiserver"), ("repeated", "kube-apiserver")]);
}
