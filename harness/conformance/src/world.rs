//! The state that a scenario's steps act on: one cluster, its scheduler, and the snapshot parts
//! shown so far.

mod assertions;
mod evictions;
pub(crate) mod manifests;
pub mod observed;
pub mod scenario_cluster;
mod scheduler;
mod state_summary;
mod step_input;
pub(crate) mod step_source;
mod submit;
mod target_objects;
mod time_scale;
mod unjudged_claims;

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
use crate::report::{ClaimKind, UnjudgedClaim};
use crate::schedulers::{SchedulerUnderTest, Target, Unsupported};
use schedlab_clusters::api::Api;
use schedlab_clusters::real_cluster::RealCluster;

use observed::{ObservedCluster, Phase, Pod};
use scenario_cluster::{Cluster as _, EmulatedCluster, ScenarioCluster, TenantCluster};

pub use manifests::manifest_objects;

pub(crate) use assertions::{Assertion, Temporal};
pub(crate) use time_scale::TimeScale;

/// How long a step waits for pods to start or terminate. After that the step takes the pods as they
/// are.
const TRANSITION_WAIT_MAX: Duration = Duration::from_mins(10);

/// How long the scheduler may keep writing while the cluster should settle. After that the scenario
/// fails: the scheduler repeats the same write and never converges.
const IDLE_WAIT_MAX: Duration = Duration::from_mins(3);
const IDLE_WAIT_MAX_REAL: Duration = Duration::from_mins(10);

/// How long the writes of one scheduling decision may be spread out on a real cluster.
const WRITE_BURST_REAL: Duration = Duration::from_secs(5);

/// The seed of a cluster that is not compared with snapshots.
const LIVE_SEED: u64 = 1;

/// Maximum wait for watches that lag behind the writes.
const CATCH_UP_WAIT_MAX: Duration = Duration::from_secs(10);

/// The cluster, the scheduler and the recorded state of one scenario: what step functions act on.
#[derive(Debug, cucumber::World)]
#[world(init = Self::refuse_world_without_case)]
pub struct World {
    /// Kubernetes client with administrator rights.
    pub(crate) api: Api,
    /// A cache of the objects that steps read, kept up to date by watches.
    pub(crate) view: ObservedCluster,
    cluster: ScenarioCluster,
    /// The scheduler under test.
    target: Target,
    /// How durations in the feature are scaled on this cluster.
    time_scale: TimeScale,
    /// The feature gates of a real cluster. A scheduler gets no others: it would wait for APIs that
    /// the cluster does not serve.
    cluster_gates: FeatureGates,
    scheduler: WorldScheduler,
    /// The number of the write, counted from 1, before which the scheduler is killed independently
    /// of the scenario's steps.
    crash_before_write: Option<u32>,
    /// Location of the last step that kills the scheduler before a write, and how often the
    /// scheduler had been killed before that step.
    expected_crash: Option<(String, usize)>,
    /// The audit that checks every write; `None` until the scheduler has started.
    audit: Option<Audit>,
    case: Case,
    /// The texts of the scheduler's configuration that steps have set.
    configuration_texts: Vec<String>,
    /// Submitted objects by workload name, so that a step can delete and resubmit them.
    submitted: BTreeMap<String, Vec<Value>>,
    /// API paths of objects that steps deleted.
    deleted: BTreeSet<String>,
    /// The objects that were last written to the target's own queue API; empty if the target reads
    /// KAI's queues.
    last_synced: Vec<Value>,
    /// What the target's APIs cannot express and the scenario needs.
    unsupported: Option<Unsupported>,
    /// Periodic submissions of workloads by name; `None` once a step has ended the submission.
    streams: BTreeMap<String, Option<JoinHandle<anyhow::Error>>>,
    /// Line number of the step that runs now.
    step_line: usize,
    /// What the assertion of the current step found when it last did not hold.
    last_mismatch: Option<String>,
    /// The texts that snapshot steps have produced so far.
    snapshot_parts: Vec<String>,
    /// Claims that were not judged so far, because they are not about behaviour.
    unjudged_claims: Vec<(ClaimKind, UnjudgedClaim)>,
    /// The number of writes and the time when the cluster last settled.
    last_settled: Option<(u64, Instant)>,
}

#[derive(Debug)]
enum WorldScheduler {
    /// The scheduler starts when time passes for the first time.
    NotStarted(Box<Config>),
    /// The scheduler was started; it may have been stopped or killed since.
    Started(Box<SchedulerUnderTest>),
    /// The scenario runs without a scheduler.
    Absent,
}

/// The feature gates of Kubernetes that a case requires on this target: its own, and that of the
/// API in which the target's gangs are described.
pub(crate) fn required_feature_gates(case: &Case, target: &Target) -> BTreeSet<&'static str> {
    let mut gates = case.feature_gates();
    if case.required_capabilities().contains("gang") {
        gates.extend(target.gangs.feature_gate());
    }
    gates
}

/// The feature gates of a scheduler with profile `kube`: those that the case requires.
fn scheduler_feature_gates(case: &Case) -> schedlab_scheduler::FeatureGates {
    let gates = case.feature_gates();
    schedlab_scheduler::FeatureGates {
        generic_workload: gates.contains("GenericWorkload"),
        topology_aware: gates.contains("TopologyAwareWorkloadScheduling"),
    }
}

impl World {
    /// A world with an empty emulated cluster, for one case. It uses the current runtime.
    pub(crate) async fn new_emulated(
        case: &Case,
        target: &Target,
        seed: u64,
        gates: FeatureGates,
    ) -> anyhow::Result<Self> {
        let cluster = ScenarioCluster::Emulated(EmulatedCluster::start(seed, gates));
        Self::with_cluster(cluster, case, target, seed, TimeScale::default()).await
    }

    /// Like [`Self::new_emulated`], with the scheduler of this program, for a cluster whose time
    /// begins at `time`.
    pub(crate) async fn new_emulated_at(
        case: &Case,
        time: jiff::Timestamp,
    ) -> anyhow::Result<Self> {
        let target = Target::ours();
        let gates = FeatureGates::default().with_enabled(required_feature_gates(case, &target));
        let cluster = ScenarioCluster::Emulated(EmulatedCluster::start_at(time, LIVE_SEED, gates));
        Self::with_cluster(cluster, case, &target, LIVE_SEED, TimeScale::default()).await
    }

    /// A world with a tenant of a real cluster, for one case. It uses the current runtime.
    pub(crate) async fn new_on_real_cluster(
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
        let mut api = Api::new(cluster.cluster_client());
        for object in target.scenario_objects()? {
            api.create(&object).await.with_context(|| format!("target {}", target.name))?;
        }
        let view = match &cluster {
            ScenarioCluster::Emulated(emulated) => {
                ObservedCluster::watch_store_in_process(emulated.emulator())?
            }
            ScenarioCluster::Real(_) => ObservedCluster::start_watches(&api).await?,
        };
        let config = Config {
            feature_gates: scheduler_feature_gates(case),
            ..target.scheduler_config(seed)
        };
        Ok(Self {
            api,
            view,
            cluster,
            target: target.clone(),
            time_scale,
            cluster_gates: FeatureGates::default(),
            scheduler: WorldScheduler::NotStarted(Box::new(config)),
            crash_before_write: None,
            expected_crash: None,
            audit: None,
            case: case.clone(),
            step_line: case.location.line,
            configuration_texts: Vec::new(),
            submitted: BTreeMap::new(),
            deleted: BTreeSet::new(),
            last_synced: Vec::new(),
            unsupported: None,
            streams: BTreeMap::new(),
            last_mismatch: None,
            snapshot_parts: Vec::new(),
            unjudged_claims: Vec::new(),
            last_settled: None,
        })
    }

    /// Sets the feature gates of the real cluster that the scenario runs on.
    pub(crate) fn set_cluster_gates(&mut self, gates: &FeatureGates) {
        self.cluster_gates = gates.clone();
    }

    fn refuse_world_without_case() -> anyhow::Result<Self> {
        anyhow::bail!("a World is created by the runner, for one case")
    }

    /// Lets a duration of the feature pass on the cluster's clock, after scaling it.
    pub(crate) async fn run_for(&mut self, time: Duration) -> anyhow::Result<()> {
        self.wait_for_time(self.time_scale.scaled_wait(time)).await
    }

    /// Lets the scheduler run this number of cycles.
    pub(crate) async fn run_for_cycles(&mut self, cycles: u32) -> anyhow::Result<()> {
        self.wait_for_time(self.cycle_period() * cycles).await
    }

    /// Lets an unscaled duration pass, without starting the scheduler.
    ///
    /// # Errors
    /// The cluster is gone or a periodic submission has failed.
    pub async fn pass_unscaled_time(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while self.next_change_before(end).await? {}
        Ok(())
    }

    async fn wait_for_time(&mut self, time: Duration) -> anyhow::Result<()> {
        self.wait_until_scheduler_is_up().await?;
        let end = Instant::now() + time;
        while self.next_change_before(end).await? {}
        self.cluster.wait_for_two_cycles().await;
        Ok(())
    }

    /// Processes the watch events of all writes that were made until now.
    pub(crate) async fn catch_up_with_watches(&mut self) -> anyhow::Result<()> {
        self.check_streams().await?;
        self.view.process_available_events().await?;
        let Some(marks) = self.cluster.watermarks() else { return Ok(()) };
        let end = Instant::now() + CATCH_UP_WAIT_MAX;
        while !self.view.has_reached_watermarks(&marks) {
            if !self.next_change_before(end).await? {
                break;
            }
        }
        self.view.process_available_events().await
    }

    /// Waits for one watch event and processes it. Returns `false` if none came before `end`, or if
    /// the scheduler exited by itself.
    async fn next_change_before(&mut self, end: Instant) -> anyhow::Result<bool> {
        self.check_streams().await?;
        let ended = self.wait_for_scheduler_end();
        tokio::select! {
            biased;
            taken = self.view.process_next_event() => taken.map(|()| true),
            () = ended => Ok(false),
            () = tokio::time::sleep_until(end) => Ok(false),
        }
    }

    /// Waits until nothing changes any more and no pod is starting or terminating.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<()> {
        self.wait_until_scheduler_is_up().await?;
        if self.is_unchanged_since_settled() {
            return Ok(());
        }
        let end = Instant::now() + self.transition_wait_max();
        let idle_wait_max = self.idle_wait_max();
        loop {
            let settled = self.cluster.settle(idle_wait_max).await;
            // Components of another scheduler may write all the time.
            if settled.is_err() && self.target.own_times().is_some() {
                self.catch_up_with_watches().await?;
                break;
            }
            settled.with_context(|| self.last_writes_text())?;
            let writes = self.cluster.write_count();
            self.catch_up_with_watches().await?;
            // A component may have written while the watches caught up.
            let goes_on = self.is_on_real_cluster() && writes != self.cluster.write_count();
            let moves =
                (self.has_pods_in_transition() || goes_on) && self.scheduler_exit_error().is_none();
            if !moves || Instant::now() >= end {
                break;
            }
            if !goes_on {
                self.next_change_before(end).await?;
            }
        }
        if let (Some(audit), true) = (&self.audit, self.is_scheduler_running()) {
            audit.check_at_rest(self.cluster.cluster_time());
        }
        self.last_settled = Some((self.cluster.write_count(), Instant::now()));
        Ok(())
    }

    /// How long pods may take to start or terminate. With a scheduler that schedlab does not
    /// configure: what the scenario's pods take, and its patience; a pod that it bound too early
    /// would otherwise be waited for.
    fn transition_wait_max(&self) -> Duration {
        let usual = self.time_scale.scaled_duration(TRANSITION_WAIT_MAX);
        match self.target.own_times() {
            None => usual,
            Some(times) => {
                let longest = self.time_scale.scaled_duration(self.case.longest_wait());
                usual.min(longest + times.patience())
            }
        }
    }

    /// How long the scheduler may keep writing while the cluster should settle.
    fn idle_wait_max(&self) -> Duration {
        match (self.is_on_real_cluster(), self.target.own_times()) {
            (false, _) => IDLE_WAIT_MAX,
            (true, None) => IDLE_WAIT_MAX_REAL,
            (true, Some(times)) => IDLE_WAIT_MAX_REAL.min(2 * times.patience()),
        }
    }

    /// Whether nothing has been written since the cluster last settled. In virtual time the clock
    /// must not have moved either, because a scheduling cycle may have been due.
    fn is_unchanged_since_settled(&self) -> bool {
        match (&self.cluster, self.last_settled) {
            (_, None) => false,
            (ScenarioCluster::Emulated(_), rest) => {
                rest == Some((self.cluster.write_count(), Instant::now()))
            }
            (ScenarioCluster::Real(_), Some((writes, _))) => writes == self.cluster.write_count(),
        }
    }

    /// How long the writes of one scheduling decision may be spread out; zero in virtual time.
    pub(crate) fn write_burst_window(&self) -> Duration {
        if self.is_on_real_cluster() { WRITE_BURST_REAL } else { Duration::ZERO }
    }

    /// Whether the cluster is a real one, which runs in real time.
    fn is_on_real_cluster(&self) -> bool {
        matches!(self.cluster, ScenarioCluster::Real(_))
    }

    /// A message about pods on the scenario's nodes that do not belong to the scenario; `None` if
    /// there are none.
    pub(crate) async fn foreign_pods_message(&self) -> Option<String> {
        self.cluster.foreign_pods_message().await
    }

    /// Deletes everything that the scenario created. Returns a line for each object that could not
    /// be deleted.
    pub(crate) async fn close(mut self) -> Vec<String> {
        // The error means that no scheduler runs, which is fine here.
        let _ = self.stop_scheduler();
        self.streams.values().flatten().for_each(JoinHandle::abort);
        self.cluster.delete_all_and_close().await
    }

    /// Whether a pod on a ready node is still starting or terminating.
    fn has_pods_in_transition(&self) -> bool {
        let on_its_way = |pod: Pod<'_>| match pod.current_phase() {
            // A restart may be minutes away.
            Phase::Starting => !pod.waits_for_restart(),
            Phase::Terminating => true,
            Phase::Pending | Phase::Gated | Phase::Running | Phase::Succeeded | Phase::Failed => {
                false
            }
        };
        self.view
            .current_pods()
            .any(|pod| on_its_way(pod) && self.view.is_node_ready(pod.node_name()))
    }

    /// The message about the first audit rule that was broken, with the history that shows it.
    pub(crate) fn first_audit_breach(&self) -> Option<String> {
        self.audit.as_ref()?.violations().first().map(ToString::to_string)
    }

    /// Lets the cluster settle at the end of a case. Returns a message about what is still wrong:
    /// an error, a broken audit rule, or a crash that did not happen.
    pub(crate) async fn end_of_case_failure(&mut self) -> Option<String> {
        if let Err(error) = self.settle().await {
            return Some(format!("at the end of the scenario: {error:#}"));
        }
        self.first_audit_breach().or_else(|| self.missed_crash_message())
    }

    /// When the cluster's clock started.
    pub(crate) fn start_time(&self) -> jiff::Timestamp {
        self.cluster.start_time()
    }

    /// How durations in the feature are scaled on this cluster.
    pub(crate) fn time_scale(&self) -> TimeScale {
        self.time_scale
    }

    /// Milliseconds on the cluster's clock since the scenario started.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        self.cluster.elapsed_millis()
    }

    /// How many whole seconds the containers of a pod have run.
    pub fn run_seconds(&self, pod: Pod<'_>) -> i64 {
        let start = pod.first_container_start().parse::<jiff::Timestamp>();
        start.map_or(0, |start| self.cluster.cluster_time().duration_since(start).as_secs().max(0))
    }

    /// The emulator in this process; `None` on a real cluster.
    pub(crate) fn emulator(&self) -> Option<&schedlab_emulator::Emulator> {
        self.cluster.emulator()
    }

    /// The log entries of all writes so far.
    pub(crate) fn write_log(&self) -> Vec<Arc<LogEntry>> {
        self.cluster.write_log()
    }

    /// Every write as one line, so that two runs can be compared.
    pub(crate) fn history_lines(&self) -> Vec<String> {
        let line = |entry: &Arc<LogEntry>| {
            format!("{} {} {:?} {}", entry.time, entry.manager, entry.kind, entry.object)
        };
        self.cluster.write_log().iter().map(line).collect()
    }

    /// The last ten writes, for a message that the cluster does not settle.
    fn last_writes_text(&self) -> String {
        let log = self.cluster.write_log();
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
