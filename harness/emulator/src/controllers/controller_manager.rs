//! Runs the controllers in one task: it feeds the informer cache from the store's log, reconciles
//! queued keys, applies their writes, and sleeps until a change or the next requeue time.
//!
//! The order is deterministic: controllers in their fixed order, keys in arrival order. After a
//! conflict a key is reconciled again at once; after a refused write, with increasing delay.

mod expiring_events;
pub(crate) mod work_queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::admission::webhooks;
use crate::admission::webhooks::client::Webhooks;
use crate::api_types::error::ApiError;
use crate::api_types::feature_gates::FeatureGates;
use crate::controllers::{CONTROLLERS, WriteRefusal};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, KubeletDefaults, ObjectChange,
};
use crate::store::shared::SharedStore;
use crate::store::{
    DeleteOptions, EventKind, FieldValidation, Key, LogEntry, Op, Resource, Store, WebhookContext,
    Write, WriteOutcome,
};
use schedlab_api::{Value, json, object};

use expiring_events::ExpiringEvents;
use work_queue::{Task, WorkQueue};

/// The number of reconciliations after which the controllers' task yields to other tasks.
const RECONCILIATIONS_PER_YIELD: u32 = 64;
/// Controllers run after this many yields without a write by other tasks.
const IDLE_YIELDS: u32 = 8;
/// Controllers run after this many yields, even if other tasks still write.
const YIELDS_MAX: u32 = 4096;
/// The field manager of the removal of expired events.
const API_SERVER: &str = "kube-apiserver";
/// The maximum delay before a refused write is retried.
const RETRY_SECS_MAX: u64 = 1000;

/// The controllers of an emulated cluster, as they run on its store.
pub(crate) struct ControllerManager {
    shared: SharedStore,
    webhooks: Webhooks,
    kubelet_defaults: KubeletDefaults,
    feature_gates: FeatureGates,
    /// How long log entries are kept; `None` keeps them forever.
    log_retention: Option<Duration>,
    expiring_events: ExpiringEvents,
    cache: InformerCache,
    /// The controllers that watch a kind, as indexes into [`CONTROLLERS`].
    watching: BTreeMap<Resource, Vec<usize>>,
    revision: u64,
    /// The edition of the kinds that are registered in the cache.
    kinds_edition: Option<u64>,
    queue: WorkQueue,
    refusals: BTreeMap<Task, u32>,
    /// Names of controllers that do not run.
    replaced: Vec<&'static str>,
}

impl ControllerManager {
    pub(crate) fn new(
        shared: SharedStore,
        kubelet_defaults: KubeletDefaults,
        log_retention: Option<Duration>,
    ) -> Self {
        Self {
            feature_gates: shared.read(|store| store.feature_gates.clone()),
            shared,
            webhooks: Webhooks::default(),
            kubelet_defaults,
            log_retention,
            expiring_events: ExpiringEvents::default(),
            cache: InformerCache::default(),
            watching: BTreeMap::new(),
            revision: 0,
            kinds_edition: None,
            queue: WorkQueue::new(CONTROLLERS.len()),
            refusals: BTreeMap::new(),
            replaced: Vec::new(),
        }
    }

    /// Leaves out the controllers with these names.
    pub(crate) fn without_controllers(self, replaced: Vec<&'static str>) -> Self {
        Self { replaced, ..self }
    }

    /// Sets how long an event is kept after its last write; `None` keeps events forever.
    pub(crate) fn with_event_ttl(self, ttl: Option<Duration>) -> Self {
        Self { expiring_events: ExpiringEvents::new(ttl), ..self }
    }

    /// Sets the admission webhooks that review the controllers' writes.
    pub(crate) fn with_webhooks(self, webhooks: Webhooks) -> Self {
        Self { webhooks, ..self }
    }

    /// Runs until the store is dropped.
    pub(crate) async fn run(mut self) {
        let mut revisions = self.shared.subscribe_revisions();
        loop {
            revisions.mark_unchanged();
            self.reconcile_due().await;
            self.remove_expired_events();
            self.compact_log();
            let clock = self.shared.clock().clone();
            let next = self.queue.next_due().map(|time| clock.instant(time));
            let timer = async {
                match next {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.wait_for_writers().await;
                }
                () = timer => {}
            }
        }
    }

    /// Lets other tasks finish a series of writes, without advancing time. Reconciling once after
    /// the whole series takes fewer writes. On a real cluster, the latency of watches has the same
    /// effect.
    async fn wait_for_writers(&self) {
        let (mut seen, mut quiet) = (self.shared.revision(), 0);
        for _ in 0..YIELDS_MAX {
            tokio::task::yield_now().await;
            let revision = self.shared.revision();
            quiet = if revision == seen { quiet + 1 } else { 0 };
            if quiet == IDLE_YIELDS {
                return;
            }
            seen = revision;
        }
    }

    /// Reconciles until no key is due.
    async fn reconcile_due(&mut self) {
        let mut steps = 0_u32;
        loop {
            self.sync_cache();
            let now = self.shared.clock().now();
            self.queue.enqueue_due(now);
            let Some(task) = self.queue.pop(now) else { return };
            self.reconcile(&task, now).await;
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(RECONCILIATIONS_PER_YIELD) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Applies the store's changes since the last call to the cache.
    fn sync_cache(&mut self) {
        let since = self.revision;
        let Self { shared, cache, kinds_edition: edition, .. } = self;
        let (changes, revision) = shared.read(|store| {
            let kinds = store.kinds();
            if edition.replace(kinds.edition()) != Some(kinds.edition()) {
                cache.register_kinds(kinds);
            }
            let changes: Vec<ObjectChange> = match store.log_since(since) {
                Ok(entries) => entries.iter().map(|entry| change_of_entry(entry)).collect(),
                Err(_) => full_resync(store, cache),
            };
            (changes, store.revision())
        });
        for change in changes {
            self.apply_change(&change);
        }
        self.revision = revision;
    }

    fn apply_change(&mut self, change: &ObjectChange) {
        self.cache.apply_change(change, self.shared.clock().now());
        self.expiring_events.record(change, self.shared.clock().now());
        let resource = &change.key.resource;
        if !self.watching.contains_key(resource) {
            let mut all = crate::controllers::controllers_watching(resource);
            all.retain(|&controller| !self.replaced.contains(&CONTROLLERS[controller].name));
            self.watching.insert(resource.clone(), all);
        }
        for &controller in &self.watching[resource] {
            for key in (CONTROLLERS[controller].keys_to_reconcile)(change, &self.cache) {
                self.queue.push(Task { controller, key });
            }
        }
    }

    fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            cache: &self.cache,
            now,
            kubelet_defaults: &self.kubelet_defaults,
            feature_gates: &self.feature_gates,
        }
    }

    async fn reconcile(&mut self, task: &Task, now: Timestamp) {
        let controller = &CONTROLLERS[task.controller];
        let ctx = self.context(now);
        let step = (controller.reconcile)(&task.key, &ctx);
        self.queue.set_requeue_time(task, step.requeue_at);
        if step.writes.is_empty() {
            self.refusals.remove(task);
            return;
        }
        let refused = self.apply_writes(controller, step.writes).await;
        match refused {
            None => {
                self.refusals.remove(task);
            }
            Some(refusal) if refusal.error.reason == "Conflict" => self.queue.push(task.clone()),
            Some(refusal) => self.requeue_with_backoff(task, now, &refusal).await,
        }
    }

    /// Requeues a key after a refused write, and reports the refusal on its object.
    async fn requeue_with_backoff(&mut self, task: &Task, now: Timestamp, refusal: &WriteRefusal) {
        let count = self.refusals.entry(task.clone()).or_default();
        let wait = 2_u64.saturating_pow(*count).min(RETRY_SECS_MAX);
        *count = count.saturating_add(1);
        let again = now.checked_add(Duration::from_secs(wait)).unwrap_or(Timestamp::MAX);
        self.queue.set_requeue_time(task, Some(again));
        let ctx = self.context(now);
        let controller = &CONTROLLERS[task.controller];
        let events = crate::controllers::report_refusal(controller, &task.key, refusal, &ctx);
        let _ = self.apply_writes(controller, events).await;
    }

    /// Applies writes in order until one is refused, and returns that refusal. Without webhooks all
    /// writes are applied under one lock.
    async fn apply_writes(
        &self,
        controller: &Controller,
        requests: Vec<ApiRequest>,
    ) -> Option<WriteRefusal> {
        let at_once = self.shared.change(|store, now| {
            if webhooks::has_webhooks(store) {
                Err(requests)
            } else {
                Ok(apply_writes_locked(store, controller, requests, now))
            }
        });
        let requests = match at_once {
            Ok(refused) => return refused,
            Err(requests) => requests,
        };
        let mut writing = WriteBatch::default();
        for request in requests {
            let (write, kept) = writing.prepare_write(controller, request);
            let user =
                || WebhookContext { user: user_info(controller), ..WebhookContext::default() };
            let done = self.webhooks.write(&self.shared, write, user).await;
            if let Some(refusal) = writing.record_result(kept, done) {
                return Some(refusal);
            }
        }
        None
    }

    /// Removes the events whose time to live has passed, without admission, as etcd does when a
    /// lease ends.
    fn remove_expired_events(&mut self) {
        let expired = self.expiring_events.take_expired(self.shared.clock().now(), &self.cache);
        if expired.is_empty() {
            return;
        }
        self.shared.change(|store, now| {
            for key in expired {
                let delete = Op::Delete(DeleteOptions::default());
                // A client may have deleted it.
                let _ = store.write(Write::new(key, delete, API_SERVER), now);
            }
        });
    }

    /// Compacts the change log once half of its entries are older than `log_retention`.
    fn compact_log(&mut self) {
        let Some(keep) = self.log_retention else { return };
        let seen = self.revision;
        self.shared.change(|store, now| {
            let oldest = now.checked_sub(keep).unwrap_or(Timestamp::MIN);
            let old = store.revision_before(oldest).min(seen);
            let kept = store.revision() - old;
            if kept * 2 <= store.log_len() as u64 {
                store.compact_to(old);
            }
        });
    }
}

fn change_of_entry(entry: &LogEntry) -> ObjectChange {
    ObjectChange {
        key: entry.key.clone(),
        before: entry.previous.clone(),
        after: (entry.kind != EventKind::Deleted).then(|| Arc::clone(&entry.object)),
    }
}

/// The differences between a cache and a store whose log was compacted.
fn full_resync(store: &Store, cache: &InformerCache) -> Vec<ObjectChange> {
    let mut changes: Vec<ObjectChange> = cache
        .keys()
        .filter(|key| store.find(key).is_none())
        .map(|key| ObjectChange { key: key.clone(), before: cache.get(key).cloned(), after: None })
        .collect();
    for resource in store.resources() {
        for found in store.list(resource, None) {
            let key = crate::reconcile::key_of(resource, found);
            let before = cache.get(&key).cloned();
            changes.push(ObjectChange { key, before, after: Some(Arc::clone(found)) });
        }
    }
    changes
}

fn apply_writes_locked(
    store: &mut Store,
    controller: &Controller,
    requests: Vec<ApiRequest>,
    now: Timestamp,
) -> Option<WriteRefusal> {
    let mut writing = WriteBatch::default();
    requests.into_iter().find_map(|request| {
        let (write, kept) = writing.prepare_write(controller, request);
        let done = store.write(write, now);
        writing.record_result(kept, done)
    })
}

/// The `userInfo` of a controller that webhooks see.
fn user_info(controller: &Controller) -> Value {
    json!({"username": format!("system:{}", controller.manager), "groups": ["system:authenticated"]})
}

/// The writes of one reconciliation. A later update of an object uses the resourceVersion that the
/// earlier one returned. Refused events and deletions of missing objects are ignored.
#[derive(Default)]
struct WriteBatch {
    written: BTreeMap<Key, String>,
}

/// A write whose result is pending.
struct PendingWrite {
    key: Key,
    is_delete: bool,
    is_create: bool,
}

impl WriteBatch {
    fn prepare_write(&self, controller: &Controller, request: ApiRequest) -> (Write, PendingWrite) {
        let ApiRequest { key, mut op } = request;
        if let (Op::Update(_, body), Some(revision)) = (&mut op, self.written.get(&key)) {
            object::set(body, &["metadata", "resourceVersion"], revision.as_str().into());
        }
        let (deletes, creates) = (matches!(op, Op::Delete(_)), matches!(op, Op::Create(_)));
        let write = Write {
            field_validation: FieldValidation::Ignore,
            ..Write::new(key.clone(), op, controller.manager)
        };
        (write, PendingWrite { key, is_delete: deletes, is_create: creates })
    }

    fn record_result(
        &mut self,
        of: PendingWrite,
        done: Result<WriteOutcome, ApiError>,
    ) -> Option<WriteRefusal> {
        let PendingWrite { key, is_delete: deletes, is_create: creates } = of;
        let at_best = key.resource.is("", "events");
        match done {
            Ok(done) => {
                self.written.insert(key, object::resource_version(&done.object).to_owned());
                None
            }
            Err(_) if at_best => None,
            Err(error) if deletes && error.code == 404 => None,
            Err(error) => Some(WriteRefusal { name: key.name, is_create: creates, error }),
        }
    }
}
