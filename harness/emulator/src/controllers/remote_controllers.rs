//! Runs controllers against a real cluster: watches feed the cache, and writes go through a client.
//! The same reconciliations as in `controller_manager` make the same writes.
//!
//! The response to a write is applied to the cache at once; the later watch event is then ignored.
//! The caller chooses the controllers: a real cluster has some of its own.

mod send;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;

use crate::api_types::feature_gates::FeatureGates;
use crate::clock::Clock;
use crate::controllers::controller_manager::work_queue::{Task, WorkQueue};
use crate::controllers::{self, CONTROLLERS, KWOK_COMPANION, WriteRefusal};
use crate::reconcile::{Context, Controller, InformerCache, KubeletDefaults, ObjectChange, key_of};
use crate::store::{EventKind, Key, LogEntry, Object, Resource, Subresource};
use schedlab_api::{Value, object};

pub use watches::Collection;
use watches::{CollectionEvent, WatchSet};

/// The maximum delay before a refused write is retried.
const RETRY_SECS_MAX: u64 = 30;
/// How long a conflicting write waits for the missed watch event.
const CONFLICT_MILLIS: i64 = 50;

/// Which controllers run, and on which cluster.
pub struct RemoteOptions {
    /// The client of the cluster.
    pub client: kube::Client,
    /// The clock of the controllers.
    pub clock: Clock,
    /// The names of the controllers to run, out of [`CONTROLLERS`] and [`KWOK_COMPANION`].
    pub controllers: Vec<&'static str>,
    /// The collections to watch: those that the controllers read, and others for `observe`. Objects of
    /// kinds that the controllers read and that are not watched count as present.
    pub collections: Vec<Collection>,
    /// The timing of pods without annotations.
    pub kubelet_defaults: KubeletDefaults,
    /// The version of the cluster and its enabled feature gates.
    pub feature_gates: FeatureGates,
    /// A callback for every change, in watch order. The field manager of the entries is empty.
    pub observe: Box<dyn FnMut(LogEntry) + Send>,
}

/// The running controllers. Dropping it stops them.
#[derive(Debug)]
pub struct RemoteControllers(JoinHandle<()>);

impl Drop for RemoteControllers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RemoteControllers {
    /// Lists all collections, then runs the controllers on the current runtime.
    ///
    /// # Errors
    /// A collection cannot be listed. A collection that the cluster does not serve counts as empty.
    pub async fn start(options: RemoteOptions) -> Result<Self, kube::Error> {
        let (watches, listed) = WatchSet::start(&options.client, &options.collections).await?;
        let all = CONTROLLERS.iter().chain([KWOK_COMPANION]);
        let controllers: Vec<&Controller> =
            all.filter(|one| options.controllers.contains(&one.name)).collect();
        let mut view = InformerCache::default();
        let is_watched =
            |kind: &Resource| options.collections.iter().any(|of| of.resource == *kind);
        let read = controllers.iter().flat_map(|controller| controller.watches.listed());
        read.filter(|kind| !is_watched(kind)).for_each(|kind| view.mark_unwatched(kind));
        let mut manager = RemoteManager {
            queue: WorkQueue::new(controllers.len()),
            controllers,
            cache: view,
            observed: BTreeMap::new(),
            refusals: BTreeMap::new(),
            options,
        };
        for (resource, object) in listed {
            manager.on_event(CollectionEvent::Applied(resource, object));
        }
        Ok(Self(tokio::spawn(manager.run(watches))))
    }
}

struct RemoteManager {
    options: RemoteOptions,
    /// The chosen controllers.
    controllers: Vec<&'static Controller>,
    /// The cache of the controllers.
    cache: InformerCache,
    /// The last states that the observer got.
    observed: BTreeMap<Key, Object>,
    queue: WorkQueue,
    refusals: BTreeMap<Task, u32>,
}

impl RemoteManager {
    async fn run(mut self, mut watches: WatchSet) {
        loop {
            while let Some(event) = watches.next_event().now_or_never() {
                self.on_event(event);
            }
            let now = self.options.clock.now();
            self.queue.enqueue_due(now);
            if let Some(task) = self.queue.pop(now) {
                self.reconcile(&task, now).await;
                continue;
            }
            let next = self.queue.next_due().map(|time| self.options.clock.instant(time));
            let timer = async {
                match next {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = watches.next_event() => self.on_event(event),
                () = timer => {}
            }
        }
    }

    /// Handles an event of a watch.
    fn on_event(&mut self, event: CollectionEvent) {
        match event {
            CollectionEvent::Applied(resource, object) => {
                let key = key_of(&resource, &object);
                let object = Arc::new(object);
                self.notify_observer(&key, &object, EventKind::Modified);
                self.apply_object(key, object);
            }
            CollectionEvent::Deleted(resource, object) => {
                let key = key_of(&resource, &object);
                let object = Arc::new(object);
                self.notify_observer(&key, &object, EventKind::Deleted);
                self.apply_deletion(key, &object);
            }
            CollectionEvent::Relisted(resource, objects) => self.on_relist(&resource, objects),
        }
    }

    /// Handles a new list of a collection: missing objects were deleted.
    fn on_relist(&mut self, resource: &Resource, objects: Vec<Value>) {
        let there: Vec<Key> = objects.iter().map(|object| key_of(resource, object)).collect();
        let known = self.cache.all(resource).map(|(key, object)| (key.clone(), object.clone()));
        let gone: Vec<(Key, Object)> = known.filter(|(key, _)| !there.contains(key)).collect();
        for (key, object) in gone {
            self.notify_observer(&key, &object, EventKind::Deleted);
            self.apply_deletion(key, &object);
        }
        for object in objects {
            self.on_event(CollectionEvent::Applied(resource.clone(), object));
        }
    }

    fn notify_observer(&mut self, key: &Key, object: &Object, kind: EventKind) {
        let previous = match kind {
            EventKind::Deleted => self.observed.remove(key),
            EventKind::Added | EventKind::Modified => {
                if self.observed.get(key).is_some_and(|known| revision(known) >= revision(object)) {
                    return;
                }
                self.observed.insert(key.clone(), Arc::clone(object))
            }
        };
        let kind = match (kind, &previous) {
            (EventKind::Deleted, None) => return,
            (EventKind::Deleted, Some(_)) => EventKind::Deleted,
            (EventKind::Added | EventKind::Modified, None) => EventKind::Added,
            (EventKind::Added | EventKind::Modified, Some(_)) => EventKind::Modified,
        };
        (self.options.observe)(LogEntry {
            revision: revision(object),
            time: self.options.clock.now(),
            kind,
            key: key.clone(),
            object: Arc::clone(object),
            previous,
            manager: "".into(),
            subresource: Subresource::None,
        });
    }

    /// Applies a state of an object, unless the cache has a newer one.
    fn apply_object(&mut self, key: Key, object: Object) {
        let before = self.cache.get(&key).cloned();
        if before.as_ref().is_some_and(|before| revision(before) >= revision(&object)) {
            return;
        }
        self.apply_change(&ObjectChange { key, before, after: Some(object) });
    }

    /// Applies the deletion of an object, unless it was recreated since.
    fn apply_deletion(&mut self, key: Key, last: &Object) {
        let Some(before) = self.cache.get(&key).cloned() else { return };
        if revision(&before) <= revision(last) || object::uid(&before) == object::uid(last) {
            self.apply_change(&ObjectChange { key, before: Some(before), after: None });
        }
    }

    fn apply_change(&mut self, change: &ObjectChange) {
        self.cache.apply(change, self.options.clock.now());
        for (index, controller) in self.controllers.iter().enumerate() {
            for key in (controller.keys_to_reconcile)(change, &self.cache) {
                self.queue.push(Task { controller: index, key });
            }
        }
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            cache: &self.cache,
            now,
            kubelet_defaults: &self.options.kubelet_defaults,
            feature_gates: &self.options.feature_gates,
        }
    }

    async fn reconcile(&mut self, task: &Task, now: Timestamp) {
        let controller = self.controllers[task.controller];
        let ctx = self.context(now);
        let step = (controller.reconcile)(&task.key, &ctx);
        self.queue.set_timer(task, step.requeue_at);
        if step.writes.is_empty() {
            self.refusals.remove(task);
            return;
        }
        match self.write_all(controller, step.writes).await {
            None => {
                self.refusals.remove(task);
            }
            Some(refusal) if refusal.error.reason == "Conflict" => {
                let soon = now.checked_add(SignedDuration::from_millis(CONFLICT_MILLIS));
                self.queue.set_timer(task, soon.ok());
            }
            Some(refusal) => self.requeue_with_backoff(task, now, &refusal).await,
        }
    }

    /// Sends writes in order until one is refused. Later updates of an object use the
    /// resourceVersion of the earlier ones.
    async fn write_all(
        &mut self,
        controller: &Controller,
        requests: Vec<controllers::ApiRequest>,
    ) -> Option<WriteRefusal> {
        let mut written: BTreeMap<Key, String> = BTreeMap::new();
        for mut request in requests {
            if let Some(version) = written.get(&request.key) {
                send::set_resource_version(&mut request, version);
            }
            let collections = &self.options.collections;
            let at = collections.iter().find(|one| one.resource == request.key.resource);
            let Some(at) = at else { continue };
            let key = request.key.clone();
            match send::send(&self.options.client, at, controller.manager, request).await {
                Ok(Some(object)) => {
                    written.insert(key.clone(), object::resource_version(&object).to_owned());
                    self.apply_object(key, Arc::new(object));
                }
                Ok(None) => {}
                Err(refusal) => return Some(refusal),
            }
        }
        None
    }

    /// Requeues a key after a refused write, and reports the refusal on its object.
    async fn requeue_with_backoff(&mut self, task: &Task, now: Timestamp, refusal: &WriteRefusal) {
        let count = self.refusals.entry(task.clone()).or_default();
        let wait = 2_u64.saturating_pow(*count).min(RETRY_SECS_MAX);
        *count = count.saturating_add(1);
        let again = now.checked_add(Duration::from_secs(wait)).unwrap_or(Timestamp::MAX);
        self.queue.set_timer(task, Some(again));
        let controller = self.controllers[task.controller];
        let ctx = self.context(now);
        let events = controllers::report_refusal(controller, &task.key, refusal, &ctx);
        self.write_all(controller, events.into_iter().collect()).await;
    }
}

/// The resourceVersion of an object. Since Kubernetes 1.35 they are comparable as numbers.
fn revision(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
