//! What happened in a cluster, one line for each change that a user cares about.

use std::sync::Arc;

use jiff::Timestamp;
use schedlab_audit::{Change, eviction_message};
use schedlab_conformance::history::changes_of_entry;
use schedlab_emulator::store::LogEntry;

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The revision of the write.
    pub revision: u64,
    /// The time of the write.
    pub time: Timestamp,
    /// What kind of change it is.
    pub kind: ClusterEventKind,
    /// Kind of the object, such as `pod`.
    pub object_kind: &'static str,
    /// Namespace of the object; empty for objects of the cluster.
    pub namespace: Arc<str>,
    /// Name of the object.
    pub name: Arc<str>,
    /// What happened to the object.
    pub text: String,
}

/// A kind of change, by which events are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterEventKind {
    /// A pod was evicted.
    Eviction,
    /// A pod was bound.
    Binding,
    /// The scheduler reported why a pod is pending.
    Pending,
    /// Anything else.
    Other,
}

impl ClusterEventKind {
    /// The name of the kind, as the page filters by it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Pending => "pending",
            Self::Other => "other",
        }
    }
}

/// The events that one write shows; most writes show none.
pub fn events_of_entry(entry: &LogEntry) -> Vec<ClusterEvent> {
    let object_kind = match &*entry.key.resource.plural {
        "pods" => "pod",
        "nodes" => "node",
        "queues" => "queue",
        _ => return Vec::new(),
    };
    let changes = changes_of_entry(entry).into_iter();
    let shown = changes.filter_map(|change| {
        let (kind, text) = kind_and_text(entry, &change)?;
        Some(ClusterEvent {
            revision: entry.revision,
            time: entry.time,
            kind,
            object_kind,
            namespace: Arc::clone(&entry.key.namespace),
            name: Arc::clone(&entry.key.name),
            text,
        })
    });
    shown.collect()
}

fn kind_and_text(entry: &LogEntry, change: &Change) -> Option<(ClusterEventKind, String)> {
    match change {
        Change::Bound(_) => Some((ClusterEventKind::Binding, change.to_string())),
        Change::Unschedulable(reason) => {
            Some((ClusterEventKind::Pending, format!("pending: {reason}")))
        }
        Change::DeletionRequested(_) => match eviction_message(&entry.object) {
            Some(message) => Some((ClusterEventKind::Eviction, format!("evicted: {message}"))),
            None => Some((ClusterEventKind::Other, "terminating".to_owned())),
        },
        Change::Devices(_) => None,
        Change::Created
        | Change::Deleted
        | Change::Started
        | Change::Succeeded
        | Change::Failed
        | Change::Ready(_)
        | Change::Cordoned(_)
        | Change::Tainted(_)
        | Change::SpecChanged => Some((ClusterEventKind::Other, change.to_string())),
    }
}
