//! Shared access to the store: one lock, one clock, and change notifications.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::api_types::error::ApiError;
use crate::clock::Clock;
use crate::store::watch_notifier::WatchNotifier;
use crate::store::{LogEntry, Store, Write, WriteOutcome};

/// A callback for every change, called under the store's lock in revision order.
pub type Observer = Box<dyn FnMut(&Arc<LogEntry>) + Send>;

/// A store shared by the HTTP API and the controllers. Clones refer to the same store.
#[derive(Clone)]
pub struct SharedStore {
    inner: Arc<SharedInner>,
}

struct SharedInner {
    state: Mutex<LockedState>,
    revision: watch::Sender<u64>,
    clock: Clock,
}

struct LockedState {
    store: Store,
    observers: Vec<Observer>,
    watch_notifiers: Vec<Weak<WatchNotifier>>,
}

impl SharedStore {
    /// Shares a store whose changes are stamped with the time of `clock`.
    pub fn new(store: Store, clock: Clock) -> Self {
        let revision = watch::Sender::new(store.revision());
        let state =
            Mutex::new(LockedState { store, observers: Vec::new(), watch_notifiers: Vec::new() });
        Self { inner: Arc::new(SharedInner { state, revision, clock }) }
    }

    /// The clock that stamps changes.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Calls `look` with the store, under the store's lock. Keep `look` short.
    pub fn read<R>(&self, look: impl FnOnce(&Store) -> R) -> R {
        look(&self.lock_state().store)
    }

    /// Changes the store atomically at the clock's time, then notifies observers and watches.
    pub fn change<R>(&self, change: impl FnOnce(&mut Store, Timestamp) -> R) -> R {
        let mut state = self.lock_state();
        let LockedState { store, observers, watch_notifiers } = &mut *state;
        let (before, now) = (store.revision(), self.inner.clock.now());
        let result = change(store, now);
        let after = store.revision();
        if after > before {
            let entries = store.log_since(before).unwrap_or_default();
            notify_observers(observers, entries);
            notify_watches(watch_notifiers, entries, now);
            self.inner.revision.send_replace(after);
        }
        result
    }

    /// Applies one write.
    ///
    /// # Errors
    ///
    /// The API server's answer to a write that is invalid, conflicts, or is rejected at admission.
    /// Nothing is written then.
    pub fn write(&self, write: Write) -> Result<WriteOutcome, ApiError> {
        self.change(|store, now| store.write(write, now))
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        *self.inner.revision.borrow()
    }

    /// Subscribes to the current revision. Several changes may arrive as one notification.
    pub fn subscribe_revisions(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    /// Registers a watch notifier for all later changes. `begin` creates it under the store's lock.
    pub(crate) fn subscribe<R>(
        &self,
        begin: impl FnOnce(&Store) -> Result<(R, WatchNotifier), ApiError>,
    ) -> Result<(R, Arc<WatchNotifier>), ApiError> {
        let mut state = self.lock_state();
        let (made, notifier) = begin(&state.store)?;
        let notifier = Arc::new(notifier);
        state.watch_notifiers.push(Arc::downgrade(&notifier));
        Ok((made, notifier))
    }

    /// Registers an observer for all later changes.
    pub fn observe(&self, observer: Observer) {
        self.lock_state().observers.push(observer);
    }

    fn lock_state(&self) -> MutexGuard<'_, LockedState> {
        // The store stays consistent if an observer panics: each change is complete by then.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn notify_observers(observers: &mut [Observer], entries: &[Arc<LogEntry>]) {
    for entry in entries {
        for observer in &mut *observers {
            observer(entry);
        }
    }
}

/// Notifies the live watches and drops the others.
fn notify_watches(
    notifiers: &mut Vec<Weak<WatchNotifier>>,
    entries: &[Arc<LogEntry>],
    now: Timestamp,
) {
    notifiers.retain(|notifier| {
        let notifier = notifier.upgrade();
        let notified = notifier.map(|it| it.notify(entries.iter().map(|entry| &**entry), now));
        notified.is_some()
    });
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedStore").field("revision", &self.revision()).finish()
    }
}
