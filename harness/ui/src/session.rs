//! A running cluster that the page acts on: an emulated fleet and schedulers on a thread of their
//! own, in virtual time. Time passes only while the session is told to advance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use jiff::Timestamp;
use schedlab_api::{Value, annotations, json, object};
use schedlab_audit::Change;
use schedlab_clusters::api::Api;
use schedlab_clusters::scheduler_objects::install_scheduler_objects;
use schedlab_conformance::world::scenario_cluster::epoch_timestamp;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::LogEntry;
use schedlab_emulator::{Emulator, Fleet, Options};
use schedlab_scheduler::explain::{OutputFormat, explain_queue_state, explain_workload};
use schedlab_scheduler::{Config, Progress};
use tokio::sync::{oneshot, watch};

use crate::events::{ClusterEvent, ClusterEventKind, events_of_entry};
use crate::objects::ObjectSet;
use crate::state::FairShares;

/// The longest time that one call of [`Session::advance_to_eviction`] lets pass.
pub const EVICTION_SEARCH_MAX: Duration = Duration::from_hours(24);

/// What a new cluster contains.
#[derive(Debug)]
pub struct SessionOptions {
    /// The nodes.
    pub fleet: Fleet,
    /// Objects that are applied before the schedulers start, in this order.
    pub objects: Vec<Value>,
    /// Seed of generated names and of tie-breaking.
    pub seed: u64,
}

/// The time of the cluster, and how far its log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The cluster's time.
    pub now: Timestamp,
    /// The revision of the last write.
    pub revision: u64,
    /// Number of completed scheduling cycles.
    pub cycles: u64,
}

/// Work for the thread of the cluster.
type Job = Box<dyn FnOnce(Arc<VirtualCluster>) -> BoxFuture<'static, ()> + Send>;

/// A running cluster. Dropping it ends its thread.
#[derive(Debug)]
pub struct Session {
    jobs: mpsc::Sender<Job>,
    status: watch::Receiver<SessionStatus>,
    history: Arc<Mutex<History>>,
}

/// Everything that happened since the cluster started.
#[derive(Debug, Default)]
struct History {
    log: Vec<Arc<LogEntry>>,
    events: Vec<ClusterEvent>,
    latest: ObjectSet,
    /// The fair shares of a cycle, with the revision after which the scheduler reported them.
    fair_shares: Vec<(u64, FairShares)>,
}

impl History {
    fn apply_entry(&mut self, entry: &Arc<LogEntry>) {
        self.latest.apply_entry(entry);
        self.events.extend(events_of_entry(entry));
        self.log.push(Arc::clone(entry));
    }

    fn record_progress(&mut self, revision: u64, progress: &Progress) {
        let shares = progress.queues.iter();
        let shares: BTreeMap<String, i64> =
            shares.map(|queue| (queue.name.to_string(), queue.fair_share.gpu)).collect();
        if self.fair_shares.last().is_none_or(|(_, last)| *last != shares) {
            self.fair_shares.push((revision, shares));
        }
    }

    fn evictions(&self) -> usize {
        let is_eviction = |event: &&ClusterEvent| event.kind == ClusterEventKind::Eviction;
        self.events.iter().filter(is_eviction).count()
    }
}

/// The cluster as its thread has it.
struct VirtualCluster {
    emulator: Emulator,
    history: Arc<Mutex<History>>,
    status: watch::Sender<SessionStatus>,
    config: Config,
    progress: watch::Receiver<Progress>,
}

impl VirtualCluster {
    fn publish_status(&self) {
        let now = self.emulator.clock().now();
        let (revision, cycles) = (self.emulator.revision(), self.progress.borrow().cycles);
        self.status.send_replace(SessionStatus { now, revision, cycles });
    }

    /// Waits until a pod is evicted, at most [`EVICTION_SEARCH_MAX`]. Returns whether one was.
    async fn wait_for_eviction(&self) -> bool {
        let before = lock(&self.history).evictions();
        let end = tokio::time::Instant::now() + EVICTION_SEARCH_MAX;
        let mut revisions = self.emulator.store().subscribe_revisions();
        loop {
            let changed = tokio::time::timeout_at(end, revisions.changed()).await;
            if lock(&self.history).evictions() > before {
                return true;
            }
            if !matches!(changed, Ok(Ok(()))) {
                return false;
            }
        }
    }

    /// Applies objects up to the first that is rejected.
    async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut api = Api::new(self.emulator.client());
        for (applied, object) in objects.iter().enumerate() {
            let done = api.apply(object).await;
            done.with_context(|| format!("{applied} of {} applied", objects.len()))?;
        }
        Ok(())
    }

    fn scheduler_clock(&self) -> schedlab_scheduler::Clock {
        let clock = self.emulator.clock().clone();
        Arc::new(move || clock.now())
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Starts a cluster with KAI's profile and, for pods without a scheduler name, kube-scheduler's.
    /// Its time stands still at first.
    ///
    /// # Errors
    /// An object or a node is rejected, or the thread cannot be started.
    pub async fn start(options: SessionOptions) -> anyhow::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (ready, started) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .context("cannot create a runtime for the cluster")?;
        let cluster_thread = std::thread::Builder::new().name("cluster".to_owned());
        let work = move || runtime.block_on(run_cluster(options, queue, ready));
        cluster_thread.spawn(work).context("cannot start the thread of the cluster")?;
        let Handles { status, history } = started.await.context("the cluster's thread ended")??;
        Ok(Self { jobs, status, history })
    }

    /// The time and revision of the cluster; the receiver is notified of changes.
    pub fn status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    /// The objects at a revision, and the fair shares that the scheduler had reported by then.
    pub fn objects_at(&self, revision: u64) -> (ObjectSet, FairShares) {
        let history = lock(&self.history);
        let last = history.log.last().map_or(0, |entry| entry.revision);
        let objects = if revision >= last {
            history.latest.clone()
        } else {
            ObjectSet::at_revision(&history.log, revision)
        };
        let shares = history.fair_shares.iter().rev().find(|(since, _)| *since <= revision);
        (objects, shares.map(|(_, shares)| shares.clone()).unwrap_or_default())
    }

    /// The time of the last write up to a revision.
    pub fn time_at(&self, revision: u64) -> Option<Timestamp> {
        let history = lock(&self.history);
        let end = history.log.partition_point(|entry| entry.revision <= revision);
        history.log.get(end.checked_sub(1)?).map(|entry| entry.time)
    }

    /// The last `limit` events up to a revision that `keep` accepts, newest first.
    pub fn events_until(
        &self,
        revision: u64,
        limit: usize,
        keep: impl Fn(&ClusterEvent) -> bool,
    ) -> Vec<ClusterEvent> {
        let history = lock(&self.history);
        let end = history.events.partition_point(|event| event.revision <= revision);
        history.events[..end]
            .iter()
            .rev()
            .filter(|event| keep(event))
            .take(limit)
            .cloned()
            .collect()
    }

    /// The last `limit` events of the pods of a pod group, newest first. Without a group of this
    /// name, those of the pod with the name.
    pub fn events_of_group(&self, namespace: &str, group: &str, limit: usize) -> Vec<ClusterEvent> {
        let is_member = |pod: &Value| {
            object::namespace(pod) == namespace
                && (object::annotation(pod, annotations::POD_GROUP_NAME) == Some(group)
                    || object::name(pod) == group)
        };
        let pods: BTreeSet<Arc<str>> = {
            let history = lock(&self.history);
            let pods = history.latest.pods.iter().filter(|(_, pod)| is_member(pod));
            pods.map(|((_, name), _)| Arc::clone(name)).collect()
        };
        self.events_until(u64::MAX, limit, |event| {
            event.object_kind == "pod"
                && &*event.namespace == namespace
                && pods.contains(&event.name)
        })
    }

    /// The last `limit` events of a node and of pods that were bound to it, newest first.
    pub fn events_of_node(&self, node: &str, limit: usize) -> Vec<ClusterEvent> {
        let bound = Change::Bound(node.to_owned()).to_string();
        self.events_until(u64::MAX, limit, |event| {
            (event.object_kind == "node" && &*event.name == node)
                || (event.kind == ClusterEventKind::Binding && event.text == bound)
        })
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// The cluster's thread has ended.
    pub async fn advance(&self, time: Duration) -> anyhow::Result<()> {
        self.run(move |_| Box::pin(tokio::time::sleep(time))).await
    }

    /// Lets time pass until the scheduler has completed one more cycle.
    ///
    /// # Errors
    /// The cluster's thread has ended.
    pub async fn advance_one_cycle(&self) -> anyhow::Result<()> {
        self.run(|cluster| {
            Box::pin(async move {
                let mut progress = cluster.progress.clone();
                let before = progress.borrow().cycles;
                let limit = cluster.config.period * 10;
                let next = progress.wait_for(|progress| progress.cycles > before);
                let _ = tokio::time::timeout(limit, next).await;
            })
        })
        .await
    }

    /// Lets time pass until a pod is evicted, at most [`EVICTION_SEARCH_MAX`]. Returns whether one
    /// was.
    ///
    /// # Errors
    /// The cluster's thread has ended.
    pub async fn advance_to_eviction(&self) -> anyhow::Result<bool> {
        self.run(|cluster| Box::pin(async move { cluster.wait_for_eviction().await })).await
    }

    /// Applies objects, one after the other. Stops at the first that is rejected.
    ///
    /// # Errors
    /// An object is rejected; the message names it, and how many were applied before.
    pub async fn apply(&self, objects: Vec<Value>) -> anyhow::Result<()> {
        self.run(move |cluster| Box::pin(async move { cluster.apply(&objects).await })).await?
    }

    /// Changes an object by a JSON merge patch.
    ///
    /// # Errors
    /// The object does not exist, or the change is rejected.
    pub async fn merge_patch(&self, path: String, change: Value) -> anyhow::Result<()> {
        self.run(move |cluster| {
            Box::pin(async move {
                let api = Api::new(cluster.emulator.client());
                api.merge_patch(&path, &change).await.map(drop).map_err(|error| anyhow!("{error}"))
            })
        })
        .await?
    }

    /// Deletes an object with background propagation.
    ///
    /// # Errors
    /// The object does not exist.
    pub async fn delete(&self, path: String) -> anyhow::Result<()> {
        self.run(move |cluster| {
            Box::pin(async move {
                let api = Api::new(cluster.emulator.client());
                api.delete(&path).await.map(drop).map_err(|error| anyhow!("{error}"))
            })
        })
        .await?
    }

    /// Explains why a workload is pending, in the cluster's current state.
    ///
    /// # Errors
    /// The workload does not exist.
    pub async fn explain_workload(
        &self,
        namespace: String,
        name: String,
    ) -> anyhow::Result<String> {
        self.run(move |cluster| {
            Box::pin(async move {
                let (client, config) = (cluster.emulator.client(), cluster.config.clone());
                let clock = cluster.scheduler_clock();
                let form = OutputFormat::Text;
                explain_workload(client, config, clock, &namespace, &name, form).await
            })
        })
        .await?
    }

    /// Explains how a queue is used, in the cluster's current state.
    ///
    /// # Errors
    /// The queue does not exist.
    pub async fn explain_queue(&self, name: String) -> anyhow::Result<String> {
        self.run(move |cluster| {
            Box::pin(async move {
                let (client, config) = (cluster.emulator.client(), cluster.config.clone());
                let clock = cluster.scheduler_clock();
                explain_queue_state(client, config, clock, &name, OutputFormat::Text).await
            })
        })
        .await?
    }

    /// Runs work on the cluster's thread and returns its result.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<VirtualCluster>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |cluster| {
            let working = work(Arc::clone(&cluster));
            Box::pin(async move {
                let result = working.await;
                cluster.publish_status();
                let _ = done.send(result);
            })
        });
        let ended = || anyhow!("the cluster's thread has ended");
        self.jobs.send(job).map_err(|_| ended())?;
        result.await.map_err(|_| ended())
    }
}

/// What a session has of its cluster, apart from the jobs.
struct Handles {
    status: watch::Receiver<SessionStatus>,
    history: Arc<Mutex<History>>,
}

/// Starts the cluster and does the jobs of the queue until the session is dropped.
async fn run_cluster(
    options: SessionOptions,
    queue: mpsc::Receiver<Job>,
    ready: oneshot::Sender<anyhow::Result<Handles>>,
) {
    let cluster = match start_cluster(options).await {
        Ok(cluster) => Arc::new(cluster),
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    cluster.publish_status();
    let (status, history) = (cluster.status.subscribe(), Arc::clone(&cluster.history));
    if ready.send(Ok(Handles { status, history })).is_err() {
        return;
    }
    // Waiting blocks the thread: virtual time stands still until the next job.
    while let Ok(job) = queue.recv() {
        job(Arc::clone(&cluster)).await;
    }
}

async fn start_cluster(options: SessionOptions) -> anyhow::Result<VirtualCluster> {
    let clock = Clock::starting_at(epoch_timestamp());
    let emulator = Emulator::start(Options { seed: options.seed, ..Options::with_clock(clock) });
    install_scheduler_objects(&Api::new(emulator.client())).await?;
    let history = Arc::new(Mutex::new(History::default()));
    let past = emulator.log_since(0).unwrap_or_default();
    for entry in &past {
        lock(&history).apply_entry(entry);
    }
    let observed = Arc::clone(&history);
    emulator.observe_writes(Box::new(move |entry| lock(&observed).apply_entry(entry)));
    emulator.add_fleet(&options.fleet)?;
    let mut api = Api::new(emulator.client());
    for object in &options.objects {
        api.apply(object).await?;
    }
    let config = Config { seed: options.seed, ..Config::kai() };
    let progress = config.progress.subscribe();
    let now = emulator.clock().clone();
    let status = SessionStatus { now: now.now(), revision: emulator.revision(), cycles: 0 };
    let cluster = VirtualCluster {
        emulator: emulator.clone(),
        history: Arc::clone(&history),
        status: watch::Sender::new(status),
        config: config.clone(),
        progress: progress.clone(),
    };
    for config in [config, Config { seed: options.seed, ..Config::kube() }] {
        let clock = cluster.scheduler_clock();
        tokio::spawn(schedlab_scheduler::run(emulator.client(), config, clock));
    }
    tokio::spawn(record_fair_shares(emulator, progress, history));
    Ok(cluster)
}

/// Records the fair shares of every cycle.
async fn record_fair_shares(
    emulator: Emulator,
    mut progress: watch::Receiver<Progress>,
    history: Arc<Mutex<History>>,
) {
    while progress.changed().await.is_ok() {
        let progress = progress.borrow_and_update().clone();
        let revision = emulator.revision();
        lock(&history).record_progress(revision, &progress);
    }
}

/// The merge patch that sets the deserved quota of a queue, in GPUs; -1 is unlimited.
pub fn quota_patch(gpus: f64) -> Value {
    json!({"spec": {"resources": {"gpu": {"quota": gpus}}}})
}
