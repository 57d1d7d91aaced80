//! The news of a cluster in this process, straight from its store.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, Stream};
use schedlab_emulator::Emulator;
use schedlab_emulator::kinds::{self, Resource};
use schedlab_emulator::select::{FieldSelector, LabelSelector};
use schedlab_emulator::watch::{Tail, WatchEvent, WatchQuery};
use schedlab_json::Value;

use super::Kind;
use super::watch::{Events, News};

/// The objects of a kind, the revision that they show, and what happens from there on.
pub(super) struct Followed {
    pub(super) objects: Vec<Arc<Value>>,
    pub(super) seen: u64,
    pub(super) events: Events,
}

/// Follows a kind; `None` when the cluster does not know it.
pub(super) fn in_store(emulator: &Emulator, kind: Kind) -> anyhow::Result<Option<Followed>> {
    let (group, version, plural) = kind.collection();
    let resource = Resource::new(group, plural);
    let store = emulator.store();
    let Some(of) = store.read(|store| store.kinds().get(&resource).cloned()) else {
        return Ok(None);
    };
    let shown = |object: &Arc<Value>| of.present(version, object);
    let objects = store.read(|store| store.list(&resource, None).map(shown).collect());
    let seen = store.revision();
    let tail = Tail::start(store, from(resource, seen))?;
    let news = changes(tail).map(move |event| Ok(news(event?, &of, version)));
    Ok(Some(Followed { objects, seen, events: news.boxed() }))
}

fn from(resource: Resource, revision: u64) -> WatchQuery {
    WatchQuery {
        resource,
        namespace: None,
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
        resource_version: revision.to_string(),
        version_match: String::new(),
        initial_events: None,
        bookmarks: false,
    }
}

/// Ends with an error when the store has forgotten what comes next.
fn changes(tail: Tail) -> impl Stream<Item = anyhow::Result<WatchEvent>> {
    stream::unfold((tail, Vec::new().into_iter()), |(mut tail, mut ready)| async move {
        loop {
            if let Some(event) = ready.next() {
                return Some((Ok(event), (tail, ready)));
            }
            match tail.take() {
                Ok(events) => ready = events.into_iter(),
                Err(compacted) => return Some((Err(compacted.into()), (tail, ready))),
            }
            if ready.as_slice().is_empty() {
                tail.changed().await;
            }
        }
    })
}

fn news(event: WatchEvent, of: &kinds::Kind, version: &str) -> News {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            News::Is(of.present(version, &object))
        }
        WatchEvent::Deleted(object) => News::Gone(of.present(version, &object)),
        WatchEvent::Bookmark { .. } => News::Mark,
    }
}
