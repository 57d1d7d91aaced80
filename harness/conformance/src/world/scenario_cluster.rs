//! The cluster a scenario runs on: the emulator in this process, or a part of a real cluster. Both
//! look alike to steps.

mod emulated;
mod tenant;
mod watch_log;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use schedlab_api::Value;
use schedlab_audit::Audit;
use schedlab_emulator::Emulator;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::LogEntry;
use schedlab_scheduler::admission::Admission;

use crate::schedulers::{CrashService, CycleTicks, SchedulerConnector};
use schedlab_clusters::real_cluster::RealCluster;
use schedlab_tenancy::Watermarks;

pub(crate) use emulated::EmulatedCluster;
pub use emulated::epoch_timestamp;
pub use tenant::run_actors;
pub use tenant::{TenantCluster, watched_collections};

/// A cluster on which a scenario runs. The trait contains only what a Kubernetes client cannot do.
pub trait Cluster {
    /// A Kubernetes client with administrator rights.
    fn cluster_client(&self) -> kube::Client;

    /// Lets the cluster run until it is idle, or until the duration `limit` has passed on the
    /// cluster's clock.
    fn settle(&self, limit: Duration) -> impl Future<Output = Result<(), UnsettledError>>;
}

/// The error of a cluster that kept changing until the time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not become idle within {} s of its time", limit.as_secs())]
pub struct UnsettledError {
    /// The time limit, on the cluster's clock.
    pub limit: Duration,
}

/// The cluster of a scenario.
#[derive(Debug)]
pub(crate) enum ScenarioCluster {
    /// An emulated cluster in this process, which follows the clock of the current runtime.
    Emulated(EmulatedCluster),
    /// A tenant of a real cluster.
    Real(Box<TenantCluster>),
}

impl ScenarioCluster {
    /// A connector for a scheduler. The scheduler's writes are attributed to `writer`.
    pub(crate) fn connector(&self, writer: &str) -> SchedulerConnector {
        match self {
            Self::Emulated(emulated) => {
                let emulator = emulated.emulator().clone();
                let clock = emulator.clock().clone();
                let connect = move |crash_point| {
                    kube::Client::new(
                        CrashService { inner: emulator.service(), crash_point },
                        "default",
                    )
                };
                SchedulerConnector { connect: Arc::new(connect), clock }
            }
            Self::Real(real) => {
                let tenant = real.tenant_service().with_writer_name(writer);
                let connect = move |crash_point| {
                    kube::Client::new(
                        CrashService { inner: tenant.clone(), crash_point },
                        "default",
                    )
                };
                SchedulerConnector { connect: Arc::new(connect), clock: real.clock().clone() }
            }
        }
    }

    /// Makes the API server call the scheduler's webhooks through the Service with this namespace
    /// and name.
    ///
    /// # Errors
    /// The cluster is real: its API server cannot reach webhooks in this process.
    pub(crate) fn serve_webhooks(
        &self,
        namespace: &str,
        name: &str,
        admission: Admission,
    ) -> anyhow::Result<()> {
        let Self::Emulated(emulated) = self else {
            anyhow::bail!("a real API server cannot reach webhooks in this process");
        };
        let respond = move |path: String, review: Value| {
            let (admission, review) = (admission.clone(), review);
            let response = async move { admission.review(&path, &review).await };
            response.map(Option::unwrap_or_default).boxed()
        };
        emulated.emulator().serve_webhook(namespace, name, Arc::new(respond));
        Ok(())
    }

    /// Passes every write, including past ones, to an audit.
    pub(crate) fn observe_with_audit(&self, audit: &Audit) {
        match self {
            Self::Emulated(emulated) => emulated.observe_with_audit(audit),
            Self::Real(real) => real.observe_with_audit(audit),
        }
    }

    /// Makes `settle` also wait for the cycles of a scheduler in this process.
    pub(crate) fn follow_scheduler_cycles(&mut self, cycle_ticks: CycleTicks) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.follow_scheduler_cycles(cycle_ticks),
        }
    }

    /// In real time: waits until a running scheduler has had two cycles.
    pub(crate) async fn wait_for_two_cycles(&self) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.wait_for_two_cycles().await,
        }
    }

    /// How long the writes of one scheduling cycle may take; used by checks of these writes.
    pub(crate) fn cycle_write_limit(&self) -> Duration {
        match self {
            Self::Emulated(_) => Duration::ZERO,
            Self::Real(_) => Duration::from_secs(5),
        }
    }

    /// Sets the time from one scheduling cycle to the next.
    pub(crate) fn set_cycle_period(&mut self, period: Duration) {
        match self {
            Self::Emulated(emulated) => emulated.set_cycle_period(period),
            Self::Real(real) => real.set_cycle_period(period),
        }
    }

    /// The cluster's current time.
    pub(crate) fn cluster_time(&self) -> Timestamp {
        match self {
            Self::Emulated(emulated) => emulated.cluster_time(),
            Self::Real(real) => real.cluster_time(),
        }
    }

    /// The cluster's clock.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Emulated(emulated) => emulated.emulator().clock().clone(),
            Self::Real(real) => real.clock().clone(),
        }
    }

    /// When the scenario started, on the cluster's clock.
    pub(crate) fn start_time(&self) -> Timestamp {
        match self {
            Self::Emulated(emulated) => emulated.start_time(),
            Self::Real(real) => real.start_time(),
        }
    }

    /// Cluster time since the scenario started, in milliseconds.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.cluster_time().duration_since(self.start_time()).as_millis())
            .unwrap_or(0)
    }

    /// The emulator in this process; `None` for a real cluster.
    pub(crate) fn emulator(&self) -> Option<&Emulator> {
        match self {
            Self::Emulated(emulated) => Some(emulated.emulator()),
            Self::Real(_) => None,
        }
    }

    /// The number of writes so far, without those of leases.
    pub(crate) fn write_count(&self) -> u64 {
        match self {
            Self::Emulated(emulated) => emulated.write_count(),
            Self::Real(real) => real.write_count(),
        }
    }

    /// The log entries of all writes so far.
    pub(crate) fn write_log(&self) -> Vec<Arc<LogEntry>> {
        match self {
            Self::Emulated(emulated) => emulated.write_log(),
            Self::Real(real) => real.write_log(),
        }
    }

    /// The real cluster; `None` for the emulator.
    pub(crate) fn real_cluster(&self) -> Option<&RealCluster> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => Some(real.real_cluster()),
        }
    }

    /// Up to which revision clients of the scenario have written each collection. `None` for the
    /// emulator, whose watches never lag.
    pub(crate) fn watermarks(&self) -> Option<Watermarks> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => Some(real.watermarks()),
        }
    }

    /// A message about pods on the scenario's nodes that do not belong to the scenario.
    pub(crate) async fn foreign_pods_message(&self) -> Option<String> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => real.foreign_pods_message().await,
        }
    }

    /// Removes everything that the scenario created. Returns a line for each object that remains.
    pub(crate) async fn delete_all_and_close(self) -> Vec<String> {
        match self {
            Self::Emulated(_) => Vec::new(),
            Self::Real(real) => real.delete_all_and_close().await,
        }
    }
}

impl Cluster for ScenarioCluster {
    fn cluster_client(&self) -> kube::Client {
        match self {
            Self::Emulated(emulated) => emulated.cluster_client(),
            Self::Real(real) => real.cluster_client(),
        }
    }

    async fn settle(&self, limit: Duration) -> Result<(), UnsettledError> {
        match self {
            Self::Emulated(emulated) => emulated.settle(limit).await,
            Self::Real(real) => real.settle(limit).await,
        }
    }
}
