//! Watches of several collections as one stream. Each lists its collection, watches from there,
//! resumes when the server ends the watch, and lists again when the revision is compacted.
//! Controllers need whole objects and their last state on deletion; the scheduler's watch, which
//! decodes on demand, gives neither, and the emulator depends on no scheduler.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, select_all, unfold};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use kube::core::WatchEvent;

use crate::store::Resource;
use schedlab_api::{Value, object::set_default};

/// The delay before a failed watch is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A collection to watch: its resource, version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The API group and plural name.
    pub resource: Resource,
    /// The API version, such as `v1`.
    pub version: String,
    /// The kind, such as `Pod`, which items of a list omit.
    pub kind: String,
}

impl Collection {
    /// Creates a collection: `Collection::new("apps/v1", "deployments", "Deployment")`.
    pub fn new(api_version: &str, plural: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = Resource::new(group, plural);
        Self { resource, version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The `apiVersion` of the objects.
    pub fn api_version(&self) -> String {
        match &*self.resource.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The URL path of the collection in a namespace; in all namespaces if it is empty.
    pub(super) fn url_path(&self, namespace: &str) -> String {
        let root = if self.resource.group.is_empty() { "api" } else { "apis" };
        let plural = &self.resource.plural;
        match namespace {
            "" => format!("/{root}/{}/{plural}", self.api_version()),
            ns => format!("/{root}/{}/namespaces/{ns}/{plural}", self.api_version()),
        }
    }

    /// An item of a list, completed with apiVersion and kind.
    fn with_type_meta(&self, mut object: Value) -> Value {
        set_default(&mut object, &["apiVersion"], self.api_version());
        set_default(&mut object, &["kind"], self.kind.as_str());
        object
    }
}

/// An event of a watched collection.
pub(super) enum CollectionEvent {
    /// An object was created or changed.
    Applied(Resource, Value),
    /// An object was deleted. The value is its last state.
    Deleted(Resource, Value),
    /// The collection was listed again. The values are all its objects.
    Relisted(Resource, Vec<Value>),
}

/// The watches of all collections.
pub(super) struct WatchSet(SelectAll<BoxStream<'static, CollectionEvent>>);

impl WatchSet {
    /// Lists all collections and starts their watches.
    pub(super) async fn start(
        client: &Client,
        collections: &[Collection],
    ) -> Result<(Self, Vec<(Resource, Value)>), kube::Error> {
        let mut streams = Vec::new();
        let mut found = Vec::new();
        for collection in collections {
            let (version, objects) = match list_collection(client, collection).await {
                Ok(listed) => listed,
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(error),
            };
            let resource = &collection.resource;
            found.extend(objects.into_iter().map(|object| (resource.clone(), object)));
            streams.push(watch_collection(client.clone(), collection.clone(), version).boxed());
        }
        Ok((Self(select_all(streams)), found))
    }

    /// Waits for the next event.
    pub(super) async fn next_event(&mut self) -> CollectionEvent {
        match self.0.next().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

async fn list_collection(
    client: &Client,
    collection: &Collection,
) -> Result<(String, Vec<Value>), kube::Error> {
    let request = Request::get(collection.url_path("")).body(Vec::new());
    let mut list: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
    let version = schedlab_api::object::resource_version(&list).to_owned();
    let objects = match list.get_mut("items").map(Value::take) {
        Some(Value::Array(objects)) => objects,
        Some(_) | None => Vec::new(),
    };
    Ok((version, objects.into_iter().map(|object| collection.with_type_meta(object)).collect()))
}

type WatchEvents = BoxStream<'static, kube::Result<WatchEvent<Value>>>;

struct CollectionWatch {
    client: Client,
    collection: Collection,
    /// The resourceVersion from which to watch; if `None`, the collection is listed again first.
    resource_version: Option<String>,
    events: Option<WatchEvents>,
    pending: VecDeque<CollectionEvent>,
}

fn watch_collection(
    client: Client,
    collection: Collection,
    version: String,
) -> impl futures::Stream<Item = CollectionEvent> {
    let ready = VecDeque::new();
    let watch = CollectionWatch {
        client,
        collection,
        resource_version: Some(version),
        events: None,
        pending: ready,
    };
    unfold(watch, |mut watch| async move {
        loop {
            if let Some(event) = watch.pending.pop_front() {
                return Some((event, watch));
            }
            if watch.advance().await.is_err() {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    })
}

impl CollectionWatch {
    /// Makes one step of the watch: lists the collection, sends a watch request, or waits for an
    /// event.
    async fn advance(&mut self) -> Result<(), kube::Error> {
        let Some(version) = self.resource_version.clone() else {
            let (version, objects) = list_collection(&self.client, &self.collection).await?;
            self.resource_version = Some(version);
            self.pending
                .push_back(CollectionEvent::Relisted(self.collection.resource.clone(), objects));
            return Ok(());
        };
        let Some(events) = &mut self.events else {
            let path = self.collection.url_path("");
            let path = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            let events = self.client.request_events::<Value>(request).await;
            if let Err(kube::Error::Api(status)) = &events
                && status.code == 410
            {
                self.resource_version = None;
            }
            self.events = Some(events?.boxed());
            return Ok(());
        };
        match events.try_next().await {
            Ok(Some(event)) => self.on_watch_event(event),
            Ok(None) => self.events = None,
            Err(error) => {
                self.events = None;
                return Err(error);
            }
        }
        Ok(())
    }

    fn on_watch_event(&mut self, event: WatchEvent<Value>) {
        let resource = self.collection.resource.clone();
        let event = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                Some(CollectionEvent::Applied(resource, self.collection.with_type_meta(object)))
            }
            WatchEvent::Deleted(object) => {
                Some(CollectionEvent::Deleted(resource, self.collection.with_type_meta(object)))
            }
            WatchEvent::Bookmark(mark) => {
                self.resource_version = Some(mark.metadata.resource_version);
                None
            }
            WatchEvent::Error(_) => {
                (self.resource_version, self.events) = (None, None);
                None
            }
        };
        if let Some(CollectionEvent::Applied(_, object) | CollectionEvent::Deleted(_, object)) =
            &event
        {
            self.resource_version = Some(schedlab_api::object::resource_version(object).to_owned());
        }
        self.pending.extend(event);
    }
}
