//! The HTML of a cluster's state: nodes as boxes of GPUs, queues and pending work. Everything that
//! a cluster contains is escaped by `maud`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::state::{ClusterState, GpuState, MilliGpus, NodeState, PendingWorkload, QueueState};

/// The styles of what this module draws, and of common elements.
pub const STYLES: &str =
    concat!(include_str!("assets/base.css"), include_str!("assets/cluster.css"));

/// Number of colours in `cluster.css`. Queues beyond them share colours; the letter tells them
/// apart.
const COLOURS: usize = 10;

/// Number of pending workloads that are listed.
const PENDING_MAX: usize = 200;

/// From this number of nodes on, nodes that look the same share a box.
const GROUP_FROM: usize = 200;

/// Number of names that a box of several nodes lists.
const GROUP_NAMES_MAX: usize = 40;

/// What the names of objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Buttons with the attribute `data-details`, to which a script reacts.
    Buttons,
    /// Plain text.
    Text,
}

impl Names {
    fn draw(self, text: &str, details: &str) -> Markup {
        match self {
            Self::Buttons => {
                html! { button .name type="button" data-details=(details) { (text) } }
            }
            Self::Text => html! { span .name { (text) } },
        }
    }
}

/// Draws the nodes. With many nodes, those that look the same share a box.
pub fn nodes(state: &ClusterState, names: Names) -> Markup {
    let all: Vec<&NodeState> = state.nodes.iter().collect();
    nodes_of(&all, state, names)
}

/// Draws some of the nodes of a state.
pub fn nodes_of(nodes: &[&NodeState], state: &ClusterState, names: Names) -> Markup {
    let positions = queue_positions(state);
    if nodes.len() < GROUP_FROM {
        return html! {
            div .nodes { @for node in nodes { (node_box(&[*node], &positions, names)) } }
        };
    }
    let mut groups: Vec<Vec<&NodeState>> = Vec::new();
    let mut by_look: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let look = look_of(node, &positions);
        let index = *by_look.entry(look).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[index].push(node);
    }
    html! {
        p .note { (nodes.len()) " nodes; those that look the same share a box." }
        div .nodes { @for group in &groups { (node_box(group, &positions, names)) } }
    }
}

/// The positions of the queues by name, from which come their letters and colours.
type QueuePositions<'s> = BTreeMap<&'s str, usize>;

fn queue_positions(state: &ClusterState) -> QueuePositions<'_> {
    state.queues.iter().enumerate().map(|(at, queue)| (queue.name.as_str(), at)).collect()
}

/// How a node is drawn, apart from its name. Which pods of a queue it has makes no difference.
fn look_of(node: &NodeState, positions: &QueuePositions<'_>) -> String {
    let mut look = format!("{} {}", node.problem.unwrap_or_default(), node.other_pods);
    let mut cells: Vec<String> = node.gpus.iter().map(|gpu| cell_look(gpu, positions)).collect();
    cells.sort();
    for cell in cells {
        let _ = write!(look, "|{cell}");
    }
    look
}

fn cell_look(gpu: &GpuState, positions: &QueuePositions<'_>) -> String {
    gpu.users.first().map_or_else(String::new, |first| {
        let queue = positions.get(&*first.queue);
        format!("{} {queue:?} {}", gpu.users.len(), first.is_terminating)
    })
}

/// The box of one or several nodes that look the same.
fn node_box(nodes: &[&NodeState], positions: &QueuePositions<'_>, names: Names) -> Markup {
    let Some(node) = nodes.first() else { return Markup::default() };
    let used = node.gpus.iter().filter(|gpu| !gpu.users.is_empty()).count();
    html! {
        div .node.problem[node.problem.is_some()] {
            div {
                (names.draw(&node.name, &format!("node/{}", node.name)))
                span .count { (used) "/" (node.gpus.len()) " GPUs" }
                @if let Some(problem) = node.problem { span .badge { (problem) } }
                @if node.other_pods > 0 { span .badge { "+" (node.other_pods) " pods" } }
            }
            div .gpus role="group" aria-label=(format!("GPUs of {}", node.name)) {
                @for (index, gpu) in node.gpus.iter().enumerate() { (gpu_cell(gpu, index, positions, names)) }
            }
            @if nodes.len() > 1 { (other_nodes(&nodes[1..], names)) }
        }
    }
}

fn other_nodes(nodes: &[&NodeState], names: Names) -> Markup {
    html! {
        details {
            summary { "and " (nodes.len()) " like it" }
            @for node in nodes.iter().take(GROUP_NAMES_MAX) {
                (names.draw(&node.name, &format!("node/{}", node.name))) " "
            }
            @if nodes.len() > GROUP_NAMES_MAX { "and " (nodes.len() - GROUP_NAMES_MAX) " more" }
        }
    }
}

fn gpu_cell(gpu: &GpuState, index: usize, positions: &QueuePositions<'_>, names: Names) -> Markup {
    let Some(first) = gpu.users.first() else {
        let label = format!("GPU {index}: free");
        return html! { span .gpu role="img" aria-label=(label) title=(label) {} };
    };
    let position = positions.get(&*first.queue).copied();
    let mut label = format!("GPU {index}:");
    for user in &gpu.users {
        let _ = write!(label, " {}", user.pod);
    }
    if !first.queue.is_empty() {
        let _ = write!(label, " of queue {}", first.queue);
    }
    if first.is_terminating {
        label.push_str(", leaving");
    }
    let colour = position.map_or_else(|| "qx".to_owned(), |at| format!("q{}", at % COLOURS));
    let leaving = if first.is_terminating { " leaving" } else { "" };
    let class = format!("gpu {colour}{leaving}");
    let text = match gpu.users.len() {
        1 => position.map_or('?', queue_letter).to_string(),
        several => several.to_string(),
    };
    let details = format!("pod/{}", first.pod);
    match names {
        Names::Buttons => html! {
            button type="button" tabindex="-1" class=(class) title=(label) aria-label=(label) data-details=(details) { (text) }
        },
        Names::Text => html! {
            span class=(class) role="img" aria-label=(label) title=(label) { (text) }
        },
    }
}

/// The letter that stands for the queue at a position.
fn queue_letter(position: usize) -> char {
    let letter = u8::try_from(position % 26).unwrap_or(0);
    char::from(b'A' + letter)
}

/// Draws the queues with their use, as a table.
pub fn queue_table(queues: &[QueueState], names: Names) -> Markup {
    if queues.is_empty() {
        return html! { p { "There are no queues." } };
    }
    html! {
        div .scroll tabindex="0" role="group" aria-label="Queues" {
            table {
                thead { tr {
                    th scope="col" { "Queue" } th scope="col" { "Quota" } th scope="col" { "Fair share" }
                    th scope="col" { "In use" } th scope="col" { "Over quota" } th scope="col" { "Pending" } th scope="col" { "Limit" }
                } }
                tbody { @for (position, queue) in queues.iter().enumerate() { (queue_row(position, queue, names)) } }
            }
        }
    }
}

fn queue_row(position: usize, queue: &QueueState, names: Names) -> Markup {
    let unlimited = |amount: Option<MilliGpus>| amount.map_or_else(|| "∞".to_owned(), gpus_text);
    html! {
        tr {
            th scope="row" {
                span class=(format!("indent d{}", queue.depth.min(6))) {}
                i class=(format!("gpu q{}", position % COLOURS)) aria-hidden="true" { (queue_letter(position)) }
                " " (names.draw(&queue.name, &format!("queue/{}", queue.name)))
            }
            td { (unlimited(queue.quota)) }
            td { (queue.fair_share.map(gpus_text).unwrap_or_default()) }
            td { (gpus_text(queue.used)) }
            td { @if queue.borrowed() > 0 { (gpus_text(queue.borrowed())) } }
            td { @if queue.pending > 0 { (gpus_text(queue.pending)) } }
            td { @if queue.limit.is_some() { (unlimited(queue.limit)) } }
        }
    }
}

/// Draws the workloads with pending pods and why they are pending, as a table.
pub fn pending_table(pending: &[PendingWorkload], names: Names) -> Markup {
    if pending.is_empty() {
        return html! { p { "No pods are pending." } };
    }
    html! {
        div .scroll tabindex="0" role="group" aria-label="Pending" {
            table {
                thead { tr {
                    th scope="col" { "Workload" } th scope="col" { "Queue" } th scope="col" { "Pods" }
                    th scope="col" { "GPUs" } th scope="col" { "Reason" }
                } }
                tbody { @for workload in pending.iter().take(PENDING_MAX) { tr {
                    th scope="row" {
                        (names.draw(
                            &format!("{}/{}", workload.namespace, workload.title),
                            &format!("workload/{}/{}", workload.namespace, workload.name),
                        ))
                    }
                    td { (workload.queue) }
                    td { (workload.pods) @if workload.running > 0 { " (" (workload.running) " run)" } }
                    td { (gpus_text(workload.gpus)) }
                    td .reason { (workload.reason) }
                } } }
            }
        }
        @if pending.len() > PENDING_MAX { p { (pending.len() - PENDING_MAX) " more workloads are pending." } }
    }
}

/// GPUs with at most three decimals.
pub fn gpus_text(milli: MilliGpus) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_shown_without_needless_decimals() {
        assert_eq!([8000, 500, 1250, 0].map(gpus_text), ["8", "0.5", "1.25", "0"]);
    }

    #[test]
    fn many_equal_nodes_share_a_box_and_few_do_not() {
        let node = |index: usize| NodeState {
            name: format!("n-{index}"),
            problem: (index == 0).then_some("cordoned"),
            gpus: vec![GpuState::default(); 2],
            other_pods: 0,
        };
        let boxes = |count: usize| {
            let state =
                ClusterState { nodes: (0..count).map(node).collect(), ..ClusterState::default() };
            nodes(&state, Names::Text).into_string().matches("class=\"gpus\"").count()
        };
        assert_eq!((boxes(GROUP_FROM - 1), boxes(4000)), (GROUP_FROM - 1, 2));
    }
}
