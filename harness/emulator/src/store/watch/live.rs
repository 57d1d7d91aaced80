//! A watch on a shared store that can wait for changes.

use std::sync::Arc;

use super::{BOOKMARK_INTERVAL, Cursor, WatchEvent, WatchQuery};
use crate::api_types::error::ApiError;
use crate::store::shared::SharedStore;
use crate::store::watch_notifier::WatchNotifier;
use crate::store::{Compacted, Store};

/// The maximum number of events in one batch.
const BATCH_EVENTS_MAX: usize = 256;

/// A running watch of one collection.
#[derive(Debug)]
pub struct LiveWatch {
    store: SharedStore,
    notifier: Arc<WatchNotifier>,
    cursor: Cursor,
    /// Initial events that were not returned yet.
    initial_events: std::vec::IntoIter<WatchEvent>,
}

impl LiveWatch {
    /// Starts a watch.
    ///
    /// # Errors
    /// Those of [`Cursor::start`].
    pub fn start(store: &SharedStore, query: WatchQuery) -> Result<Self, ApiError> {
        let now = store.clock().now();
        let resource = query.resource.clone();
        let bookmark_interval = query.bookmarks.then_some(BOOKMARK_INTERVAL);
        let begin = |store: &Store| {
            let (cursor, initial_events) = Cursor::start(store, query, now)?;
            let first_unseen = cursor.first_unseen(store.revision());
            let notifier = WatchNotifier::new(resource, bookmark_interval, first_unseen, now);
            Ok(((cursor, initial_events), notifier))
        };
        let ((cursor, initial_events), notifier) = store.subscribe(begin)?;
        Ok(Self {
            store: store.clone(),
            notifier,
            cursor,
            initial_events: initial_events.into_iter(),
        })
    }

    /// The available events; empty if there are none yet.
    ///
    /// # Errors
    ///
    /// The watch is so far behind that the log no longer has its next event.
    pub fn next_events(&mut self) -> Result<Vec<WatchEvent>, Compacted> {
        let first: Vec<WatchEvent> = self.initial_events.by_ref().take(BATCH_EVENTS_MAX).collect();
        if !first.is_empty() {
            return Ok(first);
        }
        if self.notifier.first_unseen().is_none() && !self.cursor.sends_bookmarks() {
            return Ok(Vec::new());
        }
        let (cursor, notifier, now) = (&mut self.cursor, &self.notifier, self.store.clock().now());
        self.store.read(|store| {
            let revision = store.revision();
            cursor.skip_to(notifier.first_unseen().map_or(revision, |revision| revision - 1));
            let mut events = cursor.advance(store, now, BATCH_EVENTS_MAX)?;
            while events.is_empty() && cursor.is_behind(revision) {
                events = cursor.advance(store, now, BATCH_EVENTS_MAX)?;
            }
            if !cursor.is_behind(revision) {
                notifier.mark_caught_up();
            }
            Ok(events)
        })
    }

    /// Waits until events may be available.
    pub async fn changed(&self) {
        self.notifier.notified().await;
    }
}
