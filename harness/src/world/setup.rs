//! The scheduler of a world: how it is set up, when it starts, and how it dies.

use std::path::Path;

use schedlab_scheduler::admission::{self, Admission, Changed, Service};
use schedlab_scheduler::{Config, Flavor, Idle, Status, explain::Form};
use schedlab_scheduler_core::audit::{Bounds, Rules};

use super::{Scheduler, World};
use crate::audit::Audit;
use crate::cluster::{AfterKill, Held, InProcess, Process, SchedulerUnderTest as _, Start, Under};
use crate::target::Which;

impl World {
    /// Starts the scheduler, unless it was started before or the scenario has none.
    pub(crate) fn begin(&mut self) {
        self.rest = self.rest.filter(|_| !matches!(self.scheduler, Scheduler::Awaited(_)));
        if let Scheduler::Awaited(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.prepare(config);
            if let Some(write) = self.dies_before.take() {
                scheduler.kill_before_write(write, AfterKill::Restart);
            }
            scheduler.start();
            self.scheduler = Scheduler::Started(Box::new(scheduler));
        }
    }

    /// Has the scheduler die once, and start anew, whatever the scenario does with it.
    pub(crate) fn let_it_die_before(&mut self, write: u32) {
        self.dies_before = Some(write);
    }

    /// A scheduler that does not run yet, watched by the audit of its kind.
    fn prepare(&mut self, config: Config) -> Under {
        let mut config = self.pace.config(config);
        if !self.is_real() && !cfg!(debug_assertions) {
            // A debug build has every cycle, and asserts that those in between decide nothing new.
            config.idle = Idle::UntilEvent;
        }
        let rules = match config.flavor {
            Flavor::Kai => Rules::kai(),
            Flavor::Kube => Rules::kube(),
        };
        let bounds = match (config.profile.fair_shares, config.full_hierarchy_fairness) {
            (true, true) => Bounds::OfAll,
            (true, false) => Bounds::OfItsQueue,
            (false, _) => Bounds::OfNone,
        };
        let rules = Rules { moment: self.cluster.moment(), bounds, ..rules };
        let audit = Audit::new(rules, &config.scheduler_name);
        self.cluster.observe(&audit);
        self.cluster.set_period(config.period);
        self.audit = Some(audit.clone());
        let clock = self.cluster.clock();
        let killed = audit.clone();
        let on_kill = Box::new(move || killed.scheduler_killed(clock.now()));
        let door = self.cluster.door(&config.scheduler_name);
        match (&self.target.which, self.cluster.ground()) {
            (Which::Installed(_) | Which::Deployment(_), _) => Under::Installed(Box::new(config)),
            (Which::Process(_), Some(ground)) => {
                let (folder, run) = ground.folder();
                let target = self.target.clone();
                let programs = ground.programs().map(Path::to_path_buf);
                let start = Start { door, config, target, programs, folder, run };
                Under::Process(Box::new(Process::new(start, on_kill)))
            }
            (Which::Ours, _) | (Which::Process(_), None) => {
                let ours = InProcess::new(door, config, on_kill);
                if self.is_real() {
                    audit.listen(ours.cycles());
                }
                self.cluster.listen(ours.pulse());
                Under::InProcess(Box::new(ours))
            }
        }
    }

    /// In real time a step that makes several objects is one moment for a scheduler in this
    /// process: it stands still until the answer is dropped.
    pub(super) fn hold_scheduler(&self) -> Option<Held> {
        match &self.scheduler {
            Scheduler::Started(scheduler) if self.is_real() => scheduler.hold(),
            Scheduler::Started(_) | Scheduler::Awaited(_) | Scheduler::Absent => None,
        }
    }

    /// The scheduler's set-up, before it starts.
    pub(crate) fn config_mut(&mut self) -> anyhow::Result<&mut Config> {
        match &mut self.scheduler {
            Scheduler::Awaited(config) => Ok(config),
            Scheduler::Started(_) | Scheduler::Absent => anyhow::bail!(
                "the scheduler has started already: set it up before the first step that lets \
                 time pass"
            ),
        }
    }

    /// Uses another set-up from the start.
    pub(crate) fn configure(&mut self, config: Config) -> anyhow::Result<()> {
        *self.config_mut()? = config;
        Ok(())
    }

    /// Has the API server ask the scheduler's webhooks, as they are configured where it is installed.
    /// Where it is, they are asked already: its target says so.
    pub(crate) async fn ask_webhooks(&mut self) -> anyhow::Result<()> {
        if self.is_real() && self.target.is_on_cluster() {
            return Ok(());
        }
        let client = self.api.client().clone();
        let config = self.config_mut()?;
        let (scheduler_name, admission) =
            (config.scheduler_name.clone(), Admission::new(client, config));
        let changed = Changed::by(config);
        let (namespace, name) = ("kai-scheduler", "schedlab-scheduler");
        self.cluster.serve_webhooks((namespace, name), admission)?;
        let scheduler_name = &scheduler_name;
        let service = Service { namespace, name, authority: None, scheduler_name, changed };
        for configuration in admission::configurations(&service) {
            self.api.create(&configuration).await?;
        }
        Ok(())
    }

    /// What pods put into `spec.schedulerName`.
    pub(crate) fn scheduler_name(&self) -> String {
        match &self.scheduler {
            Scheduler::Awaited(config) => config.scheduler_name.clone(),
            Scheduler::Started(scheduler) => scheduler.config().scheduler_name.clone(),
            Scheduler::Absent => self.target.config(0).scheduler_name,
        }
    }

    /// What `schedlab-scheduler explain` says of a workload, as the scheduler is set up.
    pub(crate) async fn explanation(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let config = match &self.scheduler {
            Scheduler::Awaited(config) => (**config).clone(),
            Scheduler::Started(scheduler) => scheduler.config().clone(),
            Scheduler::Absent => self.target.config(0),
        };
        let (client, clock) = (self.api.client().clone(), self.cluster.clock());
        let now = std::sync::Arc::new(move || clock.now());
        let workload = (namespace, name, Form::Text);
        schedlab_scheduler::explain::workload(client, config, now, workload).await
    }

    /// The time from one cycle to the next.
    pub(crate) fn period(&self) -> std::time::Duration {
        match &self.scheduler {
            Scheduler::Awaited(config) => self.pace.period(config.period),
            Scheduler::Started(scheduler) => scheduler.config().period,
            Scheduler::Absent => self.pace.period(std::time::Duration::from_secs(1)),
        }
    }

    /// What the scheduler last told about itself.
    pub(crate) fn scheduler_status(&self) -> Status {
        match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.status(),
            Scheduler::Awaited(_) | Scheduler::Absent => Status::default(),
        }
    }

    /// Whether it runs as far as steps are concerned.
    pub(super) fn scheduler_runs(&self) -> bool {
        matches!(&self.scheduler, Scheduler::Started(scheduler) if scheduler.is_started())
    }

    /// How often the scheduler was killed at a write.
    pub(crate) fn scheduler_deaths(&self) -> usize {
        match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.deaths(),
            Scheduler::Awaited(_) | Scheduler::Absent => 0,
        }
    }

    /// Why the scheduler ended by itself, if it did.
    pub(crate) fn dead_scheduler(&self) -> Option<String> {
        match &self.scheduler {
            Scheduler::Started(scheduler) => {
                scheduler.error().map(|error| format!("the scheduler ended by itself: {error}"))
            }
            Scheduler::Awaited(_) | Scheduler::Absent => None,
        }
    }

    /// Waits until the scheduler has ended by itself; for ever when it does not.
    pub(crate) fn scheduler_ended(&self) -> impl Future<Output = ()> + use<> {
        let ended = match &self.scheduler {
            Scheduler::Started(scheduler) => scheduler.ended(),
            Scheduler::Awaited(_) | Scheduler::Absent => None,
        };
        async {
            match ended {
                Some(ended) => ended.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Starts the scheduler again, or for the first time.
    pub(crate) fn start_scheduler(&mut self) -> anyhow::Result<()> {
        self.rest = None;
        match &mut self.scheduler {
            Scheduler::Started(scheduler) if scheduler.lives() => anyhow::bail!(
                "{}: found a scheduler that runs, allowed is one that was stopped or has died",
                self.here()
            ),
            Scheduler::Started(scheduler) => scheduler.start(),
            Scheduler::Awaited(_) => self.begin(),
            Scheduler::Absent => {
                self.scheduler = Scheduler::Awaited(Box::new(self.target.config(0)));
                self.begin();
            }
        }
        Ok(())
    }

    /// Ends the scheduler, or has none from the start.
    pub(crate) fn stop_scheduler(&mut self) -> anyhow::Result<()> {
        self.rest = None;
        match &mut self.scheduler {
            Scheduler::Started(scheduler) if scheduler.is_started() => scheduler.stop(),
            Scheduler::Awaited(_) => self.scheduler = Scheduler::Absent,
            Scheduler::Started(_) | Scheduler::Absent => {
                anyhow::bail!("{}: found no scheduler, allowed is one that runs", self.here())
            }
        }
        Ok(())
    }

    /// Has the scheduler die in place of a write to come. That it does is looked for at the end.
    pub(crate) fn kill_scheduler_before_write(
        &mut self,
        n: u32,
        then: AfterKill,
    ) -> anyhow::Result<()> {
        self.rest = None;
        self.deaths_before = Some((self.here(), self.scheduler_deaths()));
        if let Scheduler::Awaited(config) = &self.scheduler {
            let config = (**config).clone();
            let mut scheduler = self.prepare(config);
            scheduler.kill_before_write(n, then);
            scheduler.start();
            self.scheduler = Scheduler::Started(Box::new(scheduler));
        } else if let Scheduler::Started(scheduler) = &mut self.scheduler {
            scheduler.kill_before_write(n, then);
        } else {
            anyhow::bail!("{}: found no scheduler, allowed is one that runs or ran", self.here());
        }
        Ok(())
    }

    /// A step says how often it died: that needs not be looked for any more.
    pub(crate) fn deaths_are_told(&mut self) {
        self.deaths_before = None;
    }

    /// That the scheduler was to die at a write, and did not come to it.
    pub(super) fn outlived(&self) -> Option<String> {
        let (place, deaths) = self.deaths_before.as_ref()?;
        (self.scheduler_deaths() <= *deaths).then(|| {
            format!(
                "{place}: the scheduler did not die: until the end it wrote less often than that"
            )
        })
    }
}
