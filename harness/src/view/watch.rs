//! One collection, listed once and watched from there.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use futures::{Stream, StreamExt as _};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;

use super::{Kind, Place};
use crate::api::{Api, is_not_found};
use crate::veil::Marks;

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Value>>> + Send>>;

/// A collection that is kept up to date.
pub(super) struct Watch {
    pub(super) kind: Kind,
    api: Api,
    /// The newest revision it has told.
    seen: u64,
    objects: BTreeMap<Place, Value>,
    events: Events,
}

impl Watch {
    /// Lists and watches; `None` when the cluster does not know the kind.
    pub(super) async fn open(api: &Api, kind: Kind) -> anyhow::Result<Option<Self>> {
        let list = match api.get(kind.path()).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).context(kind.path()),
        };
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
        let events = connect(api, kind, revision).await?;
        let mut objects = BTreeMap::new();
        for object in list["items"].as_array().into_iter().flatten() {
            objects.insert(place(object), object.clone());
        }
        let seen = revision.parse().unwrap_or(0);
        Ok(Some(Self { kind, api: api.clone(), seen, objects, events }))
    }

    /// Goes on where the server ended it.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        self.events = connect(&self.api, self.kind, &self.seen.to_string()).await?;
        Ok(())
    }

    /// Whether everything that is marked as written has been told.
    pub(super) fn has_seen(&self, marks: &Marks) -> bool {
        let plural = self.kind.path().rsplit('/').next().unwrap_or_default();
        let gone = |uid: &String| !self.objects().any(|object| object["metadata"]["uid"] == **uid);
        let deleted = marks.deleted.iter().filter(|(_, of)| *of == plural);
        marks.newest.get(plural).is_none_or(|newest| *newest <= self.seen)
            && deleted.map(|(uid, _)| uid).all(gone)
    }

    /// The next change, when there is one; `None` when the server ended the watch.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<anyhow::Result<Option<WatchEvent<Value>>>> {
        self.events
            .poll_next_unpin(context)
            .map(|event| event.transpose().with_context(|| self.kind.path()))
    }

    /// Takes a change in. Answers an object that is gone.
    pub(super) fn take(&mut self, event: WatchEvent<Value>) -> Option<(Place, Value)> {
        if let WatchEvent::Added(object)
        | WatchEvent::Modified(object)
        | WatchEvent::Deleted(object) = &event
        {
            let revision = object["metadata"]["resourceVersion"].as_str();
            self.seen = revision.and_then(|text| text.parse().ok()).unwrap_or(self.seen);
        }
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.objects.insert(place(&object), object);
                None
            }
            WatchEvent::Deleted(object) => {
                let place = place(&object);
                self.objects.remove(&place);
                Some((place, object))
            }
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
        }
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?}, {} objects)", self.kind, self.objects.len())
    }
}

async fn connect(api: &Api, kind: Kind, revision: &str) -> anyhow::Result<Events> {
    let path = format!("{}?watch=1&resourceVersion={revision}", kind.path());
    let request = Request::get(path).body(Vec::new())?;
    Ok(Box::pin(api.client().request_events::<Value>(request).await?))
}

fn place(object: &Value) -> Place {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (field("namespace"), field("name"))
}
