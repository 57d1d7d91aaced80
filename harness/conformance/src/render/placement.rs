//! Renders where everything runs. Every pod has a symbol, a letter for its workload and a number. A
//! node is a row of its GPUs in the order of their indices, and a legend explains the letters. The
//! symbol of a terminating pod ends in `-`; pods behind `+` have no GPU (yet).

mod queues;
mod symbols;

use std::{collections::BTreeMap, fmt::Write as _};

use schedlab_api::{Value, conditions, quantity::thousandths, resources};

use super::aliases::{Alias, join_alias_texts};
use symbols::{PlacedPod, PodState, Workload, assign_workload_symbols};

/// Fair shares of queues in GPUs, as the scheduler last computed them, by queue name.
pub type FairShares = BTreeMap<String, f64>;

/// The objects from which a placement is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterObjects<'a> {
    /// All nodes of the cluster.
    pub nodes: &'a [&'a Value],
    /// Pods of all namespaces.
    pub pods: &'a [&'a Value],
    /// All queues of the cluster.
    pub queues: &'a [&'a Value],
    /// Pod groups of every namespace.
    pub pod_groups: &'a [&'a Value],
}

/// Renders where everything runs at one moment: nodes with their GPUs, a legend, queues, and
/// pending pods.
pub fn placement_text(cluster: ClusterObjects<'_>, fair_shares: &FairShares) -> String {
    let workloads = assign_workload_symbols(&cluster);
    let mut text = String::new();
    write_nodes(&mut text, &cluster, &workloads);
    write_legend(&mut text, &workloads);
    write_pending_pods(&mut text, &workloads);
    queues::write_queue_tables(&mut text, &cluster, &workloads, fair_shares);
    text
}

fn write_nodes(text: &mut String, cluster: &ClusterObjects<'_>, workloads: &[Workload<'_>]) {
    let pods: Vec<&PlacedPod<'_>> = workloads.iter().flat_map(|one| &one.pods).collect();
    let cell = pods.iter().map(|pod| pod.gpu_cell_text().len()).max().unwrap_or(0).max(2);
    let mut sorted: Vec<(&str, &Value)> =
        cluster.nodes.iter().map(|node| (string_at(node, "/metadata/name"), *node)).collect();
    sorted.sort_by_key(|(name, _)| natural_sort_key(name));
    let mut rows: Vec<(Vec<&str>, String, bool)> = Vec::new();
    for (name, node) in sorted {
        let here: Vec<&PlacedPod<'_>> =
            pods.iter().copied().filter(|pod| pod.holds_resources() && pod.node == name).collect();
        let row = node_row(node, &here, cell);
        match rows.last_mut() {
            // Consecutive idle nodes with the same row share a line.
            Some((names, last, true)) if here.is_empty() && *last == row => names.push(name),
            Some(_) | None => rows.push((vec![name], row, here.is_empty())),
        }
    }
    let named: Vec<(String, String)> = rows
        .into_iter()
        .map(|(names, row, _)| {
            (join_alias_texts(names.into_iter().map(Alias::from_name).collect()), row)
        })
        .collect();
    let width = max_width(named.iter().map(|(name, _)| name));
    text.push_str("nodes\n");
    for (name, row) in named {
        let _ = writeln!(text, "  {name:<width$}  {row}");
    }
}

/// The row of a node: its GPUs in order, other pods on it, and the node's problems.
fn node_row(node: &Value, pods_on_node: &[&PlacedPod<'_>], cell_width: usize) -> String {
    let count =
        gpu_count_at(node, "/status/allocatable").max(gpu_count_at(node, "/status/capacity"));
    let mut devices = vec![format!("{:<cell_width$}", ".."); count];
    for pod in pods_on_node {
        for device in pod.devices.iter().filter(|device| **device < count) {
            devices[*device] = format!("{:<cell_width$}", pod.gpu_cell_text());
        }
    }
    let mut row = if count == 0 { "no GPU".to_owned() } else { devices.join(" ") };
    let others = pods_on_node.iter().filter(|pod| pod.devices.is_empty());
    let others: Vec<String> = others.map(|pod| pod.gpu_cell_text()).collect();
    if !others.is_empty() {
        let _ = write!(row, " + {}", others.join(" "));
    }
    let faults = node_problems(node);
    if !faults.is_empty() {
        let _ = write!(row, " ({})", faults.join(", "));
    }
    row.trim_end().to_owned()
}

fn gpu_count_at(node: &Value, pointer: &str) -> usize {
    let found = node.pointer(pointer).and_then(|list| list.get(resources::GPU));
    let count = found.and_then(thousandths).unwrap_or(0) / 1000;
    usize::try_from(count).unwrap_or(0)
}

fn node_problems(node: &Value) -> Vec<&'static str> {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let not_ready = conditions.into_iter().flatten().any(|condition| {
        string_at(condition, "/type") == conditions::READY
            && string_at(condition, "/status") != "True"
    });
    let cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let faults = [(not_ready, "not ready"), (cordoned, "cordoned")];
    faults.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}

fn write_legend(text: &mut String, workloads: &[Workload<'_>]) {
    if workloads.is_empty() {
        return;
    }
    text.push_str("workloads\n");
    let letters = max_width(workloads.iter().map(|one| &one.letter));
    let names = max_width(workloads.iter().map(|one| &one.label));
    for one in workloads {
        let mut states: BTreeMap<&PodState, usize> = BTreeMap::new();
        for pod in &one.pods {
            *states.entry(&pod.state).or_default() += 1;
        }
        let counts: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {}", state.state_word())).collect();
        let queue =
            if one.queue.is_empty() { String::new() } else { format!("queue {}  ", one.queue) };
        let (letter, label, counts) = (&one.letter, &one.label, counts.join(", "));
        let _ = writeln!(text, "  {letter:<letters$}  {label:<names$}  {queue}{counts}");
    }
}

fn max_width<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Writes the pods without a node, grouped by the scheduler's reason.
fn write_pending_pods(text: &mut String, workloads: &[Workload<'_>]) {
    let mut reasons: BTreeMap<String, Vec<Alias>> = BTreeMap::new();
    for pod in workloads.iter().flat_map(|one| &one.pods) {
        let reason = match pod.state {
            PodState::Pending => pod.reason.clone().unwrap_or_else(|| "no reason given".to_owned()),
            PodState::Gated => "has scheduling gates".to_owned(),
            PodState::Running
            | PodState::Starting
            | PodState::Terminating
            | PodState::Succeeded
            | PodState::Failed => {
                continue;
            }
        };
        reasons.entry(reason).or_default().push(pod.symbol.clone());
    }
    if reasons.is_empty() {
        return;
    }
    text.push_str("pending\n");
    for (reason, pods) in reasons {
        let _ = writeln!(text, "  {}: {reason}", join_alias_texts(pods));
    }
}

fn string_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A sort key for names that puts `gpu-10` after `gpu-9`.
fn natural_sort_key(name: &str) -> Alias {
    Alias::from_name(name)
}
