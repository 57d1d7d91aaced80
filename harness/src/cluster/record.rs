//! The log of a cluster that keeps none for us: what watches told, in the order of revisions,
//! with the writers as far as they were ours. Watches of different kinds do not tell in order, so
//! each change waits a moment for those before it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use schedlab_emulator::store::{EventKind, LogEntry};

use crate::audit::Audit;
use crate::fields::text;
use crate::veil::{Ledger, Written};

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

/// How long the scheduler may not know yet what others did, before it first writes of a cycle.
const UNKNOWN: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<u64, LogEntry>,
    log: Vec<Arc<LogEntry>>,
    audit: Option<Audit>,
    /// What others did since the scheduler last wrote, until it is known in which of its cycles
    /// that was.
    held: Vec<LogEntry>,
    /// When the scheduler's present cycle began, as its writes show it.
    cycle: Timestamp,
    /// Changes that mean something: all but heartbeats.
    writes: u64,
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
        }
        state.waiting.insert(entry.revision, entry);
        self.enter(&mut state, due);
    }

    /// Enters everything told until a moment at which the scheduler is in no cycle.
    pub(super) fn enter_until(&self, now: Timestamp) {
        let mut state = self.state();
        self.enter(&mut state, now);
        state.judge_held(now);
    }

    fn enter(&self, state: &mut State, due: Timestamp) {
        while let Some(first) = state.waiting.first_entry().filter(|first| first.get().time <= due)
        {
            let mut entry = first.remove();
            let written = self.written(&entry);
            entry.manager = written.as_ref().map_or_else(|| OTHERS.into(), |it| it.writer.clone());
            state.log.push(Arc::new(entry.clone()));
            state.held.push(entry);
            if let Some(cycle) = written.and_then(|written| written.cycle) {
                state.judge_held(cycle);
            }
        }
    }

    fn written(&self, entry: &LogEntry) -> Option<Written> {
        let node = |object| text(object, "/spec/nodeName").unwrap_or_default();
        let bound = entry.previous.as_deref().is_some_and(|old| node(old).is_empty())
            && !node(&entry.object).is_empty();
        match entry.kind {
            EventKind::Deleted => {
                self.ledger.deleter(text(&entry.object, "/metadata/uid").unwrap_or_default())
            }
            EventKind::Added | EventKind::Modified if bound => {
                self.ledger.binder(&entry.key.namespace, &entry.key.name)
            }
            EventKind::Added | EventKind::Modified => self.ledger.writer(entry.revision),
        }
    }

    /// Has an audit see every change, those of the past included.
    pub(super) fn observe(&self, audit: &Audit) {
        let mut state = self.state();
        let held = state.log.len().saturating_sub(state.held.len());
        state.log.iter().take(held).for_each(|entry| audit.observe(entry));
        state.audit = Some(audit.clone());
    }

    /// How many changes there were that mean something.
    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Every change so far.
    pub(super) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Has the audit judge what is held. The writes of one of the scheduler's cycles are one
    /// moment to it, however long they took, with what others did meanwhile or so shortly before
    /// that it may not have known.
    fn judge_held(&mut self, cycle: Timestamp) {
        let unknown = cycle.checked_sub(UNKNOWN).unwrap_or(Timestamp::MIN);
        for mut entry in std::mem::take(&mut self.held) {
            let Some(audit) = &self.audit else { continue };
            let time = if entry.time < unknown { entry.time } else { cycle };
            self.cycle = time.max(self.cycle);
            entry.time = self.cycle;
            audit.observe(&entry);
        }
    }
}
