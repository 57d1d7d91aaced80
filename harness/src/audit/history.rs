//! The last writes, kept so that a breach can tell how it came to be. Bounded; put into words
//! only when asked.

use std::{collections::VecDeque, sync::Arc};

use jiff::Timestamp;
use schedlab_emulator::store::{Key, LogEntry};
use schedlab_scheduler_core::{audit::Concern, model::Time};

use crate::{
    fields::text,
    happenings::{happenings, offset},
};

/// How many writes are kept, and how many lines are told of one breach.
const WRITES_MAX: usize = 1024;
const LINES_MAX: usize = 24;

#[derive(Debug, Default)]
pub(super) struct History {
    start: Option<Timestamp>,
    writes: VecDeque<Arc<LogEntry>>,
}

impl History {
    pub(super) fn push(&mut self, entry: &Arc<LogEntry>) {
        self.start.get_or_insert(entry.time);
        if !is_of_concern(&entry.key) {
            return;
        }
        if self.writes.len() == WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back(Arc::clone(entry));
    }

    /// Time since the first write, as people read it.
    pub(super) fn offset(&self, at: Time) -> String {
        let start = self.start.unwrap_or_default().as_millisecond();
        offset(at.0 - start)
    }

    /// What the log says of these objects, oldest first.
    pub(super) fn about(&self, concerns: &[Concern]) -> Vec<String> {
        let relevant = self.writes.iter().rev().filter(|entry| {
            let node = text(&entry.object, "/spec/nodeName");
            concerns.iter().any(|concern| names(concern, &entry.key, node))
        });
        let mut lines: Vec<String> =
            relevant.filter_map(|entry| self.line(entry)).take(LINES_MAX).collect();
        lines.reverse();
        lines
    }

    /// One write in words; writes that mean nothing to a person have none.
    fn line(&self, entry: &LogEntry) -> Option<String> {
        let what: Vec<String> = happenings(entry).iter().map(ToString::to_string).collect();
        if what.is_empty() {
            return None;
        }
        let at = self.offset(Time(entry.time.as_millisecond()));
        let key = &entry.key;
        let kind = key.resource.plural.trim_end_matches('s');
        let separator = if key.namespace.is_empty() { "" } else { "/" };
        let name = format!("{}{separator}{}", key.namespace, key.name);
        let (what, by) = (what.join(", "), &entry.manager);
        Some(format!("{at:>9} r{:<5} {kind} {name} {what} (by {by})", entry.revision))
    }
}

/// Whether a concern can be about it: see [`names`].
fn is_of_concern(key: &Key) -> bool {
    matches!(&*key.resource.plural, "pods" | "podgroups" | "resourceclaims" | "nodes" | "queues")
}

fn names(concern: &Concern, key: &Key, node_of_pod: Option<&str>) -> bool {
    let full = |name: &str| name.split_once('/') == Some((&*key.namespace, &*key.name));
    match (concern, &*key.resource.plural) {
        (Concern::Pod(name), "pods")
        | (Concern::Group(name), "podgroups")
        | (Concern::Claim(name), "resourceclaims") => full(name),
        (Concern::Node(name), "nodes") | (Concern::Queue(name), "queues") => *key.name == **name,
        // A node's trouble is told by the pods on it.
        (Concern::Node(name), "pods") => node_of_pod == Some(name),
        _ => false,
    }
}
