//! The outcome of each task, and its differences from the expected one.

pub(super) mod message;
mod numa_zones;
mod sums;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{GpuGroup, NodeId, NumaAllocation, Pod, PodStatus},
};

use super::format::{Case, ExpectedOutcome, ExpectedTasks, Task, TaskState};

/// The name of the task's job, the task, and the task's actual outcome.
type ComparedTask<'a> = (&'a str, &'a Task, &'a TaskOutcome);

/// The state and the placement of a task after the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskOutcome {
    pub(super) state: &'static str,
    pub(super) node: Option<NodeId>,
    /// Groups of the shared GPUs that the task uses on its node or is pipelined to.
    pub(super) gpu_groups: Vec<GpuGroup>,
    /// The task's NUMA allocations on its node, or the planned ones.
    pub(super) numa_zones: Vec<NumaAllocation>,
}

/// The outcome of every pod under `plan`. A pod whose initial state the core does not distinguish
/// from another (such as Binding from Bound) keeps the name of that state.
pub(super) fn task_outcomes(case: &Case, snapshot: &Snapshot, plan: &Plan) -> Vec<TaskOutcome> {
    let mut outcomes = outcomes_of_plan(snapshot, plan);
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    for ((task, pod), actual) in tasks.zip(&snapshot.pods).zip(&mut outcomes) {
        match (task.state, actual.state) {
            (TaskState::Binding, "Bound") => actual.state = "Binding",
            (TaskState::Allocated, "Bound") => actual.state = "Allocated",
            (TaskState::Deleted, "Failed") => actual.state = "Deleted",
            (TaskState::Pipelined, "Pending") if pod.nominated_node.is_some() => {
                (actual.state, actual.node) = ("Pipelined", pod.nominated_node);
            }
            _ => {}
        }
    }
    outcomes
}

fn outcomes_of_plan(snapshot: &Snapshot, plan: &Plan) -> Vec<TaskOutcome> {
    let mut outcomes: Vec<TaskOutcome> = snapshot
        .pods
        .iter()
        .map(|pod| {
            let state = match pod.status {
                PodStatus::Pending => "Pending",
                PodStatus::Gated => "Gated",
                PodStatus::Bound => "Bound",
                PodStatus::Running | PodStatus::OnExcludedNode => "Running",
                PodStatus::Releasing if is_stuck(snapshot, pod) => "StuckInReleasing",
                PodStatus::Releasing => "Releasing",
                PodStatus::Succeeded => "Succeeded",
                PodStatus::Failed => "Failed",
            };
            let (gpu_groups, zones) = (pod.gpu_groups.clone(), pod.numa_allocations.clone());
            TaskOutcome { state, node: pod.node, gpu_groups, numa_zones: zones }
        })
        .collect();
    let placed = |pod, node, state| {
        let gpu_groups = plan.gpu_groups.get(pod).cloned().unwrap_or_default();
        let zones = plan.numa_allocations.get(pod).cloned().unwrap_or_default();
        TaskOutcome { state, node: Some(node), gpu_groups, numa_zones: zones }
    };
    for decision in &plan.decisions {
        match decision {
            Decision::Bind { pod, node } => {
                outcomes[pod.0 as usize] = placed(pod, *node, "Binding");
            }
            Decision::Evict { pod, .. } => outcomes[pod.0 as usize].state = "Releasing",
            Decision::Pipeline { pod, node } => {
                outcomes[pod.0 as usize] = placed(pod, *node, "Pipelined");
            }
        }
    }
    outcomes
}

/// Whether the pod has been terminating for so long that its resources no longer count as
/// releasing.
fn is_stuck(snapshot: &Snapshot, pod: &Pod) -> bool {
    let since = pod.releasing_since.unwrap_or(snapshot.now);
    snapshot.now.elapsed_since(since) > Duration::from_mins(2)
}

/// Differences between the actual outcomes and the case's expectations, one per line.
pub(super) fn outcome_differences(
    case: &Case,
    snapshot: &Snapshot,
    outcomes: &[TaskOutcome],
) -> Vec<String> {
    let expected = &case.expected;
    let tasks: Vec<ComparedTask<'_>> = case
        .jobs
        .iter()
        .flat_map(|job| job.tasks.iter().map(move |task| (job.name.as_str(), task)))
        .zip(outcomes)
        .map(|((job, task), actual)| (job, task, actual))
        .collect();
    let mut found = Vec::new();
    for (name, outcome) in &expected.jobs {
        let of_job: Vec<_> = tasks.iter().filter(|(job, ..)| job == name).copied().collect();
        found.extend(outcome_difference(case, snapshot, name, outcome, &of_job));
    }
    for (name, outcome) in &expected.tasks {
        let of_task = tasks.iter().filter(|(_, task, _)| task.id == *name);
        let of_task: Vec<_> = of_task.copied().collect();
        if !expected.dead_task_ids.contains(name) {
            found.extend(outcome_difference(case, snapshot, name, outcome, &of_task));
        }
    }
    found.extend(sharing_difference(case, &tasks));
    found.extend(node_gpu_differences(case, expected, snapshot, &tasks));
    found.extend(numa_zones::zone_amount_differences(case, expected, snapshot, outcomes));
    found
}

fn outcome_difference(
    case: &Case,
    snapshot: &Snapshot,
    name: &str,
    outcome: &ExpectedTasks,
    tasks: &[ComparedTask<'_>],
) -> Option<String> {
    let node_name =
        |actual: &TaskOutcome| actual.node.map(|node| &*snapshot.nodes[node.0 as usize].name);
    let wrong_state = tasks.iter().any(|(_, _, actual)| actual.state != outcome.status);
    let wrong_node = outcome
        .node
        .as_deref()
        .is_some_and(|node| tasks.iter().any(|(_, _, actual)| node_name(actual) != Some(node)));
    let zones = |actual: &TaskOutcome| numa_zones::used_zone_positions(snapshot, actual);
    let wrong_zones = outcome
        .numa_zones
        .as_ref()
        .filter(|expected| tasks.iter().any(|(_, _, actual)| zones(actual) != **expected));
    let mut more = sums::sum_differences(snapshot, outcome, tasks);
    more.extend(too_young_difference(case, snapshot, outcome, tasks));
    if let Some(expected) = wrong_zones {
        let found: Vec<BTreeSet<usize>> =
            tasks.iter().map(|(_, _, actual)| zones(actual)).collect();
        more.push(format!("got NUMA zones {found:?}, expected {expected:?}"));
    }
    if !(wrong_state || wrong_node) && more.is_empty() {
        return None;
    }
    let states = tasks.iter().map(|(_, task, actual)| {
        format!("{} {}{}", task.id, actual.state, on_node_text(node_name(actual)))
    });
    let states = states.collect::<Vec<_>>().join(", ");
    let expected = format!("{}{}", outcome.status, on_node_text(outcome.node.as_deref()));
    let state = format!("{name}: got {states}, expected {expected}");
    Some([vec![state], more].concat().join("; "))
}

/// The message for a task whose job started too recently, or never, although the case expects it to
/// have run for longer.
fn too_young_difference(
    case: &Case,
    snapshot: &Snapshot,
    outcome: &ExpectedTasks,
    tasks: &[ComparedTask<'_>],
) -> Option<String> {
    let least = Duration::from_secs(outcome.running_for_more_than_s?);
    let (job, ..) = tasks.first()?;
    let at = case.jobs.iter().position(|other| other.name == **job)?;
    let ran = snapshot.pod_groups[at].last_start.map(|start| snapshot.now.elapsed_since(start));
    let is_older = ran.is_some_and(|ran| ran > least);
    (!is_older).then(|| format!("got a running time of {ran:?}, expected more than {least:?}"))
}

fn on_node_text(node: Option<&str>) -> String {
    node.map(|node| format!(" on {node}")).unwrap_or_default()
}

/// Tasks that shared a GPU in the recording and do not share one here on the same node, or the
/// reverse.
fn sharing_difference(case: &Case, tasks: &[ComparedTask<'_>]) -> Option<String> {
    let recorded = case.recorded_devices();
    let compared: Vec<_> = tasks
        .iter()
        .filter_map(|(_, task, actual)| {
            let node = actual.node.filter(|_| !actual.gpu_groups.is_empty())?;
            Some((node, &task.id, *actual, *recorded.get(task.id.as_str())?))
        })
        .collect();
    let pairs = compared.iter().enumerate().flat_map(|(at, one)| {
        compared[..at].iter().filter(|other| other.0 == one.0).map(move |other| (other, one))
    });
    pairs.into_iter().find_map(|((_, left, mine, theirs), (_, right, others, seen))| {
        let shares = mine.gpu_groups.iter().any(|group| others.gpu_groups.contains(group));
        let together = theirs.0 == seen.0 && theirs.1.iter().any(|group| seen.1.contains(group));
        let difference = if together {
            "got different GPUs, expected one that both tasks share"
        } else {
            "got one GPU that both tasks share, expected different ones"
        };
        (theirs.0 == seen.0 && shares != together)
            .then(|| format!("{left} and {right}: {difference}"))
    })
}

/// Differences in the GPUs of nodes: in the idle ones, and in the releasing ones minus those that
/// pipelined tasks will take. A shared GPU is in use while a task stays on it, and releasing when
/// all its tasks are leaving. A task that moved still counts as releasing on its old node.
fn node_gpu_differences(
    case: &Case,
    expected: &ExpectedOutcome,
    snapshot: &Snapshot,
    tasks: &[ComparedTask<'_>],
) -> Vec<String> {
    let mut nodes: BTreeMap<&str, NodeGpus<'_>> = BTreeMap::new();
    for node in &case.cluster.nodes {
        let idle = node.allocatable.get("gpus").copied().unwrap_or(0.0);
        nodes.insert(&node.name, NodeGpus { idle, ..NodeGpus::default() });
    }
    let name = |node: NodeId| &*snapshot.nodes[node.0 as usize].name;
    for ((_, task, actual), pod) in tasks.iter().zip(&snapshot.pods) {
        let Some(node) = actual.node else { continue };
        nodes.entry(name(node)).or_default().count_task(task, actual.state, &actual.gpu_groups);
        let is_moved = actual.state == "Pipelined" && pod.status != PodStatus::Pending;
        if let Some(left) = pod.node.filter(|_| is_moved) {
            nodes.entry(name(left)).or_default().count_task(task, "Releasing", &pod.gpu_groups);
        }
    }
    let mut found = Vec::new();
    for (name, outcome) in &expected.nodes {
        let (idle, releasing) =
            nodes.get(name.as_str()).map_or((0.0, 0.0), NodeGpus::idle_and_releasing);
        if (idle, releasing) != (outcome.idle_gpus, outcome.releasing_gpus) {
            found.push(format!(
                "node {name}: got {idle} idle and {releasing} releasing GPUs, expected {} and {}",
                outcome.idle_gpus, outcome.releasing_gpus
            ));
        }
    }
    found
}

/// The GPUs of a node: whole ones, and the tasks on shared ones.
#[derive(Default)]
struct NodeGpus<'a> {
    idle: f64,
    releasing: f64,
    /// For each shared GPU, the number of pods that stay on it, that leave it and that are
    /// pipelined to it.
    shared: BTreeMap<&'a str, [f64; 3]>,
}

impl<'a> NodeGpus<'a> {
    fn count_task(&mut self, task: &Task, state: &str, groups: &'a [GpuGroup]) {
        let (stays, leaves, waits) = match state {
            "Running" | "Bound" | "Binding" | "Allocated" | "StuckInReleasing" => (1.0, 0.0, 0.0),
            "Releasing" => (0.0, 1.0, 0.0),
            "Pipelined" => (0.0, 0.0, 1.0),
            _ => return,
        };
        if task.gpu_fraction.is_none() && task.gpu_memory_mib.is_none() {
            let gpus = task.request.get("gpus").copied().unwrap_or(task.gpus_total);
            self.idle -= gpus * (stays + leaves);
            self.releasing += gpus * (leaves - waits);
            return;
        }
        for group in groups {
            let device = self.shared.entry(group).or_default();
            *device = [device[0] + stays, device[1] + leaves, device[2] + waits];
        }
    }

    fn idle_and_releasing(&self) -> (f64, f64) {
        let (mut idle, mut releasing) = (self.idle, self.releasing);
        for [stay, leave, wait] in self.shared.values() {
            let (now, later) = (stay + leave > 0.0, stay + wait > 0.0);
            idle -= f64::from(u8::from(now));
            releasing += f64::from(u8::from(now)) - f64::from(u8::from(later));
        }
        (idle, releasing)
    }
}
