//! Records what changes in a cluster for a while. The watches begin before the objects are listed, so
//! that no change is missed; changes that the lists contain already are left out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{Client, core::WatchEvent};
use schedlab_api::{Value, object};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    Case, CaseKind, KINDS,
    change::{Change, ChangeEvent},
};

/// Time between two attempts of a watch that ended.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How long the API server may keep a watch, in seconds.
const WATCH_SECONDS: u32 = 300;

/// Namespace and name of an object.
type Key = (String, String);

/// An object that a watch reported.
struct Seen {
    array: &'static str,
    is_removed: bool,
    object: Value,
}

/// Watches of all kinds of a case, whose events wait to be applied.
pub(super) struct Recording {
    seen: mpsc::UnboundedReceiver<Seen>,
    _watches: JoinSet<()>,
}

impl Recording {
    /// Starts to watch.
    ///
    /// # Errors
    /// A kind cannot be listed.
    pub(super) async fn start(client: &Client) -> anyhow::Result<Self> {
        let (report, seen) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for kind in KINDS {
            let Some(version) = current_version(client, kind).await? else { continue };
            watches.spawn(watch(client.clone(), *kind, version, report.clone()));
        }
        Ok(Self { seen, _watches: watches })
    }

    /// Applies what happens within `duration` to the objects of the case, and records it.
    pub(super) async fn record(
        mut self,
        case: &mut Case,
        duration: Duration,
        now: &(dyn Fn() -> String + Sync),
    ) {
        let mut known = known_objects(case);
        let end = tokio::time::sleep(duration);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                Some(seen) = self.seen.recv() => {
                    if let Some(change) = change_of(seen, &mut known, now()) {
                        case.changes.push(change);
                    }
                }
                () = &mut end => break,
            }
        }
        for (array, objects) in known {
            case.cluster.objects.insert(array.to_owned(), objects.into_values().collect());
        }
    }
}

/// Objects by their keys, by array.
type KnownObjects = BTreeMap<&'static str, BTreeMap<Key, Arc<Value>>>;

fn known_objects(case: &Case) -> KnownObjects {
    let of_kind = |kind: &CaseKind| {
        let objects = case.cluster.objects.get(kind.array).into_iter().flatten();
        (kind.array, objects.map(|object| (key(object), Arc::clone(object))).collect())
    };
    KINDS.iter().map(of_kind).collect()
}

fn key(object: &Value) -> Key {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}

/// The version of an object; 0 if it is no number.
fn version(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or_default()
}

/// The change that a watch event is; `None` if the lists have it already or nothing depends on it.
fn change_of(seen: Seen, known: &mut KnownObjects, at: String) -> Option<Change> {
    let objects = known.entry(seen.array).or_default();
    let key = key(&seen.object);
    let before = objects.get(&key);
    if before.is_some_and(|before| version(before) >= version(&seen.object)) {
        return None;
    }
    let event = match before {
        Some(_) if seen.is_removed => Some(ChangeEvent::Removed),
        None if seen.is_removed => return None,
        Some(before) => ChangeEvent::between(seen.array, before, &seen.object),
        None => Some(ChangeEvent::Created),
    };
    let object = Arc::new(seen.object);
    if seen.is_removed {
        objects.remove(&key);
    } else {
        objects.insert(key, Arc::clone(&object));
    }
    Some(Change { at, event: event?, array: seen.array.to_owned(), object })
}

/// The path of all objects of a kind.
fn path(kind: &CaseKind) -> String {
    let root = if kind.group().is_empty() { "api" } else { "apis" };
    format!("/{root}/{}/{}", kind.api_version, kind.plural)
}

/// The version from which a kind can be watched; `None` if the API server does not have the kind.
async fn current_version(client: &Client, kind: &CaseKind) -> anyhow::Result<Option<String>> {
    let path = path(kind);
    let request = http::Request::get(format!("{path}?limit=1")).body(Vec::new())?;
    match client.request::<Value>(request).await {
        Ok(list) => Ok(Some(object::resource_version(&list).to_owned())),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot list {path}")),
    }
}

/// Reports all changes of a kind. A watch that ends is continued where it ended.
async fn watch(
    client: Client,
    kind: CaseKind,
    mut from: String,
    report: mpsc::UnboundedSender<Seen>,
) {
    let path = path(&kind);
    while !report.is_closed() {
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}"
        );
        let Ok(request) = http::Request::get(path).body(Vec::new()) else { return };
        if let Ok(events) = client.request_events::<Value>(request).await {
            from = report_events(events.boxed(), kind.array, from, &report).await;
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

/// Reports the events of one watch. Returns the version from which the next watch continues; empty
/// if what happened since is lost, because the version is too old.
async fn report_events(
    mut events: BoxStream<'_, kube::Result<WatchEvent<Value>>>,
    array: &'static str,
    mut from: String,
    report: &mpsc::UnboundedSender<Seen>,
) -> String {
    while let Ok(Some(event)) = events.try_next().await {
        let (object, is_removed) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                from = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(_) => return String::new(),
        };
        object::resource_version(&object).clone_into(&mut from);
        if report.send(Seen { array, is_removed, object }).is_err() {
            break;
        }
    }
    from
}
