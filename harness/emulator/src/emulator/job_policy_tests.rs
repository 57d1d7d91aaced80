//! Failure policies, index backoff limits and success policies of Jobs.

use schedlab_api::object::{annotation, condition, is_deleting, name, text};

use crate::emulator::test_cluster::{self, TestCluster};
use crate::reconcile::key_of;
use crate::store::Op;

/// The YAML of a Job `train` whose pods run for two seconds and exit with `code`.
fn job_exiting_with(code: i32, spec: &str) -> String {
    test_cluster::train_job(
        spec,
        &format!("schedlab.dev/run-time: 2s, schedlab.dev/exit-code: '{code}'"),
    )
}

fn exit_code_policy(action: &str, code: i32) -> String {
    format!(
        "podFailurePolicy: {{rules: [{{action: {action}, onExitCodes: {{operator: In, values: [{code}]}}}}]}}"
    )
}

impl TestCluster {
    /// The counts of failed and succeeded pods of the Job `train`, and its final condition.
    fn job_counts_and_end(&self) -> String {
        let train = self.get("jobs", "train");
        let count = |field| self.status_count("jobs", "train", field);
        let mut ends = ["Complete", "Failed"].into_iter();
        let end = ends.find(|end| condition(&train, end) == Some("True")).unwrap_or("-");
        format!("{} failed, {} succeeded, {end}", count("failed"), count("succeeded"))
    }

    /// The reason and message of a condition of the Job `train`.
    fn condition_reason_and_message(&self, kind: &str) -> String {
        let train = self.get("jobs", "train");
        let all = schedlab_api::object::list(&train, &["status", "conditions"]);
        let found = all.iter().find(|one| text(one, &["type"]) == kind).expect("the condition");
        format!("{}: {}", text(found, &["reason"]), text(found, &["message"]))
    }

    fn evict_pod(&self, pod: &str) {
        let pod = self.get("pods", pod);
        let eviction = schedlab_api::json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name(&pod), "namespace": "default"},
        });
        let key = key_of(&self.resource("pods"), &pod);
        self.write(key, Op::Evict(eviction)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fail_job_exit_code_ends_the_job_without_retry() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&job_exiting_with(
        3,
        &format!("parallelism: 2; completions: 2; {}", exit_code_policy("FailJob", 3)),
    ));
    cluster.bind_and_run(8).await;
    assert_eq!(cluster.job_counts_and_end(), "2 failed, 0 succeeded, Failed");
    let pod = cluster.object_names_of("pods")[0].clone();
    let expected = format!(
        "PodFailurePolicy: Container c for pod default/{pod} failed with exit code 3 matching \
         FailJob rule at index 0"
    );
    assert_eq!(cluster.condition_reason_and_message("Failed"), expected);
    assert_eq!(cluster.condition_reason_and_message("FailureTarget"), expected);
    assert!(cluster.event_reasons("train").contains(&"PodFailurePolicy".to_owned()));
    assert_eq!(cluster.count_pods_in_phase("Running"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_ignored_exit_code_does_not_count_towards_the_backoff_limit() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&job_exiting_with(
        3,
        &format!("backoffLimit: 0; {}", exit_code_policy("Ignore", 3)),
    ));
    cluster.bind_and_run(40).await;
    assert_eq!(cluster.job_counts_and_end(), "0 failed, 0 succeeded, -");
    assert!(cluster.object_names_of("pods").len() > 1, "the pod is retried");
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_without_a_rule_counts() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&job_exiting_with(
        4,
        &format!("backoffLimit: 0; {}", exit_code_policy("Ignore", 3)),
    ));
    cluster.bind_and_run(6).await;
    assert_eq!(cluster.job_counts_and_end(), "1 failed, 0 succeeded, Failed");
    assert_eq!(
        cluster.condition_reason_and_message("Failed"),
        "BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
}

const IGNORE_DISRUPTIONS: &str =
    "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_does_not_count_when_disruptions_are_ignored() {
    for (policy, expected) in [
        (IGNORE_DISRUPTIONS, "0 failed, 0 succeeded, -"),
        ("podReplacementPolicy: Failed", "1 failed, 0 succeeded, Failed"),
    ] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        cluster.apply(
            &job_exiting_with(0, &format!("backoffLimit: 0; {policy}"))
                .replace("run-time: 2s", "run-time: 1h"),
        );
        cluster.bind_and_run(3).await;
        let first = cluster.object_names_of("pods")[0].clone();
        cluster.evict_pod(&first);
        cluster.bind_and_run(20).await;
        assert_eq!(cluster.job_counts_and_end(), expected, "{policy}");
        let goes_on = usize::from(policy == IGNORE_DISRUPTIONS);
        assert_eq!(cluster.count_pods_in_phase("Running"), goes_on, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn replacement_policy_failed_waits_for_the_pod_to_end() {
    for (policy, replaced) in [("TerminatingOrFailed", true), ("Failed", false)] {
        let cluster = TestCluster::new();
        cluster.create_gpu_nodes(&["n1"]).await;
        let slow = "run-time: 1h, schedlab.dev/termination: 20s";
        let spec = format!("podReplacementPolicy: {policy}");
        cluster.apply(&job_exiting_with(0, &spec).replace("run-time: 2s", slow));
        cluster.bind_and_run(3).await;
        let first = cluster.object_names_of("pods")[0].clone();
        cluster.delete("pods", &first);
        cluster.bind_and_run(15).await;
        let others = cluster.objects_of("pods").iter().filter(|pod| !is_deleting(pod)).count();
        assert_eq!(others, usize::from(replaced), "{policy}");
        cluster.bind_and_run(30).await;
        assert_eq!(cluster.count_pods_in_phase("Running"), 1, "{policy}");
        assert_eq!(cluster.job_counts_and_end(), "1 failed, 0 succeeded, -", "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_ran_is_replaced_too() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(&job_exiting_with(0, "podReplacementPolicy: Failed"));
    cluster.settle().await;
    let first = cluster.object_names_of("pods")[0].clone();
    cluster.delete("pods", &first);
    cluster.advance_secs(60).await;
    assert!(!cluster.object_names_of("pods").contains(&first), "{}", cluster.pod_lines());
    assert_eq!(cluster.object_names_of("pods").len(), 1);
    assert_eq!(cluster.job_counts_and_end(), "1 failed, 0 succeeded, -");
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_limit() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let spec = "parallelism: 2; completions: 2; completionMode: Indexed; backoffLimitPerIndex: 1";
    cluster.apply(&job_exiting_with(1, spec));
    cluster.bind_and_run(8).await;
    assert_eq!(cluster.job_counts_and_end(), "0 failed, 0 succeeded, -");
    cluster.bind_and_run(8).await;
    let counts: Vec<String> = cluster
        .objects_of("pods")
        .iter()
        .map(|pod| {
            let of = |key: &str| annotation(pod, &format!("batch.kubernetes.io/{key}"));
            let index = of("job-completion-index").unwrap();
            format!("{index}: {}", of("job-index-failure-count").unwrap())
        })
        .collect();
    assert_eq!(counts.len(), 4, "{counts:?}");
    for one in ["0: 0", "0: 1", "1: 0", "1: 1"] {
        assert!(counts.contains(&one.to_owned()), "{counts:?}");
    }
    cluster.bind_and_run(10).await;
    assert_eq!(cluster.job_counts_and_end(), "4 failed, 0 succeeded, Failed");
    assert_eq!(
        cluster.condition_reason_and_message("Failed"),
        "FailedIndexes: Job has failed indexes"
    );
    assert_eq!(text(&cluster.get("jobs", "train"), &["status", "failedIndexes"]), "0,1");
}

#[tokio::test(start_paused = true)]
async fn fail_index_fails_the_index_and_max_failed_indexes_the_job() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let policy = exit_code_policy("FailIndex", 7);
    let spec = format!(
        "parallelism: 1; completions: 4; completionMode: Indexed; backoffLimitPerIndex: 5; \
         maxFailedIndexes: 1; {policy}"
    );
    cluster.apply(&job_exiting_with(7, &spec));
    cluster.bind_and_run(4).await;
    assert_eq!(text(&cluster.get("jobs", "train"), &["status", "failedIndexes"]), "0");
    cluster.bind_and_run(10).await;
    assert_eq!(cluster.job_counts_and_end(), "2 failed, 0 succeeded, Failed");
    assert_eq!(
        cluster.condition_reason_and_message("Failed"),
        "MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_a_job_before_all_its_indexes_are_done() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let spec = "parallelism: 1; completions: 4; completionMode: Indexed; \
                successPolicy: {rules: [{succeededIndexes: '3'}, {succeededCount: 2}]}";
    cluster.apply(&job_exiting_with(0, spec));
    cluster.bind_and_run(20).await;
    assert_eq!(cluster.job_counts_and_end(), "0 failed, 2 succeeded, Complete");
    assert_eq!(
        cluster.condition_reason_and_message("SuccessCriteriaMet"),
        "SuccessPolicy: Matched rules at index 1"
    );
}
