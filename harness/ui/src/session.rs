//! A running cluster that the page acts on. Its own: an emulated fleet and schedulers on a thread
//! in virtual time, which passes only while the session is told to advance. Or a served one, in
//! real time. Or the cluster of an owner who lets time pass, such as a lesson.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use jiff::Timestamp;
use schedlab_api::{Value, json};
use schedlab_audit::Change;
use schedlab_clusters::api::Api;
use schedlab_clusters::scheduler_objects::install_scheduler_objects;
use schedlab_conformance::world::scenario_cluster::epoch_timestamp;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::LogEntry;
use schedlab_emulator::{Emulator, Fleet, Options};
use schedlab_scheduler::explain::{OutputFormat, explain_queue_state, explain_workload};
use schedlab_scheduler::{Config, Progress};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use schedlab_view::ObjectName;
use schedlab_view::events::{ClusterEvent, ClusterEventKind};
use schedlab_view::state::ClusterState;

use crate::history::History;

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
type Job = Box<dyn FnOnce(Arc<Cluster>) -> BoxFuture<'static, ()> + Send>;

/// Work that the owner of a cluster must do where time of the cluster passes.
pub type ClusterWork = BoxFuture<'static, ()>;

/// A running cluster. Dropping it ends its thread, if it has one.
#[derive(Debug)]
pub struct Session {
    place: Place,
    status: watch::Receiver<SessionStatus>,
    history: Arc<Mutex<History>>,
}

/// Where the work on the cluster is done.
enum Place {
    /// On the cluster's thread, whose time stands still between jobs.
    Thread(mpsc::Sender<Job>),
    /// On the runtime of the caller, in real time.
    Here(Arc<Cluster>),
    /// By the owner of the cluster, one after the other.
    Owner(Arc<Cluster>, UnboundedSender<ClusterWork>),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread(_) => "Thread",
            Self::Here(_) => "Here",
            Self::Owner(..) => "Owner",
        })
    }
}

/// The cluster that the work is done on.
struct Cluster {
    emulator: Emulator,
    history: Arc<Mutex<History>>,
    status: watch::Sender<SessionStatus>,
    config: Config,
    progress: watch::Receiver<Progress>,
}

impl Cluster {
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
        Ok(Self { place: Place::Thread(jobs), status, history })
    }

    /// A session for a cluster that runs in real time on this runtime. `config` is that of its
    /// scheduler, for explanations.
    pub fn attach(emulator: &Emulator, config: Config) -> Self {
        let (cluster, status) = observed_cluster(emulator, config);
        let history = Arc::clone(&cluster.history);
        Self { place: Place::Here(cluster), status, history }
    }

    /// A session for a cluster whose owner does the work that is sent to it, on the runtime of this
    /// call.
    pub fn attach_to_owner(
        emulator: &Emulator,
        config: Config,
        owner: UnboundedSender<ClusterWork>,
    ) -> Self {
        let (cluster, status) = observed_cluster(emulator, config);
        let history = Arc::clone(&cluster.history);
        Self { place: Place::Owner(cluster, owner), status, history }
    }

    /// Whether the page decides when time passes.
    pub fn is_time_controlled(&self) -> bool {
        !matches!(self.place, Place::Here(_))
    }

    /// The time of the cluster now.
    pub fn now(&self) -> Timestamp {
        match &self.place {
            Place::Thread(_) | Place::Owner(..) => self.status.borrow().now,
            Place::Here(cluster) => cluster.emulator.clock().now(),
        }
    }

    /// The time from which the page counts.
    pub fn start_time(&self) -> Timestamp {
        match &self.place {
            Place::Thread(_) => epoch_timestamp(),
            Place::Here(_) | Place::Owner(..) => {
                let first = lock(&self.history).start_time();
                first.unwrap_or_else(|| self.now())
            }
        }
    }

    /// The time and revision of the cluster; the receiver is notified of changes.
    pub fn status(&self) -> watch::Receiver<SessionStatus> {
        self.status.clone()
    }

    /// The state of the cluster at a revision.
    pub fn state_at(&self, revision: u64) -> ClusterState {
        lock(&self.history).state_at(revision)
    }

    /// The time of the last write up to a revision.
    pub fn time_at(&self, revision: u64) -> Option<Timestamp> {
        lock(&self.history).time_at(revision)
    }

    /// The last `limit` events up to a revision that `keep` accepts, newest first.
    pub fn events_until(
        &self,
        revision: u64,
        limit: usize,
        keep: impl Fn(&ClusterEvent) -> bool,
    ) -> Vec<ClusterEvent> {
        lock(&self.history).events_until(revision, limit, keep)
    }

    /// The last `limit` events of the pods of a pod group, newest first. Without a group of this
    /// name, those of the pod with the name.
    pub fn events_of_group(&self, namespace: &str, group: &str, limit: usize) -> Vec<ClusterEvent> {
        let workload: ObjectName = (Arc::from(namespace), Arc::from(group));
        let history = lock(&self.history);
        let pods: BTreeSet<ObjectName> = history.pods_of_workload(&workload);
        history.events_until(u64::MAX, limit, |event| {
            event.object_kind == "pod"
                && pods.contains(&(Arc::clone(&event.namespace), Arc::clone(&event.name)))
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

    /// Takes note of the cluster's time. Its owner lets it pass without telling the session.
    ///
    /// # Errors
    /// The cluster has ended.
    pub async fn observe_time(&self) -> anyhow::Result<()> {
        self.run(|_| Box::pin(async {})).await
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
        work: impl FnOnce(Arc<Cluster>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let (done, result) = oneshot::channel();
        let job = |cluster: Arc<Cluster>| -> ClusterWork {
            Box::pin(async move {
                // The work begins where the cluster's time passes, so that its timers are there.
                let result = work(Arc::clone(&cluster)).await;
                cluster.publish_status();
                let _ = done.send(result);
            })
        };
        let ended = || anyhow!("the cluster has ended");
        match &self.place {
            Place::Here(cluster) => job(Arc::clone(cluster)).await,
            Place::Owner(cluster, owner) => {
                owner.send(job(Arc::clone(cluster))).map_err(|_| ended())?;
            }
            Place::Thread(jobs) => jobs.send(Box::new(job)).map_err(|_| ended())?,
        }
        result.await.map_err(|_| ended())
    }
}

/// A cluster whose writes are observed, and its status.
fn observed_cluster(
    emulator: &Emulator,
    config: Config,
) -> (Arc<Cluster>, watch::Receiver<SessionStatus>) {
    let now = emulator.clock().now();
    let first = SessionStatus { now, revision: emulator.revision(), cycles: 0 };
    let status = watch::Sender::new(first);
    let (observed, receiver) = (status.clone(), status.subscribe());
    let history = observe_history(emulator, move |entry| {
        observed.send_modify(|status| {
            (status.now, status.revision) = (entry.time, entry.revision);
        });
    });
    let progress = config.progress.subscribe();
    let cluster = Cluster { emulator: emulator.clone(), history, status, config, progress };
    (Arc::new(cluster), receiver)
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

/// Collects the history of a cluster: all writes so far, and those that follow. `then` is called
/// after each of these.
fn observe_history(
    emulator: &Emulator,
    then: impl Fn(&LogEntry) + Send + Sync + 'static,
) -> Arc<Mutex<History>> {
    let history = Arc::new(Mutex::new(History::default()));
    let past = emulator.log_since(0).unwrap_or_default();
    for entry in &past {
        lock(&history).apply_entry(entry);
    }
    let observed = Arc::clone(&history);
    emulator.observe_writes(Box::new(move |entry| {
        lock(&observed).apply_entry(entry);
        then(entry);
    }));
    history
}

async fn start_cluster(options: SessionOptions) -> anyhow::Result<Cluster> {
    let clock = Clock::starting_at(epoch_timestamp());
    let emulator = Emulator::start(Options { seed: options.seed, ..Options::with_clock(clock) });
    install_scheduler_objects(&Api::new(emulator.client())).await?;
    let history = observe_history(&emulator, |_| {});
    emulator.add_fleet(&options.fleet)?;
    let mut api = Api::new(emulator.client());
    // Each is dropped once it is applied: a large case is not kept twice.
    for object in options.objects {
        api.apply(&object).await?;
    }
    let config = Config { seed: options.seed, ..Config::kai() };
    let progress = config.progress.subscribe();
    let now = emulator.clock().clone();
    let status = SessionStatus { now: now.now(), revision: emulator.revision(), cycles: 0 };
    let cluster = Cluster {
        emulator: emulator.clone(),
        history,
        status: watch::Sender::new(status),
        config: config.clone(),
        progress,
    };
    for config in [config, Config { seed: options.seed, ..Config::kube() }] {
        let clock = cluster.scheduler_clock();
        tokio::spawn(schedlab_scheduler::run(emulator.client(), config, clock));
    }
    Ok(cluster)
}

/// The merge patch that sets the deserved quota of a queue, in GPUs; -1 is unlimited.
pub fn quota_patch(gpus: f64) -> Value {
    json!({"spec": {"resources": {"gpu": {"quota": gpus}}}})
}
