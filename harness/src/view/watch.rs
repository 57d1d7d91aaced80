//! One collection, listed once and watched from there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use kube::core::WatchEvent;
use schedlab_emulator::{Emulator, object};
use schedlab_json::Value;

use super::store::{Followed, in_store};
use super::{Kind, Place};
use crate::api::{Api, is_not_found};
use crate::veil::Marks;

pub(super) type Events = BoxStream<'static, anyhow::Result<News>>;

/// What a watch says.
pub(super) enum News {
    /// An object is so now.
    Is(Arc<Value>),
    /// An object is gone; it was so.
    Gone(Arc<Value>),
    /// Of objects nothing.
    Mark,
}

/// By namespace and name.
type Objects = BTreeMap<String, BTreeMap<String, Arc<Value>>>;

/// A collection that is kept up to date.
pub(super) struct Watch {
    pub(super) kind: Kind,
    source: Source,
    /// The newest revision it has told.
    seen: u64,
    objects: Objects,
    events: Events,
}

/// Where its news come from.
enum Source {
    /// The cluster's API.
    Api(Api),
    /// The store of a cluster in this process: the same news, not written out and read again.
    Store(Emulator),
}

impl Watch {
    /// Lists and watches; `None` when the cluster does not know the kind.
    pub(super) async fn open(api: &Api, kind: Kind) -> anyhow::Result<Option<Self>> {
        let mut list = match api.get(&kind.path()).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(error).context(kind.path()),
        };
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let events = connect(api, kind, &revision).await?;
        let listed = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let objects = by_place(listed.into_iter().map(Arc::new));
        let source = Source::Api(api.clone());
        let seen = revision.parse().unwrap_or(0);
        Ok(Some(Self { kind, source, seen, objects, events }))
    }

    /// The same, of a cluster in this process.
    pub(super) fn within(emulator: &Emulator, kind: Kind) -> anyhow::Result<Option<Self>> {
        let Some(followed) = in_store(emulator, kind)? else { return Ok(None) };
        let Followed { objects, seen, events } = followed;
        let (objects, source) = (by_place(objects), Source::Store(emulator.clone()));
        Ok(Some(Self { kind, source, seen, objects, events }))
    }

    /// Goes on where the server ended it.
    pub(super) async fn reopen(&mut self) -> anyhow::Result<()> {
        match &self.source {
            Source::Api(api) => {
                self.events = connect(api, self.kind, &self.seen.to_string()).await?;
            }
            Source::Store(emulator) => {
                if let Some(anew) = Self::within(emulator, self.kind)? {
                    *self = anew;
                }
            }
        }
        Ok(())
    }

    /// Whether everything that is marked as written has been told.
    pub(super) fn has_seen(&self, marks: &Marks) -> bool {
        let (_, _, plural) = self.kind.collection();
        let gone = |uid: &String| !self.objects().any(|object| object["metadata"]["uid"] == **uid);
        let deleted = marks.deleted.iter().filter(|(_, of)| *of == plural);
        marks.newest.get(plural).is_none_or(|newest| *newest <= self.seen)
            && deleted.map(|(uid, _)| uid).all(gone)
    }

    /// The next change, when there is one; `None` when the server ended the watch.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<anyhow::Result<Option<News>>> {
        self.events
            .poll_next_unpin(context)
            .map(|event| event.transpose().with_context(|| self.kind.path()))
    }

    /// Takes a change in. Answers an object that is gone.
    pub(super) fn take(&mut self, news: News) -> Option<(Place, Arc<Value>)> {
        match news {
            News::Is(object) => {
                self.note(&object);
                put(&mut self.objects, object);
                None
            }
            News::Gone(object) => {
                self.note(&object);
                let place = place(&object);
                self.objects.get_mut(&place.0).and_then(|there| there.remove(&place.1));
                Some((place, object))
            }
            News::Mark => None,
        }
    }

    fn note(&mut self, object: &Value) {
        self.seen = object::resource_version(object).parse().unwrap_or(self.seen);
    }

    pub(super) fn object(&self, (namespace, name): (&str, &str)) -> Option<&Value> {
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

async fn connect(api: &Api, kind: Kind, revision: &str) -> anyhow::Result<Events> {
    let path = format!("{}?watch=1&resourceVersion={revision}", kind.path());
    let request = Request::get(path).body(Vec::new())?;
    let events = api.client().request_events::<Value>(request).await?;
    let news = events.map(|event| match event? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(News::Is(object.into())),
        WatchEvent::Deleted(object) => Ok(News::Gone(object.into())),
        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => Ok(News::Mark),
    });
    Ok(news.boxed())
}

fn by_place(objects: impl IntoIterator<Item = Arc<Value>>) -> Objects {
    let mut by_place = Objects::new();
    for object in objects {
        put(&mut by_place, object);
    }
    by_place
}

fn put(objects: &mut Objects, object: Arc<Value>) {
    let (namespace, name) = place(&object);
    objects.entry(namespace).or_default().insert(name, object);
}

fn place(object: &Value) -> Place {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}
