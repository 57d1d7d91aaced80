//! The scheduler of a world: configuration, start, stop and crashes.

use std::path::Path;

use schedlab_audit::{Audit, BoundLevels, Rules};
use schedlab_scheduler::admission::{self, Admission, PatchedPods, WebhookService};
use schedlab_scheduler::{Config, Flavor, IdlePolicy, Progress, explain::OutputFormat};

use super::{Scheduler, World};
use crate::schedulers::{
    AfterKill, InProcessScheduler, NoScheduler, ProcessSpec, SchedulerControl as _,
    SchedulerProcess, SchedulerUnderTest, SuspendGuard,
};
use schedlab_clusters::scheduler_source::SchedulerSource;

impl World {
    /// Starts the scheduler unless it has started already or the scenario has none.
    pub(crate) fn ensure_scheduler_started(&mut self) {
        self.last_settled =
            self.last_settled.filter(|_| !matches!(self.scheduler, Scheduler::NotStarted(_)));
        if let Scheduler::NotStarted(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.new_scheduler(config);
            if let Some(write) = self.crash_before_write.take() {
                scheduler.kill_before_write(write, AfterKill::Restart);
            }
            scheduler.start();
            self.scheduler = Scheduler::Started(Box::new(scheduler));
        }
    }

    /// Kills the scheduler once, before this write, and restarts it, independent of the scenario's
    /// steps.
    pub(crate) fn crash_before_write(&mut self, write: u32) {
        self.crash_before_write = Some(write);
    }

    /// Builds the scheduler under test, not started yet, with the audit for its flavor.
    fn new_scheduler(&mut self, config: Config) -> SchedulerUnderTest {
        let mut config = self.time_scale.scale_config(config);
        if !self.is_real() && !cfg!(debug_assertions) {
            // A debug build runs every cycle and asserts that the extra cycles decide nothing new.
            config.idle_policy = IdlePolicy::UntilEvent;
        }
        let rules = match config.flavor {
            Flavor::Kai => Rules::kai(),
            Flavor::Kube => Rules::kube(),
        };
        let bounds = match (config.profile.uses_fair_shares, config.full_hierarchy_fairness) {
            (true, true) => BoundLevels::All,
            (true, false) => BoundLevels::LeafOnly,
            (false, _) => BoundLevels::None,
        };
        let rules = Rules { window: self.cluster.cycle_write_limit(), bounds, ..rules };
        let audit = Audit::new(rules, &config.scheduler_name);
        self.cluster.observe(&audit);
        self.cluster.set_period(config.period);
        self.audit = Some(audit.clone());
        let clock = self.cluster.clock();
        let killed = audit.clone();
        let on_kill = Box::new(move || killed.scheduler_killed(clock.now()));
        let door = self.cluster.connector(&config.scheduler_name);
        match (&self.target.source, self.cluster.real_cluster()) {
            (SchedulerSource::Installed(_) | SchedulerSource::Deployment(_), _) => {
                SchedulerUnderTest::Installed(Box::new(config))
            }
            (SchedulerSource::NoScheduler, _) => {
                SchedulerUnderTest::Nothing(Box::new(NoScheduler { config, is_started: false }))
            }
            (SchedulerSource::Process(_), Some(real_cluster)) => {
                let (folder, run) = real_cluster.new_scheduler_folder();
                let target = self.target.clone();
                let gates = self.case.feature_gates().into_iter();
                let gates: Vec<String> = gates.map(|gate| format!("{gate}=true")).collect();
                let programs = real_cluster.program_folder().map(Path::to_path_buf);
                let start = ProcessSpec {
                    connector: door,
                    config,
                    target,
                    feature_gates: gates.join(","),
                    program_folder: programs,
                    folder,
                    run,
                };
                SchedulerUnderTest::Process(Box::new(SchedulerProcess::new(start, on_kill)))
            }
            (SchedulerSource::Ours, _) | (SchedulerSource::Process(_), None) => {
                let ours = InProcessScheduler::new(door, config, on_kill);
                if self.is_real() {
                    let status = ours.cycles();
                    audit.follow_cycles(Box::new(move || status.borrow().cycles));
                }
                self.cluster.follow_cycles(ours.cycle_ticks());
                SchedulerUnderTest::InProcess(Box::new(ours))
            }
        }
    }

    /// In real time a step that creates several objects must look like one moment to an in-process
    /// scheduler: it is suspended until the guard is dropped.
    pub(super) fn suspend_scheduler(&self) -> Option<SuspendGuard> {
        match &self.scheduler {
            Scheduler::Started(scheduler) if self.is_real() => scheduler.suspend(),
            Scheduler::Started(_) | Scheduler::NotStarted(_) | Scheduler::Absent => None,
        }
    }

    /// The scheduler's configuration; an error once it has started.
    pub(crate) fn config_mut(&mut self) -> anyhow::Result<&mut Config> {
        match &mut self.scheduler {
            Scheduler::NotStarted(config) => Ok(config),
            Scheduler::Started(_) | Scheduler::Absent => anyhow::bail!(
                "the scheduler has already started: configure it before the first step that lets \
                 time pass"
            ),
        }
    }

    /// Replaces the scheduler's configuration before it starts.
    pub(crate) fn configure(&mut self, config: Config) -> anyhow::Result<()> {
        *self.config_mut()? = config;
        Ok(())
    }

    /// Registers the scheduler's webhooks with the API server. An installed scheduler has
    /// registered its own: then this does nothing.
    pub(crate) async fn register_webhooks(&mut self) -> anyhow::Result<()> {
        if self.is_real() && self.target.is_on_cluster() {
            return Ok(());
        }
        let client = self.api.client().clone();
        let config = self.config_mut()?;
        let (scheduler_name, admission) =
            (config.scheduler_name.clone(), Admission::new(client, config));
        let changed = PatchedPods::for_config(config);
        let (namespace, name) = ("kai-scheduler", "schedlab-scheduler");
        self.cluster.serve_webhooks(namespace, name, admission)?;
        let scheduler_name = &scheduler_name;
        let service = WebhookService {
            namespace,
            name,
            ca_bundle: None,
            scheduler_name,
            patched_pods: changed,
        };
        for configuration in admission::webhook_configurations(&service) {
            self.api.create(&configuration).await?;
        }
        Ok(())
    }

    /// The value of `spec.schedulerName` for this scheduler's pods.
    pub(crate) fn scheduler_name(&self) -> String {
        match &self.scheduler {
            Scheduler::NotStarted(config) => config.scheduler_name.clone(),
            Scheduler::Started(scheduler) => scheduler.config().scheduler_name.clone(),
            Scheduler::Absent => self.target.config(0).scheduler_name,
        }
    }

    /// Output of `schedlab-scheduler explain` for a workload, with this scheduler's configuration.
    pub(crate) async fn explanation(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let config = match &self.scheduler {
            Scheduler::NotStarted(config) => (**config).clone(),
            Scheduler::Started(scheduler) => scheduler.config().clone(),
            Scheduler::Absent => self.target.config(0),
        };
        let (client, clock) = (self.api.client().clone(), self.cluster.clock());
        let now = std::sync::Arc::new(move || clock.now());
        let form = OutputFormat::Text;
        schedlab_scheduler::explain::workload(client, config, now, namespace, name, form).await
    }

    /// The scheduling period.
    pub(crate) fn period(&self) -> std::time::Duration {
        match &self.scheduler {
            Scheduler::NotStarted(config) => self.time_scale.period(config.period),
            Scheduler::Started(scheduler) => scheduler.config().period,
            Scheduler::Absent => self.time_scale.period(std::time::Duration::from_secs(1)),
        }
    }

    /// The last status that the scheduler published.
    pub(crate) fn scheduler_status(&self) -> Progress {
        match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.status(),
            Scheduler::NotStarted(_) | Scheduler::Absent => Progress::default(),
        }
    }

    /// Whether the scheduler is started from the steps' point of view; a crash with restart does
    /// not count as stopped.
    pub(super) fn is_scheduler_running(&self) -> bool {
        matches!(&self.scheduler, Scheduler::Started(scheduler) if scheduler.is_started())
    }

    /// How often the scheduler was killed at a write.
    pub(crate) fn scheduler_crashes(&self) -> usize {
        match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.kill_count(),
            Scheduler::NotStarted(_) | Scheduler::Absent => 0,
        }
    }

    /// Why the scheduler exited by itself, if it did.
    pub(crate) fn scheduler_failure(&self) -> Option<String> {
        match &self.scheduler {
            Scheduler::Started(scheduler) => {
                scheduler.error().map(|error| format!("the scheduler exited by itself: {error}"))
            }
            Scheduler::NotStarted(_) | Scheduler::Absent => None,
        }
    }

    /// Completes when the scheduler exits by itself; never when it does not.
    pub(crate) fn scheduler_ended(&self) -> impl Future<Output = ()> + use<> {
        let ended = match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.wait_for_exit(),
            Scheduler::NotStarted(_) | Scheduler::Absent => None,
        };
        async {
            match ended {
                Some(ended) => ended.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Starts the scheduler, for the first time or again.
    pub(crate) fn start_scheduler(&mut self) -> anyhow::Result<()> {
        self.last_settled = None;
        match &mut self.scheduler {
            Scheduler::Started(scheduler) if scheduler.is_alive() => anyhow::bail!(
                "{}: cannot start the scheduler: it is already running",
                self.step_location()
            ),
            Scheduler::Started(scheduler) => scheduler.start(),
            Scheduler::NotStarted(_) => self.ensure_scheduler_started(),
            Scheduler::Absent => {
                self.scheduler = Scheduler::NotStarted(Box::new(self.target.config(0)));
                self.ensure_scheduler_started();
            }
        }
        Ok(())
    }

    /// Stops the scheduler; before its first start, the scenario then runs without one.
    pub(crate) fn stop_scheduler(&mut self) -> anyhow::Result<()> {
        self.last_settled = None;
        match &mut self.scheduler {
            Scheduler::Started(scheduler) if scheduler.is_started() => scheduler.stop(),
            Scheduler::NotStarted(_) => self.scheduler = Scheduler::Absent,
            Scheduler::Started(_) | Scheduler::Absent => {
                anyhow::bail!(
                    "{}: cannot stop the scheduler: it is not running",
                    self.step_location()
                )
            }
        }
        Ok(())
    }

    /// Kills the scheduler instead of its n-th write from now on. The end of the scenario checks
    /// that this happened.
    pub(crate) fn kill_scheduler_before_write(
        &mut self,
        n: u32,
        then: AfterKill,
    ) -> anyhow::Result<()> {
        self.last_settled = None;
        self.expected_crash = Some((self.step_location(), self.scheduler_crashes()));
        if let Scheduler::NotStarted(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.new_scheduler(config);
            scheduler.kill_before_write(n, then);
            scheduler.start();
            self.scheduler = Scheduler::Started(Box::new(scheduler));
        } else if let Scheduler::Started(scheduler) = &mut self.scheduler {
            scheduler.kill_before_write(n, then);
        } else {
            anyhow::bail!(
                "{}: cannot kill the scheduler: it was never started",
                self.step_location()
            );
        }
        Ok(())
    }

    /// The scenario asserts the crash count itself: the end of the scenario need not check it.
    pub(crate) fn clear_expected_crash(&mut self) {
        self.expected_crash = None;
    }

    /// Describes a requested crash that did not happen because the scheduler wrote too little.
    pub(super) fn missed_crash(&self) -> Option<String> {
        let (location, crashes) = self.expected_crash.as_ref()?;
        (self.scheduler_crashes() <= *crashes).then(|| {
            format!(
                "{location}: the scheduler was not killed: it made fewer writes until the end of \
                 the scenario"
            )
        })
    }
}
