//! The Job controller.

use crate::emulator::test_cluster::{TestCluster, train_job};
use schedlab_api::{
    json,
    object::{annotation, condition, label, list, set, text},
};

#[tokio::test(start_paused = true)]
async fn a_job_of_three_completions_at_parallelism_two_runs_two_at_a_time() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("parallelism: 2; completions: 3", "schedlab.dev/run-time: 10s"));
    cluster.bind_and_run(5).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
    cluster.bind_and_run(10).await;
    assert_eq!(
        (cluster.count_pods_in_phase("Running"), cluster.count_pods_in_phase("Succeeded")),
        (1, 2)
    );
    cluster.bind_and_run(12).await;
    assert_eq!(cluster.status_count("jobs", "train", "succeeded"), 3);
    assert!(cluster.has_true_condition("jobs", "train", "Complete"));
    assert!(cluster.has_true_condition("jobs", "train", "SuccessCriteriaMet"));
    assert_eq!(cluster.object_names_of("pods").len(), 3);
    assert!(
        cluster
            .objects_of("pods")
            .iter()
            .all(|pod| list(pod, &["metadata", "finalizers"]).is_empty())
    );
    let pod = &cluster.objects_of("pods")[0];
    assert_eq!(label(pod, "batch.kubernetes.io/job-name"), Some("train"));
    assert!(cluster.event_reasons("train").contains(&"Completed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_runs_every_index_once() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job(
        "parallelism: 2; completions: 4; completionMode: Indexed",
        "schedlab.dev/run-time: 3s",
    ));
    cluster.bind_and_run(20).await;
    let train = cluster.get("jobs", "train");
    assert_eq!(text(&train, &["status", "completedIndexes"]), "0-3");
    assert_eq!(condition(&train, "Complete"), Some("True"));
    let pods = cluster.objects_of("pods");
    let mut indexes: Vec<&str> = pods
        .iter()
        .map(|pod| annotation(pod, "batch.kubernetes.io/job-completion-index").unwrap())
        .collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1", "2", "3"]);
    assert_eq!(text(&pods[0], &["spec", "hostname"]), "train-0");
    let env = &pods[0]["spec"]["containers"][0]["env"][0];
    assert_eq!(env, &json!({"name": "JOB_COMPLETION_INDEX", "value": "0"}));
}

#[tokio::test(start_paused = true)]
async fn a_job_backs_off_after_failures_and_gives_up_at_its_limit() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job(
        "backoffLimit: 2",
        "schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '1'",
    ));
    cluster.bind_and_run(3).await;
    assert_eq!(
        (cluster.object_names_of("pods").len(), cluster.status_count("jobs", "train", "failed")),
        (1, 1)
    );
    cluster.bind_and_run(8).await;
    assert_eq!(cluster.object_names_of("pods").len(), 1);
    cluster.bind_and_run(4).await;
    assert_eq!(cluster.object_names_of("pods").len(), 2);
    cluster.bind_and_run(40).await;
    assert_eq!(cluster.status_count("jobs", "train", "failed"), 3);
    let train = cluster.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert!(cluster.event_reasons("train").contains(&"BackoffLimitExceeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_of_a_job_counts_as_failed_and_is_replaced() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("parallelism: 1", ""));
    cluster.bind_and_run(2).await;
    let first = cluster.object_names_of("pods")[0].clone();
    cluster.delete("pods", &first);
    cluster.bind_and_run(15).await;
    assert_eq!(cluster.status_count("jobs", "train", "failed"), 1);
    assert_eq!(cluster.count_pods_in_phase("Running"), 1);
    assert!(!cluster.object_names_of("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails_and_its_pods_go() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("activeDeadlineSeconds: 30; parallelism: 2; completions: 2", ""));
    cluster.bind_and_run(29).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 2);
    cluster.bind_and_run(4).await;
    let train = cluster.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert_eq!(cluster.object_names_of("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_and_its_pods_are_deleted_after_the_time_to_live() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("ttlSecondsAfterFinished: 60", "schedlab.dev/run-time: 1s"));
    cluster.bind_and_run(50).await;
    assert!(cluster.has_true_condition("jobs", "train", "Complete"));
    cluster.advance_secs(20).await;
    assert_eq!(
        (cluster.object_names_of("jobs"), cluster.object_names_of("pods")),
        (vec![], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("suspend: true", ""));
    cluster.bind_and_run(2).await;
    assert!(cluster.has_true_condition("jobs", "train", "Suspended"));
    assert_eq!(cluster.object_names_of("pods").len(), 0);
    cluster.edit("jobs", "train", |job| set(job, &["spec", "suspend"], json!(false)));
    cluster.bind_and_run(2).await;
    assert_eq!(cluster.count_pods_in_phase("Running"), 1);
    assert!(!cluster.has_true_condition("jobs", "train", "Suspended"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&train_job("parallelism: 2; completions: 2", ""));
    cluster.bind_and_run(2).await;
    cluster.delete("jobs", "train");
    cluster.advance_secs(3).await;
    assert_eq!(
        (cluster.object_names_of("jobs"), cluster.object_names_of("pods")),
        (vec![], vec![])
    );
}
