//! Watches over HTTP: a streamed body with one JSON event per line.
//!
//! A stream sleeps until the store changes. Its only timer is the client's `timeoutSeconds`, so
//! that virtual time can advance.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use hyper::body::Bytes;
use serde::Serialize;
use tokio::time::Sleep;

use super::RequestContext;
use super::accept::ResponseFormat;
use super::json_writer;
use super::response::{self, ApiResponse, status_object};
use super::serialized_cache::SerializedCache;
use super::table::{Table, partial_metadata};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::Kind;
use crate::store::shared::SharedStore;
use crate::store::watch::{Bookmark, LiveWatch, WatchEvent};
use schedlab_api::Value;

impl RequestContext<'_> {
    pub(super) fn watch(&self) -> Result<ApiResponse, ApiError> {
        let query = self.query.watch_query(&self.kind, &self.path_selection())?;
        let timeout = self
            .query
            .number_parameter("timeoutSeconds")?
            .and_then(|secs| u64::try_from(secs).ok());
        let feed = WatchStream {
            store: self.store.clone(),
            live: LiveWatch::start(self.store, query)?,
            timeout: timeout
                .filter(|secs| *secs > 0)
                .map(|secs| Box::pin(tokio::time::sleep(Duration::from_secs(secs)))),
            encoder: EventEncoder {
                kind: Arc::clone(&self.kind),
                version: self.target.version.clone(),
                format: self.accept.format.clone(),
                include: self.query.get("includeObject").map(str::to_owned),
                texts: self.serialized.clone(),
                is_first: true,
            },
            is_closed: false,
        };
        Ok(response::stream_response(stream::unfold(feed, next_nonempty_chunk)))
    }
}

/// The stream of watch events to one client.
struct WatchStream {
    store: SharedStore,
    live: LiveWatch,
    timeout: Option<Pin<Box<Sleep>>>,
    encoder: EventEncoder,
    is_closed: bool,
}

async fn next_nonempty_chunk(mut feed: WatchStream) -> Option<(Bytes, WatchStream)> {
    loop {
        if feed.is_closed {
            return None;
        }
        let chunk = feed.next_chunk();
        if !chunk.is_empty() {
            return Some((chunk.into(), feed));
        }
        feed.wait_for_change().await;
    }
}

impl WatchStream {
    /// The serialized events that are available now; empty if no event is available.
    fn next_chunk(&mut self) -> Vec<u8> {
        let mut chunk = Vec::new();
        let now = self.store.clock().now();
        match self.live.next_events() {
            Ok(events) => events.iter().for_each(|e| self.encoder.encode_event(&mut chunk, e, now)),
            Err(compacted) => {
                self.is_closed = true;
                write_event(&mut chunk, "ERROR", &status_object(&compacted.into()));
            }
        }
        chunk
    }

    /// Waits until the store changes or the timeout ends.
    async fn wait_for_change(&mut self) {
        let changed = self.live.changed();
        match &mut self.timeout {
            None => changed.await,
            Some(end) => tokio::select! {
                () = changed => {}
                () = end => self.is_closed = true,
            },
        }
    }
}

/// Serializes events in the format that the client requested.
struct EventEncoder {
    kind: Arc<Kind>,
    version: String,
    format: ResponseFormat,
    include: Option<String>,
    texts: SerializedCache,
    is_first: bool,
}

impl EventEncoder {
    fn encode_event(&mut self, chunk: &mut Vec<u8>, event: &WatchEvent, now: jiff::Timestamp) {
        let (name, stored) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark { revision, ends_initial_events } => {
                return self.encode_bookmark(chunk, *revision, *ends_initial_events, now);
            }
        };
        let object = self.kind.in_version(&self.version, stored);
        match self.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) => {
                let text = self.texts.json_text(&object);
                write_event_line(chunk, name, |chunk| chunk.extend_from_slice(&text));
            }
            ResponseFormat::PartialMetadata
            | ResponseFormat::PartialMetadataList
            | ResponseFormat::Table(_) => {
                self.encode_in_format(chunk, name, &object, now);
            }
        }
    }

    fn encode_bookmark(
        &mut self,
        chunk: &mut Vec<u8>,
        revision: u64,
        ends_initial_events: bool,
        now: jiff::Timestamp,
    ) {
        let api_version = self.kind.api_version(&self.version);
        let mark = Bookmark::new(&self.kind.kind, &api_version, revision, ends_initial_events);
        // The common case, without an intermediate value.
        if matches!(self.format, ResponseFormat::Plain) {
            return write_event(chunk, "BOOKMARK", &mark);
        }
        let mark = schedlab_api::to_value(&mark).expect("a bookmark serializes to JSON");
        self.encode_in_format(chunk, "BOOKMARK", &mark, now);
    }

    fn encode_in_format(
        &mut self,
        chunk: &mut Vec<u8>,
        name: &str,
        object: &Value,
        now: jiff::Timestamp,
    ) {
        match self.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) => {
                write_event(chunk, name, object);
            }
            ResponseFormat::PartialMetadata | ResponseFormat::PartialMetadataList => {
                write_event(chunk, name, &partial_metadata(object, "v1"));
            }
            ResponseFormat::Table(version) => {
                let include = self.include.as_deref();
                let table = Table::new(version, &self.kind, &self.version, include);
                write_event(chunk, name, &table.watch_row(object, self.is_first, now));
                self.is_first = false;
            }
        }
    }
}

fn write_event(chunk: &mut Vec<u8>, name: &str, object: &impl Serialize) {
    write_event_line(chunk, name, |chunk| json_writer::write_json(chunk, object));
}

fn write_event_line(chunk: &mut Vec<u8>, name: &str, write_object: impl FnOnce(&mut Vec<u8>)) {
    // Most objects fit, which avoids reallocation.
    chunk.reserve(2048);
    chunk.extend_from_slice(b"{\"type\":\"");
    chunk.extend_from_slice(name.as_bytes());
    chunk.extend_from_slice(b"\",\"object\":");
    write_object(chunk);
    chunk.extend_from_slice(b"}\n");
}
