//! The scheduler under test, in any of its forms.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_scheduler::{Config, Progress};
use tokio::sync::watch;
use tokio::time::Instant;

use super::process::{SchedulerProcess, Startup};
use super::supervisor::Supervisor;
use super::{AfterKill, InProcessScheduler, SchedulerControl, SuspendGuard};

/// How often a scheduler that is starting is checked for its end.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The scheduler under test.
#[derive(Debug)]
pub(crate) enum SchedulerUnderTest {
    /// Our scheduler, in this process.
    InProcess(Box<InProcessScheduler>),
    /// A program that schedlab starts.
    Process(Box<SchedulerProcess>),
    /// A scheduler that is installed on the cluster, and that schedlab neither starts nor stops.
    /// The configuration contains the name that pods use.
    Installed(Box<Config>),
    /// No scheduler: steps that start, stop or kill the scheduler have no effect.
    Nothing(Box<NoScheduler>),
}

/// What steps can see of the scheduler if there is none.
#[derive(Debug)]
pub(crate) struct NoScheduler {
    /// The configuration that steps have set.
    pub config: Config,
    /// Whether the scheduler would be running according to the steps.
    pub is_started: bool,
}

impl SchedulerUnderTest {
    /// The configuration of the scheduler.
    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::InProcess(ours) => ours.config(),
            Self::Process(process) => process.config(),
            Self::Installed(config) => config,
            Self::Nothing(nothing) => &nothing.config,
        }
    }

    /// Suspends a scheduler in this process until the guard is dropped. `None` for other
    /// schedulers.
    pub(crate) fn suspend(&self) -> Option<SuspendGuard> {
        match self {
            Self::InProcess(ours) => Some(ours.suspend()),
            Self::Process(_) | Self::Installed(_) | Self::Nothing(_) => None,
        }
    }

    /// The progress that the scheduler last reported; the default for schedulers outside this
    /// process.
    pub(crate) fn scheduler_progress(&self) -> Progress {
        match self {
            Self::InProcess(ours) => ours.scheduler_progress(),
            Self::Process(_) | Self::Installed(_) | Self::Nothing(_) => Progress::default(),
        }
    }

    /// Whether a step started the scheduler and none stopped it. Always true for an installed
    /// scheduler.
    pub(crate) fn is_started(&self) -> bool {
        match self {
            Self::InProcess(ours) => ours.supervisor.is_started(),
            Self::Process(process) => process.supervisor.is_started(),
            Self::Installed(_) => true,
            Self::Nothing(nothing) => nothing.is_started,
        }
    }

    /// Whether the scheduler is running or about to restart.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::InProcess(ours) => ours.supervisor.is_alive(),
            Self::Process(process) => process.supervisor.is_alive(),
            Self::Installed(_) => true,
            Self::Nothing(nothing) => nothing.is_started,
        }
    }

    /// How often the scheduler was killed before a write.
    pub(crate) fn kill_count(&self) -> usize {
        self.supervisor().map_or(0, Supervisor::kill_count)
    }

    /// Why the scheduler ended by itself; `None` if it did not.
    pub(crate) fn exit_error(&self) -> Option<String> {
        self.supervisor().and_then(Supervisor::exit_error)
    }

    /// Waits until the scheduler has ended by itself. `None` if this process would not notice.
    pub(crate) fn wait_for_exit(&self) -> Option<impl Future<Output = ()> + use<>> {
        self.supervisor().map(Supervisor::wait_for_exit)
    }

    /// How far the start of a scheduler in processes of its own is; `None` for other schedulers.
    fn subscribe_to_startup(&self) -> Option<watch::Receiver<Startup>> {
        match self {
            Self::Process(process) => Some(process.subscribe_to_startup()),
            Self::InProcess(_) | Self::Installed(_) | Self::Nothing(_) => None,
        }
    }

    /// Waits until the programs of the scheduler are up, or one has ended.
    ///
    /// # Errors
    /// A program is not up in time. The message has the scheduler's `name` and what is missing.
    pub(crate) async fn wait_until_up(&self, name: &str, limit: Duration) -> anyhow::Result<()> {
        let Some(mut startup) = self.subscribe_to_startup() else { return Ok(()) };
        let end = Instant::now() + limit;
        while self.is_alive() && self.exit_error().is_none() {
            let Startup::Starting(missing) = startup.borrow_and_update().clone() else {
                return Ok(());
            };
            tokio::select! {
                changed = startup.changed() => changed.context("the scheduler's task ended")?,
                () = tokio::time::sleep(STARTUP_POLL_INTERVAL) => {}
                () = tokio::time::sleep_until(end) => anyhow::bail!(
                    "scheduler {name} is not up after {} s; it waits for {missing}",
                    limit.as_secs()
                ),
            }
        }
        Ok(())
    }

    fn supervisor(&self) -> Option<&Supervisor> {
        match self {
            Self::InProcess(ours) => Some(&ours.supervisor),
            Self::Process(process) => Some(&process.supervisor),
            Self::Installed(_) | Self::Nothing(_) => None,
        }
    }
}

impl SchedulerControl for SchedulerUnderTest {
    fn start(&mut self) {
        match self {
            Self::InProcess(ours) => ours.start(),
            Self::Process(process) => process.start(),
            Self::Installed(_) => {}
            Self::Nothing(nothing) => nothing.is_started = true,
        }
    }

    fn stop(&mut self) {
        match self {
            Self::InProcess(ours) => ours.supervisor.stop(),
            Self::Process(process) => process.supervisor.stop(),
            Self::Installed(_) => {}
            Self::Nothing(nothing) => nothing.is_started = false,
        }
    }

    fn kill_before_write(&mut self, write_number: u32, after_kill: AfterKill) {
        if let Some(supervised) = self.supervisor() {
            supervised.kill_before_write(write_number, after_kill);
        }
    }
}
