//! What is known of how pods end: run times, termination, and controllers that replace them.

use std::{collections::BTreeMap, time::Duration};

use schedlab_api::{
    Value, annotations,
    duration::{GoDuration, parse_go_duration},
    object,
};
use schedlab_casefiles::Case;
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
        let duration = |key: &str| match parse_go_duration(object::annotation(pod, key)?)? {
            GoDuration::Positive(duration) => Some(duration),
            GoDuration::Negative => None,
        };
        let deadline = object::number(pod, &["spec", "activeDeadlineSeconds"]);
        let deadline = deadline.and_then(|secs| u64::try_from(secs).ok()).map(Duration::from_secs);
        let default = PodLifecycle::default();
        PodLifecycle {
            run_time: duration(annotations::RUN_TIME)
                .or(deadline)
                .filter(|_| run_times == RunTimes::Known),
            termination: duration(annotations::TERMINATION).unwrap_or(default.termination),
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

/// Whether a controller creates a pod again after it was evicted.
pub(super) fn is_replaced(pod: &Value) -> bool {
    object::list(pod, &["metadata", "ownerReferences"]).iter().any(|owner| {
        // A redacted case has no field `controller`.
        owner.get("controller") != Some(&Value::Bool(false))
            && !NOT_REPLACING.contains(&object::text(owner, &["kind"]))
    })
}
