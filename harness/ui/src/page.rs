//! The HTML of the page. Everything that a cluster contains is escaped by `maud`.

use std::fmt::Write as _;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use schedlab_audit::format_offset;
use schedlab_conformance::world::scenario_cluster::epoch_timestamp;

use crate::events::ClusterEvent;
use crate::state::{ClusterState, GpuState, MilliGpus, NodeState, PendingWorkload, QueueState};

/// Number of colours in `page.css`. Queues beyond them share colours; the letter tells them apart.
const COLOURS: usize = 10;

/// Number of pending workloads that the page lists.
const PENDING_MAX: usize = 200;

/// The whole page around a view of the cluster.
pub(crate) fn document(view: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "schedlab" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="page.css";
                script src="page.js" defer {}
            }
            body {
                header {
                    h1 { "schedlab" }
                    (time_bar())
                }
                p #message role="status" aria-live="polite" {}
                main #view { (view) }
                (actions())
                section #details aria-live="polite" aria-label="Details" {}
                section aria-labelledby="events-title" {
                    h2 #events-title { "Events" }
                    (event_filter())
                    ol #events {}
                }
            }
        }
    }
}

fn time_bar() -> Markup {
    html! {
        div .time role="toolbar" aria-label="Time" {
            button #play type="button" aria-pressed="false" { "Play" }
            label { "Speed "
                select #speed {
                    option value="1" { "1×" }
                    option value="10" selected { "10×" }
                    option value="60" { "60×" }
                    option value="600" { "600×" }
                }
            }
            button type="button" data-advance="cycle" { "Step one cycle" }
            button type="button" data-advance="60" { "+1 min" }
            button type="button" data-advance="3600" { "+1 h" }
            button type="button" data-advance="eviction" { "To the next eviction" }
            label .slider { "History "
                input #revision type="range" min="1" max="1" value="1" aria-label="Revision of the cluster";
            }
            button #now type="button" { "Now" }
        }
    }
}

fn event_filter() -> Markup {
    html! {
        div .filter {
            label { "Show "
                select #event-kind {
                    option value="" { "all events" }
                    option value="eviction" { "evictions" }
                    option value="binding" { "bindings" }
                    option value="pending" { "pending reasons" }
                }
            }
            label { "Name contains " input #event-text type="search"; }
        }
    }
}

fn actions() -> Markup {
    html! {
        section .actions aria-labelledby="actions-title" {
            h2 #actions-title { "Change the cluster" }
            form #submit {
                h3 { "Submit a job" }
                label { "Name " input name="name" required value="train-1" pattern="[a-z0-9]([a-z0-9\\-]*[a-z0-9])?"; }
                label { "Queue " input name="queue" required list="queue-names"; }
                label { "Pods " input name="pods" type="number" min="1" max="10000" value="4" required; }
                label { "GPUs per pod " input name="gpus" type="number" min="0" max="64" value="1" required; }
                label { input name="gang" type="checkbox" checked; " all pods start together (gang)" }
                label { input name="non_preemptible" type="checkbox"; " non-preemptible" }
                button { "Submit" }
            }
            form #quota {
                h3 { "Change a quota" }
                label { "Queue " input name="queue" required list="queue-names"; }
                label { "GPUs " input name="gpus" type="number" min="-1" step="any" value="8" required; }
                button { "Set quota" }
            }
            form #node {
                h3 { "Change a node" }
                label { "Node " input name="node" required list="node-names"; }
                label { "Action "
                    select name="action" {
                        option value="fail" { "fail" }
                        option value="recover" { "recover" }
                        option value="cordon" { "cordon" }
                        option value="uncordon" { "uncordon" }
                    }
                }
                button { "Apply" }
            }
            form #yaml {
                h3 { "Apply YAML" }
                label { "Manifest " textarea name="text" rows="8" cols="50" required {} }
                button { "Apply" }
            }
        }
    }
}

/// The part of the page that changes with the cluster.
pub(crate) fn view(state: &ClusterState, now: Timestamp, revision: u64, latest: u64) -> Markup {
    html! {
        p .clock data-revision=(revision) data-latest=(latest) {
            strong { (offset(now)) } " since the start, revision " (revision)
            @if revision < latest { " of " (latest) " " mark { "past" } }
            " · " (state.gpus_in_use) " of " (state.gpus) " GPUs in use"
            @let pods: usize = state.pending.iter().map(|workload| workload.pods).sum();
            " · " (pods) " pending pods"
        }
        section aria-labelledby="nodes-title" {
            h2 #nodes-title { "Nodes" }
            div .nodes { @for node in &state.nodes { (node_box(node, state)) } }
        }
        section aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            (queue_table(&state.queues))
        }
        section aria-labelledby="pending-title" {
            h2 #pending-title { "Pending" }
            (pending_table(&state.pending))
        }
        datalist #queue-names {
            @for queue in state.queues.iter().filter(|queue| !queue.has_children) {
                option value=(queue.name) {}
            }
        }
        datalist #node-names { @for node in &state.nodes { option value=(node.name) {} } }
    }
}

/// The text of a time as an offset from the start of the cluster.
pub(crate) fn offset(time: Timestamp) -> String {
    format_offset(time.as_millisecond() - epoch_timestamp().as_millisecond())
}

fn node_box(node: &NodeState, state: &ClusterState) -> Markup {
    let used = node.gpus.iter().filter(|gpu| !gpu.users.is_empty()).count();
    html! {
        div .node.problem[node.problem.is_some()] {
            button .name type="button" data-details=(format!("node/{}", node.name)) {
                (node.name)
                span .count { (used) "/" (node.gpus.len()) }
                @if let Some(problem) = node.problem { span .badge { (problem) } }
                @if node.other_pods > 0 { span .badge { "+" (node.other_pods) " pods" } }
            }
            div .gpus { @for (index, gpu) in node.gpus.iter().enumerate() { (gpu_cell(gpu, index, state)) } }
        }
    }
}

fn gpu_cell(gpu: &GpuState, index: usize, state: &ClusterState) -> Markup {
    let Some(first) = gpu.users.first() else {
        return html! { i .gpu title=(format!("GPU {index}: free")) {} };
    };
    let queue = first.queue.and_then(|at| state.queues.get(at));
    let mut title = format!("GPU {index}:");
    for user in &gpu.users {
        let _ = write!(title, " {}", user.pod);
    }
    if let Some(queue) = queue {
        let _ = write!(title, " of queue {}", queue.name);
    }
    let colour = first.queue.map_or_else(|| "qx".to_owned(), |at| format!("q{}", at % COLOURS));
    let leaving = if first.is_terminating { " leaving" } else { "" };
    let class = format!("gpu {colour}{leaving}");
    html! {
        i class=(class) title=(title) data-details=(format!("pod/{}", first.pod)) {
            @if gpu.users.len() > 1 { (gpu.users.len()) } @else { (first.queue.map_or('?', queue_letter)) }
        }
    }
}

/// The letter that stands for the queue at a position.
fn queue_letter(position: usize) -> char {
    let letter = u8::try_from(position % 26).unwrap_or(0);
    char::from(b'A' + letter)
}

fn queue_table(queues: &[QueueState]) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label="Queues" {
            table {
                thead { tr {
                    th scope="col" { "Queue" } th scope="col" { "Quota" } th scope="col" { "Fair share" }
                    th scope="col" { "In use" } th scope="col" { "Over quota" } th scope="col" { "Pending" } th scope="col" { "Limit" }
                } }
                tbody { @for (position, queue) in queues.iter().enumerate() { (queue_row(position, queue)) } }
            }
        }
    }
}

fn queue_row(position: usize, queue: &QueueState) -> Markup {
    let unlimited = |amount: Option<MilliGpus>| amount.map_or_else(|| "∞".to_owned(), gpus_text);
    html! {
        tr {
            th scope="row" {
                span class=(format!("indent d{}", queue.depth.min(6))) {}
                i class=(format!("gpu q{}", position % COLOURS)) aria-hidden="true" { (queue_letter(position)) }
                button .name type="button" data-details=(format!("queue/{}", queue.name)) { (queue.name) }
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

fn pending_table(pending: &[PendingWorkload]) -> Markup {
    if pending.is_empty() {
        return html! { p { "No pods are pending." } };
    }
    html! {
        div .scroll tabindex="0" role="region" aria-label="Pending" {
            table {
                thead { tr {
                    th scope="col" { "Workload" } th scope="col" { "Queue" } th scope="col" { "Pods" }
                    th scope="col" { "GPUs" } th scope="col" { "Reason" }
                } }
                tbody { @for workload in pending.iter().take(PENDING_MAX) { tr {
                    th scope="row" {
                        button .name type="button" data-details=(format!("workload/{}/{}", workload.namespace, workload.name)) {
                            (workload.namespace) "/" (workload.title)
                        }
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
fn gpus_text(milli: MilliGpus) -> String {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The events as list items, newest first. Neighbours that say the same of different objects at the
/// same time share an item.
pub(crate) fn event_items(events: &[ClusterEvent]) -> Markup {
    let says_the_same = |a: &ClusterEvent, b: &ClusterEvent| {
        (a.time, a.object_kind, &a.text) == (b.time, b.object_kind, &b.text)
    };
    html! { @for group in events.chunk_by(says_the_same) { (event_item(group)) } }
}

fn event_item(events: &[ClusterEvent]) -> Markup {
    let Some(first) = events.first() else { return Markup::default() };
    html! {
        li class=(first.kind.as_str()) {
            button type="button" data-revision=(first.revision) title="Show the cluster at this time" {
                (offset(first.time))
            }
            " " (first.object_kind) " "
            @if first.object_kind == "pod" {
                button .name type="button" data-details=(format!("pod/{}/{}", first.namespace, first.name)) {
                    (first.namespace) "/" (first.name)
                }
            } @else { b { (first.name) } }
            @if events.len() > 1 { " and " (events.len() - 1) " more" }
            ": " (first.text)
        }
    }
}

/// Details of one object: its explanation, and its events.
pub(crate) fn details(title: &str, explanation: &str, events: &[ClusterEvent]) -> Markup {
    html! {
        h2 { (title) }
        @if !explanation.is_empty() { pre tabindex="0" { (explanation) } }
        h3 { "History" }
        @if events.is_empty() { p { "Nothing has happened to it yet." } }
        ol { (event_items(events)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_shown_without_needless_decimals() {
        assert_eq!([8000, 500, 1250, 0].map(gpus_text), ["8", "0.5", "1.25", "0"]);
    }
}
