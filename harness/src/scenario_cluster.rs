//! The cluster a scenario runs on, and the scheduler under test: the two seams of the harness.
//! Behind both, the emulator and real clusters look alike to steps.

mod api_proxy;
mod crash_injector;
mod dispatch;
mod emulated;
mod in_process;
mod process;
mod supervisor;
mod suspend;
mod tenant;
mod under_test;
mod watch_log;

use std::time::Duration;

pub(crate) use dispatch::{Connector, ScenarioCluster};
pub use emulated::EmulatedCluster;
pub(crate) use emulated::epoch;
pub use in_process::InProcessScheduler;
pub(crate) use process::{ProcessSpec, SchedulerProcess};
pub(crate) use suspend::SuspendGuard;
pub(crate) use tenant::run_actors;
pub use tenant::{TenantCluster, collections};
pub(crate) use under_test::SchedulerUnderTest;

/// A cluster on which a scenario runs. Whatever a Kubernetes client can do is done through
/// `client()`; this trait holds only the rest.
pub trait Cluster {
    /// A client with administrator rights.
    fn client(&self) -> kube::Client;

    /// Lets the cluster run until it is idle, or until `limit` of its own time has passed.
    fn settle(&self, limit: Duration) -> impl Future<Output = Result<(), Unsettled>>;
}

/// How steps control the scheduler.
pub trait SchedulerControl {
    /// Starts the scheduler, unless it is running.
    fn start(&mut self);

    /// Stops it between two requests.
    fn stop(&mut self);

    /// Kills it instead of its `n`-th write from now on; that write does not happen.
    fn kill_before_write(&mut self, n: u32, then: AfterKill);
}

/// What happens after the scheduler was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterKill {
    /// It stays dead until a step starts it.
    StayDead,
    /// It restarts a second later.
    Restart,
    /// It restarts a second later, and is killed again after the same number of writes.
    RestartAndKillAgain,
}

/// The cluster kept changing for the whole time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not become idle within {} s of its time", limit.as_secs())]
pub struct Unsettled {
    /// The time limit, in the cluster's time.
    pub limit: Duration,
}
