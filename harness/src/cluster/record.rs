//! The log of a cluster that keeps none for us: what watches told, in the order of revisions,
//! with the writers as far as they were ours. Watches of different kinds do not tell in order, so
//! each change waits a moment for those before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_json::Value;
use tokio::time::Instant;

use crate::audit::Audit;
use crate::fields::text;
use crate::veil::Ledger;

/// How long a change waits for earlier ones that are told later.
const LAG: SignedDuration = SignedDuration::from_millis(300);

/// Who made a change that none of us made.
const OTHERS: &str = "kube-controller-manager";

/// The log. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Record {
    ledger: Ledger,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<u64, LogEntry>,
    /// The version of each pod that is there, by namespace and name, as it was told last.
    pods: BTreeMap<(Arc<str>, Arc<str>), u64>,
    log: Vec<Arc<LogEntry>>,
    audit: Option<Audit>,
    /// Changes that mean something: all but heartbeats.
    writes: u64,
    /// When the last of them was told.
    written: Option<Instant>,
}

impl Record {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self { ledger, state: Arc::default() }
    }

    /// Takes in what a watch told.
    pub(super) fn hear(&self, entry: LogEntry) {
        let mut state = self.state();
        let due = entry.time.checked_sub(LAG).unwrap_or(Timestamp::MIN);
        if &*entry.key.resource.plural != "leases" {
            state.writes += 1;
            state.written = Some(Instant::now());
        }
        if &*entry.key.resource.plural == "pods" {
            let place = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
            match entry.kind {
                EventKind::Deleted => state.pods.remove(&place),
                EventKind::Added | EventKind::Modified => state.pods.insert(place, entry.revision),
            };
        }
        state.waiting.insert(entry.revision, entry);
        self.enter(&mut state, due);
    }

    /// Enters everything told until a moment.
    pub(super) fn enter_until(&self, now: Timestamp) {
        self.enter(&mut self.state(), now);
    }

    fn enter(&self, state: &mut State, due: Timestamp) {
        while let Some(first) = state.waiting.first_entry().filter(|first| first.get().time <= due)
        {
            let mut entry = first.remove();
            entry.manager = self.writer(&entry);
            let entry = Arc::new(entry);
            if let Some(audit) = &state.audit {
                audit.observe(&entry);
            }
            state.log.push(entry);
        }
    }

    fn writer(&self, entry: &LogEntry) -> Arc<str> {
        let node = |object| text(object, "/spec/nodeName").unwrap_or_default();
        let bound = entry.previous.as_deref().is_some_and(|old| node(old).is_empty())
            && !node(&entry.object).is_empty();
        let found = match entry.kind {
            EventKind::Deleted => {
                self.ledger.deleter(text(&entry.object, "/metadata/uid").unwrap_or_default())
            }
            EventKind::Added | EventKind::Modified if bound => {
                self.ledger.binder(&entry.key.namespace, &entry.key.name)
            }
            EventKind::Added | EventKind::Modified => self.ledger.writer(entry.revision),
        };
        found.unwrap_or_else(|| OTHERS.into())
    }

    /// Has an audit see every change, those of the past included.
    pub(super) fn observe(&self, audit: &Audit) {
        let mut state = self.state();
        state.log.iter().for_each(|entry| audit.observe(entry));
        state.audit = Some(audit.clone());
    }

    /// How many changes there were that mean something.
    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// When the last change that means something was told.
    pub(super) fn written(&self) -> Option<Instant> {
        self.state().written
    }

    /// Whether all was told that a list of the pods shows. A busy server's watches lag, and who
    /// hears nothing for a while does not know of it.
    pub(super) fn has_heard_of(&self, listed: &[Value]) -> bool {
        let state = self.state();
        let newest = |pod: &Value| {
            let part = |at| text(pod, at).unwrap_or_default();
            let place = (part("/metadata/namespace").into(), part("/metadata/name").into());
            let listed = part("/metadata/resourceVersion").parse::<u64>().unwrap_or_default();
            state.pods.get(&place).is_some_and(|told| *told >= listed)
        };
        listed.len() == state.pods.len() && listed.iter().all(newest)
    }

    /// Every change so far.
    pub(super) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::store::{Key, Resource, Subresource};
    use schedlab_json::json;

    use super::*;

    fn pod(name: &str, version: u64) -> Value {
        json!({"metadata": {
            "namespace": "default", "name": name, "resourceVersion": version.to_string(),
        }})
    }

    fn told(kind: EventKind, name: &str, revision: u64) -> LogEntry {
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
            part: Subresource::None,
        }
    }

    #[test]
    fn a_list_shows_what_the_watches_have_not_told_yet() {
        let record = Record::new(Ledger::default());
        assert!(record.has_heard_of(&[]));
        assert!(!record.has_heard_of(&[pod("a", 5)]), "made");
        record.hear(told(EventKind::Added, "a", 5));
        assert!(record.has_heard_of(&[pod("a", 5)]));
        assert!(!record.has_heard_of(&[pod("a", 7)]), "changed");
        record.hear(told(EventKind::Modified, "a", 7));
        assert!(record.has_heard_of(&[pod("a", 7)]));
        assert!(record.has_heard_of(&[pod("a", 5)]), "the list is the older one");
        assert!(!record.has_heard_of(&[]), "deleted");
        record.hear(told(EventKind::Deleted, "a", 9));
        assert!(record.has_heard_of(&[]));
        assert!(!record.has_heard_of(&[pod("a", 7), pod("b", 8)]));
    }
}
