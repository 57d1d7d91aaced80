//! Who wrote what: a watch does not tell it. And up to where everybody has written, so that
//! somebody who reads can wait until he has seen it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use schedlab_emulator::clock::Clock;
use schedlab_scheduler::Status;
use serde_json::Value;
use tokio::sync::watch;

use super::Place;

/// The writes of one scenario. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    by_revision: BTreeMap<u64, Written>,
    by_uid: BTreeMap<String, Written>,
    bound: BTreeMap<(String, String), Written>,
    marks: Marks,
    moment: Moment,
    /// What a scheduler in this process tells after each cycle.
    pulse: Option<watch::Receiver<Status>>,
    count: u64,
}

/// A write of one of us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Who it was.
    pub(crate) writer: Arc<str>,
    /// If it was the scheduler: when it first wrote in the same cycle.
    pub(crate) cycle: Option<Timestamp>,
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The scheduler under test.
    Scheduler,
    /// Anybody else.
    Other,
}

/// A scheduler's cycle, as its writes show it.
#[derive(Debug, Default)]
struct Moment {
    cycle: u64,
    began: Timestamp,
    last: Timestamp,
}

/// A scheduler that does not tell its cycles begins a new one after writing nothing for so long.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);

impl Moment {
    /// The scheduler writes now: when did it begin to?
    fn write(&mut self, now: Timestamp, cycle: Option<u64>) -> Timestamp {
        let is_new = match cycle {
            Some(cycle) => cycle != self.cycle || self.began == Timestamp::UNIX_EPOCH,
            None => now.duration_since(self.last) > PAUSE,
        };
        if is_new {
            self.began = now;
        }
        self.cycle = cycle.unwrap_or(0);
        self.last = now;
        self.began
    }
}

/// Up to where collections were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The newest revision by collection.
    pub(crate) newest: BTreeMap<String, u64>,
    /// Objects that were deleted, by uid, and their collection.
    pub(crate) deleted: BTreeMap<String, String>,
}

impl Ledger {
    /// A write that the cluster took; `answer` is what it said.
    pub(super) fn note(&self, place: &Place, answer: &Value, (writer, role): (Arc<str>, Role)) {
        let mut state = self.state();
        state.count += 1;
        let cycles = state.pulse.as_ref().map(|pulse| pulse.borrow().cycles);
        let cycle = match role {
            Role::Scheduler => Some(state.moment.write(Clock::real().now(), cycles)),
            Role::Other => None,
        };
        let writer = Written { writer, cycle };
        if place.part.as_deref() == Some("binding")
            && let (Some(namespace), Some(name)) = (&place.namespace, &place.name)
        {
            state.bound.insert((namespace.clone(), name.clone()), writer.clone());
        }
        let text = |at: &str| answer.pointer(at).and_then(Value::as_str);
        if answer["kind"] == "Status" {
            if let Some(uid) = text("/details/uid") {
                state.by_uid.insert(uid.to_owned(), writer.clone());
                state.marks.deleted.insert(uid.to_owned(), place.plural.clone());
            }
            return;
        }
        let revision = text("/metadata/resourceVersion").and_then(|text| text.parse().ok());
        let Some(revision) = revision else { return };
        state.by_revision.insert(revision, writer.clone());
        let newest = state.marks.newest.entry(place.plural.clone()).or_default();
        *newest = revision.max(*newest);
        if let Some(uid) = text("/metadata/uid")
            && text("/metadata/deletionTimestamp").is_some()
        {
            state.by_uid.insert(uid.to_owned(), writer.clone());
        }
    }

    /// Who made a change, as far as it was one of us.
    pub(crate) fn writer(&self, revision: u64) -> Option<Written> {
        self.state().by_revision.get(&revision).cloned()
    }

    /// Who had an object deleted.
    pub(crate) fn deleter(&self, uid: &str) -> Option<Written> {
        self.state().by_uid.get(uid).cloned()
    }

    /// Who bound a pod.
    pub(crate) fn binder(&self, namespace: &str, name: &str) -> Option<Written> {
        self.state().bound.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Has cycles be told apart by what a scheduler in this process tells of them.
    pub(crate) fn listen(&self, pulse: watch::Receiver<Status>) {
        self.state().pulse = Some(pulse);
    }

    /// How many writes of ours the cluster took.
    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    /// Up to where it was written.
    pub(crate) fn marks(&self) -> Marks {
        self.state().marks.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_one_cycle_have_one_moment_however_long_it_takes() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let mut told = Moment::default();
        assert_eq!(told.write(at(10), Some(0)), at(10));
        assert_eq!(told.write(at(90), Some(0)), at(10));
        assert_eq!(told.write(at(91), Some(1)), at(91));
        let mut silent = Moment::default();
        assert_eq!(silent.write(at(10), None), at(10));
        assert_eq!(silent.write(at(12), None), at(10));
        assert_eq!(silent.write(at(15), None), at(15));
    }
}
