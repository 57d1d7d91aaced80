//! The log of a cluster that keeps none for us: what watches told, in the order of revisions,
//! with the writers as far as they were ours. Watches of different kinds do not tell in order, so
//! each change waits a moment for those before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use schedlab_emulator::store::{EventKind, LogEntry};
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

    /// Every change so far.
    pub(super) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
