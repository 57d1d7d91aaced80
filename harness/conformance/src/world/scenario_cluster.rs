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
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::LogEntry;
use schedlab_scheduler::admission::Admission;

use crate::schedulers::{Connector, CrashService, CycleTicks};
use schedlab_clusters::real_cluster::RealCluster;
use schedlab_tenancy::Watermarks;

pub(crate) use emulated::EmulatedCluster;
pub use emulated::epoch;
pub use tenant::run_actors;
pub use tenant::{TenantCluster, collections};

/// A cluster on which a scenario runs. The trait contains only what a Kubernetes client cannot do.
pub trait Cluster {
    /// A client with administrator rights.
    fn client(&self) -> kube::Client;

    /// Lets the cluster run until it is idle, or until `limit` of its own time has passed.
    fn settle(&self, limit: Duration) -> impl Future<Output = Result<(), Unsettled>>;
}

/// The error of a cluster that kept changing until the time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not become idle within {} s of its time", limit.as_secs())]
pub struct Unsettled {
    /// The time limit, in the cluster's time.
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
    /// A connector for a scheduler whose writes are attributed to `writer`.
    pub(crate) fn connector(&self, writer: &str) -> Connector {
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
                Connector { connect: Arc::new(connect), clock }
            }
            Self::Real(real) => {
                let tenant = real.tenant_service().with_writer(writer);
                let connect = move |crash_point| {
                    kube::Client::new(
                        CrashService { inner: tenant.clone(), crash_point },
                        "default",
                    )
                };
                Connector { connect: Arc::new(connect), clock: real.clock().clone() }
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

    /// Lets an audit observe every write, including those of the past.
    pub(crate) fn observe(&self, audit: &Audit) {
        match self {
            Self::Emulated(emulated) => emulated.observe(audit),
            Self::Real(real) => real.observe(audit),
        }
    }

    /// Lets `settle` also wait for the cycles of a scheduler in this process.
    pub(crate) fn follow_cycles(&mut self, cycle_ticks: CycleTicks) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.follow_cycles(cycle_ticks),
        }
    }

    /// Waits in real time until a running scheduler has had two cycles.
    pub(crate) async fn wait_for_cycles(&self) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.wait_for_cycles().await,
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
    pub(crate) fn set_period(&mut self, period: Duration) {
        match self {
            Self::Emulated(emulated) => emulated.set_period(period),
            Self::Real(real) => real.set_period(period),
        }
    }

    /// The cluster's current time.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Emulated(emulated) => emulated.now(),
            Self::Real(real) => real.now(),
        }
    }

    /// The cluster's clock.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Emulated(emulated) => emulated.emulator().clock().clone(),
            Self::Real(real) => real.clock().clone(),
        }
    }

    /// When the scenario started.
    pub(crate) fn started_at(&self) -> Timestamp {
        match self {
            Self::Emulated(_) => epoch(),
            Self::Real(real) => real.started_at(),
        }
    }

    /// Cluster time since the scenario started, in milliseconds.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.now().duration_since(self.started_at()).as_millis()).unwrap_or(0)
    }

    /// The number of writes, except to leases.
    pub(crate) fn writes(&self) -> u64 {
        match self {
            Self::Emulated(emulated) => emulated.writes(),
            Self::Real(real) => real.writes(),
        }
    }

    /// Every change so far.
    pub(crate) fn log(&self) -> Vec<Arc<LogEntry>> {
        match self {
            Self::Emulated(emulated) => emulated.log(),
            Self::Real(real) => real.log(),
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

    /// A message about foreign pods on the scenario's nodes.
    pub(crate) async fn foreign_pods(&self) -> Option<String> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => real.foreign_pods().await,
        }
    }

    /// Removes everything that the scenario created. Returns a line for each object that remains.
    pub(crate) async fn close(self) -> Vec<String> {
        match self {
            Self::Emulated(_) => Vec::new(),
            Self::Real(real) => real.close().await,
        }
    }
}

impl Cluster for ScenarioCluster {
    fn client(&self) -> kube::Client {
        match self {
            Self::Emulated(emulated) => emulated.client(),
            Self::Real(real) => real.client(),
        }
    }

    async fn settle(&self, limit: Duration) -> Result<(), Unsettled> {
        match self {
            Self::Emulated(emulated) => emulated.settle(limit).await,
            Self::Real(real) => real.settle(limit).await,
        }
    }
}
