//! What loses its controller and matches the selector of another gets that one.

use crate::emulator::lab::Lab;
use crate::object::{finalizers, name, number, set, uid};
use crate::store::Propagation;
use schedlab_json::{Value, json};

const TEMPLATE: &str =
    "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";

fn workload(kind: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: {kind}
        metadata: {{name: web}}
        spec: {{replicas: 2, selector: {{matchLabels: {{app: web}}}}, {TEMPLATE}}}
        "
    )
}

/// A workload of two pods that was deleted without them, and made again.
async fn made_again(kind: &str, plural: &str) -> Lab {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&workload(kind));
    lab.work(3).await;
    let before = lab.names("pods");
    lab.delete_with(plural, "web", Propagation::Orphan);
    lab.rest().await;
    assert_eq!(lab.names(plural), [""; 0]);
    assert_eq!(lab.names("pods"), before);
    lab.apply(&workload(kind));
    lab.work(2).await;
    assert_eq!(lab.names("pods"), before);
    lab
}

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

fn generation(object: &Value) -> (Option<i64>, Option<i64>) {
    (
        number(object, &["status", "observedGeneration"]),
        number(object, &["status", "readyReplicas"]),
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_adopts_the_replica_set_that_an_orphaning_one_left() {
    let lab = made_again("Deployment", "deployments").await;
    let web = lab.get("deployments", "web");
    assert_eq!(generation(&web), (Some(1), Some(2)));
    assert_eq!(lab.all("replicasets").len(), 1);
    assert_eq!(
        *owner(&lab.all("replicasets")[0]),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": uid(&web),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    );
    lab.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(3)));
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 3);
    lab.delete("deployments", "web");
    lab.secs(5).await;
    assert_eq!(lab.names("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_pods_and_lets_go_of_those_that_match_no_more() {
    let lab = made_again("ReplicaSet", "replicasets").await;
    let set_uid = lab.get("replicasets", "web");
    assert!(lab.all("pods").iter().all(|pod| owner(pod)["uid"] == uid(&set_uid)));
    let first = lab.names("pods")[0].clone();
    lab.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("debug")));
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 3);
    assert!(owner(&lab.get("pods", &first)).is_null());
    // Back among those that match, it is one too many.
    lab.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("web")));
    lab.work(3).await;
    assert_eq!(lab.in_phase("Running"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_adopts_the_pods_that_bear_its_name_and_their_history() {
    let lab = made_again("StatefulSet", "statefulsets").await;
    let web = lab.get("statefulsets", "web");
    assert_eq!(generation(&web), (Some(1), Some(2)));
    assert_eq!(lab.all("controllerrevisions").len(), 1);
    for child in ["pods", "controllerrevisions"] {
        assert!(lab.all(child).iter().all(|one| owner(one)["uid"] == uid(&web)), "{child}");
    }
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: other-0, labels: {app: web}}
        spec: {containers: [{name: c, image: i}]}
        ",
    );
    lab.rest().await;
    assert!(owner(&lab.get("pods", "other-0")).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_job_adopts_and_tracks_pods_of_a_selector_that_was_set_by_hand() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("spare", "n1", 1, "");
    lab.edit("pods", "spare", |pod| set(pod, &["metadata", "labels"], json!({"app": "web"})));
    lab.apply(&format!(
        "
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: train}}
        spec:
          manualSelector: true
          selector: {{matchLabels: {{app: web}}}}
          {}
        ",
        TEMPLATE.replace("{containers", "{restartPolicy: Never, containers")
    ));
    lab.rest().await;
    let spare = lab.get("pods", "spare");
    assert_eq!(lab.names("pods"), ["spare"]);
    assert_eq!((name(&spare), &owner(&spare)["kind"]), ("spare", &json!("Job")));
    assert_eq!(finalizers(&spare).collect::<Vec<_>>(), ["batch.kubernetes.io/job-tracking"]);
    assert_eq!(lab.status("jobs", "train", "active"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_says_why_its_replica_set_cannot_be_made() {
    let lab = Lab::new();
    lab.apply(
        "
        apiVersion: v1
        kind: ResourceQuota
        metadata: {name: none}
        spec: {hard: {count/replicasets.apps: '0'}}
        ",
    );
    lab.rest().await;
    lab.apply(&workload("Deployment"));
    lab.rest().await;
    let web = lab.get("deployments", "web");
    let progressing = &web["status"]["conditions"][0];
    assert_eq!(progressing["reason"], "ReplicaSetCreateError");
    let why = progressing["message"].as_str().unwrap();
    assert!(why.starts_with("Failed to create new replica set \"web-"), "{why}");
    assert!(why.contains("exceeded quota: none"), "{why}");
    assert_eq!(lab.events("web"), ["ReplicaSetCreateError"]);
}
