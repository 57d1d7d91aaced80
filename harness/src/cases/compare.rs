//! What became of each task, and how that differs from what is expected.

pub(super) mod message;
mod sums;
mod zones;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::Duration,
};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{GpuGroup, NodeId, Pod, PodStatus, ZoneShare},
};

use super::format::{Case, Expected, Outcome, State, Task};

/// A task, its job and what became of it.
type Played<'a> = (&'a str, &'a Task, &'a Fate);

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) state: &'static str,
    pub(super) node: Option<NodeId>,
    /// The shared devices it has, or was promised, there.
    pub(super) gpu_groups: Vec<GpuGroup>,
    /// What it has of that node's zones, or was promised.
    pub(super) zones: Vec<ZoneShare>,
}

/// The fate of every pod of the snapshot under `plan`. States that the core does not tell apart are
/// called as the case begins with them.
pub(super) fn fates(case: &Case, snapshot: &Snapshot, plan: &Plan) -> Vec<Fate> {
    let mut fates = decided(snapshot, plan);
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    for ((task, pod), fate) in tasks.zip(&snapshot.pods).zip(&mut fates) {
        match (task.state, fate.state) {
            (State::Binding, "Bound") => fate.state = "Binding",
            (State::Allocated, "Bound") => fate.state = "Allocated",
            (State::Deleted, "Failed") => fate.state = "Deleted",
            (State::Pipelined, "Pending") if pod.nominated.is_some() => {
                (fate.state, fate.node) = ("Pipelined", pod.nominated);
            }
            _ => {}
        }
    }
    fates
}

fn decided(snapshot: &Snapshot, plan: &Plan) -> Vec<Fate> {
    let mut fates: Vec<Fate> = snapshot
        .pods
        .iter()
        .map(|pod| {
            let state = match pod.status {
                PodStatus::Pending => "Pending",
                PodStatus::Gated => "Gated",
                PodStatus::Bound => "Bound",
                PodStatus::Running | PodStatus::Away => "Running",
                PodStatus::Releasing if is_stuck(snapshot, pod) => "StuckInReleasing",
                PodStatus::Releasing => "Releasing",
                PodStatus::Succeeded => "Succeeded",
                PodStatus::Failed => "Failed",
            };
            let (gpu_groups, zones) = (pod.gpu_groups.clone(), pod.zones.clone());
            Fate { state, node: pod.node, gpu_groups, zones }
        })
        .collect();
    let placed = |pod, node, state| {
        let gpu_groups = plan.gpu_groups.get(pod).cloned().unwrap_or_default();
        let zones = plan.zones.get(pod).cloned().unwrap_or_default();
        Fate { state, node: Some(node), gpu_groups, zones }
    };
    for decision in &plan.decisions {
        match decision {
            Decision::Bind { pod, node } => {
                fates[pod.0 as usize] = placed(pod, *node, "Binding");
            }
            Decision::Evict { pod, .. } => fates[pod.0 as usize].state = "Releasing",
            Decision::Pipeline { pod, node } => {
                fates[pod.0 as usize] = placed(pod, *node, "Pipelined");
            }
        }
    }
    fates
}

/// On its way out for longer than its room is counted on.
fn is_stuck(snapshot: &Snapshot, pod: &Pod) -> bool {
    let since = pod.released_since.unwrap_or(snapshot.now);
    snapshot.now.since(since) > Duration::from_mins(2)
}

/// Where `fates` differ from what the case expects, one line each.
pub(super) fn differences(case: &Case, snapshot: &Snapshot, fates: &[Fate]) -> Vec<String> {
    let expected = &case.expected;
    let tasks: Vec<Played<'_>> = case
        .jobs
        .iter()
        .flat_map(|job| job.tasks.iter().map(move |task| (job.name.as_str(), task)))
        .zip(fates)
        .map(|((job, task), fate)| (job, task, fate))
        .collect();
    let mut found = Vec::new();
    for (name, outcome) in &expected.jobs {
        let of_job: Vec<_> = tasks.iter().filter(|(job, ..)| job == name).copied().collect();
        found.extend(differs((case, snapshot), name, outcome, &of_job));
    }
    for (name, outcome) in &expected.tasks {
        let of_task = tasks.iter().filter(|(_, task, _)| task.id == *name);
        let of_task: Vec<_> = of_task.copied().collect();
        if !expected.dead_task_ids.contains(name) {
            found.extend(differs((case, snapshot), name, outcome, &of_task));
        }
    }
    found.extend(apart(case, &tasks));
    found.extend(node_differences((case, expected), snapshot, &tasks));
    found.extend(zones::differences((case, expected), snapshot, fates));
    found
}

fn differs(
    (case, snapshot): (&Case, &Snapshot),
    name: &str,
    outcome: &Outcome,
    tasks: &[Played<'_>],
) -> Option<String> {
    let node_name = |fate: &Fate| fate.node.map(|node| &*snapshot.nodes[node.0 as usize].name);
    let wrong_state = tasks.iter().any(|(_, _, fate)| fate.state != outcome.status);
    let wrong_node = outcome
        .node
        .as_deref()
        .is_some_and(|node| tasks.iter().any(|(_, _, fate)| node_name(fate) != Some(node)));
    let zones = |fate: &Fate| zones::positions(snapshot, fate);
    let wrong_zones = outcome
        .numa_zones
        .as_ref()
        .filter(|expected| tasks.iter().any(|(_, _, fate)| zones(fate) != **expected));
    let mut more = sums::differences(snapshot, outcome, tasks);
    more.extend(too_young((case, snapshot), outcome, tasks));
    if let Some(expected) = wrong_zones {
        let found: Vec<BTreeSet<usize>> = tasks.iter().map(|(_, _, fate)| zones(fate)).collect();
        more.push(format!("in zones {found:?}, not {expected:?}"));
    }
    if !(wrong_state || wrong_node) && more.is_empty() {
        return None;
    }
    let mut text = format!("{name}: {}{} expected;", outcome.status, on(outcome.node.as_deref()));
    for (_, task, fate) in tasks {
        let _ = write!(text, " {} {}{}", task.id, fate.state, on(node_name(fate)));
    }
    for more in more {
        let _ = write!(text, " {more}");
    }
    Some(text)
}

/// It was started too lately, or never.
fn too_young(
    (case, snapshot): (&Case, &Snapshot),
    outcome: &Outcome,
    tasks: &[Played<'_>],
) -> Option<String> {
    let least = Duration::from_secs(outcome.running_for_more_than_s?);
    let (job, ..) = tasks.first()?;
    let at = case.jobs.iter().position(|other| other.name == **job)?;
    let ran = snapshot.pod_groups[at].last_start.map(|start| snapshot.now.since(start));
    let is_older = ran.is_some_and(|ran| ran > least);
    (!is_older).then(|| format!("running for {ran:?}, not for more than {least:?}"))
}

fn on(node: Option<&str>) -> String {
    node.map(|node| format!(" on {node}")).unwrap_or_default()
}

/// Tasks that shared a device of their node when the case was recorded, stand on one node here, and
/// share none; or the other way round.
fn apart(case: &Case, tasks: &[Played<'_>]) -> Option<String> {
    let recorded = case.recorded_devices();
    let compared: Vec<_> = tasks
        .iter()
        .filter_map(|(_, task, fate)| {
            let node = fate.node.filter(|_| !fate.gpu_groups.is_empty())?;
            Some((node, &task.id, *fate, *recorded.get(task.id.as_str())?))
        })
        .collect();
    let pairs = compared.iter().enumerate().flat_map(|(at, one)| {
        compared[..at].iter().filter(|other| other.0 == one.0).map(move |other| (other, one))
    });
    pairs.into_iter().find_map(|((_, left, mine, theirs), (_, right, others, seen))| {
        let shares = mine.gpu_groups.iter().any(|group| others.gpu_groups.contains(group));
        let together = theirs.0 == seen.0 && theirs.1.iter().any(|group| seen.1.contains(group));
        let told = if together { "do not share a device" } else { "share a device" };
        (theirs.0 == seen.0 && shares != together).then(|| format!("{left} and {right} {told}"))
    })
}

/// Idle and releasing (less promised) GPUs. A shared device is taken while somebody is on it,
/// and released when everybody leaves. Whoever is moved still leaves the node where it was.
fn node_differences(
    (case, expected): (&Case, &Expected),
    snapshot: &Snapshot,
    tasks: &[Played<'_>],
) -> Vec<String> {
    let mut nodes: BTreeMap<&str, NodeGpus<'_>> = BTreeMap::new();
    for node in &case.cluster.nodes {
        let idle = node.allocatable.get("gpus").copied().unwrap_or(0.0);
        nodes.insert(&node.name, NodeGpus { idle, ..NodeGpus::default() });
    }
    let name = |node: NodeId| &*snapshot.nodes[node.0 as usize].name;
    for ((_, task, fate), pod) in tasks.iter().zip(&snapshot.pods) {
        let Some(node) = fate.node else { continue };
        nodes.entry(name(node)).or_default().add(task, (fate.state, &fate.gpu_groups));
        let is_moved = fate.state == "Pipelined" && pod.status != PodStatus::Pending;
        if let Some(left) = pod.node.filter(|_| is_moved) {
            nodes.entry(name(left)).or_default().add(task, ("Releasing", &pod.gpu_groups));
        }
    }
    let mut found = Vec::new();
    for (name, outcome) in &expected.nodes {
        let (idle, releasing) = nodes.get(name.as_str()).map_or((0.0, 0.0), NodeGpus::counts);
        if (idle, releasing) != (outcome.idle_gpus, outcome.releasing_gpus) {
            found.push(format!("{name}: idle {idle}, releasing {releasing}; expected {outcome:?}"));
        }
    }
    found
}

/// The GPUs of a node: whole ones, and who is on shared ones.
#[derive(Default)]
struct NodeGpus<'a> {
    idle: f64,
    releasing: f64,
    /// Pods that stay on, leave, and were promised each shared device.
    shared: BTreeMap<&'a str, [f64; 3]>,
}

impl<'a> NodeGpus<'a> {
    fn add(&mut self, task: &Task, (state, groups): (&str, &'a [GpuGroup])) {
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

    fn counts(&self) -> (f64, f64) {
        let (mut idle, mut releasing) = (self.idle, self.releasing);
        for [stay, leave, wait] in self.shared.values() {
            let (now, later) = (stay + leave > 0.0, stay + wait > 0.0);
            idle -= f64::from(u8::from(now));
            releasing += f64::from(u8::from(now)) - f64::from(u8::from(later));
        }
        (idle, releasing)
    }
}
