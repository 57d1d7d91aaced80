//! The Deployment, ReplicaSet and StatefulSet controllers.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{annotation, condition, label, name, set},
};

const TEMPLATE: &str =
    "{metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}";

fn web_deployment(name: &str, spec_fields: &str) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: {name}}}
        spec: {{selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}, {spec_fields}}}
        "
    )
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_its_replicas_through_a_replica_set() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment("web", "replicas: 3"));
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    let sets = cluster.objects_of("replicasets");
    assert_eq!(sets.len(), 1);
    let hash = label(&sets[0], "pod-template-hash").unwrap();
    assert_eq!(name(&sets[0]), format!("web-{hash}"));
    for pod in cluster.objects_of("pods") {
        assert!(name(&pod).starts_with(&format!("web-{hash}-")));
        assert_eq!(label(&pod, "pod-template-hash"), Some(hash));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
    }
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(cluster.status_count("deployments", "web", field), 3, "{field}");
    }
    let web = cluster.get("deployments", "web");
    assert_eq!(condition(&web, "Available"), Some("True"));
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_a_pod_that_is_deleted() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment("web", "replicas: 2"));
    cluster.bind_and_run(2).await;
    let first = cluster.object_names_of("pods")[0].clone();
    cluster.delete("pods", &first);
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
    assert!(!cluster.object_names_of("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_up_and_down() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment("web", "replicas: 2"));
    cluster.bind_and_run(2).await;
    for replicas in [5, 1, 0] {
        cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(replicas)));
        cluster.bind_and_run(3).await;
        assert_eq!(cluster.object_names_of("pods").len(), replicas);
        assert_eq!(
            cluster.status_count("deployments", "web", "replicas"),
            i64::try_from(replicas).unwrap()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_deletes_pending_pods_first() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment("web", "replicas: 2"));
    cluster.bind_and_run(1).await;
    let running = cluster.object_names_of("pods");
    cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(4)));
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods").len(), 4);
    cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(2)));
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), running);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_leaves_its_bounds() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment(
        "web",
        "replicas: 4, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}",
    ));
    cluster.bind_and_run(3).await;
    cluster.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    for _ in 0..30 {
        cluster.bind_and_run(1).await;
        let running = cluster.count_pods_in_phase("Running");
        assert!(running >= 3, "{running}");
        let all = running + cluster.count_pods_in_phase("Pending");
        assert!(all <= 5, "{all}");
    }
    assert_eq!(cluster.status_count("deployments", "web", "updatedReplicas"), 4);
    let pods = cluster.objects_of("pods");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| annotation(pod, "v") == Some("2")));
    let web = cluster.get("deployments", "web");
    assert_eq!(annotation(&web, "deployment.kubernetes.io/revision"), Some("2"));
    assert_eq!(cluster.object_names_of("replicasets").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_recreate_deployment_ends_all_old_pods_first() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment("web", "replicas: 3, strategy: {type: Recreate}"));
    cluster.bind_and_run(2).await;
    let old = cluster.object_names_of("pods");
    cluster.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), old);
    cluster.bind_and_run(4).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    assert!(cluster.object_names_of("pods").iter().all(|pod| !old.contains(pod)));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_rollout_times_out_at_its_progress_deadline() {
    let cluster = TestCluster::new();
    cluster.apply(&web_deployment("web", "replicas: 1, progressDeadlineSeconds: 60"));
    cluster.advance_secs(59).await;
    assert!(cluster.has_true_condition("deployments", "web", "Progressing"));
    cluster.advance_secs(2).await;
    let web = cluster.get("deployments", "web");
    assert_eq!(condition(&web, "Progressing"), Some("False"));
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_its_pods_in_order_and_stops_them_in_reverse() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 3, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0"]);
    cluster.bind_and_run(1).await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0", "db-1"]);
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
    assert_eq!(label(&cluster.get("pods", "db-2"), "apps.kubernetes.io/pod-index"), Some("2"));
    cluster.edit("statefulsets", "db", |db| set(db, &["spec", "replicas"], json!(1)));
    cluster.advance_secs(1).await;
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0", "db-1"]);
    cluster.advance_secs(2).await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_parallel_stateful_set_starts_all_at_once_and_keeps_names() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec:
          serviceName: db
          replicas: 3
          podManagementPolicy: Parallel
          selector: {{matchLabels: {{app: web}}}}
          template: {TEMPLATE}
        "
    ));
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0", "db-1", "db-2"]);
    cluster.bind_and_run(1).await;
    cluster.delete("pods", "db-1");
    cluster.bind_and_run(3).await;
    assert_eq!(cluster.object_names_of("pods"), ["db-0", "db-1", "db-2"]);
    assert_eq!(cluster.count_pods_in_phase("Running"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_replaces_outdated_pods_from_the_last() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&format!(
        "
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: db}}
        spec: {{serviceName: db, replicas: 2, selector: {{matchLabels: {{app: web}}}}, template: {TEMPLATE}}}
        "
    ));
    cluster.bind_and_run(3).await;
    cluster.edit("statefulsets", "db", |db| {
        set(db, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    cluster.settle().await;
    assert!(schedlab_api::object::is_deleting(&cluster.get("pods", "db-1")));
    assert!(!schedlab_api::object::is_deleting(&cluster.get("pods", "db-0")));
    cluster.bind_and_run(8).await;
    assert!(cluster.objects_of("pods").iter().all(|pod| annotation(pod, "v") == Some("2")));
    assert_eq!(cluster.status_count("statefulsets", "db", "updatedReplicas"), 2);
}
