//! The state that a scenario's steps act on: one cluster, its scheduler, and the snapshot parts
//! shown so far.

mod assertions;
mod evictions;
pub(crate) mod manifests;
pub mod observed;
mod queues;
pub mod scenario_cluster;
mod scheduler;
mod state_summary;
mod step_input;
pub(crate) mod step_source;
mod submit;
mod time_scale;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::Value;
use schedlab_audit::Audit;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::store::LogEntry;
use schedlab_scheduler::Config;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::features::Case;
use crate::schedulers::{SchedulerUnderTest, Target};
use schedlab_clusters::api::Api;
use schedlab_clusters::real_cluster::RealCluster;

use observed::{ObservedCluster, Phase, Pod};
use scenario_cluster::{Cluster as _, EmulatedCluster, ScenarioCluster, TenantCluster};

pub(crate) use assertions::{Assertion, Temporal};
pub(crate) use time_scale::TimeScale;

/// How long a step waits for pods to start or terminate before it takes them as they are.
const TRANSITION_MAX: Duration = Duration::from_mins(10);

/// How long the scheduler may write in every other cycle before the scenario fails: it repeats the
/// same write and never converges.
const CHURN_MAX: Duration = Duration::from_mins(3);
const CHURN_MAX_REAL: Duration = Duration::from_mins(10);

/// On a real cluster: how long the writes of one scheduling decision may be spread out.
const WRITE_BURST_REAL: Duration = Duration::from_secs(5);

/// How long the watches may lag behind the writes.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// The cluster, scheduler and recorded state of one scenario.
#[derive(Debug, cucumber::World)]
#[world(init = Self::unplaced)]
pub struct World {
    /// Kubernetes client with administrator rights.
    pub(crate) api: Api,
    /// Informer-like cache of the objects that steps read.
    pub(crate) view: ObservedCluster,
    cluster: ScenarioCluster,
    /// The scheduler under test.
    target: Target,
    /// Scale of the feature's durations on this cluster.
    time_scale: TimeScale,
    scheduler: Scheduler,
    /// The scheduler is killed before this write, counted from 1, independent of the scenario's
    /// steps.
    crash_before_write: Option<u32>,
    /// Location of the last step that kills the scheduler at a write, and the crash count before
    /// it.
    expected_crash: Option<(String, usize)>,
    /// Checks every write; `None` until the scheduler has started.
    audit: Option<Audit>,
    case: Case,
    /// Submitted objects by workload name, so that a step can delete and resubmit them.
    submitted: BTreeMap<String, Vec<Value>>,
    /// API paths that steps deleted.
    deleted: BTreeSet<String>,
    /// Objects last written to the target's own queue API; empty when it reads KAI's queues.
    last_synced: Vec<Value>,
    /// Periodic submissions by name; `None` once a step has ended them.
    streams: BTreeMap<String, Option<JoinHandle<anyhow::Error>>>,
    /// Line of the step that runs now.
    step_line: usize,
    /// Why the assertion of the current step last did not hold.
    last_mismatch: Option<String>,
    /// Text of the snapshot steps so far.
    snapshot_parts: Vec<String>,
    /// Write count and time at which the cluster last came to rest.
    last_settled: Option<(u64, Instant)>,
}

#[derive(Debug)]
enum Scheduler {
    /// Starts when time first passes.
    NotStarted(Box<Config>),
    /// Started; it may have been stopped or killed since.
    Started(Box<SchedulerUnderTest>),
    /// The scenario runs without a scheduler.
    Absent,
}

impl World {
    /// Starts an empty emulated cluster for a case, on the current runtime.
    pub(crate) async fn emulated(
        case: &Case,
        target: &Target,
        seed: u64,
        gates: FeatureGates,
    ) -> anyhow::Result<Self> {
        let cluster = ScenarioCluster::Emulated(EmulatedCluster::start(seed, gates));
        Self::with_cluster(cluster, case, target, seed, TimeScale::default()).await
    }

    /// Starts a tenant of a real cluster for a case, on the current runtime.
    pub(crate) async fn real(
        case: &Case,
        real_cluster: &Arc<RealCluster>,
        target: &Target,
        seed: u64,
        time_scale: TimeScale,
    ) -> anyhow::Result<Self> {
        let cluster = ScenarioCluster::Real(Box::new(TenantCluster::start(real_cluster).await?));
        Self::with_cluster(cluster, case, target, seed, time_scale).await
    }

    async fn with_cluster(
        cluster: ScenarioCluster,
        case: &Case,
        target: &Target,
        seed: u64,
        time_scale: TimeScale,
    ) -> anyhow::Result<Self> {
        let api = Api::new(cluster.client());
        let view = match &cluster {
            ScenarioCluster::Emulated(emulated) => {
                ObservedCluster::in_process(emulated.emulator())?
            }
            ScenarioCluster::Real(_) => ObservedCluster::start(&api).await?,
        };
        let config = target.config(seed);
        Ok(Self {
            api,
            view,
            cluster,
            target: target.clone(),
            time_scale,
            scheduler: Scheduler::NotStarted(Box::new(config)),
            crash_before_write: None,
            expected_crash: None,
            audit: None,
            case: case.clone(),
            step_line: case.location.line,
            submitted: BTreeMap::new(),
            deleted: BTreeSet::new(),
            last_synced: Vec::new(),
            streams: BTreeMap::new(),
            last_mismatch: None,
            snapshot_parts: Vec::new(),
            last_settled: None,
        })
    }

    fn unplaced() -> anyhow::Result<Self> {
        anyhow::bail!("a World is created by the runner, for one case")
    }

    /// Lets a duration of the feature, scaled, pass on the cluster's clock.
    pub(crate) async fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        self.wait(self.time_scale.scaled(time)).await
    }

    /// Lets the scheduler run this number of cycles.
    pub(crate) async fn run_for_cycles(&mut self, cycles: u32) -> anyhow::Result<()> {
        self.wait(self.period() * cycles).await
    }

    /// Lets time pass as long as it is, without starting the scheduler.
    pub async fn pass_unscaled(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while self.next_change_before(end).await? {}
        Ok(())
    }

    async fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        self.ensure_scheduler_started();
        let end = Instant::now() + time;
        while self.next_change_before(end).await? {}
        self.cluster.wait_for_cycles().await;
        Ok(())
    }

    /// Processes all watch events of writes made until now.
    pub(crate) async fn catch_up(&mut self) -> anyhow::Result<()> {
        self.check_streams().await?;
        self.view.drain().await?;
        let Some(marks) = self.cluster.watermarks() else { return Ok(()) };
        let end = Instant::now() + CATCH_UP_MAX;
        while !self.view.has_reached(&marks) {
            if !self.next_change_before(end).await? {
                break;
            }
        }
        self.view.drain().await
    }

    /// Waits for one watch event and processes it. Returns `false` when none came before `end`, or
    /// when the scheduler exited by itself.
    async fn next_change_before(&mut self, end: Instant) -> anyhow::Result<bool> {
        self.check_streams().await?;
        let ended = self.scheduler_ended();
        tokio::select! {
            biased;
            taken = self.view.next() => taken.map(|()| true),
            () = ended => Ok(false),
            () = tokio::time::sleep_until(end) => Ok(false),
        }
    }

    /// Waits until nothing changes any more and no pod is starting or terminating.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<()> {
        self.ensure_scheduler_started();
        if self.is_at_rest() {
            return Ok(());
        }
        let end = Instant::now() + self.time_scale.scaled(TRANSITION_MAX);
        let busy_max = if self.is_real() { CHURN_MAX_REAL } else { CHURN_MAX };
        loop {
            let settled = self.cluster.settle(busy_max).await;
            settled.with_context(|| self.last_writes())?;
            let writes = self.cluster.writes();
            self.catch_up().await?;
            // A component may have written while the watches caught up.
            let goes_on = self.is_real() && writes != self.cluster.writes();
            let moves =
                (self.has_pods_in_transition() || goes_on) && self.scheduler_failure().is_none();
            if !moves || Instant::now() >= end {
                break;
            }
            if !goes_on {
                self.next_change_before(end).await?;
            }
        }
        if let (Some(audit), true) = (&self.audit, self.is_scheduler_running()) {
            audit.at_rest(self.cluster.now());
        }
        self.last_settled = Some((self.cluster.writes(), Instant::now()));
        Ok(())
    }

    /// Whether nothing has been written since the cluster settled. In virtual time the clock must
    /// not have moved either: a cycle may have been due.
    fn is_at_rest(&self) -> bool {
        match (&self.cluster, self.last_settled) {
            (_, None) => false,
            (ScenarioCluster::Emulated(_), rest) => {
                rest == Some((self.cluster.writes(), Instant::now()))
            }
            (ScenarioCluster::Real(_), Some((writes, _))) => writes == self.cluster.writes(),
        }
    }

    /// How long the writes of one decision may be spread out; zero in virtual time.
    pub(crate) fn write_burst_window(&self) -> Duration {
        if self.is_real() { WRITE_BURST_REAL } else { Duration::ZERO }
    }

    /// Whether the cluster runs in real time.
    fn is_real(&self) -> bool {
        matches!(self.cluster, ScenarioCluster::Real(_))
    }

    /// Describes pods that do not belong to the scenario on its nodes; `None` when there are none.
    pub(crate) async fn foreign_pods(&self) -> Option<String> {
        self.cluster.foreign_pods().await
    }

    /// Deletes everything that the scenario created. Returns what could not be deleted.
    pub(crate) async fn close(mut self) -> Vec<String> {
        // The error means that no scheduler runs, which is fine here.
        let _ = self.stop_scheduler();
        self.streams.values().flatten().for_each(JoinHandle::abort);
        self.cluster.close().await
    }

    /// Whether a pod on a ready node is still starting or terminating.
    fn has_pods_in_transition(&self) -> bool {
        let on_its_way = |pod: Pod<'_>| match pod.phase() {
            // A restart may be minutes away.
            Phase::Starting => !pod.waits_for_restart(),
            Phase::Terminating => true,
            Phase::Pending | Phase::Gated | Phase::Running | Phase::Succeeded | Phase::Failed => {
                false
            }
        };
        self.view.pods().any(|pod| on_its_way(pod) && self.view.is_node_ready(pod.node()))
    }

    /// The first audit rule that was broken, with the history that shows it.
    pub(crate) fn first_breach(&self) -> Option<String> {
        self.audit.as_ref()?.violations().first().map(ToString::to_string)
    }

    /// Settles the cluster at the end of a case and returns what is still wrong: an error, a broken
    /// rule, or a crash that did not happen.
    pub(crate) async fn end_of_case_failure(&mut self) -> Option<String> {
        if let Err(error) = self.settle().await {
            return Some(format!("at the end of the scenario: {error:#}"));
        }
        self.first_breach().or_else(|| self.missed_crash())
    }

    /// Start of the cluster's clock.
    pub(crate) fn start_time(&self) -> jiff::Timestamp {
        self.cluster.started_at()
    }

    /// Scale of the feature's durations on this cluster.
    pub(crate) fn time_scale(&self) -> TimeScale {
        self.time_scale
    }

    /// Milliseconds on the cluster's clock since its start.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        self.cluster.elapsed_millis()
    }

    /// How many whole seconds the containers of a pod have run.
    pub fn run_seconds(&self, pod: Pod<'_>) -> i64 {
        let start = pod.run_start().parse::<jiff::Timestamp>();
        start.map_or(0, |start| self.cluster.now().duration_since(start).as_secs().max(0))
    }

    /// Adds a titled part to the text that is compared with the snapshot.
    pub(crate) fn add_snapshot_part(&mut self, title: &str, text: &str) {
        self.snapshot_parts.push(format!("## {title}\n\n{}\n", text.trim_end()));
    }

    /// Parts added by snapshot steps, in order.
    pub(crate) fn snapshot_parts(&self) -> &[String] {
        &self.snapshot_parts
    }

    /// Every write so far.
    pub(crate) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.cluster.log()
    }

    /// Every write as one line, to compare two runs.
    pub(crate) fn history(&self) -> Vec<String> {
        let line = |entry: &Arc<LogEntry>| {
            format!("{} {} {:?} {}", entry.time, entry.manager, entry.kind, entry.object)
        };
        self.cluster.log().iter().map(line).collect()
    }

    /// The last ten writes, to explain why the cluster does not settle.
    fn last_writes(&self) -> String {
        let log = self.cluster.log();
        let last = log.iter().rev().take(10).rev().map(|entry| {
            let key = &entry.key;
            format!(
                "  {} {} {} {}/{}",
                entry.time, entry.manager, key.resource.plural, key.namespace, key.name
            )
        });
        format!("the last writes were:\n{}", last.collect::<Vec<_>>().join("\n"))
    }
}
