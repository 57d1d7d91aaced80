//! The HTML of the page. Everything that a cluster contains is escaped by `maud`.
//!
//! The view of the cluster consists of parts. A browser names the parts that it shows, and gets only
//! those that differ.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use schedlab_audit::format_offset;

use schedlab_view::drawing::{self, Names};
use schedlab_view::events::ClusterEvent;
use schedlab_view::fleet;
use schedlab_view::state::ClusterState;

/// Number of names that a form suggests.
const SUGGESTIONS_MAX: usize = 500;

/// Number of nodes that are drawn as boxes if a text was searched for.
const FOUND_MAX: usize = 100;

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
    /// Seconds of cluster time in a second of real time.
    pub(crate) speed: u32,
}

/// Which nodes of a large fleet are drawn as boxes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeChoice {
    /// Those of the block with this index.
    pub(crate) block: usize,
    /// Those with this text in their name, problem, queue or pods; instead of the block if there is
    /// a text.
    pub(crate) find: String,
}

/// A part of the view, which is replaced as a whole.
#[derive(Debug)]
struct Part {
    id: String,
    markup: Markup,
}

impl Part {
    fn new(id: impl Into<String>, markup: Markup) -> Self {
        Self { id: id.into(), markup }
    }

    /// A number that differs if the markup does.
    fn hash(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.markup.0.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    fn element(&self, hash: &str) -> Markup {
        html! { div .part id=(self.id) data-hash=(hash) { (self.markup) } }
    }

    fn whole(&self) -> Markup {
        self.element(&self.hash())
    }
}

/// The whole page around a view of the cluster.
pub(crate) fn document(view: &Markup, time: TimeControls, lesson: Option<&Markup>) -> Markup {
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
                @if lesson.is_some() { script src="lesson.js" defer {} }
            }
            body .has-lesson[lesson.is_some()] {
                header {
                    h1 { "schedlab" }
                    (time_bar(time))
                }
                p #message role="status" aria-live="polite" {}
                @if let Some(lesson) = lesson { (lesson) }
                (view)
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

/// The view of a cluster: its parts, and where they are on the page.
pub(crate) struct View {
    clock: Part,
    /// The blocks of a large fleet; none of a small one.
    blocks: Vec<Part>,
    nodes: Part,
    queues: Part,
    pending: Part,
    names: Part,
    find: String,
}

impl View {
    pub(crate) fn new(state: &ClusterState, moment: &Moment, choice: &NodeChoice) -> Self {
        let is_large = state.nodes.len() >= fleet::LARGE_FROM;
        let blocks = if is_large { fleet::blocks(state, choice.block) } else { Vec::new() };
        let numbered = blocks.into_iter().enumerate();
        Self {
            clock: Part::new("clock", clock(state, moment)),
            blocks: numbered.map(|(at, block)| Part::new(format!("block-{at}"), block)).collect(),
            nodes: Part::new("nodes", node_boxes(state, choice, is_large)),
            queues: Part::new("queues", drawing::queue_table(&state.queues, Names::Buttons)),
            pending: Part::new("pending", drawing::pending_table(&state.pending, Names::Buttons)),
            names: Part::new("names", names(state)),
            find: choice.find.clone(),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        let others = [&self.clock, &self.nodes, &self.queues, &self.pending, &self.names];
        self.blocks.iter().chain(others)
    }

    /// The parts that differ from those that a browser shows, which it names as
    /// `id:hash,id:hash`; the whole view if it shows other parts.
    pub(crate) fn changed(&self, shown: &str) -> Markup {
        let shown: BTreeMap<&str, &str> =
            shown.split(',').filter_map(|part| part.split_once(':')).collect();
        let is_same = self.parts().count() == shown.len()
            && self.parts().all(|part| shown.contains_key(&*part.id));
        if !is_same {
            return self.whole();
        }
        html! {
            @for part in self.parts() {
                @let hash = part.hash();
                @if shown.get(&*part.id) != Some(&&*hash) { (part.element(&hash)) }
            }
        }
    }

    pub(crate) fn whole(&self) -> Markup {
        html! {
            main #view {
                (self.clock.whole())
                section aria-labelledby="nodes-title" {
                    h2 #nodes-title { "Nodes" }
                    @if !self.blocks.is_empty() { (self.fleet()) }
                    (self.nodes.whole())
                }
                section aria-labelledby="queues-title" {
                    h2 #queues-title { "Queues" }
                    (self.queues.whole())
                }
                section aria-labelledby="pending-title" {
                    h2 #pending-title { "Pending" }
                    (self.pending.whole())
                }
                (self.names.whole())
            }
        }
    }

    fn fleet(&self) -> Markup {
        html! {
            p .note {
                "A block has " (fleet::BLOCK_NODES) " nodes, in the order of their names; a press shows them as boxes. \
                 Colours are those of the queues below."
            }
            div .fleet { @for block in &self.blocks { (block.whole()) } }
            label .find { "Find nodes by name, problem, queue or pod "
                input #find type="search" value=(self.find);
            }
        }
    }
}

fn clock(state: &ClusterState, moment: &Moment) -> Markup {
    let Moment { time, start, revision, latest, speed } = moment;
    html! {
        p .clock data-revision=(revision) data-latest=(latest) data-speed=(speed) {
            strong { (offset(*time, *start)) } " since the start, revision " (revision)
            @if revision < latest { " of " (latest) " " mark { "past" } }
            " · " (state.gpus_in_use) " of " (state.gpus) " GPUs in use"
            @let pods: usize = state.pending.iter().map(|workload| workload.pods).sum();
            " · " (pods) " pending pods"
        }
    }
}

fn node_boxes(state: &ClusterState, choice: &NodeChoice, is_large: bool) -> Markup {
    if !is_large {
        return html! {
            p .note { "Arrow keys go from a node to its GPUs." }
            (drawing::nodes(&state.nodes, state, Names::Buttons))
        };
    }
    if choice.find.is_empty() {
        let nodes = fleet::block_nodes(state, choice.block);
        return drawing::nodes(nodes, state, Names::Buttons);
    }
    let found = fleet::matching_nodes(state, &choice.find).count();
    let shown = fleet::matching_nodes(state, &choice.find).take(FOUND_MAX);
    html! {
        p role="status" {
            (found) " nodes match" @if found > FOUND_MAX { "; the first " (FOUND_MAX) " are shown" }
        }
        (drawing::nodes(shown, state, Names::Buttons))
    }
}

/// The names that forms suggest.
fn names(state: &ClusterState) -> Markup {
    html! {
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

#[cfg(test)]
mod tests {
    use schedlab_view::state::{GpuState, NodeState};

    use super::*;

    fn view(problem: Option<&'static str>, count: usize) -> View {
        let node = |index: usize| NodeState {
            name: format!("n-{index:04}"),
            problem: problem.filter(|_| index == 0),
            gpus: vec![GpuState::default(); 8],
            parts: Vec::new(),
            other_pods: 0,
        };
        let nodes = (0..count).map(node).collect();
        let state = ClusterState { nodes, ..ClusterState::default() };
        let time = Timestamp::UNIX_EPOCH;
        let moment = Moment { time, start: time, revision: 1, latest: 1, speed: 0 };
        View::new(&state, &moment, &NodeChoice { block: 3, find: String::new() })
    }

    fn shown(view: &View) -> String {
        let parts: Vec<String> =
            view.parts().map(|part| format!("{}:{}", part.id, part.hash())).collect();
        parts.join(",")
    }

    #[test]
    fn a_browser_gets_the_parts_that_changed() {
        let before = shown(&view(None, 4000));
        assert_eq!(view(None, 4000).changed(&before).into_string(), "");
        let changed = view(Some("cordoned"), 4000).changed(&before).into_string();
        assert!(changed.starts_with("<div class=\"part\" id=\"block-0\""), "{changed}");
        assert_eq!(changed.matches("data-hash").count(), 1);
        assert!(changed.len() < 4000, "{} bytes", changed.len());
    }

    #[test]
    fn a_browser_with_other_parts_gets_the_whole_view() {
        let small = shown(&view(None, 4));
        assert!(view(None, 4000).changed(&small).into_string().starts_with("<main id=\"view\">"));
        assert!(view(None, 4).changed("").into_string().starts_with("<main id=\"view\">"));
    }

    #[test]
    fn a_large_fleet_is_drawn_small() {
        let text = view(None, 4000).whole().into_string();
        assert_eq!(text.matches("data-block=").count(), 100);
        assert_eq!(text.matches("class=\"gpus\"").count(), fleet::BLOCK_NODES);
        assert!(text.len() < 700_000, "{} bytes", text.len());
    }
}
