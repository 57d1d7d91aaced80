//! Admission and usage of `ResourceQuotas` in a running cluster.

use schedlab_api::object::map;

use crate::emulator::test_cluster::TestCluster;

const QUOTA: &str = "
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q}
    spec: {hard: {requests.nvidia.com/gpu: 2, count/pods: 9}}
";

fn used_quota(cluster: &TestCluster) -> String {
    let quota = cluster.get("resourcequotas", "q");
    map(&quota, &["status", "used"]).map(|used| format!("{used:?}")).unwrap_or_default()
}

fn job_with_pods(name: &str, pods: u32) -> String {
    format!(
        "
        apiVersion: batch/v1
        kind: Job
        metadata: {{name: {name}}}
        spec:
          parallelism: {pods}
          completions: {pods}
          template:
            metadata: {{annotations: {{schedlab.dev/run-time: 10s}}}}
            spec:
              restartPolicy: Never
              containers:
              - {{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}
        "
    )
}

#[tokio::test(start_paused = true)]
async fn a_new_quota_counts_existing_objects() {
    let cluster = TestCluster::new();
    cluster.apply(&job_with_pods("train", 2));
    cluster.settle().await;
    cluster.apply(QUOTA);
    cluster.settle().await;
    insta::assert_snapshot!(used_quota(&cluster), @r#"{"count/pods": String("2"), "requests.nvidia.com/gpu": String("2")}"#);
    cluster.edit("resourcequotas", "q", |quota| {
        quota["spec"]["hard"] = schedlab_api::json!({"pods": 5});
    });
    cluster.settle().await;
    insta::assert_snapshot!(cluster.get("resourcequotas", "q")["status"], @r#"{"hard":{"pods":"5"},"used":{"pods":"2"}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_job_above_its_quota_continues_as_its_pods_end() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(QUOTA);
    cluster.settle().await;
    cluster.apply(&job_with_pods("train", 3));
    cluster.settle().await;
    cluster.bind_all("n1");
    insta::assert_snapshot!(used_quota(&cluster), @r#"{"count/pods": String("2"), "requests.nvidia.com/gpu": String("2")}"#);
    assert_eq!(
        cluster.event_reasons("train").iter().filter(|reason| *reason == "FailedCreate").count(),
        1
    );
    cluster.bind_and_run(60).await;
    assert_eq!(cluster.status_count("jobs", "train", "succeeded"), 3);
    insta::assert_snapshot!(used_quota(&cluster), @r#"{"count/pods": String("3"), "requests.nvidia.com/gpu": String("0")}"#);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_releases_its_quota() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(QUOTA);
    cluster.create_pod_on_node("a", "n1", 2, "");
    cluster.settle().await;
    insta::assert_snapshot!(used_quota(&cluster), @r#"{"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}"#);
    cluster.delete("pods", "a");
    cluster.advance_secs(5).await;
    insta::assert_snapshot!(used_quota(&cluster), @r#"{"count/pods": String("0"), "requests.nvidia.com/gpu": String("0")}"#);
}

/// A pod on an unreachable node is never removed: no kubelet confirms its deletion.
#[tokio::test(start_paused = true)]
async fn a_pod_on_a_lost_node_counts_until_its_grace_is_over() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(QUOTA);
    cluster.create_pod_on_node("a", "n1", 2, "");
    cluster.settle().await;
    cluster.set_annotation("nodes", "n1", "schedlab.dev/down", "true");
    cluster.advance_secs(60).await;
    cluster.delete("pods", "a");
    let mut lines = Vec::new();
    for secs in [0, 30, 40] {
        cluster.advance_secs(secs).await;
        lines.push(used_quota(&cluster));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("0")}
    "#);
}
