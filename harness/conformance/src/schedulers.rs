//! The schedulers under test: what a [`Target`] declares, and how one is started, suspended and
//! killed in this process, as a process, or on the cluster where it is installed.

mod adapters;
mod api_proxy;
mod capabilities;
mod configuration;
mod crash_injector;
mod in_process;
mod process;
mod standalone;
mod supervisor;
mod suspend;
mod target;
mod times;
mod under_test;
mod words;

use std::fmt;
use std::sync::Arc;

use schedlab_emulator::clock::Clock;

pub use adapters::Unsupported;
pub(crate) use adapters::{
    GangStatus, QueueResource, Queues, Translator, WORKLOAD_LABEL, is_kai_pod_group, is_kai_queue,
    put_below_root, root_queue_object,
};
pub(crate) use capabilities::CAPABILITIES_AND_MEANINGS;
pub(crate) use crash_injector::{CrashPoint, CrashService};
pub(crate) use in_process::CycleTicks;
pub(crate) use in_process::InProcessScheduler;
pub(crate) use process::{SchedulerProcess, SchedulerProcessSpec};
pub use standalone::{StandaloneScheduler, StandaloneSetup};
pub(crate) use suspend::SuspendGuard;
pub use target::{Target, UnsupportedCapability, check_placeholders};
pub use times::OwnTimes;
pub(crate) use under_test::{NoScheduler, SchedulerUnderTest};
pub(crate) use words::{Dialect, dialect_of};

/// Creates clients for a scheduler in this process, and provides the cluster's time.
#[derive(Clone)]
pub(crate) struct SchedulerConnector {
    /// Creates a client for one instance of the scheduler. The client fails after the crash point.
    pub connect: Arc<dyn Fn(Arc<CrashPoint>) -> kube::Client + Send + Sync>,
    /// The clock of the cluster.
    pub clock: Clock,
}

/// How steps control the scheduler.
pub(crate) trait SchedulerControl {
    /// Starts the scheduler, unless it is running.
    fn start(&mut self);

    /// Stops the scheduler between two requests.
    fn stop(&mut self);

    /// Kills the scheduler instead of its write number `write_number`, counted from now on; that
    /// write does not happen.
    fn kill_before_write(&mut self, write_number: u32, after_kill: AfterKill);
}

/// What happens after the scheduler was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterKill {
    /// The scheduler stays dead until a step starts it.
    StayDead,
    /// The scheduler restarts a second later.
    Restart,
    /// The scheduler restarts a second later, and is killed again after the same number of writes.
    RestartAndKillAgain,
}

impl fmt::Debug for SchedulerConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
