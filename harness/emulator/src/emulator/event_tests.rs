//! How often events say that something happened.

use crate::emulator::lab::Lab;
use crate::object::{number, set, text};
use schedlab_json::json;

/// The events of a reason: how often, from when to when.
fn told(lab: &Lab, reason: &str) -> Vec<String> {
    let events = lab.all("events");
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
async fn what_happens_again_is_counted_again() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db}
        spec:
          selector: {matchLabels: {app: db}}
          template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}
        ",
    );
    lab.work(5).await;
    lab.delete("pods", "db-0");
    lab.work(5).await;
    assert_eq!(
        told(&lab, "SuccessfulCreate"),
        ["2x 00:00:00Z..00:00:06Z Create Pod db-0 in StatefulSet db successful"]
    );
}

#[tokio::test(start_paused = true)]
async fn every_try_that_is_refused_counts() {
    let lab = Lab::new();
    lab.apply(
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
    lab.secs(8).await;
    let refused = told(&lab, "FailedCreate");
    assert_eq!(refused.len(), 1);
    assert!(refused[0].starts_with("4x 00:00:00Z..00:00:07Z Error creating: "), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_given_no_name_is_refused_by_its_stem() {
    let lab = Lab::new();
    lab.apply(
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
    lab.rest().await;
    let refused = told(&lab, "FailedCreate");
    let why = "Error creating: pods \"r-\" is forbidden: no PriorityClass with name none was found";
    assert!(refused.len() == 1 && refused[0].ends_with(why), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_every_look_finds_anew_is_said_once() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
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
        lab.edit("pods", "p", |pod| set(pod, &["metadata", "labels", "v"], json!(value)));
        lab.secs(1).await;
    }
    let failed = told(&lab, "Failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("1x "), "{failed:?}");
}
