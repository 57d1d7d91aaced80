//! The scheduler of a scenario, whichever it is.

use schedlab_scheduler::{Config, Status};

use super::process::Process;
use super::{AfterKill, InProcess, SchedulerUnderTest};

/// A scheduler under test.
#[derive(Debug)]
pub(crate) enum Under {
    /// Ours, in this process.
    InProcess(Box<InProcess>),
    /// A program.
    Process(Box<Process>),
    /// It runs on the cluster and is not ours to start or stop; this is how pods name it.
    Installed(Box<Config>),
}

impl Under {
    /// How it is set up.
    pub(crate) fn config(&self) -> &Config {
        match self {
            Self::InProcess(ours) => ours.config(),
            Self::Process(process) => process.config(),
            Self::Installed(config) => config,
        }
    }

    /// What it last told about itself; only ours tells anything.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::InProcess(ours) => ours.status(),
            Self::Process(_) | Self::Installed(_) => Status::default(),
        }
    }

    /// Whether it runs as far as steps are concerned.
    pub(crate) fn is_started(&self) -> bool {
        match self {
            Self::InProcess(ours) => ours.is_started(),
            Self::Process(process) => process.is_started(),
            Self::Installed(_) => true,
        }
    }

    /// How often it was killed at a write.
    pub(crate) fn deaths(&self) -> usize {
        match self {
            Self::InProcess(ours) => ours.deaths(),
            Self::Process(process) => process.deaths(),
            Self::Installed(_) => 0,
        }
    }

    /// Why it ended, when nobody wanted that.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::InProcess(ours) => ours.error(),
            Self::Process(process) => process.error(),
            Self::Installed(_) => None,
        }
    }
}

impl SchedulerUnderTest for Under {
    fn start(&mut self) {
        match self {
            Self::InProcess(ours) => ours.start(),
            Self::Process(process) => process.start(),
            Self::Installed(_) => {}
        }
    }

    fn stop(&mut self) {
        match self {
            Self::InProcess(ours) => ours.stop(),
            Self::Process(process) => process.stop(),
            Self::Installed(_) => {}
        }
    }

    fn kill_before_write(&mut self, n: u32, then: AfterKill) {
        match self {
            Self::InProcess(ours) => ours.kill_before_write(n, then),
            Self::Process(process) => process.kill_before_write(n, then),
            Self::Installed(_) => {}
        }
    }
}
