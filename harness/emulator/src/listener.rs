//! Who is told that the store changed: a watch is woken for its own kind only, and once in a
//! while for a bookmark. Each write would otherwise wake every watch there is.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::kinds::Resource;
use crate::store::LogEntry;

/// What one watch is told of.
#[derive(Debug)]
pub(crate) struct Listener {
    resource: Resource,
    /// Changes of other kinds wake it after this time without being woken.
    every: Option<SignedDuration>,
    /// The revision of the first change of its kind that it has not read; 0: it has read all.
    unread: AtomicU64,
    /// When it was last woken, in milliseconds.
    woken: AtomicI64,
    bell: Notify,
}

impl Listener {
    /// Of one that has read nothing from `unread` on.
    pub(crate) fn new(
        (resource, every): (Resource, Option<SignedDuration>),
        unread: u64,
        now: Timestamp,
    ) -> Self {
        Self {
            resource,
            every,
            unread: AtomicU64::new(unread),
            woken: AtomicI64::new(now.as_millisecond()),
            bell: Notify::new(),
        }
    }

    /// Tells it what was just written, under the store's lock.
    pub(crate) fn tell<'e>(&self, mut entries: impl Iterator<Item = &'e LogEntry>, now: Timestamp) {
        let own = entries.find(|entry| entry.key.resource == self.resource);
        if let Some(own) = own
            && self.unread.load(Ordering::Relaxed) == 0
        {
            self.unread.store(own.revision, Ordering::Release);
        }
        let now = now.as_millisecond();
        let silent = i128::from(now - self.woken.load(Ordering::Relaxed));
        if own.is_some() || self.every.is_some_and(|every| silent >= every.as_millis()) {
            self.woken.store(now, Ordering::Relaxed);
            self.bell.notify_one();
        }
    }

    /// From which revision on there is something to read; `None`: there is nothing.
    pub(crate) fn unread(&self) -> Option<u64> {
        match self.unread.load(Ordering::Acquire) {
            0 => None,
            revision => Some(revision),
        }
    }

    /// It has read everything; said under the store's lock.
    pub(crate) fn has_read(&self) {
        self.unread.store(0, Ordering::Release);
    }

    /// Waits until it is told.
    pub(crate) async fn told(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn other_kinds_wake_it_once_in_a_while_where_it_wants_bookmarks() {
        let start = Timestamp::UNIX_EPOCH;
        let minute = SignedDuration::from_mins(1);
        let rung = |every, after| {
            let listener = Listener::new((Resource::new("", "pods"), every), 0, start);
            listener.tell(std::iter::empty(), start + after);
            listener.told().now_or_never().is_some()
        };
        assert!(!rung(Some(minute), minute - SignedDuration::from_millis(1)));
        assert!(rung(Some(minute), minute));
        assert!(!rung(None, minute));
    }
}
