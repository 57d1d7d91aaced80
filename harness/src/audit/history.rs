//! What happened last, kept so that a breach can tell how it came to be. Bounded; of a write only
//! what it means is kept, for whole objects would hold the memory that the next ones could take.

use std::{collections::VecDeque, sync::Arc};

use jiff::Timestamp;
use schedlab_emulator::store::{Key, LogEntry};
use schedlab_scheduler_core::{audit::Concern, model::Time};

use crate::{
    fields::text,
    happenings::{Happening, happenings, offset},
};

/// How many writes are kept that mean something, and how many lines are told of one breach.
const WRITES_MAX: usize = 4096;
const LINES_MAX: usize = 24;

#[derive(Debug, Default)]
pub(super) struct History {
    start: Option<Timestamp>,
    writes: VecDeque<Write>,
}

/// A write that means something to a person.
#[derive(Debug)]
struct Write {
    time: Timestamp,
    revision: u64,
    key: Key,
    /// Where a pod is.
    node: Option<Box<str>>,
    what: Vec<Happening>,
    by: Arc<str>,
}

impl History {
    pub(super) fn push(&mut self, entry: &LogEntry) {
        self.start.get_or_insert(entry.time);
        if !is_of_concern(&entry.key) {
            return;
        }
        let what = happenings(entry);
        if what.is_empty() {
            return;
        }
        if self.writes.len() == WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back(Write {
            time: entry.time,
            revision: entry.revision,
            key: entry.key.clone(),
            node: text(&entry.object, "/spec/nodeName").map(Box::from),
            what,
            by: Arc::clone(&entry.manager),
        });
    }

    /// Time since the first write, as people read it.
    pub(super) fn offset(&self, at: Time) -> String {
        let start = self.start.unwrap_or_default().as_millisecond();
        offset(at.0 - start)
    }

    /// What happened to these objects, oldest first.
    pub(super) fn about(&self, concerns: &[Concern]) -> Vec<String> {
        let relevant = self.writes.iter().rev().filter(|write| {
            let node = write.node.as_deref();
            concerns.iter().any(|concern| names(concern, &write.key, node))
        });
        let mut lines: Vec<String> =
            relevant.map(|write| self.line(write)).take(LINES_MAX).collect();
        lines.reverse();
        lines
    }

    fn line(&self, write: &Write) -> String {
        let Write { time, revision, key, what, by, .. } = write;
        let what: Vec<String> = what.iter().map(ToString::to_string).collect();
        let at = self.offset(Time(time.as_millisecond()));
        let kind = key.resource.plural.trim_end_matches('s');
        let separator = if key.namespace.is_empty() { "" } else { "/" };
        let name = format!("{}{separator}{}", key.namespace, key.name);
        format!("{at:>9} r{revision:<5} {kind} {name} {} (by {by})", what.join(", "))
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
