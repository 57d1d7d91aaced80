//! Wakes watches when the store changes: a watch wakes for changes of its own kind, and at
//! intervals for a bookmark. Otherwise every write would wake every watch.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::api_types::resource::Resource;
use crate::store::LogEntry;

/// The wake-up state of one watch.
#[derive(Debug)]
pub(crate) struct WatchNotifier {
    resource: Resource,
    /// Changes of other kinds wake the watch if it slept this long; with `None` they never do.
    bookmark_interval: Option<SignedDuration>,
    /// The revision of the first unseen change of the watched kind; 0 if there is none.
    first_unseen: AtomicU64,
    /// The time of the last wake-up, in milliseconds.
    last_woken: AtomicI64,
    wakeup: Notify,
}

impl WatchNotifier {
    /// Creates the notifier of a watch that has seen all changes before `first_unseen`.
    pub(crate) fn new(
        resource: Resource,
        bookmark_interval: Option<SignedDuration>,
        first_unseen: u64,
        now: Timestamp,
    ) -> Self {
        Self {
            resource,
            bookmark_interval,
            first_unseen: AtomicU64::new(first_unseen),
            last_woken: AtomicI64::new(now.as_millisecond()),
            wakeup: Notify::new(),
        }
    }

    /// Records new changes. Called under the store's lock.
    pub(crate) fn notify<'e>(
        &self,
        mut entries: impl Iterator<Item = &'e LogEntry>,
        now: Timestamp,
    ) {
        let own = entries.find(|entry| entry.key.resource == self.resource);
        if let Some(own) = own
            && self.first_unseen.load(Ordering::Relaxed) == 0
        {
            self.first_unseen.store(own.revision, Ordering::Release);
        }
        let now = now.as_millisecond();
        let silent = i128::from(now - self.last_woken.load(Ordering::Relaxed));
        if own.is_some() || self.bookmark_interval.is_some_and(|every| silent >= every.as_millis())
        {
            self.last_woken.store(now, Ordering::Relaxed);
            self.wakeup.notify_one();
        }
    }

    /// The revision of the first unseen change of the watched kind; `None` if there is none.
    pub(crate) fn first_unseen(&self) -> Option<u64> {
        match self.first_unseen.load(Ordering::Acquire) {
            0 => None,
            revision => Some(revision),
        }
    }

    /// Records that the watch has seen all changes. Called under the store's lock.
    pub(crate) fn mark_caught_up(&self) {
        self.first_unseen.store(0, Ordering::Release);
    }

    /// Waits for the next wake-up.
    pub(crate) async fn notified(&self) {
        self.wakeup.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn other_kinds_wake_a_watch_only_for_bookmarks() {
        let start = Timestamp::UNIX_EPOCH;
        let minute = SignedDuration::from_mins(1);
        let rung = |every, after| {
            let notifier = WatchNotifier::new(Resource::new("", "pods"), every, 0, start);
            notifier.notify(std::iter::empty(), start + after);
            notifier.notified().now_or_never().is_some()
        };
        assert!(!rung(Some(minute), minute - SignedDuration::from_millis(1)));
        assert!(rung(Some(minute), minute));
        assert!(!rung(None, minute));
    }
}
