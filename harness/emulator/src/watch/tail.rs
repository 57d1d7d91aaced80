//! A watch that goes on: what there is now, and waiting for more.

use std::sync::Arc;

use super::{BOOKMARK_INTERVAL, Cursor, WatchEvent, WatchQuery};
use crate::error::ApiError;
use crate::listener::Listener;
use crate::shared::SharedStore;
use crate::store::{Compacted, Store};

/// So many events at most are handed on at once.
const EVENTS_AT_ONCE: usize = 256;

/// The changes of one collection, as they come.
#[derive(Debug)]
pub struct Tail {
    store: SharedStore,
    listener: Arc<Listener>,
    cursor: Cursor,
    /// What was there when it began.
    waiting: std::vec::IntoIter<WatchEvent>,
}

impl Tail {
    /// Starts as [`Cursor::start`] does, with its errors.
    pub fn start(store: &SharedStore, query: WatchQuery) -> Result<Self, ApiError> {
        let now = store.clock().now();
        let of = (query.resource.clone(), query.bookmarks.then_some(BOOKMARK_INTERVAL));
        let begin = |store: &Store| {
            let (cursor, waiting) = Cursor::start(store, query, now)?;
            let unread = cursor.next_unread(store.revision());
            Ok(((cursor, waiting), Listener::new(of, unread, now)))
        };
        let ((cursor, waiting), listener) = store.listen(begin)?;
        Ok(Self { store: store.clone(), listener, cursor, waiting: waiting.into_iter() })
    }

    /// What there is to tell now; nothing when there is nothing (yet).
    pub fn take(&mut self) -> Result<Vec<WatchEvent>, Compacted> {
        let first: Vec<WatchEvent> = self.waiting.by_ref().take(EVENTS_AT_ONCE).collect();
        if !first.is_empty() {
            return Ok(first);
        }
        if self.listener.unread().is_none() && !self.cursor.wants_bookmarks() {
            return Ok(Vec::new());
        }
        let (cursor, listener, now) = (&mut self.cursor, &self.listener, self.store.clock().now());
        self.store.read(|store| {
            let revision = store.revision();
            cursor.skip_to(listener.unread().map_or(revision, |unread| unread - 1));
            let mut events = cursor.advance(store, now, EVENTS_AT_ONCE)?;
            while events.is_empty() && cursor.is_behind(revision) {
                events = cursor.advance(store, now, EVENTS_AT_ONCE)?;
            }
            if !cursor.is_behind(revision) {
                listener.has_read();
            }
            Ok(events)
        })
    }

    /// Waits until there may be something to tell.
    pub async fn changed(&self) {
        self.listener.told().await;
    }
}
