//! Keeps one collection up to date: a LIST, followed by a watch. Unlike the watches of the scheduler
//! and of the controllers it does not retry: a test reports a broken watch instead of hiding it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use kube::core::WatchEvent;
use schedlab_api::{Value, object};
use schedlab_emulator::Emulator;

use super::store::{StoreWatch, watch_store};
use super::{ObjectKey, WatchedKind};
use schedlab_clusters::api::{Api, is_not_found};
use schedlab_tenancy::{Watermarks, collection_key};

pub(super) type Events = BoxStream<'static, anyhow::Result<WatchUpdate>>;

/// A change that a watch delivered.
pub(super) enum WatchUpdate {
    /// The new state of an object.
    Present(Arc<Value>),
    /// The last state of a deleted object.
    Deleted(Arc<Value>),
    /// A bookmark, or anything else without an object.
    Other,
}

/// By namespace and name.
type Objects = BTreeMap<String, BTreeMap<String, Arc<Value>>>;

/// A collection that is kept up to date.
pub(super) struct Watch {
    pub(super) kind: WatchedKind,
    source: Source,
    /// The `resourceVersion` of the last change.
    revision: u64,
    objects: Objects,
    events: Events,
}

/// Where changes come from.
enum Source {
    /// The cluster's API.
    Api(Api),
    /// The store of a cluster in this process, without serialization.
    Store(Emulator),
}

impl Watch {
    /// Lists and watches a kind; `None` if the cluster does not serve it.
    pub(super) async fn start(api: &Api, kind: WatchedKind) -> anyhow::Result<Option<Self>> {
        let mut list = match api.get(&kind.path()).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).context(kind.path()),
        };
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let events = open_stream(api, kind, &revision).await?;
        let listed = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let objects = by_key(listed.into_iter().map(Arc::new));
        let source = Source::Api(api.clone());
        let revision = revision.parse().unwrap_or(0);
        Ok(Some(Self { kind, source, revision, objects, events }))
    }

    /// Like [`Self::start`], for a cluster in this process.
    pub(super) fn in_process(
        emulator: &Emulator,
        kind: WatchedKind,
    ) -> anyhow::Result<Option<Self>> {
        let Some(followed) = watch_store(emulator, kind)? else { return Ok(None) };
        let StoreWatch { objects, revision, events } = followed;
        let (objects, source) = (by_key(objects), Source::Store(emulator.clone()));
        Ok(Some(Self { kind, source, revision, objects, events }))
    }

    /// Restarts a watch that the server ended.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        match &self.source {
            Source::Api(api) => {
                self.events = open_stream(api, self.kind, &self.revision.to_string()).await?;
            }
            Source::Store(emulator) => {
                if let Some(anew) = Self::in_process(emulator, self.kind)? {
                    *self = anew;
                }
            }
        }
        Ok(())
    }

    /// Whether everything up to these watermarks has been delivered.
    pub(super) fn has_reached(&self, watermarks: &Watermarks) -> bool {
        let (group, _, plural) = self.kind.collection();
        let collection = collection_key(group, plural);
        let gone = |uid: &String| !self.objects().any(|object| object["metadata"]["uid"] == **uid);
        let deleted = watermarks.deleted.iter().filter(|(_, of)| **of == collection);
        watermarks.newest.get(&collection).is_none_or(|newest| *newest <= self.revision)
            && deleted.map(|(uid, _)| uid).all(gone)
    }

    /// The next change, if there is one; `None` if the server ended the watch.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<anyhow::Result<Option<WatchUpdate>>> {
        self.events
            .poll_next_unpin(context)
            .map(|event| event.transpose().with_context(|| self.kind.path()))
    }

    /// Applies a change. Returns an object that was deleted.
    pub(super) fn apply(&mut self, update: WatchUpdate) -> Option<(ObjectKey, Arc<Value>)> {
        match update {
            WatchUpdate::Present(object) => {
                self.advance_revision(&object);
                insert(&mut self.objects, object);
                None
            }
            WatchUpdate::Deleted(object) => {
                self.advance_revision(&object);
                let key = key_of(&object);
                self.objects.get_mut(&key.0).and_then(|there| there.remove(&key.1));
                Some((key, object))
            }
            WatchUpdate::Other => None,
        }
    }

    fn advance_revision(&mut self, object: &Value) {
        self.revision = object::resource_version(object).parse().unwrap_or(self.revision);
    }

    pub(super) fn object(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(namespace)?.get(name).map(|object| &**object)
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values().flat_map(BTreeMap::values).map(|object| &**object)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?}, {} objects)", self.kind, self.objects().count())
    }
}

async fn open_stream(api: &Api, kind: WatchedKind, revision: &str) -> anyhow::Result<Events> {
    let path = format!("{}?watch=1&resourceVersion={revision}", kind.path());
    let request = Request::get(path).body(Vec::new())?;
    let events = api.client().request_events::<Value>(request).await?;
    let updates = events.map(|event| match event? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            Ok(WatchUpdate::Present(object.into()))
        }
        WatchEvent::Deleted(object) => Ok(WatchUpdate::Deleted(object.into())),
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => Ok(WatchUpdate::Other),
    });
    Ok(updates.boxed())
}

fn by_key(objects: impl IntoIterator<Item = Arc<Value>>) -> Objects {
    let mut by_place = Objects::new();
    for object in objects {
        insert(&mut by_place, object);
    }
    by_place
}

fn insert(objects: &mut Objects, object: Arc<Value>) {
    let (namespace, name) = key_of(&object);
    objects.entry(namespace).or_default().insert(name, object);
}

fn key_of(object: &Value) -> ObjectKey {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}
