//! Adoption and release of objects by controllers.

use crate::emulator::test_cluster::TestCluster;
use crate::store::Propagation;
use schedlab_api::{
    Value, json,
    object::{finalizers, name, number, set, uid},
};

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

/// A workload with two pods that was deleted with `Orphan` and created again.
async fn made_again(kind: &str, plural: &str) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.nodes(&["n1"]).await;
    cluster.apply(&workload(kind));
    cluster.bind_and_run(3).await;
    let before = cluster.names("pods");
    cluster.delete_with(plural, "web", Propagation::Orphan);
    cluster.settle().await;
    assert_eq!(cluster.names(plural), [""; 0]);
    assert_eq!(cluster.names("pods"), before);
    cluster.apply(&workload(kind));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.names("pods"), before);
    cluster
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
    let cluster = made_again("Deployment", "deployments").await;
    let web = cluster.get("deployments", "web");
    assert_eq!(generation(&web), (Some(1), Some(2)));
    assert_eq!(cluster.all("replicasets").len(), 1);
    assert_eq!(
        *owner(&cluster.all("replicasets")[0]),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": uid(&web),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    );
    cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(3)));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.in_phase("Running"), 3);
    cluster.delete("deployments", "web");
    cluster.secs(5).await;
    assert_eq!(cluster.names("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_matching_pods_and_releases_others() {
    let cluster = made_again("ReplicaSet", "replicasets").await;
    let set_uid = cluster.get("replicasets", "web");
    assert!(cluster.all("pods").iter().all(|pod| owner(pod)["uid"] == uid(&set_uid)));
    let first = cluster.names("pods")[0].clone();
    cluster.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("debug")));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.in_phase("Running"), 3);
    assert!(owner(&cluster.get("pods", &first)).is_null());
    // It matches again and is surplus.
    cluster.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("web")));
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.in_phase("Running"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_adopts_pods_of_its_name_and_their_revisions() {
    let cluster = made_again("StatefulSet", "statefulsets").await;
    let web = cluster.get("statefulsets", "web");
    assert_eq!(generation(&web), (Some(1), Some(2)));
    assert_eq!(cluster.all("controllerrevisions").len(), 1);
    for child in ["pods", "controllerrevisions"] {
        assert!(cluster.all(child).iter().all(|one| owner(one)["uid"] == uid(&web)), "{child}");
    }
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: other-0, labels: {app: web}}
        spec: {containers: [{name: c, image: i}]}
        ",
    );
    cluster.settle().await;
    assert!(owner(&cluster.get("pods", "other-0")).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_job_adopts_and_tracks_pods_of_a_selector_that_was_set_by_hand() {
    let cluster = TestCluster::new();
    cluster.nodes(&["n1"]).await;
    cluster.pod("spare", "n1", 1, "");
    cluster.edit("pods", "spare", |pod| set(pod, &["metadata", "labels"], json!({"app": "web"})));
    cluster.apply(&format!(
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
    cluster.settle().await;
    let spare = cluster.get("pods", "spare");
    assert_eq!(cluster.names("pods"), ["spare"]);
    assert_eq!((name(&spare), &owner(&spare)["kind"]), ("spare", &json!("Job")));
    assert_eq!(finalizers(&spare).collect::<Vec<_>>(), ["batch.kubernetes.io/job-tracking"]);
    assert_eq!(cluster.status("jobs", "train", "active"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_reports_why_its_replica_set_cannot_be_created() {
    let cluster = TestCluster::new();
    cluster.apply(
        "
        apiVersion: v1
        kind: ResourceQuota
        metadata: {name: none}
        spec: {hard: {count/replicasets.apps: '0'}}
        ",
    );
    cluster.settle().await;
    cluster.apply(&workload("Deployment"));
    cluster.settle().await;
    let web = cluster.get("deployments", "web");
    let progressing = &web["status"]["conditions"][0];
    assert_eq!(progressing["reason"], "ReplicaSetCreateError");
    let why = progressing["message"].as_str().unwrap();
    assert!(why.starts_with("Failed to create new replica set \"web-"), "{why}");
    assert!(why.contains("exceeded quota: none"), "{why}");
    assert_eq!(cluster.events("web"), ["ReplicaSetCreateError"]);
}
