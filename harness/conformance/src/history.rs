//! What a log entry of a cluster means: see [`schedlab_audit::Change`]. Hands log entries to the
//! audit.

use std::sync::Arc;

use schedlab_audit::{Audit, Change, ObjectKey, Write, WriteKind};
use schedlab_emulator::{
    Observer,
    store::{EventKind, LogEntry},
};

/// The write that a log entry records.
pub fn write_of_entry(entry: &LogEntry) -> Write {
    let resource = &entry.key.resource;
    Write {
        revision: entry.revision,
        time: entry.time,
        kind: match entry.kind {
            EventKind::Added => WriteKind::Create,
            EventKind::Modified => WriteKind::Update,
            EventKind::Deleted => WriteKind::Delete,
        },
        key: ObjectKey {
            group: Arc::clone(&resource.group),
            plural: Arc::clone(&resource.plural),
            namespace: Arc::clone(&entry.key.namespace),
            name: Arc::clone(&entry.key.name),
        },
        object: Arc::clone(&entry.object),
        previous: entry.previous.clone(),
        manager: Arc::clone(&entry.manager),
    }
}

/// The changes that a log entry shows; many entries show none.
pub fn changes_of_entry(entry: &LogEntry) -> Vec<Change> {
    schedlab_audit::changes_of_write(&write_of_entry(entry))
}

/// Whether this log entry requested the deletion of the object.
pub fn requests_deletion(entry: &LogEntry) -> bool {
    schedlab_audit::requests_deletion(&write_of_entry(entry))
}

/// An observer that passes every write of a store to the audit, in the order of revisions.
pub fn audit_observer(audit: &Audit) -> Observer {
    let audit = audit.clone();
    Box::new(move |entry| audit.observe_write(&write_of_entry(entry)))
}
