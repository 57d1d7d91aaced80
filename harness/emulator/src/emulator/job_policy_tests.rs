//! What a Job makes of its failed pods: failure policy, limits per index, success policy.

use crate::actors::key_of;
use crate::emulator::lab::{self, Lab};
use crate::object::{annotation, condition, is_deleting, name, text};
use crate::store::Op;

/// A Job `train` whose pods run for two seconds and end with this code.
fn job(code: i32, spec: &str) -> String {
    lab::job(spec, &format!("schedlab.dev/run-time: 2s, schedlab.dev/exit-code: '{code}'"))
}

fn on_code(action: &str, code: i32) -> String {
    format!(
        "podFailurePolicy: {{rules: [{{action: {action}, onExitCodes: {{operator: In, values: [{code}]}}}}]}}"
    )
}

impl Lab {
    /// The job's counts and how it stands.
    fn train(&self) -> String {
        let train = self.get("jobs", "train");
        let count = |field| self.status("jobs", "train", field);
        let mut ends = ["Complete", "Failed"].into_iter();
        let end = ends.find(|end| condition(&train, end) == Some("True")).unwrap_or("-");
        format!("{} failed, {} succeeded, {end}", count("failed"), count("succeeded"))
    }

    /// What the job says of an end that is settled.
    fn why(&self, kind: &str) -> String {
        let train = self.get("jobs", "train");
        let all = crate::object::list(&train, &["status", "conditions"]);
        let found = all.iter().find(|one| text(one, &["type"]) == kind).expect("the condition");
        format!("{}: {}", text(found, &["reason"]), text(found, &["message"]))
    }

    fn evict(&self, pod: &str) {
        let pod = self.get("pods", pod);
        let eviction = schedlab_json::json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name(&pod), "namespace": "default"},
        });
        let key = key_of(&self.resource("pods"), &pod);
        self.write(key, Op::Evict(eviction)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_that_fails_the_job_leaves_no_further_try() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(3, &format!("parallelism: 2; completions: 2; {}", on_code("FailJob", 3))));
    lab.work(8).await;
    assert_eq!(lab.train(), "2 failed, 0 succeeded, Failed");
    let pod = lab.names("pods")[0].clone();
    let expected = format!(
        "PodFailurePolicy: Container c for pod default/{pod} failed with exit code 3 matching \
         FailJob rule at index 0"
    );
    assert_eq!(lab.why("Failed"), expected);
    assert_eq!(lab.why("FailureTarget"), expected);
    assert!(lab.events("train").contains(&"PodFailurePolicy".to_owned()));
    assert_eq!(lab.in_phase("Running"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_that_is_ignored_counts_towards_no_limit() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(3, &format!("backoffLimit: 0; {}", on_code("Ignore", 3))));
    lab.work(40).await;
    assert_eq!(lab.train(), "0 failed, 0 succeeded, -");
    assert!(lab.names("pods").len() > 1, "it is tried again");
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_that_no_rule_names_counts() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(4, &format!("backoffLimit: 0; {}", on_code("Ignore", 3))));
    lab.work(6).await;
    assert_eq!(lab.train(), "1 failed, 0 succeeded, Failed");
    assert_eq!(
        lab.why("Failed"),
        "BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
}

const DISRUPTIONS: &str =
    "podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}";

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_replaced_and_does_not_count_where_disruptions_are_ignored() {
    for (policy, expected) in [
        (DISRUPTIONS, "0 failed, 0 succeeded, -"),
        ("podReplacementPolicy: Failed", "1 failed, 0 succeeded, Failed"),
    ] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        lab.apply(
            &job(0, &format!("backoffLimit: 0; {policy}")).replace("run-time: 2s", "run-time: 1h"),
        );
        lab.work(3).await;
        let first = lab.names("pods")[0].clone();
        lab.evict(&first);
        lab.work(20).await;
        assert_eq!(lab.train(), expected, "{policy}");
        let goes_on = usize::from(policy == DISRUPTIONS);
        assert_eq!(lab.in_phase("Running"), goes_on, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_replaced_only_once_it_has_ended_where_the_job_asks_for_it() {
    for (policy, replaced) in [("TerminatingOrFailed", true), ("Failed", false)] {
        let lab = Lab::new();
        lab.nodes(&["n1"]).await;
        let slow = "run-time: 1h, schedlab.dev/termination: 20s";
        let spec = format!("podReplacementPolicy: {policy}");
        lab.apply(&job(0, &spec).replace("run-time: 2s", slow));
        lab.work(3).await;
        let first = lab.names("pods")[0].clone();
        lab.delete("pods", &first);
        lab.work(15).await;
        let others = lab.all("pods").iter().filter(|pod| !is_deleting(pod)).count();
        assert_eq!(others, usize::from(replaced), "{policy}");
        lab.work(30).await;
        assert_eq!(lab.in_phase("Running"), 1, "{policy}");
        assert_eq!(lab.train(), "1 failed, 0 succeeded, -", "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_ran_is_replaced_too() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(&job(0, "podReplacementPolicy: Failed"));
    lab.rest().await;
    let first = lab.names("pods")[0].clone();
    lab.delete("pods", &first);
    lab.secs(60).await;
    assert!(!lab.names("pods").contains(&first), "{}", lab.pods());
    assert_eq!(lab.names("pods").len(), 1);
    assert_eq!(lab.train(), "1 failed, 0 succeeded, -");
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_limit() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let spec = "parallelism: 2; completions: 2; completionMode: Indexed; backoffLimitPerIndex: 1";
    lab.apply(&job(1, spec));
    lab.work(8).await;
    assert_eq!(lab.train(), "0 failed, 0 succeeded, -");
    lab.work(8).await;
    let counts: Vec<String> = lab
        .all("pods")
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
    lab.work(10).await;
    assert_eq!(lab.train(), "4 failed, 0 succeeded, Failed");
    assert_eq!(lab.why("Failed"), "FailedIndexes: Job has failed indexes");
    assert_eq!(text(&lab.get("jobs", "train"), &["status", "failedIndexes"]), "0,1");
}

#[tokio::test(start_paused = true)]
async fn an_index_fails_at_once_where_the_policy_says_so_and_too_many_fail_the_job() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let policy = on_code("FailIndex", 7);
    let spec = format!(
        "parallelism: 1; completions: 4; completionMode: Indexed; backoffLimitPerIndex: 5; \
         maxFailedIndexes: 1; {policy}"
    );
    lab.apply(&job(7, &spec));
    lab.work(4).await;
    assert_eq!(text(&lab.get("jobs", "train"), &["status", "failedIndexes"]), "0");
    lab.work(10).await;
    assert_eq!(lab.train(), "2 failed, 0 succeeded, Failed");
    assert_eq!(
        lab.why("Failed"),
        "MaxFailedIndexesExceeded: Job has exceeded the specified maximal number of failed indexes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_a_job_before_all_its_indexes_are_done() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let spec = "parallelism: 1; completions: 4; completionMode: Indexed; \
                successPolicy: {rules: [{succeededIndexes: '3'}, {succeededCount: 2}]}";
    lab.apply(&job(0, spec));
    lab.work(20).await;
    assert_eq!(lab.train(), "0 failed, 2 succeeded, Complete");
    assert_eq!(lab.why("SuccessCriteriaMet"), "SuccessPolicy: Matched rules at index 1");
}
