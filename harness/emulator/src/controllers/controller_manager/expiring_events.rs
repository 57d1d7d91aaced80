//! The events of a cluster in the order of their last writes, so that old ones can be removed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::reconcile::resources::EVENTS;
use crate::reconcile::{InformerCache, ObjectChange};
use crate::store::{Key, Object};

/// Events with the times of their writes.
#[derive(Debug, Default)]
pub(super) struct ExpiringEvents {
    /// How long an event is kept after its last write; `None` keeps events forever.
    ttl: Option<Duration>,
    /// Time, key and state of every write of an event, the oldest first.
    writes: VecDeque<(Timestamp, Key, Object)>,
}

impl ExpiringEvents {
    pub(super) fn new(ttl: Option<Duration>) -> Self {
        Self { ttl, writes: VecDeque::new() }
    }

    /// Records a change if it is the write of an event.
    pub(super) fn record(&mut self, change: &ObjectChange, now: Timestamp) {
        if self.ttl.is_none() || change.key.resource != *EVENTS {
            return;
        }
        if let Some(object) = &change.after {
            self.writes.push_back((now, change.key.clone(), Arc::clone(object)));
        }
    }

    /// Returns the keys of the events that were last written a time to live ago, and forgets these
    /// events.
    pub(super) fn take_expired(&mut self, now: Timestamp, cache: &InformerCache) -> Vec<Key> {
        let Some(oldest) = self.ttl.and_then(|ttl| now.checked_sub(ttl).ok()) else {
            return Vec::new();
        };
        let old = self.writes.partition_point(|(time, ..)| *time <= oldest);
        let old = self.writes.drain(..old);
        let is_last = |key: &Key, object: &Object| {
            cache.get(key).is_some_and(|current| Arc::ptr_eq(current, object))
        };
        old.filter(|(_, key, object)| is_last(key, object)).map(|(_, key, _)| key).collect()
    }
}
