//! The main loop: watch events update the cache; when a cycle is due, the cache becomes a snapshot,
//! the snapshot a plan, and the plan API requests.

mod action_log;
pub mod health;
mod inputs;
pub mod leader_election;
pub mod metrics;
mod report;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::FutureExt as _;
use kube::Client;
use schedlab_scheduler_core::{
    Plan, SearchMemory, framework::KeptSession, model::Time, schedule, schedule_kept,
};
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, Level, debug, info, info_span};

use action_log::ActionLog;
use inputs::Input;
use metrics::{Metrics, Stopwatch};

use crate::{
    api::{ApiClient, ApiError},
    apply::{Applier, ApplyOutcome},
    binder,
    cache::ClusterCache,
    concurrency::WriteLimiter,
    config::{Clock, Component, Config, Flavor, IdlePolicy, RunUntil},
    logging::millis,
    podgrouper::{self, PodGrouper},
    progress::CycleTimings,
    records::ObjectKey,
    snapshot_builder::SnapshotBuilder,
    trace::TracedObserver,
    usage::{UsageHistory, UsageSource},
    watch::{Kind, OptionalKinds, Watched as _, Watches},
};

/// Number of repetitions of a plan that debug builds verify one by one; after them, every 60th
/// repetition is verified.
const VERIFIED_REPEATS: u64 = 60;

/// Maximum time between two cycles if there is usage history, with which the order of queues
/// changes over time.
const USAGE_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum wait for the last write when the scheduler stops.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the scheduler until the future is dropped. Returns only on errors at the start.
///
/// # Errors
/// The API server cannot be reached, or refuses a list that the scheduler needs.
pub async fn run(client: Client, config: Config, now: Clock) -> anyhow::Result<()> {
    run_components(client, config, now, None, std::future::pending()).await
}

/// Like [`run`], but reports cycles to `metrics`, and ends soon after `stop`: it then writes the
/// rest of the usage history.
///
/// # Errors
/// As [`run`].
pub async fn run_until(
    client: Client,
    config: Config,
    now: Clock,
    metrics: Option<Arc<Metrics>>,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    run_components(client, config, now, metrics, stop).await
}

/// Runs the configured components until one of them ends; in single-cycle mode one after the other.
async fn run_components(
    client: Client,
    config: Config,
    now: Clock,
    metrics: Option<Arc<Metrics>>,
    stop: impl Future<Output = ()> + Send,
) -> anyhow::Result<()> {
    if !config.runs_cycles() && !config.runs(Component::Binder) {
        stop.await;
        return Ok(());
    }
    let api = ApiClient::new(client, config.scheduler_name.clone());
    if !config.executes_bind_requests() {
        return run_loop(api, config, now, metrics, stop).boxed().await;
    }
    if !config.runs_cycles() {
        let binding = binder::run(api, &config, now).boxed();
        return tokio::select! { biased; () = stop => Ok(()), done = binding => done };
    }
    let stop = stop.shared();
    let clock = Clock::clone(&now);
    let deciding = run_loop(api.clone(), config.clone(), clock, metrics, stop.clone()).boxed();
    let binding = binder::run(api, &config, now).boxed();
    match config.run_until {
        RunUntil::Stopped => {
            tokio::select! {
                biased;
                done = deciding => done,
                done = binding => done,
            }
        }
        RunUntil::FirstCycle => {
            deciding.await?;
            tokio::select! { biased; () = stop => Ok(()), done = binding => done }
        }
    }
}

async fn run_loop(
    api: ApiClient,
    config: Config,
    now: Clock,
    metrics: Option<Arc<Metrics>>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(stop);
    // A server that accepts connections and does not respond is waited for until `stop`.
    tokio::select! {
        biased;
        () = &mut stop => return Ok(()),
        listed = check_listable(&api, config.flavor) => listed?,
    }
    let mut scheduler = Box::new(Scheduler::new(api, config, now, metrics));
    tokio::select! {
        biased;
        () = stop => {}
        done = scheduler.run() => return done,
    }
    scheduler.save_usage().await;
    Ok(())
}

/// Checks that all watched kinds can be listed.
async fn check_listable(api: &ApiClient, flavor: Flavor) -> anyhow::Result<()> {
    for kind in Kind::watched(flavor) {
        match api.get(&format!("{}?limit=1", kind.path())).await {
            // A kind without definition is retried by its watch.
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list {}", kind.path()));
            }
        }
    }
    Ok(())
}

/// The kinds that are watched once pods use `need`; those that are always watched for `None`.
fn watched_kinds(flavor: Flavor, need: Option<OptionalKinds>) -> impl Iterator<Item = Kind> {
    Kind::watched(flavor).iter().copied().filter(move |kind| kind.need() == need)
}

/// A running scheduler.
struct Scheduler {
    api: ApiClient,
    config: Config,
    now: Clock,
    metrics: Option<Arc<Metrics>>,
    watches: Watches,
    /// The optional kinds that pods use so far.
    active_needs: Vec<OptionalKinds>,
    cache: ClusterCache,
    /// Kinds that have been listed. No cycle runs before all watched kinds have been.
    listed: BTreeSet<Kind>,
    grouper: PodGrouper,
    /// Limits the writes of the pod grouper and of group status.
    limiter: WriteLimiter,
    applier: Applier,
    past: UsageSource,
    snapshot_builder: SnapshotBuilder,
    /// What the last decision derived from the snapshot.
    kept: KeptSession,
    /// The failed searches of earlier cycles.
    search_memory: SearchMemory,
    /// Revision of the cache that the snapshot was built from.
    built_revision: Option<u64>,
    last_cycle: Option<Instant>,
    cycle_due: Option<Instant>,
    /// When the pods of undecoded watch events are decoded.
    decode_at: Option<Instant>,
    idle: Option<IdlePeriod>,
    /// Reservation pods that were idle in the last cycle, if this scheduler does not delete such
    /// pods.
    idle_reservations: BTreeSet<ObjectKey>,
}

/// A period after a cycle that changed and wrote nothing. Until the next input or the end of the
/// period, further cycles would repeat its plan.
#[derive(Debug)]
struct IdlePeriod {
    plan: Plan,
    until: Option<Instant>,
    /// Number of repetitions of the plan so far.
    repeats: u64,
}

impl IdlePeriod {
    /// Whether a debug build verifies this repetition: at first each one, later one of 60, since an
    /// idle period may last for days.
    fn should_verify(&self) -> bool {
        self.repeats <= VERIFIED_REPEATS || self.repeats.is_multiple_of(VERIFIED_REPEATS)
    }
}

impl Scheduler {
    fn new(api: ApiClient, config: Config, now: Clock, metrics: Option<Arc<Metrics>>) -> Self {
        let own =
            config.usage_window.map(|window| UsageHistory::new(window, config.usage_half_life));
        let database = config.usage_database.clone();
        let pool = config.node_pool.as_ref().map(|pool| &*pool.value);
        let clock = Clock::clone(&now);
        let past = UsageSource::new(&api, own, database, pool, move || clock());
        if let Some(metrics) = &metrics {
            metrics.set_usage_history(past.history_if_only_source());
        }
        Self {
            watches: Watches::start(&api.client, watched_kinds(config.flavor, None)),
            cache: ClusterCache::new(&config.scheduler_name)
                .with_flavor(config.flavor)
                .with_feature_gates(&config)
                .with_pool(config.node_pool.clone())
                .with_workers_only(config.restrict_node_scheduling),
            active_needs: Vec::new(),
            listed: BTreeSet::new(),
            grouper: PodGrouper::new(&config),
            limiter: WriteLimiter::with_limit(config.writes_at_once),
            applier: Applier::new(api.clone(), &config),
            past,
            snapshot_builder: SnapshotBuilder::from_config(&config),
            kept: KeptSession::default(),
            search_memory: SearchMemory::default(),
            built_revision: None,
            last_cycle: None,
            cycle_due: None,
            decode_at: None,
            idle: None,
            idle_reservations: BTreeSet::new(),
            api,
            config,
            now,
            metrics,
        }
    }

    /// Runs cycles until the configured last one.
    async fn run(&mut self) -> anyhow::Result<()> {
        self.load_usage().await?;
        loop {
            match self.next_input().await {
                Input::Watch(event) => self.handle_watch_event(event),
                Input::Owner(event) => self.handle_owner_event(event),
                Input::Usage => self.handle_usage_response(),
                Input::CycleDue => {
                    let number = self.config.progress.borrow().cycles + 1;
                    self.run_cycle().instrument(info_span!("cycle", number)).await;
                }
            }
            if self.config.run_until == RunUntil::FirstCycle && self.last_cycle.is_some() {
                return Ok(());
            }
        }
    }

    async fn run_cycle(&mut self) {
        let started = Instant::now();
        self.last_cycle = Some(started);
        self.cycle_due = None;
        let now = Time((self.now)().as_millisecond());
        if self.idle.as_ref().is_some_and(|rest| rest.until.is_none_or(|until| started < until)) {
            self.repeat_cycle(started, now);
            return;
        }
        let before = self.api.request_count();
        let grouped = self.group_pods(now).await;
        let mut timings = CycleTimings { group: started.elapsed(), ..CycleTimings::default() };
        self.cache.update_bind_backoffs(now);
        self.refresh_snapshot(now);
        let refreshed = Instant::now();
        timings.refresh = (refreshed - started).saturating_sub(timings.group);
        let mut stopwatch = Stopwatch::default();
        let plan = self.decide_plan(&mut stopwatch);
        timings.decide = refreshed.elapsed();
        let decided = Instant::now();
        let mut outcome = self.apply_plan(&plan).await;
        timings.apply = decided.elapsed();
        let applied = Instant::now();
        let uses = self.usage_by_queue_name(&plan.queues);
        // If the plan was not applied completely, the next cycle reports the usage.
        let is_done = self.config.runs(Component::Scheduler) && outcome == ApplyOutcome::default();
        let after = is_done.then(|| self.usage_by_queue_name(&plan.queues_after));
        let marked = if outcome.in_doubt { Ok(()) } else { self.write_group_annotations().await };
        let capacity = plan.total_shared.at_least_zero();
        let uses_after = after.as_ref().unwrap_or(&uses);
        let queues_reported = self.report_queues(capacity, &uses, uses_after, now).await;
        let groups_reported = self.report_group_resources(is_done.then_some(&plan)).await;
        for failed in
            [grouped, marked, queues_reported, groups_reported].into_iter().filter_map(Result::err)
        {
            outcome.retry = true;
            outcome.failure = Some(failed.to_string());
        }
        outcome.retry |= self.report_idle_reservations();
        (timings.report, timings.whole) = (applied.elapsed(), started.elapsed());
        self.report_progress(&plan, &outcome, &uses, timings);
        self.observe_metrics(&plan, &stopwatch, timings);
        self.log_cycle(&plan, timings);
        self.schedule_next_cycle(started, &plan, &outcome);
        let is_done =
            ApplyOutcome { waits_for_others: false, ..outcome } == ApplyOutcome::default();
        let is_quiet = self.api.request_count() == before && is_done;
        self.idle = is_quiet.then(|| self.idle_period_after(started, plan));
    }

    async fn apply_plan(&mut self, plan: &Plan) -> ApplyOutcome {
        if !self.config.runs(Component::Scheduler) {
            return ApplyOutcome::default();
        }
        self.applier.apply(&mut self.cache, &self.snapshot_builder.built, plan).await
    }

    fn decide_plan(&mut self, stopwatch: &mut Stopwatch) -> Plan {
        let changes = self.snapshot_builder.take_changes();
        let memory = &mut self.search_memory;
        let snapshot = &self.snapshot_builder.built.snapshot;
        let (profile, kept) = (&self.config.profile, &mut self.kept);
        let is_measured = self.metrics.is_some() || tracing::enabled!(Level::DEBUG);
        let mut log = ActionLog::new(stopwatch);
        if let Some(trace) = &self.config.trace {
            trace.begin_cycle(snapshot.now);
            let mut observer = TracedObserver { inner: &mut log, trace };
            schedule_kept(kept, memory, &changes, snapshot, profile, &mut observer)
        } else if is_measured {
            schedule_kept(kept, memory, &changes, snapshot, profile, &mut log)
        } else {
            schedule_kept(kept, memory, &changes, snapshot, profile, &mut ())
        }
    }

    /// Logs a cycle: at level `info` only if it made decisions, since an idle scheduler may run a
    /// cycle every second.
    fn log_cycle(&self, plan: &Plan, timings: CycleTimings) {
        let pods = self.snapshot_builder.built.snapshot.pods.len();
        let (decisions, waiting_groups) = (plan.decisions.len(), plan.waiting.len());
        let duration_ms = millis(timings.whole);
        if decisions == 0 {
            debug!(pods, decisions, waiting_groups, duration_ms, "cycle ended");
        } else {
            info!(pods, decisions, waiting_groups, duration_ms, "cycle ended");
        }
    }

    /// Repeats the last plan as a cycle, without computing it.
    fn repeat_cycle(&mut self, started: Instant, now: Time) {
        let checked = self.idle.as_mut().is_some_and(|rest| {
            rest.repeats += 1;
            rest.should_verify()
        });
        debug_assert!(
            !checked || self.plan_is_unchanged(now),
            "the plan changed over time before its deadline"
        );
        self.config.progress.send_modify(|status| status.cycles += 1);
        if self.config.idle_policy == IdlePolicy::EveryPeriod {
            self.schedule_cycle_at(started);
        }
        if let Some(until) = self.idle.as_ref().and_then(|rest| rest.until) {
            self.schedule_cycle_at(until);
        }
    }

    fn plan_is_unchanged(&mut self, now: Time) -> bool {
        let snapshot = &mut self.snapshot_builder.built.snapshot;
        snapshot.now = now;
        let mut plan = schedule(snapshot, &self.config.profile);
        self.idle.as_ref().is_some_and(|rest| {
            plan.requeue_after_millis = rest.plan.requeue_after_millis;
            plan == rest.plan
        })
    }

    /// The idle period after a cycle: until the deadline of the plan or the next update of usage.
    fn idle_period_after(&self, started: Instant, plan: Plan) -> IdlePeriod {
        let deadline = plan.requeue_after_millis.map(Duration::from_millis);
        let usage = self.past.is_configured().then_some(USAGE_INTERVAL);
        let times = deadline.into_iter().chain(usage).chain(self.requeue_after());
        let until = times.min().map(|time| started + time);
        IdlePeriod { plan, until, repeats: 0 }
    }

    fn requeue_after(&self) -> Option<Duration> {
        let own = self.grouper.requeue_after(&self.cache);
        let own = own.filter(|_| self.config.runs(Component::Podgrouper));
        let now = Time((self.now)().as_millisecond());
        let attempt = self.cache.next_bind_attempt(now);
        own.into_iter().chain(self.applier.requeue_after(now)).chain(attempt).min()
    }

    async fn group_pods(&mut self, now: Time) -> Result<(), ApiError> {
        if self.config.flavor == Flavor::Kube {
            return Ok(());
        }
        if !self.config.runs(Component::Podgrouper) {
            podgrouper::record_faults(&mut self.cache);
            return Ok(());
        }
        self.grouper.group(&self.api, &mut self.cache, now, &mut self.limiter).await
    }

    /// Writes the group annotation of pods that get it by no Binding.
    async fn write_group_annotations(&mut self) -> Result<(), ApiError> {
        if self.config.flavor == Flavor::Kube {
            return Ok(());
        }
        podgrouper::mark_pods(&self.api, &mut self.cache, &mut self.limiter).await
    }

    /// Applies the changes of the cache to the snapshot.
    fn refresh_snapshot(&mut self, now: Time) {
        if self.built_revision != Some(self.cache.revision) {
            self.snapshot_builder.refresh(&mut self.cache);
            self.built_revision = Some(self.cache.revision);
        }
        let snapshot = &mut self.snapshot_builder.built.snapshot;
        snapshot.now = now;
        self.past.apply_to(&mut snapshot.queues, now);
    }

    /// Loads the usage history of an earlier scheduler. A malformed history is reported and
    /// replaced.
    async fn load_usage(&mut self) -> anyhow::Result<()> {
        let read = self.past.load(&self.api).await;
        if let Some(unreadable) = read.context("cannot read the usage history")? {
            let message = unreadable.to_string();
            self.config.progress.send_modify(|status| status.last_failure = Some(message));
        }
        Ok(())
    }

    /// Writes the rest of the usage history when the scheduler stops. A failure is reported and
    /// does no harm, since a cluster that is shut down may have lost its API server.
    async fn save_usage(&mut self) {
        let now = Time((self.now)().as_millisecond());
        let kept = timeout(LAST_WRITE_TIMEOUT, self.past.flush(&self.api, now)).await;
        let kept = kept.context("no response in time").and_then(|kept| Ok(kept?));
        if let Err(error) = kept.context("cannot write the last minute of the usage history") {
            let message = format!("{error:#}");
            self.config.progress.send_modify(|status| status.last_failure = Some(message));
        }
    }

    /// Schedules the next cycle, as plan and outcome of the last one require.
    fn schedule_next_cycle(&mut self, started: Instant, plan: &Plan, outcome: &ApplyOutcome) {
        if outcome.in_doubt {
            self.watches.start_or_restart_kind(&self.api.client, Kind::Pod);
            self.listed.remove(&Kind::Pod);
            return;
        }
        let changed = self.built_revision != Some(self.cache.revision);
        if self.config.idle_policy == IdlePolicy::EveryPeriod || outcome.retry || changed {
            self.schedule_cycle_at(started);
        }
        if let Some(millis) = plan.requeue_after_millis {
            self.schedule_cycle_at(started + Duration::from_millis(millis));
        }
        if self.past.is_configured()
            && (!plan.waiting.is_empty() || self.past.has_unwritten_history())
        {
            self.schedule_cycle_at(started + USAGE_INTERVAL);
        }
        if let Some(time) = self.requeue_after() {
            self.schedule_cycle_at(started + time);
        }
    }
}
