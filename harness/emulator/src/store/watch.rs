//! Watches: the store's log after a revision, filtered by selectors. An object that starts or stops
//! matching appears as added or deleted. Only [`LiveWatch`] waits; all else is synchronous.
//!
//! The log is the buffer, so a slow watcher loses no event. A watch that falls behind a compacted
//! log ends with [`Compacted`].

mod live;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::field_selector::FieldSelector;
use crate::api_types::label_selector::LabelSelector;
use crate::store::{Compacted, EventKind, LogEntry, Object, Resource, Store};
use schedlab_api::{Value, object};

pub use live::LiveWatch;

/// The parameters of a WATCH request.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// The collection, by its storage resource.
    pub resource: Resource,
    /// Restricts the watch to a namespace; `None` watches all namespaces.
    pub namespace: Option<String>,
    /// The parameter `labelSelector`.
    pub labels: LabelSelector,
    /// The parameter `fieldSelector`.
    pub fields: FieldSelector,
    /// The parameter `resourceVersion`; empty if absent.
    pub resource_version: String,
    /// The parameter `resourceVersionMatch`; empty if absent.
    pub version_match: String,
    /// The parameter `sendInitialEvents`.
    pub initial_events: Option<bool>,
    /// The parameter `allowWatchBookmarks`.
    pub bookmarks: bool,
}

/// An event that a watch sends.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// The object was created, or began to match the selectors.
    Added(Object),
    /// The object changed, and matched the selectors before and after.
    Modified(Object),
    /// The object was removed, or ceased to match the selectors.
    Deleted(Object),
    /// All events up to this revision have been sent.
    Bookmark {
        /// The revision of the bookmark.
        revision: u64,
        /// Whether the bookmark ends the initial events of a streamed list.
        ends_initial_events: bool,
    },
}

/// A watch that sent no event for this long sends a bookmark after the next change of the store.
const BOOKMARK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// The position of a watch in the change log, and the watch's query.
#[derive(Clone, Debug)]
pub struct Cursor {
    query: WatchQuery,
    revision: u64,
    last_sent: Timestamp,
}

impl Cursor {
    /// Starts a watch. Returns the initial events, if the query requests them.
    ///
    /// # Errors
    /// 422 or 500 for an invalid query, 504 for initial events at a future revision.
    pub fn start(
        store: &Store,
        query: WatchQuery,
        now: Timestamp,
    ) -> Result<(Self, Vec<WatchEvent>), ApiError> {
        check_watch_query(&query)?;
        let current = store.revision();
        let requested = parse_revision(&query.resource_version)?;
        let initial = query.initial_events.unwrap_or(requested == 0);
        let revision = if requested == 0 || initial { current } else { requested };
        if initial && requested > current {
            return Err(ApiError::too_large_revision(requested, current));
        }
        let cursor = Self { query, revision, last_sent: now };
        let mut events = Vec::new();
        if initial {
            let objects = store.list(&cursor.query.resource, cursor.query.namespace.as_deref());
            let matching = objects.filter(|object| cursor.selects(object));
            events.extend(matching.map(|object| WatchEvent::Added(Arc::clone(object))));
        }
        if cursor.query.initial_events == Some(true) && cursor.query.bookmarks {
            events.push(WatchEvent::Bookmark { revision, ends_initial_events: true });
        }
        Ok((cursor, events))
    }

    /// The next events, at most `limit`. If there are `limit` events, more may be available.
    ///
    /// # Errors
    ///
    /// The log no longer has the next event: it was compacted.
    pub fn advance(
        &mut self,
        store: &Store,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<WatchEvent>, Compacted> {
        let mut events = Vec::new();
        for entry in store.log_since(self.revision.min(store.revision()))? {
            if entry.revision <= self.revision {
                continue;
            }
            if events.len() == limit {
                break;
            }
            self.revision = entry.revision;
            events.extend(self.event_for_entry(entry));
        }
        if !events.is_empty() {
            self.last_sent = now;
        } else if self.is_bookmark_due(now) {
            self.last_sent = now;
            let bookmark =
                WatchEvent::Bookmark { revision: self.revision, ends_initial_events: false };
            events.push(bookmark);
        }
        Ok(events)
    }

    /// The revision of the first unread change; 0 if there is none.
    fn first_unseen(&self, current: u64) -> u64 {
        if self.is_behind(current) { self.revision + 1 } else { 0 }
    }

    /// Advances to a revision before which there is no change of the watched kind.
    fn skip_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    fn sends_bookmarks(&self) -> bool {
        self.query.bookmarks
    }

    /// Whether the watch has not yet read up to `revision`.
    pub fn is_behind(&self, revision: u64) -> bool {
        self.revision < revision
    }

    fn is_bookmark_due(&self, now: Timestamp) -> bool {
        self.query.bookmarks && now.duration_since(self.last_sent) >= BOOKMARK_INTERVAL
    }

    fn selects(&self, object: &Value) -> bool {
        self.query.labels.matches(object) && self.query.fields.matches(object)
    }

    fn event_for_entry(&self, entry: &LogEntry) -> Option<WatchEvent> {
        if entry.key.resource != self.query.resource {
            return None;
        }
        if self
            .query
            .namespace
            .as_ref()
            .is_some_and(|namespace| **namespace != *entry.key.namespace)
        {
            return None;
        }
        let before = entry.previous.as_ref().filter(|object| self.selects(object));
        let is_there = entry.kind != EventKind::Deleted && self.selects(&entry.object);
        match (before, is_there) {
            (None, false) => None,
            (None, true) => Some(WatchEvent::Added(Arc::clone(&entry.object))),
            (Some(_), true) => Some(WatchEvent::Modified(Arc::clone(&entry.object))),
            (Some(_), false) if entry.kind == EventKind::Deleted => {
                Some(WatchEvent::Deleted(Arc::clone(&entry.object)))
            }
            (Some(before), false) => {
                let mut last = Value::clone(before);
                let revision = entry.revision.to_string();
                object::set(&mut last, &["metadata", "resourceVersion"], revision.into());
                Some(WatchEvent::Deleted(Arc::new(last)))
            }
        }
    }
}

/// The object of a BOOKMARK event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bookmark<'k> {
    api_version: &'k str,
    kind: &'k str,
    metadata: BookmarkMetadata,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<InitialEventsEnd>,
    resource_version: String,
}

#[derive(Debug, Serialize)]
struct InitialEventsEnd {
    #[serde(rename = "k8s.io/initial-events-end")]
    ends: &'static str,
}

impl<'k> Bookmark<'k> {
    /// Creates the bookmark of a watch of a kind in an API version.
    pub fn new(
        kind: &'k str,
        api_version: &'k str,
        revision: u64,
        ends_initial_events: bool,
    ) -> Self {
        let annotations = ends_initial_events.then_some(InitialEventsEnd { ends: "true" });
        let metadata = BookmarkMetadata { annotations, resource_version: revision.to_string() };
        Self { api_version, kind, metadata }
    }
}

fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why =
            format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        ApiError::without_reason(format!("resourceVersion: {why}"))
    })
}

fn check_watch_query(query: &WatchQuery) -> Result<(), ApiError> {
    const FIELD: &str = "resourceVersionMatch";
    let mut errors = FieldErrors::new();
    let found = query.version_match.as_str();
    let is_newer = found == "NotOlderThan";
    if query.initial_events.is_some() && !is_newer {
        let rule = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.forbidden(FIELD, rule);
    }
    if !found.is_empty() && query.initial_events.is_none() {
        let rule =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.forbidden(FIELD, rule);
    }
    if !found.is_empty() && !is_newer {
        errors.unsupported(FIELD, &found.into(), &["NotOlderThan"]);
    }
    errors.into_options_result("ListOptions")
}

#[cfg(test)]
mod tests;
