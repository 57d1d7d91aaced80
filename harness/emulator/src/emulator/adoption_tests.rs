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

/// A cluster with a workload of two pods that was deleted with `Orphan` and created again.
async fn recreate_workload_after_orphaning(kind: &str, plural: &str) -> TestCluster {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&workload(kind));
    cluster.bind_and_run(3).await;
    let before = cluster.object_names_of("pods");
    cluster.delete_with(plural, "web", Propagation::Orphan);
    cluster.settle().await;
    assert_eq!(cluster.object_names_of(plural), [""; 0]);
    assert_eq!(cluster.object_names_of("pods"), before);
    cluster.apply(&workload(kind));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.object_names_of("pods"), before);
    cluster
}

fn first_owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

fn generations(object: &Value) -> (Option<i64>, Option<i64>) {
    (
        number(object, &["status", "observedGeneration"]),
        number(object, &["status", "readyReplicas"]),
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_adopts_the_replica_set_that_an_orphaning_one_left() {
    let cluster = recreate_workload_after_orphaning("Deployment", "deployments").await;
    let web = cluster.get("deployments", "web");
    assert_eq!(generations(&web), (Some(1), Some(2)));
    assert_eq!(cluster.objects_of("replicasets").len(), 1);
    assert_eq!(
        *first_owner(&cluster.objects_of("replicasets")[0]),
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
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    cluster.delete("deployments", "web");
    cluster.advance_secs(5).await;
    assert_eq!(cluster.object_names_of("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_adopts_matching_pods_and_releases_others() {
    let cluster = recreate_workload_after_orphaning("ReplicaSet", "replicasets").await;
    let set_uid = cluster.get("replicasets", "web");
    assert!(cluster.objects_of("pods").iter().all(|pod| first_owner(pod)["uid"] == uid(&set_uid)));
    let first = cluster.object_names_of("pods")[0].clone();
    cluster.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("debug")));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    assert!(first_owner(&cluster.get("pods", &first)).is_null());
    // It matches again and is surplus.
    cluster.edit("pods", &first, |pod| set(pod, &["metadata", "labels", "app"], json!("web")));
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_adopts_pods_of_its_name_and_their_revisions() {
    let cluster = recreate_workload_after_orphaning("StatefulSet", "statefulsets").await;
    let web = cluster.get("statefulsets", "web");
    assert_eq!(generations(&web), (Some(1), Some(2)));
    assert_eq!(cluster.objects_of("controllerrevisions").len(), 1);
    for child in ["pods", "controllerrevisions"] {
        assert!(
            cluster.objects_of(child).iter().all(|one| first_owner(one)["uid"] == uid(&web)),
            "{child}"
        );
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
    assert!(first_owner(&cluster.get("pods", "other-0")).is_null());
}

#[tokio::test(start_paused = true)]
async fn a_job_adopts_and_tracks_pods_of_a_selector_that_was_set_by_hand() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("spare", "n1", 1, "");
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
    assert_eq!(cluster.object_names_of("pods"), ["spare"]);
    assert_eq!((name(&spare), &first_owner(&spare)["kind"]), ("spare", &json!("Job")));
    assert_eq!(finalizers(&spare).collect::<Vec<_>>(), ["batch.kubernetes.io/job-tracking"]);
    assert_eq!(cluster.status_count("jobs", "train", "active"), 1);
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
    assert_eq!(cluster.event_reasons("web"), ["ReplicaSetCreateError"]);
}
