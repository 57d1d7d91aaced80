//! The HTML of a cluster's state: nodes as boxes of GPUs, queues and pending work. Everything that
//! a cluster contains is escaped by `maud`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, Render, html};

use crate::state::{
    ClusterState, GpuUser, MilliGpus, NodeState, PartState, PendingWorkload, QueueState,
};

/// The styles of what this module draws, and of common elements.
pub const STYLES: &str =
    concat!(include_str!("assets/base.css"), include_str!("assets/cluster.css"));

/// Number of colours in `cluster.css`. Queues beyond them share colours; the letter tells them
/// apart.
const COLOURS: usize = 10;

/// Number of pending workloads that are listed.
const PENDING_MAX: usize = 200;

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

/// Draws nodes of a state as boxes.
pub fn nodes<'s>(
    nodes: impl IntoIterator<Item = &'s NodeState>,
    state: &ClusterState,
    names: Names,
) -> Markup {
    let positions = queue_positions(state);
    html! { div .nodes { @for node in nodes { (node_box(node, &positions, names)) } } }
}

/// The positions of the queues by name, from which come their letters and colours.
pub(crate) type QueuePositions<'s> = BTreeMap<&'s str, usize>;

pub(crate) fn queue_positions(state: &ClusterState) -> QueuePositions<'_> {
    state.queues.iter().enumerate().map(|(at, queue)| (queue.name.as_str(), at)).collect()
}

fn node_box(node: &NodeState, positions: &QueuePositions<'_>, names: Names) -> Markup {
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
                @for (index, gpu) in node.gpus.iter().enumerate() {
                    (cell(&gpu.users, &format!("GPU {index}"), positions, names))
                }
            }
            @for parts in node.parts.chunk_by(|a, b| a.group == b.group) { (part_cells(parts, positions, names)) }
        }
    }
}

/// The MIG slices of a profile, or the DRA devices of a driver.
fn part_cells(parts: &[PartState], positions: &QueuePositions<'_>, names: Names) -> Markup {
    let Some(first) = parts.first() else { return Markup::default() };
    let used = parts.iter().filter(|part| !part.users.is_empty()).count();
    html! {
        div .gpus.parts role="group" aria-label=(format!("{used} of {} in use of {}", parts.len(), first.group)) {
            span .count { (first.group) }
            @for part in parts {
                (cell(&part.users, &format!("{} {}", part.group, part.name), positions, names))
            }
        }
    }
}

/// The class with the colour of the queue at a position.
pub(crate) fn queue_class(position: Option<usize>) -> String {
    position.map_or_else(|| "qx".to_owned(), |at| format!("q{}", at % COLOURS))
}

/// The box of a GPU, a MIG slice or a device, whose name is `what`.
fn cell(users: &[GpuUser], what: &str, positions: &QueuePositions<'_>, names: Names) -> Markup {
    let Some(first) = users.first() else {
        let label = format!("{what}: free");
        return html! { span .gpu role="img" aria-label=(label) title=(label) {} };
    };
    let position = positions.get(&*first.queue).copied();
    let mut label = format!("{what}:");
    for user in users {
        let _ = write!(label, " {}", user.pod);
        if users.len() > 1 && !user.queue.is_empty() {
            let _ = write!(label, " of {}", user.queue);
        }
        if (1..1000).contains(&user.portion) {
            let _ = write!(label, " ({} of the GPU)", gpus_text(user.portion));
        }
    }
    if users.len() == 1 && !first.queue.is_empty() {
        let _ = write!(label, " of queue {}", first.queue);
    }
    if first.is_terminating {
        label.push_str(", leaving");
    }
    let is_shared = users.len() > 1 || first.portion != 1000;
    let colour = if is_shared { "shared".to_owned() } else { queue_class(position) };
    let leaving = if first.is_terminating { " leaving" } else { "" };
    let class = format!("gpu {colour}{leaving}");
    let text = if is_shared {
        shares(users, positions)
    } else {
        html! { (position.map_or('?', queue_letter)) }
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

/// The pods that share a GPU as stripes, whose widths are their parts. Pods whose parts are unknown
/// get equal ones.
fn shares(users: &[GpuUser], positions: &QueuePositions<'_>) -> Markup {
    let known: MilliGpus = users.iter().map(|user| user.portion).sum();
    let is_known = known <= 1000 && users.iter().all(|user| user.portion > 0);
    let equal = 1000 / MilliGpus::try_from(users.len().max(1)).unwrap_or(1);
    let mut left = 0;
    let stripes = users.iter().map(|user| {
        let width = if is_known { user.portion } else { equal };
        left += width;
        (left - width, width, positions.get(&*user.queue).copied())
    });
    html! {
        svg viewBox="0 0 1000 500" aria-hidden="true" {
            @for (x, width, position) in stripes {
                rect class=(queue_class(position)) x=(x) width=(width) height="500" {}
                @if width >= 240 {
                    text x=(x + width / 2) y="370" text-anchor="middle" { (position.map_or('?', queue_letter)) }
                }
            }
        }
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
    let columns = ["Queue", "Quota", "Fair share", "In use", "Over quota", "Pending", "Limit"];
    let rows = queues.iter().enumerate().map(|(position, queue)| queue_row(position, queue, names));
    table("Queues", columns, rows)
}

/// A table that scrolls if it is wider than the page. Each row is a `tr`.
pub(crate) fn table(
    label: &str,
    columns: impl IntoIterator<Item = impl Render>,
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    html! {
        div .scroll tabindex="0" role="group" aria-label=(label) {
            table {
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { @for row in rows { (row) } }
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
    let columns = ["Workload", "Queue", "Pods", "GPUs", "Reason"];
    let rows = pending.iter().take(PENDING_MAX).map(|workload| pending_row(workload, names));
    html! {
        (table("Pending", columns, rows))
        @if pending.len() > PENDING_MAX { p { (pending.len() - PENDING_MAX) " more workloads are pending." } }
    }
}

fn pending_row(workload: &PendingWorkload, names: Names) -> Markup {
    html! {
        tr {
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
        }
    }
}

/// GPUs with at most three decimals.
pub fn gpus_text(milli: MilliGpus) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn pods_that_share_a_gpu_are_stripes_of_their_parts() {
        let user = |pod: &str, queue: &str, portion| GpuUser {
            pod: Arc::from(pod),
            queue: Arc::from(queue),
            is_terminating: false,
            portion,
        };
        let positions = QueuePositions::from([("a", 0), ("b", 1)]);
        let text = |users: &[GpuUser]| cell(users, "GPU 0", &positions, Names::Text).into_string();
        let both = text(&[user("n/p", "a", 250), user("n/q", "b", 500)]);
        for expected in [
            "GPU 0: n/p of a (0.25 of the GPU) n/q of b (0.5 of the GPU)",
            "<rect class=\"q0\" x=\"0\" width=\"250\"",
            "<rect class=\"q1\" x=\"250\" width=\"500\"",
        ] {
            assert!(both.contains(expected), "{expected}: {both}");
        }
        let unknown = text(&[user("n/p", "a", 0), user("n/q", "b", 0)]);
        assert!(unknown.contains("x=\"500\" width=\"500\""), "{unknown}");
        assert!(!text(&[user("n/p", "a", 1000)]).contains("svg"));
    }

    #[test]
    fn gpus_are_shown_without_needless_decimals() {
        assert_eq!([8000, 500, 1250, 0].map(gpus_text), ["8", "0.5", "1.25", "0"]);
    }
}
