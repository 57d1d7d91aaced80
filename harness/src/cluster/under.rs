//! The scheduler of a scenario, whichever it is.

use schedlab_scheduler::{Config, Status};

use super::lives::Supervised;
use super::process::Process;
use super::{AfterKill, Held, InProcess, SchedulerUnderTest};

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

    /// Has one in this process stand still until the answer is dropped.
    pub(crate) fn hold(&self) -> Option<Held> {
        match self {
            Self::InProcess(ours) => Some(ours.hold()),
            Self::Process(_) | Self::Installed(_) => None,
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
        self.supervised().is_none_or(Supervised::is_started)
    }

    /// Whether it goes on by itself.
    pub(crate) fn lives(&self) -> bool {
        self.supervised().is_none_or(Supervised::lives)
    }

    /// How often it was killed at a write.
    pub(crate) fn deaths(&self) -> usize {
        self.supervised().map_or(0, Supervised::deaths)
    }

    /// Why it ended, when nobody wanted that.
    pub(crate) fn error(&self) -> Option<String> {
        self.supervised().and_then(Supervised::error)
    }

    /// Waits until it has ended by itself. `None`: nobody here would notice.
    pub(crate) fn ended(&self) -> Option<impl Future<Output = ()> + use<>> {
        self.supervised().map(Supervised::ended)
    }

    fn supervised(&self) -> Option<&Supervised> {
        match self {
            Self::InProcess(ours) => Some(&ours.supervised),
            Self::Process(process) => Some(&process.supervised),
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
            Self::InProcess(ours) => ours.supervised.stop(),
            Self::Process(process) => process.supervised.stop(),
            Self::Installed(_) => {}
        }
    }

    fn kill_before_write(&mut self, n: u32, then: AfterKill) {
        if let Some(supervised) = self.supervised() {
            supervised.kill_before_write(n, then);
        }
    }
}
