//! Rollouts and scaling of Deployments.

use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    json,
    object::{list, remove, set, text},
};

/// The YAML of a Deployment `web` with `replicas` replicas.
fn web_deployment(replicas: i64) -> String {
    format!(
        "
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: web}}
        spec:
          replicas: {replicas}
          selector: {{matchLabels: {{app: web}}}}
          template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
        "
    )
}

/// The status and reason of the `Progressing` condition of the Deployment `web`.
fn progressing_condition(cluster: &TestCluster) -> String {
    let web = cluster.get("deployments", "web");
    let all = list(&web, &["status", "conditions"]);
    let progressing = all.iter().find(|one| text(one, &["type"]) == "Progressing").unwrap();
    format!("{} {}", text(progressing, &["status"]), text(progressing, &["reason"]))
}

#[tokio::test(start_paused = true)]
async fn a_finished_rollout_does_not_restart_when_pods_change() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment(2));
    cluster.bind_and_run(2).await;
    assert_eq!(progressing_condition(&cluster), "True NewReplicaSetAvailable");
    cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(5)));
    cluster.advance_secs(700).await;
    assert_eq!(cluster.count_pods_in_phase("Pending"), 3);
    assert_eq!(progressing_condition(&cluster), "True NewReplicaSetAvailable");
    for pod in cluster.object_names_of("pods") {
        cluster.delete("pods", &pod);
    }
    cluster.advance_secs(700).await;
    assert_eq!(cluster.count_pods_in_phase("Pending"), 5);
    assert_eq!(progressing_condition(&cluster), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn a_new_template_starts_a_rollout_with_a_deadline() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&web_deployment(2));
    cluster.bind_and_run(2).await;
    cluster.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!("2"));
    });
    cluster.advance_secs(1).await;
    assert_eq!(progressing_condition(&cluster), "True ReplicaSetUpdated");
    cluster.advance_secs(700).await;
    assert_eq!(progressing_condition(&cluster), "False ProgressDeadlineExceeded");
    cluster.bind_and_run(3).await;
    assert_eq!(progressing_condition(&cluster), "True NewReplicaSetAvailable");
}

/// The desired replicas of the ReplicaSets, oldest first.
fn replica_set_sizes(cluster: &TestCluster) -> Vec<i64> {
    let mut sets = cluster.objects_of("replicasets");
    sets.sort_by_key(|set| text(set, &["metadata", "creationTimestamp"]).to_owned());
    sets.iter().map(|set| set["spec"]["replicas"].as_i64().unwrap()).collect()
}

fn change_template(cluster: &TestCluster, version: &str) {
    cluster.edit("deployments", "web", |web| {
        set(web, &["spec", "template", "metadata", "annotations", "v"], json!(version));
    });
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scaled_during_a_rollout_scales_proportionally() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        &(web_deployment(10) + "  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 2}}"),
    );
    cluster.bind_and_run(3).await;
    change_template(&cluster, "2");
    cluster.advance_secs(1).await;
    assert_eq!(replica_set_sizes(&cluster), [8, 5]);
    let scaled = async |replicas: i64| {
        cluster.edit("deployments", "web", |web| set(web, &["spec", "replicas"], json!(replicas)));
        cluster.advance_secs(1).await;
        replica_set_sizes(&cluster)
    };
    assert_eq!(scaled(15).await, [11, 7]);
    // A rollout would continue immediately.
    cluster.edit("deployments", "web", |web| set(web, &["spec", "paused"], json!(true)));
    assert_eq!(scaled(5).await, [5, 3]);
    assert_eq!(scaled(0).await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_replica_sets_are_cleaned_up_first() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        &(web_deployment(4) + "  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}"),
    );
    cluster.bind_and_run(3).await;
    change_template(&cluster, "2");
    cluster.advance_secs(1).await;
    assert_eq!(replica_set_sizes(&cluster), [4, 2]);
    cluster.bind_and_run(1).await;
    assert_eq!(replica_set_sizes(&cluster), [2, 4]);
    // With the first template again, the oldest ReplicaSet has the highest revision.
    cluster.edit("deployments", "web", |web| {
        remove(web, &["spec", "template", "metadata", "annotations"]);
    });
    cluster.advance_secs(1).await;
    assert_eq!(replica_set_sizes(&cluster), [4, 2]);
    change_template(&cluster, "3");
    cluster.advance_secs(1).await;
    assert_eq!(replica_set_sizes(&cluster), [2, 2, 2]);
    cluster.bind_and_run(1).await;
    assert_eq!(replica_set_sizes(&cluster), [0, 2, 4]);
}
