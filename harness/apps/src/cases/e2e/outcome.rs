//! Outcomes of tasks, read from the objects of the cluster.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, api_versions, labels,
    pointer::{at, list, text},
};
use schedlab_scheduler_core::{
    Snapshot,
    model::{GpuGroup, NodeId},
};

use super::{
    super::{
        compare::TaskOutcome,
        format::{Job, Task},
    },
    cluster::CaseCluster,
    objects::{namespace_of_job, to_object_name},
};

/// A pod that has been terminating for longer than this counts as stuck.
const STUCK_AFTER_SECS: i64 = 120;

/// Whether outcomes distinguish pipelined pods from other pending ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelinedPodState {
    Reported,
    /// Pipelined pods are reported as pending, because pipelining does not survive a round.
    Pending,
}

/// The outcomes of all tasks, in the order of the case.
pub(super) fn task_outcomes(
    cluster: &CaseCluster<'_>,
    snapshot: &Snapshot,
    promises: PipelinedPodState,
) -> Vec<TaskOutcome> {
    let pods = cluster.objects_by_name("", "pods");
    let groups = cluster.objects_by_name(api_versions::SCHEDULING_GROUP, "podgroups");
    let tasks = cluster.case.jobs.iter().flat_map(|job| job.tasks.iter().map(move |it| (job, it)));
    let outcome_of = |(job, task): (&Job, &Task)| {
        let key = (namespace_of_job(job).to_owned(), to_object_name(&task.id));
        let Some(pod) = pods.get(&key) else { return outcome_without_node("Deleted") };
        let group = groups.get(&(namespace_of_job(job).to_owned(), to_object_name(&job.name)));
        let waits_for_room =
            promises == PipelinedPodState::Reported && group.is_some_and(has_pipelined_pods);
        pod_outcome(pod, snapshot, cluster.now_secs(), waits_for_room)
    };
    tasks.map(outcome_of).collect()
}

fn outcome_without_node(state: &'static str) -> TaskOutcome {
    TaskOutcome { state, node: None, gpu_groups: Vec::new(), numa_zones: Vec::new() }
}

/// Whether the pending pods of the pod group are pipelined.
fn has_pipelined_pods(group: &Value) -> bool {
    let conditions = list(group, "/status/schedulingConditions").iter();
    let messages = conditions.filter_map(|condition| text(condition, "/message"));
    messages.into_iter().any(|message| message.starts_with("Room was promised"))
}

fn pod_outcome(pod: &Value, snapshot: &Snapshot, now_secs: i64, is_pipelined: bool) -> TaskOutcome {
    let is_gated = !list(pod, "/spec/schedulingGates").is_empty();
    let Some(node) = text(pod, "/spec/nodeName") else {
        return outcome_without_node(match (is_gated, is_pipelined) {
            (true, _) => "Gated",
            (false, true) => "Pipelined",
            (false, false) => "Pending",
        });
    };
    let state = match (deletion_request_secs(pod), text(pod, "/status/phase")) {
        (Some(since), _) if now_secs - since > STUCK_AFTER_SECS => "StuckInReleasing",
        (Some(_), _) => "Releasing",
        (None, Some("Running")) => "Running",
        (None, _) => "Bound",
    };
    let known = snapshot.nodes.iter().position(|known| to_object_name(&known.name) == node);
    let node = known.and_then(|at| u32::try_from(at).ok()).map(NodeId);
    TaskOutcome { state, node, gpu_groups: gpu_groups_of_pod(pod), numa_zones: Vec::new() }
}

/// When the deletion of a pod was requested, in seconds since 1970; `None` if it was not.
fn deletion_request_secs(pod: &Value) -> Option<i64> {
    let ends: jiff::Timestamp = text(pod, "/metadata/deletionTimestamp")?.parse().ok()?;
    let grace = at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    Some(ends.as_second() - grace.unwrap_or(0))
}

fn gpu_groups_of_pod(pod: &Value) -> Vec<GpuGroup> {
    let labels: BTreeMap<&str, &str> = at(pod, "/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    let one = labels.get(labels::GPU_GROUP).map(|group| GpuGroup::from(*group));
    let several = labels.iter().filter(|(key, _)| {
        key.strip_prefix(labels::GPU_GROUP).is_some_and(|rest| rest.starts_with('/'))
    });
    one.into_iter().chain(several.map(|(_, group)| GpuGroup::from(*group))).collect()
}
