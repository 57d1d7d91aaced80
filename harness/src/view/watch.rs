//! One collection, listed once and watched from there.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::{Context as _, anyhow};
use futures::{Stream, StreamExt as _};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;

use super::{Kind, Place};
use crate::api::{Api, is_not_found};

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Value>>> + Send>>;

/// A collection that is kept up to date.
pub(super) struct Watch {
    pub(super) kind: Kind,
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
        let path = format!("{}?watch=1&resourceVersion={revision}", kind.path());
        let request = Request::get(path).body(Vec::new())?;
        let events = api.client().request_events::<Value>(request).await?;
        let mut objects = BTreeMap::new();
        for object in list["items"].as_array().into_iter().flatten() {
            objects.insert(place(object), object.clone());
        }
        Ok(Some(Self { kind, objects, events: Box::pin(events) }))
    }

    /// The next change, when there is one.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<anyhow::Result<WatchEvent<Value>>> {
        self.events.poll_next_unpin(context).map(|event| match event {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(error).context(self.kind.path()),
            None => Err(anyhow!("the watch of {} ended", self.kind.path())),
        })
    }

    /// Takes a change in. Answers an object that is gone.
    pub(super) fn take(&mut self, event: WatchEvent<Value>) -> Option<(Place, Value)> {
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

fn place(object: &Value) -> Place {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (field("namespace"), field("name"))
}
