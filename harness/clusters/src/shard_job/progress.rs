//! What a Job and its pods say about the progress of the shards.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateWaiting, Pod};

/// The label of a pod with its index in the Job.
const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

/// The progress of the shards of a Job.
#[derive(Debug, Default)]
pub(super) struct JobProgress {
    /// The progress as a line.
    pub(super) text: String,
    /// Why a pod cannot start, if waiting does not help.
    pub(super) cannot_start: Option<String>,
    /// The name of a pod that failed.
    pub(super) failed_pod: Option<String>,
}

impl JobProgress {
    /// The progress of a Job with these pods.
    pub(super) fn of_pods(pods: &[Pod], shards: usize) -> Self {
        let of_phase = |phase: &'static str| pods.iter().filter(move |pod| has_phase(pod, phase));
        let done: BTreeSet<&str> = of_phase("Succeeded").filter_map(index_of).collect();
        let mut parts = vec![format!("{} of {shards} shards done", done.len())];
        let running = of_phase("Running").count();
        if running > 0 {
            parts.push(format!("{running} running"));
        }
        let failed = of_phase("Failed").count();
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        let waiting = of_phase("Pending").find_map(unscheduled_message);
        parts.extend(waiting.map(|why| format!("waiting for a node: {why}")));
        Self {
            text: parts.join(", "),
            cannot_start: pods.iter().find_map(start_problem),
            failed_pod: of_phase("Failed").find_map(|pod| pod.metadata.name.clone()),
        }
    }
}

/// Whether the Job is complete, or why it failed; `None` while it runs.
pub(super) fn job_verdict(job: &Job) -> Option<Result<(), String>> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().filter(|condition| condition.status == "True").find_map(|condition| {
        match &*condition.type_ {
            "Complete" => Some(Ok(())),
            "Failed" => {
                let reason = condition.reason.as_deref().unwrap_or("Failed");
                let message = condition.message.as_deref().unwrap_or_default();
                Some(Err(format!("{reason}: {message}")))
            }
            _ => None,
        }
    })
}

/// The name of a pod that succeeded, by its index from 0.
pub(super) fn succeeded_pod(pods: &[Pod], index: usize) -> Option<&str> {
    let index = index.to_string();
    let mut of_index = pods.iter().filter(|pod| index_of(pod) == Some(&index));
    of_index.find(|pod| has_phase(pod, "Succeeded"))?.metadata.name.as_deref()
}

fn index_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(INDEX_LABEL).map(String::as_str)
}

fn has_phase(pod: &Pod, phase: &str) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
}

/// Why no node takes a pod, if so.
fn unscheduled_message(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let unscheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    unscheduled.message.clone()
}

/// Why a container cannot start, if the cause is its image or its configuration.
fn start_problem(pod: &Pod) -> Option<String> {
    const REASONS: [&str; 5] = [
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImagePullBackOff",
        "InvalidImageName",
    ];
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let waiting: Option<&ContainerStateWaiting> =
        containers.iter().find_map(|container| container.state.as_ref()?.waiting.as_ref());
    let waiting = waiting?;
    let reason = waiting.reason.as_deref().filter(|reason| REASONS.contains(reason))?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let message = waiting.message.as_deref().unwrap_or("no message");
    Some(format!("pod {name} cannot start: {reason}: {message}"))
}
