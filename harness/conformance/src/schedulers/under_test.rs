//! The scheduler under test, in any of its three forms.

use schedlab_scheduler::{Config, Progress};

use super::process::SchedulerProcess;
use super::supervisor::Supervisor;
use super::{AfterKill, InProcessScheduler, SchedulerControl, SuspendGuard};

/// The scheduler under test.
#[derive(Debug)]
pub(crate) enum SchedulerUnderTest {
    /// Our scheduler, in this process.
    InProcess(Box<InProcessScheduler>),
    /// A program that we start.
    Process(Box<SchedulerProcess>),
    /// Installed on the cluster, and not ours to start or stop. The configuration contains the name
    /// that pods use.
    Installed(Box<Config>),
}

impl SchedulerUnderTest {
    /// Its configuration.
    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::InProcess(ours) => ours.config(),
            Self::Process(process) => process.config(),
            Self::Installed(config) => config,
        }
    }

    /// Suspends a scheduler in this process until the guard is dropped. `None` for others.
    pub(crate) fn suspend(&self) -> Option<SuspendGuard> {
        match self {
            Self::InProcess(ours) => Some(ours.suspend()),
            Self::Process(_) | Self::Installed(_) => None,
        }
    }

    /// The status it last reported; the default for schedulers outside this process.
    pub(crate) fn status(&self) -> Progress {
        match self {
            Self::InProcess(ours) => ours.status(),
            Self::Process(_) | Self::Installed(_) => Progress::default(),
        }
    }

    /// Whether it is started as far as steps are concerned. Always true for an installed scheduler.
    pub(crate) fn is_started(&self) -> bool {
        self.supervisor().is_none_or(Supervisor::is_started)
    }

    /// Whether it is running or about to restart.
    pub(crate) fn is_alive(&self) -> bool {
        self.supervisor().is_none_or(Supervisor::is_alive)
    }

    /// How often it was killed at a write.
    pub(crate) fn kill_count(&self) -> usize {
        self.supervisor().map_or(0, Supervisor::kill_count)
    }

    /// Why it ended unexpectedly.
    pub(crate) fn error(&self) -> Option<String> {
        self.supervisor().and_then(Supervisor::error)
    }

    /// Waits until it has ended unexpectedly. `None` if this process would not notice.
    pub(crate) fn wait_for_exit(&self) -> Option<impl Future<Output = ()> + use<>> {
        self.supervisor().map(Supervisor::wait_for_exit)
    }

    fn supervisor(&self) -> Option<&Supervisor> {
        match self {
            Self::InProcess(ours) => Some(&ours.supervisor),
            Self::Process(process) => Some(&process.supervisor),
            Self::Installed(_) => None,
        }
    }
}

impl SchedulerControl for SchedulerUnderTest {
    fn start(&mut self) {
        match self {
            Self::InProcess(ours) => ours.start(),
            Self::Process(process) => process.start(),
            Self::Installed(_) => {}
        }
    }

    fn stop(&mut self) {
        match self {
            Self::InProcess(ours) => ours.supervisor.stop(),
            Self::Process(process) => process.supervisor.stop(),
            Self::Installed(_) => {}
        }
    }

    fn kill_before_write(&mut self, n: u32, then: AfterKill) {
        if let Some(supervised) = self.supervisor() {
            supervised.kill_before_write(n, then);
        }
    }
}
