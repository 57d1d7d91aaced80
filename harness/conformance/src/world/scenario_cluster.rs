//! The cluster a scenario runs on: the emulator in this process, or a part of a real cluster. Both
//! look alike to steps.

mod dispatch;
mod emulated;
mod tenant;
mod watch_log;

use std::time::Duration;

pub use dispatch::ScenarioCluster;
pub use emulated::EmulatedCluster;
pub use emulated::epoch;
pub use tenant::run_actors;
pub use tenant::{TenantCluster, collections};

/// A cluster on which a scenario runs. Whatever a Kubernetes client can do is done through
/// `client()`; this trait holds only the rest.
pub trait Cluster {
    /// A client with administrator rights.
    fn client(&self) -> kube::Client;

    /// Lets the cluster run until it is idle, or until `limit` of its own time has passed.
    fn settle(&self, limit: Duration) -> impl Future<Output = Result<(), Unsettled>>;
}

/// The cluster kept changing for the whole time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not become idle within {} s of its time", limit.as_secs())]
pub struct Unsettled {
    /// The time limit, in the cluster's time.
    pub limit: Duration,
}
