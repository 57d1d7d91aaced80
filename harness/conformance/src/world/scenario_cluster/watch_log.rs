//! The event log of a real cluster, assembled from watches in the order of `resourceVersion`, with
//! the writer of each change as far as it is known. Watches of different kinds do not deliver in
//! order, so each change is buffered for a moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use schedlab_api::{Value, pointer::text};
use schedlab_audit::Audit;
use schedlab_emulator::store::{EventKind, LogEntry};
use tokio::time::Instant;

use crate::history::write_of_entry;
use schedlab_tenancy::WriteAttribution;

/// How long a change is buffered, so that earlier changes which arrive later come before it in the
/// log.
const REORDER_WINDOW: SignedDuration = SignedDuration::from_millis(300);

/// The collections whose changes do not count as writes: components renew leases and repeat events
/// on a cluster in which nothing else happens.
const UNCOUNTED_COLLECTIONS: [&str; 2] = ["leases", "events"];

/// The writer to which a change is attributed if none of our clients made it and it has no field
/// manager.
const FALLBACK_WRITER: &str = "kube-controller-manager";

/// The log of a scenario's changes, put together from watches. Clones share their state.
#[derive(Clone, Debug)]
pub(super) struct WatchLog {
    write_attribution: WriteAttribution,
    state: Arc<Mutex<WatchLogState>>,
}

#[derive(Debug, Default)]
struct WatchLogState {
    buffered: BTreeMap<u64, LogEntry>,
    /// The `resourceVersion` of each existing pod as last delivered, by namespace and name.
    pod_revisions: BTreeMap<(Arc<str>, Arc<str>), u64>,
    log: Vec<Arc<LogEntry>>,
    audit: Option<Audit>,
    /// The number of changes so far, without those of leases and events.
    writes: u64,
    /// When the last of the changes in `writes` arrived.
    last_write: Option<Instant>,
}

impl WatchLog {
    pub(super) fn new(write_attribution: WriteAttribution) -> Self {
        Self { write_attribution, state: Arc::default() }
    }

    /// Records a change that a watch delivered.
    pub(super) fn record_entry(&self, entry: LogEntry) {
        let mut state = self.lock_state();
        let due = entry.time.checked_sub(REORDER_WINDOW).unwrap_or(Timestamp::MIN);
        if !UNCOUNTED_COLLECTIONS.contains(&&*entry.key.resource.plural) {
            state.writes += 1;
            state.last_write = Some(Instant::now());
        }
        if &*entry.key.resource.plural == "pods" {
            let key = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
            match entry.kind {
                EventKind::Deleted => state.pod_revisions.remove(&key),
                EventKind::Added | EventKind::Modified => {
                    state.pod_revisions.insert(key, entry.revision)
                }
            };
        }
        state.buffered.insert(entry.revision, entry);
        self.flush_due(&mut state, due);
    }

    /// Moves all buffered changes up to `now` to the log.
    pub(super) fn flush_until(&self, now: Timestamp) {
        self.flush_due(&mut self.lock_state(), now);
    }

    fn flush_due(&self, state: &mut WatchLogState, due: Timestamp) {
        while let Some(first) = state.buffered.first_entry().filter(|first| first.get().time <= due)
        {
            let mut entry = first.remove();
            entry.manager = self.writer_of_entry(&entry);
            let entry = Arc::new(entry);
            if let Some(audit) = &state.audit {
                audit.observe_write(&write_of_entry(&entry));
            }
            state.log.push(entry);
        }
    }

    fn writer_of_entry(&self, entry: &LogEntry) -> Arc<str> {
        let node = |object| text(object, "/spec/nodeName").unwrap_or_default();
        let is_binding = entry.previous.as_deref().is_some_and(|old| node(old).is_empty())
            && !node(&entry.object).is_empty();
        let manager = match entry.kind {
            EventKind::Deleted => self
                .write_attribution
                .deleter_of_uid(text(&entry.object, "/metadata/uid").unwrap_or_default()),
            EventKind::Added | EventKind::Modified if is_binding => {
                self.write_attribution.binder_of_pod(&entry.key.namespace, &entry.key.name)
            }
            EventKind::Added | EventKind::Modified => {
                self.write_attribution.writer_of_revision(entry.revision)
            }
        };
        manager.unwrap_or_else(|| FALLBACK_WRITER.into())
    }

    /// Passes every change, including past ones, to an audit.
    pub(super) fn observe_with_audit(&self, audit: &Audit) {
        let mut state = self.lock_state();
        state.log.iter().for_each(|entry| audit.observe_write(&write_of_entry(entry)));
        state.audit = Some(audit.clone());
    }

    /// The number of changes so far, without those of leases and events.
    pub(super) fn write_count(&self) -> u64 {
        self.lock_state().writes
    }

    /// When the last change arrived, not counting leases and events.
    pub(super) fn last_write_instant(&self) -> Option<Instant> {
        self.lock_state().last_write
    }

    /// Whether the watches have delivered everything that a LIST of pods shows. A busy server's
    /// watches lag, so silence alone does not prove that nothing changed.
    pub(super) fn is_up_to_date_with(&self, listed: &[Value]) -> bool {
        let state = self.lock_state();
        let newest = |pod: &Value| {
            let part = |at| text(pod, at).unwrap_or_default();
            let key = (part("/metadata/namespace").into(), part("/metadata/name").into());
            let listed = part("/metadata/resourceVersion").parse::<u64>().unwrap_or_default();
            state.pod_revisions.get(&key).is_some_and(|delivered| *delivered >= listed)
        };
        listed.len() == state.pod_revisions.len() && listed.iter().all(newest)
    }

    /// The log entries of all changes so far.
    pub(super) fn log_entries(&self) -> Vec<Arc<LogEntry>> {
        self.lock_state().log.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, WatchLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;
    use schedlab_emulator::store::{Key, Resource, Subresource};

    use super::*;

    fn pod(name: &str, version: u64) -> Value {
        json!({"metadata": {
            "namespace": "default", "name": name, "resourceVersion": version.to_string(),
        }})
    }

    fn entry(kind: EventKind, name: &str, revision: u64) -> LogEntry {
        LogEntry {
            revision,
            time: Timestamp::UNIX_EPOCH,
            kind,
            key: Key {
                resource: Resource::new("", "pods"),
                namespace: "default".into(),
                name: name.into(),
            },
            object: Arc::new(pod(name, revision)),
            previous: None,
            manager: "".into(),
            subresource: Subresource::None,
        }
    }

    #[test]
    fn a_list_shows_changes_that_watches_have_not_delivered() {
        let watch_log = WatchLog::new(WriteAttribution::default());
        assert!(watch_log.is_up_to_date_with(&[]));
        assert!(!watch_log.is_up_to_date_with(&[pod("a", 5)]), "made");
        watch_log.record_entry(entry(EventKind::Added, "a", 5));
        assert!(watch_log.is_up_to_date_with(&[pod("a", 5)]));
        assert!(!watch_log.is_up_to_date_with(&[pod("a", 7)]), "changed");
        watch_log.record_entry(entry(EventKind::Modified, "a", 7));
        assert!(watch_log.is_up_to_date_with(&[pod("a", 7)]));
        assert!(watch_log.is_up_to_date_with(&[pod("a", 5)]), "the list is the older one");
        assert!(!watch_log.is_up_to_date_with(&[]), "deleted");
        watch_log.record_entry(entry(EventKind::Deleted, "a", 9));
        assert!(watch_log.is_up_to_date_with(&[]));
        assert!(!watch_log.is_up_to_date_with(&[pod("a", 7), pod("b", 8)]));
    }
}
