//! What the Job controller makes of what users ask for.

use crate::emulator::lab::{Lab, job};
use crate::object::{annotation, condition, label, list, set, text};
use schedlab_json::json;

#[tokio::test(start_paused = true)]
async fn a_job_of_three_completions_at_parallelism_two_runs_two_at_a_time() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 2; completions: 3", "schedlab.dev/run-time: 10s"));
    lab.work(5).await;
    assert_eq!(lab.in_phase("Running"), 2);
    lab.work(10).await;
    assert_eq!((lab.in_phase("Running"), lab.in_phase("Succeeded")), (1, 2));
    lab.work(12).await;
    assert_eq!(lab.status("jobs", "train", "succeeded"), 3);
    assert!(lab.has("jobs", "train", "Complete"));
    assert!(lab.has("jobs", "train", "SuccessCriteriaMet"));
    assert_eq!(lab.names("pods").len(), 3);
    assert!(lab.all("pods").iter().all(|pod| list(pod, &["metadata", "finalizers"]).is_empty()));
    let pod = &lab.all("pods")[0];
    assert_eq!(label(pod, "batch.kubernetes.io/job-name"), Some("train"));
    assert!(lab.events("train").contains(&"Completed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_runs_every_index_once() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(
        "parallelism: 2; completions: 4; completionMode: Indexed",
        "schedlab.dev/run-time: 3s",
    ));
    lab.work(20).await;
    let train = lab.get("jobs", "train");
    assert_eq!(text(&train, &["status", "completedIndexes"]), "0-3");
    assert_eq!(condition(&train, "Complete"), Some("True"));
    let pods = lab.all("pods");
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
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("backoffLimit: 2", "schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '1'"));
    lab.work(3).await;
    assert_eq!((lab.names("pods").len(), lab.status("jobs", "train", "failed")), (1, 1));
    lab.work(8).await;
    assert_eq!(lab.names("pods").len(), 1);
    lab.work(4).await;
    assert_eq!(lab.names("pods").len(), 2);
    lab.work(40).await;
    assert_eq!(lab.status("jobs", "train", "failed"), 3);
    let train = lab.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert!(lab.events("train").contains(&"BackoffLimitExceeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_of_a_job_counts_as_failed_and_is_replaced() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 1", ""));
    lab.work(2).await;
    let first = lab.names("pods")[0].clone();
    lab.delete("pods", &first);
    lab.work(15).await;
    assert_eq!(lab.status("jobs", "train", "failed"), 1);
    assert_eq!(lab.in_phase("Running"), 1);
    assert!(!lab.names("pods").contains(&first));
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_fails_and_its_pods_go() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("activeDeadlineSeconds: 30; parallelism: 2; completions: 2", ""));
    lab.work(29).await;
    assert_eq!(lab.in_phase("Running"), 2);
    lab.work(4).await;
    let train = lab.get("jobs", "train");
    assert_eq!(condition(&train, "Failed"), Some("True"));
    assert_eq!(lab.names("pods"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_with_its_pods_when_its_time_to_live_is_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("ttlSecondsAfterFinished: 60", "schedlab.dev/run-time: 1s"));
    lab.work(50).await;
    assert!(lab.has("jobs", "train", "Complete"));
    lab.secs(20).await;
    assert_eq!((lab.names("jobs"), lab.names("pods")), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("suspend: true", ""));
    lab.work(2).await;
    assert!(lab.has("jobs", "train", "Suspended"));
    assert_eq!(lab.names("pods").len(), 0);
    lab.edit("jobs", "train", |job| set(job, &["spec", "suspend"], json!(false)));
    lab.work(2).await;
    assert_eq!(lab.in_phase("Running"), 1);
    assert!(!lab.has("jobs", "train", "Suspended"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job("parallelism: 2; completions: 2", ""));
    lab.work(2).await;
    lab.delete("jobs", "train");
    lab.secs(3).await;
    assert_eq!((lab.names("jobs"), lab.names("pods")), (vec![], vec![]));
}
