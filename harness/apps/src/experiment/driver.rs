//! Replays a trace: an emulated fleet, a scheduler, and a workload driver that submits jobs on
//! arrival, removes those that leave, and restarts evicted ones. All of it runs on one paused
//! runtime whose clock jumps to the next event; the audit runs on its own thread.

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
use schedlab_emulator::{
    Emulator, KubeletDefaults, Options as ClusterOptions,
    clock::Clock,
    store::{DeleteOptions, Key, Op, Resource, Write},
};
use schedlab_scheduler::{Config, Flavor, IdlePolicy};
use tokio::{sync::Notify, time::Instant};

use super::{
    AuditMode, Measurement, Monitor, Outcome,
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

pub(super) fn run_trace(
    trace: &Trace,
    config: Config,
    measurement: &Measurement,
) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot create a runtime for the simulation")?;
    runtime.block_on(async {
        let mut driver = WorkloadDriver::start(trace, config, measurement)?;
        let end = driver.run().await?;
        let now = driver.emulator.clock().now();
        let at_rest = (end == End::Complete).then_some(now);
        let breaches = driver.auditing.take().map(|auditing| auditing.finish(at_rest));
        let mut metrics = driver.lock_metrics();
        metrics.finish((end == End::Stopped).then_some(now));
        Ok(Outcome {
            figures: build_figures(trace, &metrics),
            breaches: breaches.unwrap_or_default(),
            is_partial: end == End::Stopped,
        })
    })
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
    emulator: Emulator,
    auditing: Option<Auditing>,
    monitor: Monitor,
    metrics: Arc<Mutex<Metrics>>,
    wake: Arc<Notify>,
    /// Pending actions, by the time at which they are due.
    action_queue: BinaryHeap<Reverse<(Duration, DriverAction)>>,
    attempts: Vec<u32>,
    origin: Instant,
    scheduler_task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DriverAction {
    Submit(usize),
    Remove(usize),
}

impl<'a> WorkloadDriver<'a> {
    fn start(trace: &'a Trace, config: Config, measurement: &Measurement) -> anyhow::Result<Self> {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().context("a constant")?;
        let clock = Clock::starting_at(epoch);
        let emulator = Emulator::start(ClusterOptions {
            seed: config.seed,
            kubelet_defaults: KubeletDefaults::default(),
            workload_kinds: false,
            log_retention: Some(LOG_RETENTION),
            ..ClusterOptions::with_clock(clock.clone())
        });
        let flavor = config.flavor;
        let (rules, shares_gpus) = match flavor {
            Flavor::Kai => (Rules::kai(), true),
            Flavor::Kube => (Rules::kube(), false),
        };
        let config = Config { idle_policy: IdlePolicy::UntilEvent, ..config };
        let scheduler = TargetScheduler { name: config.scheduler_name.clone(), shares_gpus };
        let Measurement { series_every, window_secs, audit, monitor } = measurement.clone();
        let frame = TimeFrame { series_every, window_secs };
        let metrics = Arc::new(Mutex::new(Metrics::new(trace, &scheduler, frame)));
        let wake = Arc::new(Notify::new());
        let auditing = match audit {
            AuditMode::On => Some(Auditing::start(rules, &scheduler.name, &emulator)?),
            AuditMode::Off => None,
        };
        observe_writes(&emulator, &metrics, &wake, &monitor);
        let driver = |schedules| Self {
            trace,
            scheduler,
            emulator: emulator.clone(),
            auditing,
            monitor,
            metrics,
            wake,
            action_queue: initial_actions(trace),
            attempts: vec![0; trace.jobs.len()],
            origin: Instant::now(),
            scheduler_task: schedules,
        };
        create_initial_objects(&emulator, trace, flavor)?;
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        let running = schedlab_scheduler::run(emulator.client(), config, now);
        Ok(driver(tokio::spawn(running)))
    }

    async fn run(&mut self) -> anyhow::Result<End> {
        loop {
            if self.monitor.is_stopped() {
                return Ok(End::Stopped);
            }
            self.handle_events()?;
            if self.scheduler_task.is_finished() {
                (&mut self.scheduler_task).await??;
                anyhow::bail!("the scheduler stopped");
            }
            if let Some(Reverse((at, _))) = self.action_queue.peek() {
                let next = self.origin + *at;
                tokio::select! {
                    biased;
                    () = self.wake.notified() => continue,
                    () = tokio::time::sleep_until(next) => {}
                }
                self.run_due_actions()?;
            } else if self.lock_metrics().finite > 0 {
                self.wake.notified().await;
            } else if self.is_quiet_for_a_while().await {
                return Ok(End::Complete);
            }
        }
    }

    /// Whether the cluster does not change for a while. Returns early when something happens.
    async fn is_quiet_for_a_while(&self) -> bool {
        let before = self.emulator.revision();
        tokio::select! {
            biased;
            () = self.wake.notified() => false,
            () = tokio::time::sleep(QUIET_AFTER) => self.emulator.revision() == before,
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
