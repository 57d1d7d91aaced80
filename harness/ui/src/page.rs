//! The HTML of the page. Everything that a cluster contains is escaped by `maud`.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use schedlab_audit::format_offset;

use schedlab_view::drawing::{self, Names};
use schedlab_view::events::ClusterEvent;
use schedlab_view::state::ClusterState;

/// Number of names that a form suggests.
const SUGGESTIONS_MAX: usize = 500;

/// Which controls of time the page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeControls {
    /// Time passes when the page says so, and the history can be shown.
    All,
    /// The cluster runs in real time; its history can be shown.
    History,
}

/// The moment that is shown.
pub(crate) struct Moment {
    pub(crate) time: Timestamp,
    /// The time from which the page counts.
    pub(crate) start: Timestamp,
    pub(crate) revision: u64,
    pub(crate) latest: u64,
}

/// The whole page around a view of the cluster.
pub(crate) fn document(view: &Markup, time: TimeControls) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "schedlab" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="cluster.css";
                link rel="stylesheet" href="page.css";
                script src="page.js" defer {}
            }
            body {
                header {
                    h1 { "schedlab" }
                    (time_bar(time))
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

fn time_bar(controls: TimeControls) -> Markup {
    html! {
        div .time role="toolbar" aria-label="Time" {
            @if controls == TimeControls::All { (clock_buttons()) } @else { span { "Live" } }
            label .slider { "History "
                input #revision type="range" min="1" max="1" value="1" aria-label="Revision of the cluster";
            }
            button #now type="button" { "Now" }
        }
    }
}

fn clock_buttons() -> Markup {
    html! {
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
pub(crate) fn view(state: &ClusterState, moment: &Moment) -> Markup {
    let Moment { time, start, revision, latest } = moment;
    html! {
        p .clock data-revision=(revision) data-latest=(latest) {
            strong { (offset(*time, *start)) } " since the start, revision " (revision)
            @if revision < latest { " of " (latest) " " mark { "past" } }
            " · " (state.gpus_in_use) " of " (state.gpus) " GPUs in use"
            @let pods: usize = state.pending.iter().map(|workload| workload.pods).sum();
            " · " (pods) " pending pods"
        }
        section aria-labelledby="nodes-title" {
            h2 #nodes-title { "Nodes" }
            p .note { "Arrow keys go from a node to its GPUs." }
            (drawing::nodes(state, Names::Buttons))
        }
        section aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            (drawing::queue_table(&state.queues, Names::Buttons))
        }
        section aria-labelledby="pending-title" {
            h2 #pending-title { "Pending" }
            (drawing::pending_table(&state.pending, Names::Buttons))
        }
        datalist #queue-names {
            @for queue in state.queues.iter().filter(|queue| !queue.has_children) {
                option value=(queue.name) {}
            }
        }
        datalist #node-names {
            @for node in state.nodes.iter().take(SUGGESTIONS_MAX) { option value=(node.name) {} }
        }
    }
}

/// The text of a time as an offset from the start of the cluster.
fn offset(time: Timestamp, start: Timestamp) -> String {
    format_offset(time.as_millisecond() - start.as_millisecond())
}

/// The events as list items, newest first. Neighbours that say the same of different objects at the
/// same time share an item.
pub(crate) fn event_items(events: &[ClusterEvent], start: Timestamp) -> Markup {
    let says_the_same = |a: &ClusterEvent, b: &ClusterEvent| {
        (a.time, a.object_kind, &a.text) == (b.time, b.object_kind, &b.text)
    };
    html! { @for group in events.chunk_by(says_the_same) { (event_item(group, start)) } }
}

fn event_item(events: &[ClusterEvent], start: Timestamp) -> Markup {
    let Some(first) = events.first() else { return Markup::default() };
    html! {
        li class=(first.kind.as_str()) {
            button type="button" data-revision=(first.revision) title="Show the cluster at this time" {
                (offset(first.time, start))
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
pub(crate) fn details(
    title: &str,
    explanation: &str,
    events: &[ClusterEvent],
    start: Timestamp,
) -> Markup {
    html! {
        h2 { (title) }
        @if !explanation.is_empty() { pre tabindex="0" { (explanation) } }
        h3 { "History" }
        @if events.is_empty() { p { "Nothing has happened to it yet." } }
        ol { (event_items(events, start)) }
    }
}
