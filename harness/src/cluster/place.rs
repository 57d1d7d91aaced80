//! The cluster of a scenario, of either kind, and how a scheduler gets at it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::LogEntry;
use schedlab_json::Value;
use schedlab_scheduler::admission::Admission;

use super::fuse::{Fuse, Fused};
use super::in_process::Pulse;
use super::{Cluster, Emulated, Real, Unsettled, epoch};
use crate::audit::Audit;
use crate::ground::Ground;
use crate::veil::Marks;

/// Where a scenario runs.
#[derive(Debug)]
pub(crate) enum Place {
    /// In this process, on this thread's clock.
    Emulated(Emulated),
    /// In a part of a real cluster.
    Real(Box<Real>),
}

/// How a scheduler in this process reaches a cluster, and its time.
#[derive(Clone)]
pub(crate) struct Door {
    /// A client for one life of the scheduler.
    pub(crate) connect: Arc<dyn Fn(Arc<Fuse>) -> kube::Client + Send + Sync>,
    /// The cluster's time.
    pub(crate) clock: Clock,
}

impl Place {
    /// For a scheduler that writes under this name.
    pub(crate) fn door(&self, writer: &str) -> Door {
        match self {
            Self::Emulated(emulated) => {
                let emulator = emulated.emulator().clone();
                let clock = emulator.clock().clone();
                let connect = move |fuse| {
                    kube::Client::new(Fused { inner: emulator.service(), fuse }, "default")
                };
                Door { connect: Arc::new(connect), clock }
            }
            Self::Real(real) => {
                let veil = real.veil().of_writer(writer);
                let connect =
                    move |fuse| kube::Client::new(Fused { inner: veil.clone(), fuse }, "default");
                Door { connect: Arc::new(connect), clock: real.clock().clone() }
            }
        }
    }

    /// Has its API server find the scheduler's webhooks, at the service of this namespace and name.
    pub(crate) fn serve_webhooks(
        &self,
        (namespace, name): (&str, &str),
        admission: Admission,
    ) -> anyhow::Result<()> {
        let Self::Emulated(emulated) = self else {
            anyhow::bail!("webhooks in this process are out of a real API server's reach");
        };
        let answer = move |path: String, review: Value| {
            let (admission, review) = (admission.clone(), review);
            let answered = async move { admission.answer(&path, &review).await };
            answered.map(Option::unwrap_or_default).boxed()
        };
        emulated.emulator().serve_webhook(namespace, name, Arc::new(answer));
        Ok(())
    }

    /// Has an audit see every write, those of the past included.
    pub(crate) fn observe(&self, audit: &Audit) {
        match self {
            Self::Emulated(emulated) => emulated.observe(audit),
            Self::Real(real) => real.observe(audit),
        }
    }

    /// Has quiet mean that a scheduler in this process has had its cycles.
    pub(crate) fn listen(&mut self, pulse: Pulse) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.listen(pulse),
        }
    }

    /// Waits in real time until a scheduler that lives has had two cycles.
    pub(crate) async fn have_cycles(&self) {
        match self {
            Self::Emulated(_) => {}
            Self::Real(real) => real.have_cycles().await,
        }
    }

    /// How long the writes of one cycle take at most, for whoever judges them.
    pub(crate) fn moment(&self) -> Duration {
        match self {
            Self::Emulated(_) => Duration::ZERO,
            Self::Real(_) => Duration::from_secs(5),
        }
    }

    /// The time from one scheduling cycle to the next.
    pub(crate) fn set_period(&mut self, period: Duration) {
        match self {
            Self::Emulated(emulated) => emulated.set_period(period),
            Self::Real(real) => real.set_period(period),
        }
    }

    /// Its time.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Emulated(emulated) => emulated.now(),
            Self::Real(real) => real.now(),
        }
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Emulated(emulated) => emulated.emulator().clock().clone(),
            Self::Real(real) => real.clock().clone(),
        }
    }

    /// When the scenario began.
    pub(crate) fn born(&self) -> Timestamp {
        match self {
            Self::Emulated(_) => epoch(),
            Self::Real(real) => real.born(),
        }
    }

    /// Milliseconds of its time since the scenario began.
    pub(crate) fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.now().duration_since(self.born()).as_millis()).unwrap_or(0)
    }

    /// How many writes there were that mean something.
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

    /// The real cluster that it is a part of.
    pub(crate) fn ground(&self) -> Option<&Ground> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => Some(real.ground()),
        }
    }

    /// Up to where it was written; what the emulator has is seen at once.
    pub(crate) fn marks(&self) -> Option<Marks> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => Some(real.marks()),
        }
    }

    /// Pods of others on its nodes, in words.
    pub(crate) async fn guests(&self) -> Option<String> {
        match self {
            Self::Emulated(_) => None,
            Self::Real(real) => real.guests().await,
        }
    }

    /// Takes away everything that the scenario made. Answers what is left.
    pub(crate) async fn close(self) -> Vec<String> {
        match self {
            Self::Emulated(_) => Vec::new(),
            Self::Real(real) => real.close().await,
        }
    }
}

impl Cluster for Place {
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

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}
