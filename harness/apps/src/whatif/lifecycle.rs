//! What is known of how pods end: run times, termination, and controllers that replace them.

use std::{collections::BTreeMap, time::Duration};

use schedlab_api::{
    Value, annotations,
    duration::{GoDuration, parse_go_duration},
    object,
};
use schedlab_casefiles::Case;
use schedlab_conformance::text::counted_noun;
use schedlab_scheduler::replay::forecast::PodLifecycle;

/// Kinds of owners that do not create a pod again on another node.
const NOT_REPLACING: [&str; 2] = ["Node", "DaemonSet"];

/// Whether run times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunTimes {
    /// Pods with a known run time end.
    Known,
    /// No pod ends by itself.
    Ignored,
}

/// The lifecycles of the pods of a case that are not the default one.
pub(super) fn lifecycles(
    case: &Case,
    run_times: RunTimes,
) -> BTreeMap<(String, String), PodLifecycle> {
    let of_pod = |pod: &Value| {
        let default = PodLifecycle::default();
        let termination = annotated_duration(pod, annotations::TERMINATION);
        PodLifecycle {
            run_time: run_time(pod).filter(|_| run_times == RunTimes::Known),
            termination: termination.unwrap_or(default.termination),
            is_replaced: is_replaced(pod),
        }
    };
    case.objects("pods")
        .map(|pod| (pod, of_pod(pod)))
        .filter(|(_, lifecycle)| *lifecycle != PodLifecycle::default())
        .map(|(pod, lifecycle)| {
            ((object::namespace(pod).to_owned(), object::name(pod).to_owned()), lifecycle)
        })
        .collect()
}

/// The run time of a pod, if it is known.
fn run_time(pod: &Value) -> Option<Duration> {
    let deadline = object::number(pod, &["spec", "activeDeadlineSeconds"]);
    let deadline = deadline.and_then(|secs| u64::try_from(secs).ok()).map(Duration::from_secs);
    annotated_duration(pod, annotations::RUN_TIME).or(deadline)
}

fn annotated_duration(pod: &Value, key: &str) -> Option<Duration> {
    match parse_go_duration(object::annotation(pod, key)?)? {
        GoDuration::Positive(duration) => Some(duration),
        GoDuration::Negative => None,
    }
}

/// Says how many pods on nodes have no known run time, if there are any: a forecast never ends them.
pub(super) fn unknown_run_times_note(case: &Case) -> Option<String> {
    let is_on_node = |pod: &&Value| {
        let phase = object::text(pod, &["status", "phase"]);
        !object::text(pod, &["spec", "nodeName"]).is_empty()
            && !matches!(phase, "Succeeded" | "Failed")
    };
    let pods: Vec<&Value> = case.objects("pods").filter(is_on_node).collect();
    let unknown = pods.iter().filter(|pod| run_time(pod).is_none()).count();
    (unknown > 0).then(|| {
        format!(
            "{unknown} of {} on nodes have no known run time and do not end before the horizon: \
             annotation {} or activeDeadlineSeconds tells it",
            counted_noun(pods.len(), "pod"),
            annotations::RUN_TIME
        )
    })
}

/// Whether a controller creates a pod again after it was evicted.
pub(super) fn is_replaced(pod: &Value) -> bool {
    object::list(pod, &["metadata", "ownerReferences"]).iter().any(|owner| {
        // A redacted case has no field `controller`.
        owner.get("controller") != Some(&Value::Bool(false))
            && !NOT_REPLACING.contains(&object::text(owner, &["kind"]))
    })
}
