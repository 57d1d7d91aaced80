//! A watch that goes on: what there is now, and waiting for more.

use tokio::sync::watch::Receiver;

use super::{Cursor, WatchEvent, WatchQuery};
use crate::error::ApiError;
use crate::shared::SharedStore;
use crate::store::Compacted;

/// So many events at most are handed on at once.
const EVENTS_AT_ONCE: usize = 256;

/// The changes of one collection, as they come.
#[derive(Debug)]
pub struct Tail {
    store: SharedStore,
    changes: Receiver<u64>,
    cursor: Cursor,
    /// What was there when it began.
    waiting: std::vec::IntoIter<WatchEvent>,
}

impl Tail {
    /// Starts as [`Cursor::start`] does, with its errors.
    pub fn start(store: &SharedStore, query: WatchQuery) -> Result<Self, ApiError> {
        let now = store.clock().now();
        let changes = store.revisions();
        let (cursor, waiting) = store.read(|store| Cursor::start(store, query, now))?;
        Ok(Self { store: store.clone(), changes, cursor, waiting: waiting.into_iter() })
    }

    /// What there is to tell now; nothing when there is nothing (yet).
    pub fn take(&mut self) -> Result<Vec<WatchEvent>, Compacted> {
        let first: Vec<WatchEvent> = self.waiting.by_ref().take(EVENTS_AT_ONCE).collect();
        if !first.is_empty() {
            return Ok(first);
        }
        let now = self.store.clock().now();
        let revision = *self.changes.borrow_and_update();
        while self.cursor.is_behind(revision) {
            let cursor = &mut self.cursor;
            let events = self.store.read(|store| cursor.advance(store, now, EVENTS_AT_ONCE))?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
        Ok(Vec::new())
    }

    /// Waits until the store changes; `false` when it never will again.
    pub async fn changed(&mut self) -> bool {
        self.changes.changed().await.is_ok()
    }
}
