//! What became of tasks, as the objects of the cluster tell.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::{
    Snapshot,
    model::{GpuGroup, NodeId},
};

use super::{
    super::{
        compare::Fate,
        format::{Job, Task},
    },
    objects::{namespace, plain},
    stage::Stage,
};
use crate::fields::{at, list, text};

/// A pod that takes longer to leave is stuck.
const RELEASE_MAX_SECS: i64 = 120;

const GROUP_LABEL: &str = "runai-gpu-group";

/// Whether a pod that waits for room that it was promised is told apart from others that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promises {
    Counted,
    /// Between rounds promises are forgotten.
    Forgotten,
}

/// In the order of the case's tasks.
pub(super) fn fates(stage: &Stage<'_>, snapshot: &Snapshot, promises: Promises) -> Vec<Fate> {
    let pods = stage.by_name("", "pods");
    let groups = stage.by_name("scheduling.run.ai", "podgroups");
    let tasks = stage.case.jobs.iter().flat_map(|job| job.tasks.iter().map(move |it| (job, it)));
    let fate = |(job, task): (&Job, &Task)| {
        let key = (namespace(job).to_owned(), plain(&task.id));
        let Some(pod) = pods.get(&key) else { return nowhere("Deleted") };
        let group = groups.get(&(namespace(job).to_owned(), plain(&job.name)));
        let waits_for_room = promises == Promises::Counted && group.is_some_and(is_promised);
        of_pod(pod, (snapshot, stage.now_secs()), waits_for_room)
    };
    tasks.map(fate).collect()
}

fn nowhere(state: &'static str) -> Fate {
    Fate { state, node: None, gpu_groups: Vec::new(), zones: Vec::new() }
}

/// All its waiting pods were promised room.
fn is_promised(group: &Value) -> bool {
    let conditions = list(group, "/status/schedulingConditions").iter();
    let messages = conditions.filter_map(|condition| text(condition, "/message"));
    messages.into_iter().any(|message| message.starts_with("Room was promised"))
}

fn of_pod(pod: &Value, (snapshot, now_secs): (&Snapshot, i64), promised: bool) -> Fate {
    let is_gated = !list(pod, "/spec/schedulingGates").is_empty();
    let Some(node) = text(pod, "/spec/nodeName") else {
        return nowhere(match (is_gated, promised) {
            (true, _) => "Gated",
            (false, true) => "Pipelined",
            (false, false) => "Pending",
        });
    };
    let state = match (released_at(pod), text(pod, "/status/phase")) {
        (Some(since), _) if now_secs - since > RELEASE_MAX_SECS => "StuckInReleasing",
        (Some(_), _) => "Releasing",
        (None, Some("Running")) => "Running",
        (None, _) => "Bound",
    };
    let known = snapshot.nodes.iter().position(|known| plain(&known.name) == node);
    let node = known.and_then(|at| u32::try_from(at).ok()).map(NodeId);
    Fate { state, node, gpu_groups: gpu_groups(pod), zones: Vec::new() }
}

/// When it was asked to leave.
fn released_at(pod: &Value) -> Option<i64> {
    let ends: jiff::Timestamp = text(pod, "/metadata/deletionTimestamp")?.parse().ok()?;
    let grace = at(pod, "/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    Some(ends.as_second() - grace.unwrap_or(0))
}

fn gpu_groups(pod: &Value) -> Vec<GpuGroup> {
    let labels: BTreeMap<&str, &str> = at(pod, "/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect();
    let one = labels.get(GROUP_LABEL).map(|group| GpuGroup::from(*group));
    let several = labels
        .iter()
        .filter(|(key, _)| key.strip_prefix(GROUP_LABEL).is_some_and(|rest| rest.starts_with('/')));
    one.into_iter().chain(several.map(|(_, group)| GpuGroup::from(*group))).collect()
}
