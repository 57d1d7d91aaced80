//! The recent history of the cluster, which explains a violation. It is bounded, and keeps only the
//! meaning of each write: whole objects would occupy too much memory.

use std::{collections::VecDeque, sync::Arc};

use jiff::Timestamp;
use schedlab_api::pointer::text;

use crate::{
    change::{Change, changes_of_write, format_offset},
    rules::{AuditedObject, Time},
    write::{ObjectKey, Write},
};

/// Maximum number of writes that are kept for the history of a violation.
const KEPT_WRITES_MAX: usize = 4096;
const SHOWN_LINES_MAX: usize = 24;

#[derive(Debug, Default)]
pub(super) struct History {
    start: Option<Timestamp>,
    writes: VecDeque<HistoryEntry>,
}

/// A write that changes something that [`crate::change::Change`] lists.
#[derive(Debug)]
struct HistoryEntry {
    time: Timestamp,
    revision: u64,
    key: ObjectKey,
    /// The node of the written pod.
    node: Option<Box<str>>,
    changes: Vec<Change>,
    manager: Arc<str>,
}

impl History {
    pub(super) fn push_write(&mut self, write: &Write) {
        self.start.get_or_insert(write.time);
        if !is_tracked(&write.key) {
            return;
        }
        let what = changes_of_write(write);
        if what.is_empty() {
            return;
        }
        if self.writes.len() == KEPT_WRITES_MAX {
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

    /// The time `at` as an offset from the first write, such as `+1.5s`.
    pub(super) fn offset_text(&self, at: Time) -> String {
        let start = self.start.unwrap_or_default().as_millisecond();
        format_offset(at.0 - start)
    }

    /// The log lines about these objects, oldest first.
    pub(super) fn lines_about(&self, concerns: &[AuditedObject]) -> Vec<String> {
        let relevant = self.writes.iter().rev().filter(|write| {
            let node = write.node.as_deref();
            concerns.iter().any(|concern| concerns_object(concern, &write.key, node))
        });
        let mut lines: Vec<String> =
            relevant.map(|write| self.format_entry(write)).take(SHOWN_LINES_MAX).collect();
        lines.reverse();
        lines
    }

    fn format_entry(&self, write: &HistoryEntry) -> String {
        let HistoryEntry { time, revision, key, changes: what, manager: by, .. } = write;
        let what: Vec<String> = what.iter().map(ToString::to_string).collect();
        let at = self.offset_text(Time(time.as_millisecond()));
        let kind = key.plural.trim_end_matches('s');
        let separator = if key.namespace.is_empty() { "" } else { "/" };
        let name = format!("{}{separator}{}", key.namespace, key.name);
        format!("{at:>9} r{revision:<5} {kind} {name} {} (by {by})", what.join(", "))
    }
}

/// Whether violations report the history of this kind of object: see [`concerns_object`].
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
