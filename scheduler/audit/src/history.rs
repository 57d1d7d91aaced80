//! The recent history of the cluster, which explains a violation. It is bounded, and keeps only the
//! meaning of each write: whole objects would occupy too much memory.

use std::{collections::VecDeque, sync::Arc};

use jiff::Timestamp;
use schedlab_api::pointer::text;

use crate::{
    change::{Change, changes, offset},
    rules::{AuditedObject, Time},
    write::{ObjectKey, Write},
};

/// How many meaningful writes are kept, and how many lines are shown per violation.
const WRITES_MAX: usize = 4096;
const LINES_MAX: usize = 24;

#[derive(Debug, Default)]
pub(super) struct History {
    start: Option<Timestamp>,
    writes: VecDeque<HistoryEntry>,
}

/// A write that means something to a person.
#[derive(Debug)]
struct HistoryEntry {
    time: Timestamp,
    revision: u64,
    key: ObjectKey,
    /// The node of a pod.
    node: Option<Box<str>>,
    changes: Vec<Change>,
    manager: Arc<str>,
}

impl History {
    pub(super) fn push(&mut self, write: &Write) {
        self.start.get_or_insert(write.time);
        if !is_tracked(&write.key) {
            return;
        }
        let what = changes(write);
        if what.is_empty() {
            return;
        }
        if self.writes.len() == WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back(HistoryEntry {
            time: write.time,
            revision: write.revision,
            key: write.key.clone(),
            node: text(&write.object, "/spec/nodeName").map(Box::from),
            changes: what,
            manager: Arc::clone(&write.manager),
        });
    }

    /// Time since the first write, for people.
    pub(super) fn offset(&self, at: Time) -> String {
        let start = self.start.unwrap_or_default().as_millisecond();
        offset(at.0 - start)
    }

    /// The history of these objects, oldest first.
    pub(super) fn lines_about(&self, concerns: &[AuditedObject]) -> Vec<String> {
        let relevant = self.writes.iter().rev().filter(|write| {
            let node = write.node.as_deref();
            concerns.iter().any(|concern| concerns_object(concern, &write.key, node))
        });
        let mut lines: Vec<String> =
            relevant.map(|write| self.line(write)).take(LINES_MAX).collect();
        lines.reverse();
        lines
    }

    fn line(&self, write: &HistoryEntry) -> String {
        let HistoryEntry { time, revision, key, changes: what, manager: by, .. } = write;
        let what: Vec<String> = what.iter().map(ToString::to_string).collect();
        let at = self.offset(Time(time.as_millisecond()));
        let kind = key.plural.trim_end_matches('s');
        let separator = if key.namespace.is_empty() { "" } else { "/" };
        let name = format!("{}{separator}{}", key.namespace, key.name);
        format!("{at:>9} r{revision:<5} {kind} {name} {} (by {by})", what.join(", "))
    }
}

/// Whether a violation can concern objects of this kind: see [`concerns_object`].
fn is_tracked(key: &ObjectKey) -> bool {
    matches!(&*key.plural, "pods" | "podgroups" | "resourceclaims" | "nodes" | "queues")
}

fn concerns_object(concern: &AuditedObject, key: &ObjectKey, node_of_pod: Option<&str>) -> bool {
    let full = |name: &str| name.split_once('/') == Some((&*key.namespace, &*key.name));
    match (concern, &*key.plural) {
        (AuditedObject::Pod(name), "pods")
        | (AuditedObject::Group(name), "podgroups")
        | (AuditedObject::Claim(name), "resourceclaims") => full(name),
        (AuditedObject::Node(name), "nodes") | (AuditedObject::Queue(name), "queues") => {
            *key.name == **name
        }
        // A violation on a node is explained by its pods.
        (AuditedObject::Node(name), "pods") => node_of_pod == Some(name),
        _ => false,
    }
}
