//! Resource quotas in a cluster that lives: who is let in, and what is counted when.

use crate::emulator::lab::Lab;
use crate::object::map;

const QUOTA: &str = "
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q}
    spec: {hard: {requests.nvidia.com/gpu: 2, count/pods: 9}}
";

fn used(lab: &Lab) -> String {
    let quota = lab.get("resourcequotas", "q");
    map(&quota, &["status", "used"]).map(|used| format!("{used:?}")).unwrap_or_default()
}

fn job(name: &str, pods: u32) -> String {
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
async fn a_quota_counts_what_is_there_when_it_comes() {
    let lab = Lab::new();
    lab.apply(&job("train", 2));
    lab.rest().await;
    lab.apply(QUOTA);
    lab.rest().await;
    insta::assert_snapshot!(used(&lab), @r#"{"count/pods": String("2"), "requests.nvidia.com/gpu": String("2")}"#);
    lab.edit("resourcequotas", "q", |quota| {
        quota["spec"]["hard"] = schedlab_json::json!({"pods": 5});
    });
    lab.rest().await;
    insta::assert_snapshot!(lab.get("resourcequotas", "q")["status"], @r#"{"hard":{"pods":"5"},"used":{"pods":"2"}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_job_above_its_quota_goes_on_as_its_pods_end() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(QUOTA);
    lab.rest().await;
    lab.apply(&job("train", 3));
    lab.rest().await;
    lab.bind_all("n1");
    insta::assert_snapshot!(used(&lab), @r#"{"count/pods": String("2"), "requests.nvidia.com/gpu": String("2")}"#);
    assert_eq!(lab.events("train").iter().filter(|said| *said == "FailedCreate").count(), 1);
    lab.work(60).await;
    assert_eq!(lab.status("jobs", "train", "succeeded"), 3);
    insta::assert_snapshot!(used(&lab), @r#"{"count/pods": String("3"), "requests.nvidia.com/gpu": String("0")}"#);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_gives_its_part_back() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(QUOTA);
    lab.pod("a", "n1", 2, "");
    lab.rest().await;
    insta::assert_snapshot!(used(&lab), @r#"{"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}"#);
    lab.delete("pods", "a");
    lab.secs(5).await;
    insta::assert_snapshot!(used(&lab), @r#"{"count/pods": String("0"), "requests.nvidia.com/gpu": String("0")}"#);
}

/// A node that is lost never says that a pod is gone.
#[tokio::test(start_paused = true)]
async fn a_pod_on_a_lost_node_counts_until_its_grace_is_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(QUOTA);
    lab.pod("a", "n1", 2, "");
    lab.rest().await;
    lab.annotate("nodes", "n1", "schedlab.dev/down", "true");
    lab.secs(60).await;
    lab.delete("pods", "a");
    let mut told = Vec::new();
    for secs in [0, 30, 40] {
        lab.secs(secs).await;
        told.push(used(&lab));
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("2")}
    {"count/pods": String("1"), "requests.nvidia.com/gpu": String("0")}
    "#);
}
