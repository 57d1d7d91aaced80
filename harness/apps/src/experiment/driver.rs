//! Replays a trace: an emulated fleet, a scheduler, and a workload driver that submits jobs on
//! arrival, removes those that leave, and restarts evicted ones. With our scheduler, all of it runs
//! on one paused runtime whose clock jumps to the next event; with a scheduler that is a program of
//! its own, in real time, and the times of the trace are divided by a speed. The audit runs on its
//! own thread.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use schedlab_api::{Value, api_versions};
use schedlab_audit::{Audit, BackgroundAudit, Rules};
use schedlab_clusters::cleanup::Run;
use schedlab_conformance::schedulers::{StandaloneScheduler, StandaloneSetup};
use schedlab_emulator::{
    Emulator, KubeletDefaults, Options as ClusterOptions,
    clock::Clock,
    store::{DeleteOptions, Key, Op, Resource, Write},
};
use schedlab_scheduler::{Config, Flavor, IdlePolicy};
use tokio::{sync::Notify, time::Instant};

use super::{
    AuditMode, Experiment, Measurement, Monitor, Outcome, ProcessScheduler, SimulatedScheduler,
    figures::build_figures,
    metrics::{DriverEvent, Metrics, TimeFrame},
    objects::{self, TargetScheduler},
};
use crate::inputs::{JobEnd, Trace};
use schedlab_conformance::history::write_of_entry;

/// When no action is left and no running pod ends, the simulation is over once the cluster has not
/// changed for this long.
const QUIET_AFTER: Duration = Duration::from_mins(5);

/// How much of its log the emulator's store keeps. A real API server keeps as much; since time
/// advances only when all watches are caught up, less would do.
const LOG_RETENTION: Duration = Duration::from_mins(5);

/// How many writes pass between two reports of the progress.
const WRITES_PER_REPORT: u32 = 64;

/// How long the writes of a cycle may take in real time, as on a real cluster.
const CYCLE_WRITE_LIMIT: Duration = Duration::from_secs(5);

/// How often a driver in real time checks for a request to stop and for the end of the scheduler.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run_experiment(
    experiment: &Experiment<'_>,
    measurement: &Measurement,
) -> anyhow::Result<Outcome> {
    let Experiment { trace, scheduler } = experiment;
    match scheduler {
        SimulatedScheduler::Ours(config) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .context("cannot create a runtime for the simulation")?;
            let config = Config { idle_policy: IdlePolicy::UntilEvent, ..Config::clone(config) };
            let setup = DriverSetup::new(trace, config, Pace::Virtual, measurement);
            runtime.block_on(async { setup.start_in_process()?.measure().await })
        }
        SimulatedScheduler::Process { scheduler, seed } => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("cannot create a runtime for the simulation")?;
            let run = Run::begin("simulate")?;
            let trace = trace.at_speed(scheduler.speed);
            let pace = Pace::Real {
                speed: scheduler.speed,
                quiet_after: scheduler.target.real_times().two_attempts(),
            };
            let setup = DriverSetup::new(&trace, scheduler.config(*seed), pace, measurement);
            runtime.block_on(async {
                let outcome = match setup.start_process(scheduler, &run).await {
                    Ok(driver) => driver.measure().await,
                    Err(error) => Err(error),
                };
                // What is left is found by `schedlab clean`.
                run.end().await;
                outcome
            })
        }
    }
}

/// How the time of an experiment passes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// The clock jumps to the next event.
    Virtual,
    /// Real time.
    Real {
        /// Seconds of the trace in a second.
        speed: f64,
        /// Time without any placement after which the cluster is at rest.
        quiet_after: Duration,
    },
}

/// The audit of all writes, on its own thread.
struct Auditing {
    audit: Audit,
    background: BackgroundAudit,
}

impl Auditing {
    fn start(rules: Rules, scheduler: &str, emulator: &Emulator) -> anyhow::Result<Self> {
        let audit = Audit::new(rules, scheduler);
        let background =
            BackgroundAudit::start_thread(&audit).context("cannot start the audit thread")?;
        let mut observe = background.write_observer();
        emulator.observe_writes(Box::new(move |entry| observe(write_of_entry(entry))));
        Ok(Self { audit, background })
    }

    /// Returns the rules that were broken. A cluster that is at rest is checked at that time.
    fn finish(self, at_rest: Option<Timestamp>) -> Vec<String> {
        self.background.finish_audit();
        if let Some(now) = at_rest {
            self.audit.check_at_rest(now);
        }
        self.audit.violations().iter().map(ToString::to_string).collect()
    }
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No job is left.
    Complete,
    /// A stop was requested.
    Stopped,
}

struct WorkloadDriver<'a> {
    trace: &'a Trace,
    scheduler: TargetScheduler,
    pace: Pace,
    emulator: Emulator,
    auditing: Option<Auditing>,
    monitor: Monitor,
    metrics: Arc<Mutex<Metrics>>,
    wake: Arc<Notify>,
    /// Pending actions, by the time at which they are due.
    action_queue: BinaryHeap<Reverse<(Duration, DriverAction)>>,
    attempts: Vec<u32>,
    origin: Instant,
    running: RunningScheduler,
}

/// The scheduler while it runs.
#[derive(Debug)]
enum RunningScheduler {
    InProcess(tokio::task::JoinHandle<anyhow::Result<()>>),
    Process(StandaloneScheduler),
}

impl RunningScheduler {
    /// Fails if the scheduler has ended.
    async fn check(&mut self) -> anyhow::Result<()> {
        match self {
            Self::InProcess(task) if task.is_finished() => {
                task.await??;
                anyhow::bail!("the scheduler stopped");
            }
            Self::InProcess(_) => Ok(()),
            Self::Process(process) => match process.exit_text() {
                Some(ended) => anyhow::bail!(ended),
                None => Ok(()),
            },
        }
    }
}

/// What a driver is made of before its scheduler runs.
struct DriverSetup<'a> {
    trace: &'a Trace,
    config: Config,
    pace: Pace,
    measurement: Measurement,
}

/// Why a driver woke up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    /// The cluster changed, or the driver has to check for a stop.
    Event,
    /// The next action is due.
    Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DriverAction {
    Submit(usize),
    Remove(usize),
}

impl<'a> DriverSetup<'a> {
    fn new(trace: &'a Trace, config: Config, pace: Pace, measurement: &Measurement) -> Self {
        Self { trace, config, pace, measurement: measurement.clone() }
    }

    /// Starts a cluster with our scheduler.
    fn start_in_process(self) -> anyhow::Result<WorkloadDriver<'a>> {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().context("a constant")?;
        let emulator = self.start_emulator(Clock::starting_at(epoch));
        let config = self.config.clone();
        let driver = self.driver(emulator.clone())?;
        let clock = emulator.clock().clone();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        let running = tokio::spawn(schedlab_scheduler::run(emulator.client(), config, now));
        Ok(driver(RunningScheduler::InProcess(running)))
    }

    /// Starts a cluster with a scheduler in processes of its own.
    async fn start_process(
        self,
        scheduler: &ProcessScheduler,
        run: &Run,
    ) -> anyhow::Result<WorkloadDriver<'a>> {
        let emulator = self.start_emulator(Clock::real());
        let config = self.config.clone();
        let driver = self.driver(emulator.clone())?;
        let clients = emulator.clone();
        let setup = StandaloneSetup {
            target: scheduler.target.clone(),
            config,
            connect: Arc::new(move || clients.client()),
            clock: emulator.clock().clone(),
            program_folder: scheduler.program_folder.clone(),
            run: run.clone(),
        };
        Ok(driver(RunningScheduler::Process(StandaloneScheduler::start(setup).await?)))
    }

    fn start_emulator(&self, clock: Clock) -> Emulator {
        let usual = KubeletDefaults::default();
        let termination = usual.termination.div_f64(self.pace.speed());
        Emulator::start(ClusterOptions {
            seed: self.config.seed,
            kubelet_defaults: KubeletDefaults { termination, ..usual },
            workload_kinds: false,
            log_retention: Some(LOG_RETENTION),
            ..ClusterOptions::with_clock(clock)
        })
    }

    /// Creates what exists before the scheduler. Returns the driver, which begins when it gets the
    /// running scheduler.
    fn driver(
        self,
        emulator: Emulator,
    ) -> anyhow::Result<impl FnOnce(RunningScheduler) -> WorkloadDriver<'a>> {
        let Self { trace, config, pace, measurement } = self;
        let flavor = config.flavor;
        let (rules, shares_gpus) = match flavor {
            Flavor::Kai => (Rules::kai(), true),
            Flavor::Kube => (Rules::kube(), false),
        };
        let rules = Rules { window: pace.cycle_write_limit(), ..rules };
        let scheduler = TargetScheduler { name: config.scheduler_name.clone(), shares_gpus };
        let Measurement { series_every, window_secs, resolution_secs, audit, monitor } =
            measurement;
        let speed = pace.speed();
        let frame = TimeFrame { series_every, window_secs, resolution_secs, speed };
        let metrics = Arc::new(Mutex::new(Metrics::new(trace, &scheduler, frame)));
        let wake = Arc::new(Notify::new());
        let auditing = match audit {
            AuditMode::On => Some(Auditing::start(rules, &scheduler.name, &emulator)?),
            AuditMode::Off => None,
        };
        observe_writes(&emulator, &metrics, &wake, &monitor);
        create_initial_objects(&emulator, trace, flavor)?;
        Ok(move |running| WorkloadDriver {
            trace,
            scheduler,
            pace,
            emulator,
            auditing,
            monitor,
            metrics,
            wake,
            action_queue: initial_actions(trace),
            attempts: vec![0; trace.jobs.len()],
            origin: Instant::now(),
            running,
        })
    }
}

impl Pace {
    /// How long the writes of a cycle may take.
    fn cycle_write_limit(self) -> Duration {
        match self {
            Self::Virtual => Duration::ZERO,
            Self::Real { .. } => CYCLE_WRITE_LIMIT,
        }
    }

    /// Seconds of the trace in a second of the cluster.
    fn speed(self) -> f64 {
        match self {
            Self::Virtual => 1.0,
            Self::Real { speed, .. } => speed,
        }
    }
}

impl WorkloadDriver<'_> {
    /// Runs to the end. Returns the figures.
    async fn measure(mut self) -> anyhow::Result<Outcome> {
        let end = self.run().await?;
        let now = self.emulator.clock().now();
        let is_exact = self.pace == Pace::Virtual;
        let at_rest = (end == End::Complete && is_exact).then_some(now);
        let breaches = self.auditing.take().map(|auditing| auditing.finish(at_rest));
        let mut metrics = self.lock_metrics();
        metrics.finish((end == End::Stopped).then_some(now));
        Ok(Outcome {
            figures: build_figures(self.trace, &metrics),
            breaches: breaches.unwrap_or_default(),
            is_partial: end == End::Stopped,
        })
    }

    /// Runs what is due at this time, unless something else happens before.
    async fn wait_and_run_due(&mut self, due: Instant) -> anyhow::Result<()> {
        match self.wait(Some(due)).await {
            Wake::Due => self.run_due_actions(),
            Wake::Event => Ok(()),
        }
    }

    async fn run(&mut self) -> anyhow::Result<End> {
        loop {
            if self.monitor.is_stopped() {
                return Ok(End::Stopped);
            }
            self.handle_events()?;
            self.running.check().await?;
            if let Some(Reverse((at, _))) = self.action_queue.peek() {
                self.wait_and_run_due(self.origin + *at).await?;
            } else if self.lock_metrics().finite > 0 {
                self.wait(None).await;
            } else if self.is_quiet_for_a_while().await {
                return Ok(End::Complete);
            }
        }
    }

    /// Waits for an event of the cluster, or until the next action is due.
    async fn wait(&self, due: Option<Instant>) -> Wake {
        let due = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let poll = async {
            match self.pace {
                Pace::Virtual => std::future::pending().await,
                Pace::Real { .. } => tokio::time::sleep(POLL_INTERVAL).await,
            }
        };
        tokio::select! {
            biased;
            () = self.wake.notified() => Wake::Event,
            () = due => Wake::Due,
            () = poll => Wake::Event,
        }
    }

    /// Whether the cluster does not change for a while. Returns early when something happens.
    async fn is_quiet_for_a_while(&self) -> bool {
        match self.pace {
            Pace::Virtual => {
                let before = self.emulator.revision();
                tokio::select! {
                    biased;
                    () = self.wake.notified() => false,
                    () = tokio::time::sleep(QUIET_AFTER) => self.emulator.revision() == before,
                }
            }
            // A scheduler reports pending pods again and again: only placements count.
            Pace::Real { quiet_after, .. } => {
                let before = self.lock_metrics().placements;
                if self.lock_metrics().has_ended() {
                    return true;
                }
                let end = Instant::now() + quiet_after;
                let is_quiet = || self.lock_metrics().placements == before;
                while Instant::now() < end && !self.monitor.is_stopped() && is_quiet() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                !self.monitor.is_stopped() && is_quiet()
            }
        }
    }

    /// Runs the actions that are due.
    fn run_due_actions(&mut self) -> anyhow::Result<()> {
        let now = self.origin.elapsed();
        while let Some(Reverse((at, act))) = self.action_queue.peek().copied() {
            if at > now {
                break;
            }
            self.action_queue.pop();
            match act {
                DriverAction::Submit(job) => self.submit_job(job)?,
                DriverAction::Remove(job) => self.remove_job(job)?,
            }
        }
        Ok(())
    }

    /// Handles the events that the metrics recorded for this driver.
    fn handle_events(&mut self) -> anyhow::Result<()> {
        let notes = std::mem::take(&mut self.lock_metrics().outbox);
        for note in notes {
            match note {
                DriverEvent::Finished(pod) => self.delete_pod(&pod)?,
                DriverEvent::Displaced(job) => {
                    self.attempts[job] += 1;
                    self.submit_job(job)?;
                }
            }
        }
        Ok(())
    }

    fn submit_job(&mut self, job_index: usize) -> anyhow::Result<()> {
        let job = &self.trace.jobs[job_index];
        for (resource, object) in
            objects::job_objects(job, self.attempts[job_index], &self.scheduler)
        {
            if resource == objects::pods_resource() {
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                self.lock_metrics().register_pod(name.unwrap_or_default(), job_index);
            }
            let created = self.emulator.create(&resource, object);
            created.with_context(|| format!("job {} cannot be submitted", job.name))?;
        }
        Ok(())
    }

    fn remove_job(&mut self, job_index: usize) -> anyhow::Result<()> {
        let job = &self.trace.jobs[job_index];
        let name = objects::job_name_of_attempt(job, self.attempts[job_index]);
        if job.pods == 1 {
            return self.delete_pod(&name);
        }
        (0..job.pods).try_for_each(|member| self.delete_pod(&format!("{name}-{member}")))
    }

    /// Deletes a pod without grace period; a missing pod is no error.
    fn delete_pod(&self, pod: &str) -> anyhow::Result<()> {
        let key = Key {
            resource: objects::pods_resource(),
            namespace: objects::NAMESPACE.into(),
            name: pod.into(),
        };
        let options = DeleteOptions { grace_secs: Some(0), ..DeleteOptions::default() };
        let delete = Write::new(key, Op::Delete(options), "simulate");
        match self.emulator.store().write(delete) {
            Ok(_) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("pod {pod} cannot be deleted")),
        }
    }

    fn lock_metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn observe_writes(
    emulator: &Emulator,
    metrics: &Arc<Mutex<Metrics>>,
    wake: &Arc<Notify>,
    monitor: &Monitor,
) {
    let (metrics, wake, monitor) = (Arc::clone(metrics), Arc::clone(wake), monitor.clone());
    let mut writes = 0_u32;
    emulator.observe_writes(Box::new(move |entry| {
        let mut metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.observe_entry(entry);
        if writes.is_multiple_of(WRITES_PER_REPORT) {
            monitor.report(metrics.progress());
        }
        writes = writes.wrapping_add(1);
        if !metrics.outbox.is_empty() || metrics.finite == 0 || monitor.is_stopped() {
            wake.notify_one();
        }
    }));
}

/// Creates what exists before the first job: CRDs, priority classes, queues, nodes.
fn create_initial_objects(
    emulator: &Emulator,
    trace: &Trace,
    flavor: Flavor,
) -> anyhow::Result<()> {
    let create = |group: &str, plural: &str, object: Value| {
        let what = object.pointer("/metadata/name").map(ToString::to_string).unwrap_or_default();
        emulator
            .create(&Resource::new(group, plural), object)
            .with_context(|| format!("{plural} {what} cannot be created"))
    };
    for class in schedlab_api::crds::priority_classes() {
        create("scheduling.k8s.io", "priorityclasses", class)?;
    }
    if flavor == Flavor::Kai {
        for kind in schedlab_api::crds::all_crds() {
            create("apiextensions.k8s.io", "customresourcedefinitions", kind)?;
        }
        for queue in &trace.queues {
            create(api_versions::SCHEDULING_GROUP, "queues", objects::queue_object(queue))?;
        }
    }
    for node in &trace.nodes {
        create("", "nodes", objects::node_object(node))?;
    }
    Ok(())
}

fn initial_actions(trace: &Trace) -> BinaryHeap<Reverse<(Duration, DriverAction)>> {
    let mut agenda = BinaryHeap::new();
    for (at, job) in trace.jobs.iter().enumerate() {
        let comes = Duration::from_secs_f64(job.arrives_secs);
        agenda.push(Reverse((comes, DriverAction::Submit(at))));
        match job.end {
            JobEnd::LeavesAfterSecs(secs) => {
                let leaves = comes + Duration::from_secs_f64(secs);
                agenda.push(Reverse((leaves, DriverAction::Remove(at))));
            }
            JobEnd::RunsSecs(_) | JobEnd::Never => {}
        }
    }
    agenda
}
