//! Watches of many collections as one stream. Each lists once, watches from there, goes on where
//! the server ended a watch, and lists anew when that is too long ago.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, select_all, unfold};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use kube::core::WatchEvent;

use crate::object::set_default;
use crate::store::Resource;
use schedlab_json::Value;

/// How long a watch that failed waits before it goes on.
const RETRY: Duration = Duration::from_secs(1);

/// A collection as it is addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Group and plural.
    pub resource: Resource,
    /// `v1`, `v1alpha2` …
    pub version: String,
    /// `Pod`, `Node` …: what a list leaves out of its items.
    pub kind: String,
}

impl Collection {
    /// `Collection::new("apps/v1", "deployments", "Deployment")`.
    pub fn new(api_version: &str, plural: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = Resource::new(group, plural);
        Self { resource, version: version.to_owned(), kind: kind.to_owned() }
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match &*self.resource.group {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Where the collection is, or its part in a namespace.
    pub(super) fn path(&self, namespace: &str) -> String {
        let root = if self.resource.group.is_empty() { "api" } else { "apis" };
        let plural = &self.resource.plural;
        match namespace {
            "" => format!("/{root}/{}/{plural}", self.api_version()),
            ns => format!("/{root}/{}/namespaces/{ns}/{plural}", self.api_version()),
        }
    }

    /// An item of a list, with what lists leave out.
    fn whole(&self, mut object: Value) -> Value {
        set_default(&mut object, &["apiVersion"], self.api_version());
        set_default(&mut object, &["kind"], self.kind.as_str());
        object
    }
}

/// What a watch says.
pub(super) enum News {
    /// An object is so now.
    Is(Resource, Value),
    /// An object is gone; this is how it was last.
    Gone(Resource, Value),
    /// These are all there are.
    Only(Resource, Vec<Value>),
}

/// All watches.
pub(super) struct Feed(SelectAll<BoxStream<'static, News>>);

impl Feed {
    /// Lists everything once and watches from there.
    pub(super) async fn open(
        client: &Client,
        collections: &[Collection],
    ) -> Result<(Self, Vec<(Resource, Value)>), kube::Error> {
        let mut streams = Vec::new();
        let mut found = Vec::new();
        for collection in collections {
            let (version, objects) = match list(client, collection).await {
                Ok(listed) => listed,
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(error),
            };
            let resource = &collection.resource;
            found.extend(objects.into_iter().map(|object| (resource.clone(), object)));
            streams.push(watch(client.clone(), collection.clone(), version).boxed());
        }
        Ok((Self(select_all(streams)), found))
    }

    /// The next news; never ends.
    pub(super) async fn next(&mut self) -> News {
        match self.0.next().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

async fn list(
    client: &Client,
    collection: &Collection,
) -> Result<(String, Vec<Value>), kube::Error> {
    let request = Request::get(collection.path("")).body(Vec::new());
    let mut list: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
    let version = crate::object::resource_version(&list).to_owned();
    let objects = match list.get_mut("items").map(Value::take) {
        Some(Value::Array(objects)) => objects,
        Some(_) | None => Vec::new(),
    };
    Ok((version, objects.into_iter().map(|object| collection.whole(object)).collect()))
}

type Events = BoxStream<'static, kube::Result<WatchEvent<Value>>>;

struct Watch {
    client: Client,
    collection: Collection,
    /// Everything up to here is known; `None`: list anew.
    version: Option<String>,
    events: Option<Events>,
    ready: VecDeque<News>,
}

fn watch(
    client: Client,
    collection: Collection,
    version: String,
) -> impl futures::Stream<Item = News> {
    let ready = VecDeque::new();
    let watch = Watch { client, collection, version: Some(version), events: None, ready };
    unfold(watch, |mut watch| async move {
        loop {
            if let Some(news) = watch.ready.pop_front() {
                return Some((news, watch));
            }
            if watch.go_on().await.is_err() {
                tokio::time::sleep(RETRY).await;
            }
        }
    })
}

impl Watch {
    /// One step: a list, a connection, or an event.
    async fn go_on(&mut self) -> Result<(), kube::Error> {
        let Some(version) = self.version.clone() else {
            let (version, objects) = list(&self.client, &self.collection).await?;
            self.version = Some(version);
            self.ready.push_back(News::Only(self.collection.resource.clone(), objects));
            return Ok(());
        };
        let Some(events) = &mut self.events else {
            let path = self.collection.path("");
            let path = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            let events = self.client.request_events::<Value>(request).await;
            if let Err(kube::Error::Api(status)) = &events
                && status.code == 410
            {
                self.version = None;
            }
            self.events = Some(events?.boxed());
            return Ok(());
        };
        match events.try_next().await {
            Ok(Some(event)) => self.take(event),
            Ok(None) => self.events = None,
            Err(error) => {
                self.events = None;
                return Err(error);
            }
        }
        Ok(())
    }

    fn take(&mut self, event: WatchEvent<Value>) {
        let resource = self.collection.resource.clone();
        let news = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                Some(News::Is(resource, self.collection.whole(object)))
            }
            WatchEvent::Deleted(object) => {
                Some(News::Gone(resource, self.collection.whole(object)))
            }
            WatchEvent::Bookmark(mark) => {
                self.version = Some(mark.metadata.resource_version);
                None
            }
            WatchEvent::Error(_) => {
                (self.version, self.events) = (None, None);
                None
            }
        };
        if let Some(News::Is(_, object) | News::Gone(_, object)) = &news {
            self.version = Some(crate::object::resource_version(object).to_owned());
        }
        self.ready.extend(news);
    }
}
