//! Where everything runs. Every pod has a mark, a letter for its workload and a number, so a
//! node is one row of its GPUs in the order of their indices; a legend says who is who. The
//! mark of a pod that is leaving ends in `-`; what stands behind `+` holds no GPU (yet).

mod marks;
mod queues;

use std::{collections::BTreeMap, fmt::Write as _};

use schedlab_emulator::quantity::thousandths;
use schedlab_json::Value;

use super::ordinals::{Shown, joined};
use marks::{MarkedPod, State, Workload, marked};

/// Fair shares in GPUs by queue, as the scheduler last computed them.
pub type FairShares = BTreeMap<String, f64>;

/// The objects that a placement is made of, as lists give them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cluster<'a> {
    /// Nodes.
    pub nodes: &'a [&'a Value],
    /// Pods of every namespace.
    pub pods: &'a [&'a Value],
    /// Queues.
    pub queues: &'a [&'a Value],
    /// Pod groups of every namespace.
    pub pod_groups: &'a [&'a Value],
}

/// The placement of everything at one moment.
pub fn placement(cluster: Cluster<'_>, fair_shares: &FairShares) -> String {
    let workloads = marked(&cluster);
    let mut text = String::new();
    nodes(&mut text, &cluster, &workloads);
    legend(&mut text, &workloads);
    waiting(&mut text, &workloads);
    queues::table(&mut text, &cluster, &workloads, fair_shares);
    text
}

fn nodes(text: &mut String, cluster: &Cluster<'_>, workloads: &[Workload<'_>]) {
    let pods: Vec<&MarkedPod<'_>> = workloads.iter().flat_map(|one| &one.pods).collect();
    let cell = pods.iter().map(|pod| pod.cell().len()).max().unwrap_or(0).max(2);
    let mut sorted: Vec<(&str, &Value)> =
        cluster.nodes.iter().map(|node| (string(node, "/metadata/name"), *node)).collect();
    sorted.sort_by_key(|(name, _)| natural(name));
    let mut rows: Vec<(Vec<&str>, String, bool)> = Vec::new();
    for (name, node) in sorted {
        let here: Vec<&MarkedPod<'_>> =
            pods.iter().copied().filter(|pod| pod.holds_room() && pod.node == name).collect();
        let row = row(node, &here, cell);
        match rows.last_mut() {
            // Idle nodes of one kind are told together.
            Some((names, last, true)) if here.is_empty() && *last == row => names.push(name),
            Some(_) | None => rows.push((vec![name], row, here.is_empty())),
        }
    }
    let named: Vec<(String, String)> = rows
        .into_iter()
        .map(|(names, row, _)| (joined(names.into_iter().map(Shown::plain).collect()), row))
        .collect();
    let width = widest(named.iter().map(|(name, _)| name));
    text.push_str("nodes\n");
    for (name, row) in named {
        let _ = writeln!(text, "  {name:<width$}  {row}");
    }
}

/// One node: its GPUs in order, then what else is on it, then what is wrong with it.
fn row(node: &Value, here: &[&MarkedPod<'_>], cell: usize) -> String {
    let count = gpu_count(node, "/status/allocatable").max(gpu_count(node, "/status/capacity"));
    let mut devices = vec![format!("{:<cell$}", ".."); count];
    for pod in here {
        for device in pod.devices.iter().filter(|device| **device < count) {
            devices[*device] = format!("{:<cell$}", pod.cell());
        }
    }
    let mut row = if count == 0 { "no GPU".to_owned() } else { devices.join(" ") };
    let others = here.iter().filter(|pod| pod.devices.is_empty());
    let others: Vec<String> = others.map(|pod| pod.cell()).collect();
    if !others.is_empty() {
        let _ = write!(row, " + {}", others.join(" "));
    }
    let faults = faults(node);
    if !faults.is_empty() {
        let _ = write!(row, " ({})", faults.join(", "));
    }
    row.trim_end().to_owned()
}

fn gpu_count(node: &Value, at: &str) -> usize {
    let found = node.pointer(at).and_then(|list| list.get("nvidia.com/gpu"));
    let count = found.and_then(thousandths).unwrap_or(0) / 1000;
    usize::try_from(count).unwrap_or(0)
}

fn faults(node: &Value) -> Vec<&'static str> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let not_ready = conditions.into_iter().flatten().any(|condition| {
        string(condition, "/type") == "Ready" && string(condition, "/status") != "True"
    });
    let cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let faults = [(not_ready, "not ready"), (cordoned, "cordoned")];
    faults.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}

fn legend(text: &mut String, workloads: &[Workload<'_>]) {
    if workloads.is_empty() {
        return;
    }
    text.push_str("workloads\n");
    let letters = widest(workloads.iter().map(|one| &one.letter));
    let names = widest(workloads.iter().map(|one| &one.label));
    for one in workloads {
        let mut states: BTreeMap<&State, usize> = BTreeMap::new();
        for pod in &one.pods {
            *states.entry(&pod.state).or_default() += 1;
        }
        let counts: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
        let queue =
            if one.queue.is_empty() { String::new() } else { format!("queue {}  ", one.queue) };
        let (letter, label, counts) = (&one.letter, &one.label, counts.join(", "));
        let _ = writeln!(text, "  {letter:<letters$}  {label:<names$}  {queue}{counts}");
    }
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Pods without a node, by what they were told.
fn waiting(text: &mut String, workloads: &[Workload<'_>]) {
    let mut reasons: BTreeMap<String, Vec<Shown>> = BTreeMap::new();
    for pod in workloads.iter().flat_map(|one| &one.pods) {
        let reason = match pod.state {
            State::Waiting => pod.reason.clone().unwrap_or_else(|| "no reason given".to_owned()),
            State::Gated => "has scheduling gates".to_owned(),
            State::Running | State::Bound | State::Leaving | State::Succeeded | State::Failed => {
                continue;
            }
        };
        reasons.entry(reason).or_default().push(pod.mark.clone());
    }
    if reasons.is_empty() {
        return;
    }
    text.push_str("pending\n");
    for (reason, pods) in reasons {
        let _ = writeln!(text, "  {}: {reason}", joined(pods));
    }
}

fn string<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// Sorts `gpu-10` behind `gpu-9`.
fn natural(name: &str) -> Shown {
    Shown::plain(name)
}
