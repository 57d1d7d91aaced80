//! The scheduler of a world: configuration, start, stop and crashes.

use std::path::Path;
use std::time::Duration;

use schedlab_audit::{Audit, BoundLevels, Rules};
use schedlab_scheduler::admission::{self, Admission, PatchedPods, WebhookService};
use schedlab_scheduler::{
    Config, ConfigSource, Flavor, IdlePolicy, Progress, explain::OutputFormat,
};

use super::{World, WorldScheduler, required_feature_gates};
use crate::schedulers::{
    AfterKill, InProcessScheduler, NoScheduler, SchedulerControl as _, SchedulerProcess,
    SchedulerProcessSpec, SchedulerUnderTest, SuspendGuard,
};
use schedlab_clusters::scheduler_source::SchedulerSource;

/// How long the programs of a scheduler may take to be up, at least.
const STARTUP_LIMIT_MIN: Duration = Duration::from_mins(1);

impl World {
    /// Starts the scheduler, unless it was started already or the scenario has none.
    pub(crate) fn ensure_scheduler_started(&mut self) {
        self.last_settled =
            self.last_settled.filter(|_| !matches!(self.scheduler, WorldScheduler::NotStarted(_)));
        if let WorldScheduler::NotStarted(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.new_scheduler_under_test(config);
            if let Some(write) = self.crash_before_write.take() {
                scheduler.kill_before_write(write, AfterKill::Restart);
            }
            scheduler.start();
            self.scheduler = WorldScheduler::Started(Box::new(scheduler));
        }
    }

    /// Starts the scheduler like [`Self::ensure_scheduler_started`], and waits until all programs of
    /// a scheduler in processes of its own are up.
    ///
    /// # Errors
    /// A program is not up in time. The message names it and has the end of its log.
    pub(crate) async fn wait_until_scheduler_is_up(&mut self) -> anyhow::Result<()> {
        self.ensure_scheduler_started();
        let WorldScheduler::Started(scheduler) = &self.scheduler else { return Ok(()) };
        let limit = self.time_scale.wait_limit(STARTUP_LIMIT_MIN);
        scheduler.wait_until_up(&self.target.name, limit).await
    }

    /// Whether the reason of a pending gang may be on its PodGroup only. Our scheduler also reports
    /// it on each pod.
    pub(crate) fn accepts_group_reasons(&self) -> bool {
        !self.target.is_ours()
    }

    /// Makes the scheduler crash once before its write with this number, and restart, independently
    /// of the scenario's steps.
    pub(crate) fn crash_before_write(&mut self, write_number: u32) {
        self.crash_before_write = Some(write_number);
    }

    /// Builds the scheduler under test without starting it, and the audit for its flavor.
    fn new_scheduler_under_test(&mut self, config: Config) -> SchedulerUnderTest {
        let mut config = match self.target.own_times() {
            None => self.time_scale.scale_config(config),
            Some(_) => config,
        };
        if !self.is_on_real_cluster() && !cfg!(debug_assertions) {
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
        self.cluster.observe_with_audit(&audit);
        self.cluster.set_cycle_period(config.period);
        self.audit = Some(audit.clone());
        let clock = self.cluster.clock();
        let killed = audit.clone();
        let on_kill = Box::new(move || killed.record_scheduler_kill(clock.now()));
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
                let gates = required_feature_gates(&self.case, &self.target).into_iter();
                let gates = gates.filter(|gate| self.cluster_gates.is_enabled(gate));
                let gates: Vec<String> = gates.map(|gate| format!("{gate}=true")).collect();
                let programs = real_cluster.control_plane_program_folder().map(Path::to_path_buf);
                let start = SchedulerProcessSpec {
                    connector: door,
                    config,
                    target,
                    configuration_texts: self.configuration_texts.clone(),
                    feature_gates: gates.join(","),
                    program_folder: programs,
                    folder,
                    run,
                };
                SchedulerUnderTest::Process(Box::new(SchedulerProcess::new(start, on_kill)))
            }
            (SchedulerSource::Ours, _) | (SchedulerSource::Process(_), None) => {
                let ours = InProcessScheduler::new(door, config, on_kill);
                if self.is_on_real_cluster() {
                    let status = ours.subscribe_to_progress();
                    audit.set_cycle_counter(Box::new(move || status.borrow().cycles));
                }
                self.cluster.follow_scheduler_cycles(ours.cycle_ticks());
                SchedulerUnderTest::InProcess(Box::new(ours))
            }
        }
    }

    /// Suspends an in-process scheduler on a real cluster until the guard is dropped, so that a
    /// step which creates several objects looks like one moment to the scheduler. `None` otherwise.
    pub(super) fn suspend_scheduler(&self) -> Option<SuspendGuard> {
        match &self.scheduler {
            WorldScheduler::Started(scheduler) if self.is_on_real_cluster() => scheduler.suspend(),
            WorldScheduler::Started(_) | WorldScheduler::NotStarted(_) | WorldScheduler::Absent => {
                None
            }
        }
    }

    /// The configuration of the scheduler that is not started yet. Fails if it was started.
    pub(crate) fn config_mut(&mut self) -> anyhow::Result<&mut Config> {
        match &mut self.scheduler {
            WorldScheduler::NotStarted(config) => Ok(config),
            WorldScheduler::Started(_) | WorldScheduler::Absent => anyhow::bail!(
                "the scheduler has already started: configure it before the first step that lets \
                 time pass"
            ),
        }
    }

    /// Applies a text of the scheduler's configuration file before the scheduler starts.
    pub(crate) fn apply_configuration_text(
        &mut self,
        shown: String,
        text: String,
    ) -> anyhow::Result<()> {
        ConfigSource::parse(shown, text.clone())?.apply(self.config_mut()?, |_| {})?;
        self.configuration_texts.push(text);
        Ok(())
    }

    /// Replaces the scheduler's configuration before it starts.
    pub(crate) fn set_config_before_start(&mut self, config: Config) -> anyhow::Result<()> {
        *self.config_mut()? = config;
        Ok(())
    }

    /// Registers the scheduler's webhooks with the API server. Does nothing for an installed
    /// scheduler, which has registered its own.
    pub(crate) async fn register_webhooks(&mut self) -> anyhow::Result<()> {
        if self.is_on_real_cluster() && self.target.is_on_cluster() {
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

    /// The value of `spec.schedulerName` for pods of the scheduler under test.
    pub(crate) fn scheduler_name(&self) -> String {
        self.scheduler_config().scheduler_name
    }

    /// The configuration of the scheduler.
    pub(crate) fn scheduler_config(&self) -> Config {
        match &self.scheduler {
            WorldScheduler::NotStarted(config) => Config::clone(config),
            WorldScheduler::Started(scheduler) => scheduler.config().clone(),
            WorldScheduler::Absent => self.target.scheduler_config(0),
        }
    }

    /// What `schedlab-scheduler explain` prints for a workload, with the configuration of the
    /// scheduler under test.
    pub(crate) async fn explanation_of_workload(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<String> {
        let config = match &self.scheduler {
            WorldScheduler::NotStarted(config) => (**config).clone(),
            WorldScheduler::Started(scheduler) => scheduler.config().clone(),
            WorldScheduler::Absent => self.target.scheduler_config(0),
        };
        let (client, clock) = (self.api.client().clone(), self.cluster.clock());
        let now = std::sync::Arc::new(move || clock.now());
        let form = OutputFormat::Text;
        schedlab_scheduler::explain::explain_workload(client, config, now, namespace, name, form)
            .await
    }

    /// The time from one scheduling cycle to the next.
    pub(crate) fn cycle_period(&self) -> Duration {
        match &self.scheduler {
            WorldScheduler::NotStarted(config) if self.target.own_times().is_some() => {
                config.period
            }
            WorldScheduler::NotStarted(config) => self.time_scale.scaled_period(config.period),
            WorldScheduler::Started(scheduler) => scheduler.config().period,
            WorldScheduler::Absent => self.time_scale.scaled_period(Duration::from_secs(1)),
        }
    }

    /// The progress that the scheduler last reported.
    pub(crate) fn scheduler_progress(&self) -> Progress {
        match &self.scheduler {
            WorldScheduler::Started(scheduler) => scheduler.scheduler_progress(),
            WorldScheduler::NotStarted(_) | WorldScheduler::Absent => Progress::default(),
        }
    }

    /// Whether a step or the passing of time has started the scheduler and no step has stopped it.
    /// A crash with a restart does not count as stopped.
    pub(super) fn is_scheduler_running(&self) -> bool {
        matches!(&self.scheduler, WorldScheduler::Started(scheduler) if scheduler.is_started())
    }

    /// How often the scheduler was killed before a write.
    pub(crate) fn scheduler_crash_count(&self) -> usize {
        match &self.scheduler {
            WorldScheduler::Started(scheduler) => scheduler.kill_count(),
            WorldScheduler::NotStarted(_) | WorldScheduler::Absent => 0,
        }
    }

    /// The message about a scheduler that exited by itself; `None` if it did not.
    pub(crate) fn scheduler_exit_error(&self) -> Option<String> {
        match &self.scheduler {
            WorldScheduler::Started(scheduler) => scheduler
                .exit_error()
                .map(|error| format!("the scheduler exited by itself: {error}")),
            WorldScheduler::NotStarted(_) | WorldScheduler::Absent => None,
        }
    }

    /// Waits until the scheduler exits by itself; never returns if it does not.
    pub(crate) fn wait_for_scheduler_end(&self) -> impl Future<Output = ()> + use<> {
        let ended = match &self.scheduler {
            WorldScheduler::Started(scheduler) => scheduler.wait_for_exit(),
            WorldScheduler::NotStarted(_) | WorldScheduler::Absent => None,
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
            WorldScheduler::Started(scheduler) if scheduler.is_alive() => anyhow::bail!(
                "{}: cannot start the scheduler: it is already running",
                self.step_location()
            ),
            WorldScheduler::Started(scheduler) => scheduler.start(),
            WorldScheduler::NotStarted(_) => self.ensure_scheduler_started(),
            WorldScheduler::Absent => {
                self.scheduler =
                    WorldScheduler::NotStarted(Box::new(self.target.scheduler_config(0)));
                self.ensure_scheduler_started();
            }
        }
        Ok(())
    }

    /// Stops the scheduler. If the scheduler was never started, the scenario runs without one from
    /// now on.
    pub(crate) fn stop_scheduler(&mut self) -> anyhow::Result<()> {
        self.last_settled = None;
        match &mut self.scheduler {
            WorldScheduler::Started(scheduler) if scheduler.is_started() => scheduler.stop(),
            WorldScheduler::NotStarted(_) => self.scheduler = WorldScheduler::Absent,
            WorldScheduler::Started(_) | WorldScheduler::Absent => {
                anyhow::bail!(
                    "{}: cannot stop the scheduler: it is not running",
                    self.step_location()
                )
            }
        }
        Ok(())
    }

    /// Kills the scheduler instead of its write with this number, counted from now on. The end of
    /// the scenario checks that this happened.
    pub(crate) fn kill_scheduler_before_write(
        &mut self,
        n: u32,
        then: AfterKill,
    ) -> anyhow::Result<()> {
        self.last_settled = None;
        self.expected_crash = Some((self.step_location(), self.scheduler_crash_count()));
        if let WorldScheduler::NotStarted(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.new_scheduler_under_test(config);
            scheduler.kill_before_write(n, then);
            scheduler.start();
            self.scheduler = WorldScheduler::Started(Box::new(scheduler));
        } else if let WorldScheduler::Started(scheduler) = &mut self.scheduler {
            scheduler.kill_before_write(n, then);
        } else {
            anyhow::bail!(
                "{}: cannot kill the scheduler: it was never started",
                self.step_location()
            );
        }
        Ok(())
    }

    /// Notes that the scenario asserts the number of crashes itself, so that the end of the
    /// scenario need not check it.
    pub(crate) fn clear_expected_crash(&mut self) {
        self.expected_crash = None;
    }

    /// The message about a requested crash that did not happen because the scheduler wrote too
    /// little.
    pub(super) fn missed_crash_message(&self) -> Option<String> {
        if !self.target.matches_snapshots() {
            // How many writes another scheduler needs is its own affair.
            return None;
        }
        let (location, crashes) = self.expected_crash.as_ref()?;
        (self.scheduler_crash_count() <= *crashes).then(|| {
            format!(
                "{location}: the scheduler was not killed: it made fewer writes until the end of \
                 the scenario"
            )
        })
    }
}
