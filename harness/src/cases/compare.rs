//! What became of each task, and how that differs from what is expected.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{NodeId, Pod, PodStatus},
};

use super::format::{Case, Outcome, Task};

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) state: &'static str,
    pub(super) node: Option<NodeId>,
}

/// The fate of every pod of the snapshot under `plan`.
pub(super) fn fates(snapshot: &Snapshot, plan: &Plan) -> Vec<Fate> {
    let mut fates: Vec<Fate> = snapshot
        .pods
        .iter()
        .map(|pod| {
            let state = match pod.status {
                PodStatus::Pending => "Pending",
                PodStatus::Gated => "Gated",
                PodStatus::Bound => "Bound",
                PodStatus::Running => "Running",
                PodStatus::Releasing if is_stuck(snapshot, pod) => "StuckInReleasing",
                PodStatus::Releasing => "Releasing",
                PodStatus::Succeeded => "Succeeded",
                PodStatus::Failed => "Failed",
            };
            Fate { state, node: pod.node }
        })
        .collect();
    for decision in &plan.decisions {
        match decision {
            Decision::Bind { pod, node } => {
                fates[pod.0 as usize] = Fate { state: "Binding", node: Some(*node) };
            }
            Decision::Evict { pod, .. } => fates[pod.0 as usize].state = "Releasing",
            Decision::Pipeline { pod, node } => {
                fates[pod.0 as usize] = Fate { state: "Pipelined", node: Some(*node) };
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
    let Some(expected) = &case.expected else { return Vec::new() };
    let tasks: Vec<(&str, &Task, Fate)> = case
        .jobs
        .iter()
        .flat_map(|job| job.tasks.iter().map(move |task| (job.name.as_str(), task)))
        .zip(fates)
        .map(|((job, task), fate)| (job, task, *fate))
        .collect();
    let mut found = Vec::new();
    for (name, outcome) in &expected.jobs {
        let of_job: Vec<_> = tasks.iter().filter(|(job, ..)| job == name).collect();
        found.extend(differs(snapshot, name, outcome, &of_job));
    }
    for (name, outcome) in &expected.tasks {
        let of_task: Vec<_> = tasks.iter().filter(|(_, task, _)| task.id == *name).collect();
        if !expected.dead_task_ids.contains(name) {
            found.extend(differs(snapshot, name, outcome, &of_task));
        }
    }
    found.extend(node_differences(case, snapshot, &tasks));
    found
}

fn differs(
    snapshot: &Snapshot,
    name: &str,
    outcome: &Outcome,
    tasks: &[&(&str, &Task, Fate)],
) -> Option<String> {
    let node_name = |fate: &Fate| fate.node.map(|node| &*snapshot.nodes[node.0 as usize].name);
    let wrong_state = tasks.iter().any(|(_, _, fate)| fate.state != outcome.status);
    let wrong_node = outcome
        .node
        .as_deref()
        .is_some_and(|node| tasks.iter().any(|(_, _, fate)| node_name(fate) != Some(node)));
    let sum: f64 = tasks.iter().map(|(_, task, _)| task.gpus_total).sum();
    let wrong_sum = (sum - outcome.gpus_requested_sum).abs() > 1e-6;
    if !(wrong_state || wrong_node || wrong_sum) {
        return None;
    }
    let mut text = format!("{name}: {}{} expected;", outcome.status, on(outcome.node.as_deref()));
    for (_, task, fate) in tasks {
        let _ = write!(text, " {} {}{}", task.id, fate.state, on(node_name(fate)));
    }
    if wrong_sum {
        let _ = write!(text, " asking for {sum} GPUs, not {}", outcome.gpus_requested_sum);
    }
    Some(text)
}

fn on(node: Option<&str>) -> String {
    node.map(|node| format!(" on {node}")).unwrap_or_default()
}

/// Idle and releasing (less promised) GPUs.
fn node_differences(
    case: &Case,
    snapshot: &Snapshot,
    tasks: &[(&str, &Task, Fate)],
) -> Vec<String> {
    let mut idle: BTreeMap<&str, f64> = BTreeMap::new();
    let mut releasing: BTreeMap<&str, f64> = BTreeMap::new();
    for node in &case.cluster.nodes {
        idle.insert(&node.name, node.allocatable.get("gpus").copied().unwrap_or(0.0));
    }
    for (_, task, fate) in tasks {
        let Some(node) = fate.node else { continue };
        let now = &*snapshot.nodes[node.0 as usize].name;
        match fate.state {
            "Running" | "Bound" | "Binding" | "StuckInReleasing" => {
                *idle.entry(now).or_default() -= task.gpus_total;
            }
            "Releasing" => {
                *idle.entry(now).or_default() -= task.gpus_total;
                *releasing.entry(now).or_default() += task.gpus_total;
            }
            "Pipelined" => *releasing.entry(now).or_default() -= task.gpus_total,
            _ => {}
        }
    }
    let expected = case.expected.iter().flat_map(|expected| &expected.nodes);
    let mut found = Vec::new();
    for (name, outcome) in expected {
        let of = |all: &BTreeMap<&str, f64>| all.get(name.as_str()).copied().unwrap_or(0.0);
        let (idle, releasing) = (of(&idle), of(&releasing));
        if (idle, releasing) != (outcome.idle_gpus, outcome.releasing_gpus) {
            found.push(format!("{name}: idle {idle}, releasing {releasing}; expected {outcome:?}"));
        }
    }
    found
}
