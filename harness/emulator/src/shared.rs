//! The store as everyone holds it: one lock, one clock, and word of every change.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::error::ApiError;
use crate::listener::Listener;
use crate::store::{LogEntry, Store, Write, Written};

/// Is told of every change under the store's lock, in the order of revisions.
pub type Observer = Box<dyn FnMut(&Arc<LogEntry>) + Send>;

/// A store shared by doors and actors. Clones are the same store.
#[derive(Clone)]
pub struct SharedStore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
    clock: Clock,
}

struct State {
    store: Store,
    observers: Vec<Observer>,
    listeners: Vec<Weak<Listener>>,
}

impl SharedStore {
    /// Shares a store whose changes happen at the times of `clock`.
    pub fn new(store: Store, clock: Clock) -> Self {
        let revision = watch::Sender::new(store.revision());
        let state = Mutex::new(State { store, observers: Vec::new(), listeners: Vec::new() });
        Self { shared: Arc::new(Shared { state, revision, clock }) }
    }

    /// The clock of its changes.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Looks at the store. Keep it short: everyone waits.
    pub fn read<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        look(&self.state().store)
    }

    /// Changes the store, in one go for everybody else, at the clock's time.
    pub fn change<R>(&self, change: impl FnOnce(&mut Store, Timestamp) -> R) -> R {
        let mut state = self.state();
        let State { store, observers, listeners } = &mut *state;
        let (before, now) = (store.revision(), self.shared.clock.now());
        let result = change(store, now);
        let after = store.revision();
        if after > before {
            let entries = store.log_since(before).unwrap_or_default();
            tell(observers, entries);
            tell_listeners(listeners, entries, now);
            self.shared.revision.send_replace(after);
        }
        result
    }

    /// Does one write.
    pub fn write(&self, write: Write) -> Result<Written, ApiError> {
        self.change(|store, now| store.write(write, now))
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        *self.shared.revision.borrow()
    }

    /// Word of every change: the revision it led to. Several changes may come as one.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Has a listener told of every change from now on. `begin` makes it, between two changes.
    pub(crate) fn listen<R>(
        &self,
        begin: impl FnOnce(&Store) -> Result<(R, Listener), ApiError>,
    ) -> Result<(R, Arc<Listener>), ApiError> {
        let mut state = self.state();
        let (made, listener) = begin(&state.store)?;
        let listener = Arc::new(listener);
        state.listeners.push(Arc::downgrade(&listener));
        Ok((made, listener))
    }

    /// Has every change from now on observed.
    pub fn observe(&self, observer: Observer) {
        self.state().observers.push(observer);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of an observer leaves the store whole: it changes in single steps.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(observers: &mut [Observer], entries: &[Arc<LogEntry>]) {
    for entry in entries {
        for observer in &mut *observers {
            observer(entry);
        }
    }
}

/// Those that are gone are forgotten.
fn tell_listeners(listeners: &mut Vec<Weak<Listener>>, entries: &[Arc<LogEntry>], now: Timestamp) {
    listeners.retain(|listener| {
        let listener = listener.upgrade();
        let told = listener.map(|it| it.tell(entries.iter().map(|entry| &**entry), now));
        told.is_some()
    });
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedStore").field("revision", &self.revision()).finish()
    }
}
