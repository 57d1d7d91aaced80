//! Watches as HTTP has them: a body that goes on, one JSON event a line.
//!
//! A feed sleeps until the store changes; it has no timer of its own but the client's
//! `timeoutSeconds`, so that virtual time can jump.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use hyper::body::Bytes;
use serde::Serialize;
use tokio::time::Sleep;

use super::Call;
use super::accept::Shape;
use super::encode;
use super::reply::{self, Reply, status_of};
use super::table::{Table, partial_metadata};
use super::texts::Texts;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::shared::SharedStore;
use crate::watch::{Bookmark, Tail, WatchEvent};
use schedlab_json::Value;

impl Call<'_> {
    pub(super) fn watch(&self) -> Result<Reply, ApiError> {
        let query = self.query.watch(&self.kind, &self.selected())?;
        let timeout =
            self.query.number("timeoutSeconds")?.and_then(|secs| u64::try_from(secs).ok());
        let feed = Feed {
            store: self.store.clone(),
            tail: Tail::start(self.store, query)?,
            end: timeout
                .filter(|secs| *secs > 0)
                .map(|secs| Box::pin(tokio::time::sleep(Duration::from_secs(secs)))),
            form: Form {
                kind: Arc::clone(&self.kind),
                version: self.target.version.clone(),
                shape: self.accept.shape.clone(),
                include: self.query.get("includeObject").map(str::to_owned),
                texts: self.texts.clone(),
                is_first: true,
            },
            is_over: false,
        };
        Ok(reply::stream(stream::unfold(feed, next)))
    }
}

/// One client's watch.
struct Feed {
    store: SharedStore,
    tail: Tail,
    end: Option<Pin<Box<Sleep>>>,
    form: Form,
    is_over: bool,
}

async fn next(mut feed: Feed) -> Option<(Bytes, Feed)> {
    loop {
        if feed.is_over {
            return None;
        }
        let piece = feed.piece();
        if !piece.is_empty() {
            return Some((piece.into(), feed));
        }
        feed.wait().await;
    }
}

impl Feed {
    /// What there is to send now.
    fn piece(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        let now = self.store.clock().now();
        match self.tail.take() {
            Ok(events) => events.iter().for_each(|e| self.form.write(&mut piece, e, now)),
            Err(compacted) => {
                self.is_over = true;
                write_event(&mut piece, "ERROR", &status_of(&compacted.into()));
            }
        }
        piece
    }

    /// Until the store changes or the client's time is over.
    async fn wait(&mut self) {
        let changed = self.tail.changed();
        match &mut self.end {
            None => changed.await,
            Some(end) => tokio::select! {
                () = changed => {}
                () = end => self.is_over = true,
            },
        }
    }
}

/// How a client wants its events.
struct Form {
    kind: Arc<Kind>,
    version: String,
    shape: Shape,
    include: Option<String>,
    texts: Texts,
    is_first: bool,
}

impl Form {
    fn write(&mut self, piece: &mut Vec<u8>, event: &WatchEvent, now: jiff::Timestamp) {
        let (name, stored) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark { revision, ends_initial_events } => {
                return self.write_bookmark(piece, (*revision, *ends_initial_events), now);
            }
        };
        let object = self.kind.present(&self.version, stored);
        match self.shape {
            Shape::Plain | Shape::Discovery(_) => {
                let text = self.texts.of(&object);
                write_line(piece, name, |piece| piece.extend_from_slice(&text));
            }
            Shape::PartialMetadata | Shape::PartialMetadataList | Shape::Table(_) => {
                self.write_shaped(piece, name, &object, now);
            }
        }
    }

    fn write_bookmark(
        &mut self,
        piece: &mut Vec<u8>,
        (revision, ends_initial_events): (u64, bool),
        now: jiff::Timestamp,
    ) {
        let api_version = self.kind.api_version(&self.version);
        let mark = Bookmark::new(&self.kind.kind, &api_version, revision, ends_initial_events);
        // Most are plain, and there are many of them.
        if matches!(self.shape, Shape::Plain) {
            return write_event(piece, "BOOKMARK", &mark);
        }
        let mark = schedlab_json::to_value(&mark).expect("a bookmark is plain JSON");
        self.write_shaped(piece, "BOOKMARK", &mark, now);
    }

    fn write_shaped(
        &mut self,
        piece: &mut Vec<u8>,
        name: &str,
        object: &Value,
        now: jiff::Timestamp,
    ) {
        match self.shape {
            Shape::Plain | Shape::Discovery(_) => write_event(piece, name, object),
            Shape::PartialMetadata | Shape::PartialMetadataList => {
                write_event(piece, name, &partial_metadata(object, "v1"));
            }
            Shape::Table(version) => {
                let include = self.include.as_deref();
                let table = Table::new(version, &self.kind, &self.version, include);
                write_event(piece, name, &table.row_alone(object, self.is_first, now));
                self.is_first = false;
            }
        }
    }
}

fn write_event(piece: &mut Vec<u8>, name: &str, object: &impl Serialize) {
    write_line(piece, name, |piece| encode::any(piece, object));
}

fn write_line(piece: &mut Vec<u8>, name: &str, write_object: impl FnOnce(&mut Vec<u8>)) {
    // Most objects fit: a text that grows is copied again and again.
    piece.reserve(2048);
    piece.extend_from_slice(b"{\"type\":\"");
    piece.extend_from_slice(name.as_bytes());
    piece.extend_from_slice(b"\",\"object\":");
    write_object(piece);
    piece.extend_from_slice(b"}\n");
}
