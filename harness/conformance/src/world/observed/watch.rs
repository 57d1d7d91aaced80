//! Keeps one collection up to date: a LIST, followed by a watch. Unlike the watches of the
//! scheduler and of the controllers it does not retry: a test reports a broken watch instead of
//! hiding it.

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

pub(super) type UpdateStream = BoxStream<'static, anyhow::Result<WatchUpdate>>;

/// A change that a watch delivered.
pub(super) enum WatchUpdate {
    /// The new state of an object.
    Present(Arc<Value>),
    /// The last state of a deleted object.
    Deleted(Arc<Value>),
    /// A bookmark, or anything else without an object.
    Other,
}

/// Objects by namespace and name.
type ObjectsByNamespace = BTreeMap<String, BTreeMap<String, Arc<Value>>>;

/// The objects of a kind, kept up to date by a watch.
pub(super) struct ObjectWatch {
    pub(super) kind: WatchedKind,
    source: WatchSource,
    /// The `resourceVersion` of the last change.
    revision: u64,
    objects: ObjectsByNamespace,
    events: UpdateStream,
}

/// Where a watch gets its changes from.
enum WatchSource {
    /// From the API of the cluster.
    Api(Api),
    /// The store of a cluster in this process, without serialization.
    Store(Emulator),
}

impl ObjectWatch {
    /// Lists and watches a kind; `None` if the cluster does not serve it.
    pub(super) async fn start_on_api(api: &Api, kind: WatchedKind) -> anyhow::Result<Option<Self>> {
        let mut list = match api.get(&kind.api_list_path()).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).context(kind.api_list_path()),
        };
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let events = open_update_stream(api, kind, &revision).await?;
        let listed = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let objects = objects_by_key(listed.into_iter().map(Arc::new));
        let source = WatchSource::Api(api.clone());
        let revision = revision.parse().unwrap_or(0);
        Ok(Some(Self { kind, source, revision, objects, events }))
    }

    /// Like [`Self::start_on_api`], for a cluster in this process.
    pub(super) fn start_in_process(
        emulator: &Emulator,
        kind: WatchedKind,
    ) -> anyhow::Result<Option<Self>> {
        let Some(followed) = watch_store(emulator, kind)? else { return Ok(None) };
        let StoreWatch { objects, revision, events } = followed;
        let (objects, source) = (objects_by_key(objects), WatchSource::Store(emulator.clone()));
        Ok(Some(Self { kind, source, revision, objects, events }))
    }

    /// Restarts the watch after the server has ended it.
    pub(super) async fn restart_stream(&mut self) -> anyhow::Result<()> {
        match &self.source {
            WatchSource::Api(api) => {
                self.events =
                    open_update_stream(api, self.kind, &self.revision.to_string()).await?;
            }
            WatchSource::Store(emulator) => {
                if let Some(anew) = Self::start_in_process(emulator, self.kind)? {
                    *self = anew;
                }
            }
        }
        Ok(())
    }

    /// Whether the watch has delivered all changes up to these watermarks.
    pub(super) fn has_reached_watermarks(&self, watermarks: &Watermarks) -> bool {
        let (group, _, plural) = self.kind.collection();
        let collection = collection_key(group, plural);
        let gone =
            |uid: &String| !self.all_objects().any(|object| object["metadata"]["uid"] == **uid);
        let deleted = watermarks.deleted.iter().filter(|(_, of)| **of == collection);
        watermarks.newest.get(&collection).is_none_or(|newest| *newest <= self.revision)
            && deleted.map(|(uid, _)| uid).all(gone)
    }

    /// The next change, if it has arrived; `None` in its place if the server ended the watch.
    pub(super) fn poll_update(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<anyhow::Result<Option<WatchUpdate>>> {
        self.events
            .poll_next_unpin(context)
            .map(|event| event.transpose().with_context(|| self.kind.api_list_path()))
    }

    /// Applies a change. Returns the object if the change is its deletion.
    pub(super) fn apply_update(&mut self, update: WatchUpdate) -> Option<(ObjectKey, Arc<Value>)> {
        match update {
            WatchUpdate::Present(object) => {
                self.advance_revision(&object);
                insert_object(&mut self.objects, object);
                None
            }
            WatchUpdate::Deleted(object) => {
                self.advance_revision(&object);
                let key = object_key(&object);
                self.objects.get_mut(&key.0).and_then(|there| there.remove(&key.1));
                Some((key, object))
            }
            WatchUpdate::Other => None,
        }
    }

    fn advance_revision(&mut self, object: &Value) {
        self.revision = object::resource_version(object).parse().unwrap_or(self.revision);
    }

    pub(super) fn find_object(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(namespace)?.get(name).map(|object| &**object)
    }

    pub(super) fn all_objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values().flat_map(BTreeMap::values).map(|object| &**object)
    }
}

impl fmt::Debug for ObjectWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({:?}, {} objects)", self.kind, self.all_objects().count())
    }
}

async fn open_update_stream(
    api: &Api,
    kind: WatchedKind,
    revision: &str,
) -> anyhow::Result<UpdateStream> {
    let path = format!("{}?watch=1&resourceVersion={revision}", kind.api_list_path());
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

fn objects_by_key(objects: impl IntoIterator<Item = Arc<Value>>) -> ObjectsByNamespace {
    let mut by_place = ObjectsByNamespace::new();
    for object in objects {
        insert_object(&mut by_place, object);
    }
    by_place
}

fn insert_object(objects: &mut ObjectsByNamespace, object: Arc<Value>) {
    let (namespace, name) = object_key(&object);
    objects.entry(namespace).or_default().insert(name, object);
}

fn object_key(object: &Value) -> ObjectKey {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}
