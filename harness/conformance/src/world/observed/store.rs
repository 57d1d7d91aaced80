//! Watches a cluster in this process directly through its store.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, Stream};
use schedlab_api::Value;
use schedlab_emulator::Emulator;
use schedlab_emulator::kinds;
use schedlab_emulator::store::Resource;
use schedlab_emulator::store::watch::{LiveWatch, WatchEvent, WatchQuery};
use schedlab_emulator::{FieldSelector, LabelSelector};

use super::WatchedKind;
use super::watch::{UpdateStream, WatchUpdate};

/// The objects of a kind in an emulator's store, their revision, and the later changes.
pub(super) struct StoreWatch {
    pub(super) objects: Vec<Arc<Value>>,
    pub(super) revision: u64,
    pub(super) events: UpdateStream,
}

/// Lists and watches a kind in an emulator's store; `None` if the cluster does not have the kind.
pub(super) fn watch_store(
    emulator: &Emulator,
    kind: WatchedKind,
) -> anyhow::Result<Option<StoreWatch>> {
    let (group, version, plural) = kind.collection();
    let resource = Resource::new(group, plural);
    let store = emulator.store();
    let Some(kind_info) = store.read(|store| store.kinds().get(&resource).cloned()) else {
        return Ok(None);
    };
    let shown = |object: &Arc<Value>| kind_info.in_version(version, object);
    let objects = store.read(|store| store.list(&resource, None).map(shown).collect());
    let revision = store.revision();
    let tail = LiveWatch::start(store, watch_query_from(resource, revision))?;
    let updates =
        events_of_watch(tail).map(move |event| Ok(to_update(event?, &kind_info, version)));
    Ok(Some(StoreWatch { objects, revision, events: updates.boxed() }))
}

fn watch_query_from(resource: Resource, revision: u64) -> WatchQuery {
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

/// The stream of changes that a watch delivers. It ends with an error if the store has compacted
/// the next revision.
fn events_of_watch(tail: LiveWatch) -> impl Stream<Item = anyhow::Result<WatchEvent>> {
    stream::unfold((tail, Vec::new().into_iter()), |(mut tail, mut ready)| async move {
        loop {
            if let Some(event) = ready.next() {
                return Some((Ok(event), (tail, ready)));
            }
            match tail.next_events() {
                Ok(events) => ready = events.into_iter(),
                Err(compacted) => return Some((Err(compacted.into()), (tail, ready))),
            }
            if ready.as_slice().is_empty() {
                tail.changed().await;
            }
        }
    })
}

fn to_update(event: WatchEvent, kind_info: &kinds::Kind, version: &str) -> WatchUpdate {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            WatchUpdate::Present(kind_info.in_version(version, &object))
        }
        WatchEvent::Deleted(object) => WatchUpdate::Deleted(kind_info.in_version(version, &object)),
        WatchEvent::Bookmark { .. } => WatchUpdate::Other,
    }
}
