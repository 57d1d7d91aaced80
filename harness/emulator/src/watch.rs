//! What a watch sees: the store's log from a revision on, through selectors, with an object that
//! starts or stops matching shown as added or deleted. Synchronous, but for [`Tail`], which waits.
//!
//! The log is the buffer, so a slow watcher never loses an event; one that the log no longer
//! reaches is told that it is too late.

mod tail;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::{ApiError, FieldErrors};
use crate::object;
use crate::select::{FieldSelector, LabelSelector};
use crate::store::{Compacted, EventKind, LogEntry, Object, Resource, Store};
use schedlab_json::Value;

pub use tail::Tail;

/// What a client asks to watch.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// The collection, where its objects are stored.
    pub resource: Resource,
    /// Only this namespace.
    pub namespace: Option<String>,
    /// `labelSelector`.
    pub labels: LabelSelector,
    /// `fieldSelector`.
    pub fields: FieldSelector,
    /// `resourceVersion`; empty is none.
    pub resource_version: String,
    /// `resourceVersionMatch`; empty is none.
    pub version_match: String,
    /// `sendInitialEvents`.
    pub initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// It came, or began to match.
    Added(Object),
    /// It changed.
    Modified(Object),
    /// It went, or ceased to match.
    Deleted(Object),
    /// Nothing happened up to this revision that was not sent.
    Bookmark {
        /// The revision.
        revision: u64,
        /// All objects that were there at the start have been sent.
        ends_initial_events: bool,
    },
}

/// A bookmark goes along with other activity when this much time has passed without an event.
const BOOKMARK_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Where a watch stands.
#[derive(Clone, Debug)]
pub struct Cursor {
    query: WatchQuery,
    revision: u64,
    last_sent: Timestamp,
}

impl Cursor {
    /// Starts a watch; the events are those of the objects that are there already, if asked for.
    /// Errors: 400 and 422 for queries that make no sense, 504 for initial events at a revision
    /// that is not yet.
    pub fn start(
        store: &Store,
        query: WatchQuery,
        now: Timestamp,
    ) -> Result<(Self, Vec<WatchEvent>), ApiError> {
        check(&query)?;
        let current = store.revision();
        let asked = parse_revision(&query.resource_version)?;
        let initial = query.initial_events.unwrap_or(asked == 0);
        let revision = if asked == 0 || initial { current } else { asked };
        if initial && asked > current {
            return Err(ApiError::too_large_revision(asked, current));
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

    /// What happened since; at most `limit` events, and then there may be more at once.
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
            events.extend(self.event(entry));
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

    /// The revision of the first change that it has not read; 0: there is none.
    fn next_unread(&self, current: u64) -> u64 {
        if self.is_behind(current) { self.revision + 1 } else { 0 }
    }

    /// Goes on from there: nothing of its kind happened before.
    fn skip_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    fn wants_bookmarks(&self) -> bool {
        self.query.bookmarks
    }

    /// Whether the log goes on behind it.
    pub fn is_behind(&self, revision: u64) -> bool {
        self.revision < revision
    }

    fn is_bookmark_due(&self, now: Timestamp) -> bool {
        self.query.bookmarks && now.duration_since(self.last_sent) >= BOOKMARK_INTERVAL
    }

    fn selects(&self, object: &Value) -> bool {
        self.query.labels.matches(object) && self.query.fields.matches(object)
    }

    fn event(&self, entry: &LogEntry) -> Option<WatchEvent> {
        if entry.key.resource != self.query.resource {
            return None;
        }
        if self.query.namespace.as_ref().is_some_and(|wanted| **wanted != *entry.key.namespace) {
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

/// The object that a bookmark carries.
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
    /// For a watch of a kind, in this API version.
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
        ApiError::unforeseen(format!("resourceVersion: {why}"))
    })
}

fn check(query: &WatchQuery) -> Result<(), ApiError> {
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
    errors.refuse_options("ListOptions")
}

#[cfg(test)]
mod tests;
