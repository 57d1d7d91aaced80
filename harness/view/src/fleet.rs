//! The drawing of a large fleet. Its nodes are folded into blocks: each is one small SVG, so that a
//! page of 4,000 nodes has a hundred elements instead of 32,000, and a block whose nodes did not
//! change is the same text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::drawing::{QueuePositions, queue_class, queue_positions};
use crate::state::{ClusterState, NodeState};

/// From this number of nodes on, a page folds them into blocks.
pub const LARGE_FROM: usize = 200;

/// Number of nodes in a block.
pub const BLOCK_NODES: usize = 40;

/// Nodes in a row of a block.
const COLUMNS: usize = 5;

/// Size of a node in a block, with the space around it, in units of the `viewBox`.
const NODE_WIDTH: usize = 26;
const NODE_HEIGHT: usize = 8;

/// Width of the GPUs of a node.
const GPUS_WIDTH: f64 = 24.0;

/// The nodes of a block; none behind the last block.
pub fn block_nodes(state: &ClusterState, block: usize) -> &[NodeState] {
    state.nodes.chunks(BLOCK_NODES).nth(block).unwrap_or_default()
}

/// The nodes whose name, problem, queue or pods contain a text.
pub fn matching_nodes<'s>(
    state: &'s ClusterState,
    text: &str,
) -> impl Iterator<Item = &'s NodeState> {
    state.nodes.iter().filter(move |node| {
        node.name.contains(text)
            || node.problem.is_some_and(|problem| problem.contains(text))
            || node
                .gpus
                .iter()
                .flat_map(|gpu| &gpu.users)
                .any(|user| &*user.queue == text || user.pod.contains(text))
    })
}

/// The blocks of all nodes, as buttons with the attribute `data-block`. The pressed one is `chosen`.
pub fn blocks(state: &ClusterState, chosen: usize) -> Vec<Markup> {
    let positions = queue_positions(state);
    let blocks = state.nodes.chunks(BLOCK_NODES).enumerate();
    blocks.map(|(index, nodes)| block(nodes, index, index == chosen, &positions)).collect()
}

fn block(
    nodes: &[NodeState],
    index: usize,
    is_chosen: bool,
    positions: &QueuePositions<'_>,
) -> Markup {
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else { return Markup::default() };
    let gpus = nodes.iter().flat_map(|node| &node.gpus);
    let used = gpus.clone().filter(|gpu| !gpu.users.is_empty()).count();
    let problems = nodes.iter().filter(|node| node.problem.is_some()).count();
    let mut label =
        format!("{} to {}: {used} of {} GPUs in use", first.name, last.name, gpus.count());
    if problems > 0 {
        let _ = write!(label, ", {problems} nodes not ready or cordoned");
    }
    let rows = nodes.len().div_ceil(COLUMNS);
    let size = format!("0 0 {} {}", COLUMNS * NODE_WIDTH, rows * NODE_HEIGHT);
    html! {
        button .block type="button" data-block=(index) aria-pressed=(is_chosen) aria-label=(label) title=(label) {
            svg viewBox=(size) width=(COLUMNS * NODE_WIDTH) height=(rows * NODE_HEIGHT) aria-hidden="true" {
                path .outline d=(outlines(nodes, |node| node.problem.is_none())) {}
                @for (class, path) in gpu_paths(nodes, positions) { path class=(class) d=(path) {} }
                @if problems > 0 { path .fault d=(outlines(nodes, |node| node.problem.is_some())) {} }
            }
        }
    }
}

/// The outlines of the nodes that `is_drawn` chooses.
fn outlines(nodes: &[NodeState], is_drawn: impl Fn(&NodeState) -> bool) -> String {
    let mut path = String::new();
    for (at, _) in nodes.iter().enumerate().filter(|(_, node)| is_drawn(node)) {
        let (x, y) = corner(at);
        let _ = write!(path, "M{x} {y}h{GPUS_WIDTH}v6h-{GPUS_WIDTH}z");
    }
    path
}

/// The corner of a node in its block.
fn corner(at: usize) -> (usize, usize) {
    (1 + at % COLUMNS * NODE_WIDTH, 1 + at / COLUMNS * NODE_HEIGHT)
}

/// A line along the GPUs in use for each queue. GPUs beside each other share a segment.
fn gpu_paths(nodes: &[NodeState], positions: &QueuePositions<'_>) -> BTreeMap<String, String> {
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let (x, y) = corner(at);
        let classes: Vec<Option<String>> = node
            .gpus
            .iter()
            .map(|gpu| {
                let user = gpu.users.first()?;
                let class = queue_class(positions.get(&*user.queue).copied());
                Some(if user.is_terminating { format!("{class} leaving") } else { class })
            })
            .collect();
        let mut start = 0;
        for run in classes.chunk_by(|a, b| a == b) {
            if let Some(Some(class)) = run.first() {
                let (from, length) = (part(start, classes.len()), part(run.len(), classes.len()));
                let path = paths.entry(class.clone()).or_default();
                let _ = write!(path, "M{} {}h{length}", offset(x, from), y + 3);
            }
            start += run.len();
        }
    }
    paths
}

/// The width of a number of GPUs, with one decimal.
#[expect(clippy::cast_precision_loss, reason = "a node has few GPUs")]
fn part(gpus: usize, of: usize) -> f64 {
    (GPUS_WIDTH * 10.0 * gpus as f64 / of.max(1) as f64).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a block is small")]
fn offset(x: usize, by: f64) -> f64 {
    ((x as f64 + by) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::state::{GpuState, GpuUser};

    fn fleet(count: usize) -> ClusterState {
        let node = |index: usize| NodeState {
            name: format!("n-{index:04}"),
            problem: None,
            gpus: vec![GpuState::default(); 8],
            parts: Vec::new(),
            other_pods: 0,
        };
        ClusterState { nodes: (0..count).map(node).collect(), ..ClusterState::default() }
    }

    fn use_gpu(state: &mut ClusterState, node: usize, gpu: usize) {
        state.nodes[node].gpus[gpu].users = vec![GpuUser {
            pod: Arc::from("default/p"),
            queue: Arc::from("a"),
            is_terminating: false,
            portion: 1000,
        }];
    }

    #[test]
    fn only_the_block_of_a_changed_node_changes() {
        let mut state = fleet(4000);
        let texts = |state: &ClusterState| -> Vec<String> {
            blocks(state, 0).into_iter().map(Markup::into_string).collect()
        };
        let before = texts(&state);
        use_gpu(&mut state, 85, 3);
        let after = texts(&state);
        let changed: Vec<usize> =
            (0..after.len()).filter(|index| before[*index] != after[*index]).collect();
        assert_eq!((after.len(), changed), (100, vec![2]));
        assert!(after[2].contains("n-0080 to n-0119: 1 of 320 GPUs in use"), "{}", after[2]);
    }

    #[test]
    fn gpus_beside_each_other_share_a_segment() {
        let mut state = fleet(1);
        (0..4).for_each(|gpu| use_gpu(&mut state, 0, gpu));
        let paths = gpu_paths(&state.nodes, &queue_positions(&state));
        assert_eq!(
            paths.into_iter().collect::<Vec<_>>(),
            [("qx".to_owned(), "M1 4h12".to_owned())]
        );
    }

    #[test]
    fn nodes_are_found_by_name_problem_queue_and_pod() {
        let mut state = fleet(300);
        use_gpu(&mut state, 7, 0);
        state.nodes[9].problem = Some("cordoned");
        let found = |text: &str| -> Vec<String> {
            matching_nodes(&state, text).map(|node| node.name.clone()).collect()
        };
        assert_eq!(found("n-0123"), ["n-0123"]);
        assert_eq!(
            (found("cordoned"), found("a"), found("default/p")),
            (vec!["n-0009".to_owned()], vec!["n-0007".to_owned()], vec!["n-0007".to_owned()])
        );
    }
}
