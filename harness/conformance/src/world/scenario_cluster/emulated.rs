//! The emulator in this process, on the virtual clock of this thread. Leases are not counted as
//! writes: a cluster in which only leases are renewed is idle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use schedlab_audit::Audit;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::store::{LogEntry, Resource, Store};
use schedlab_emulator::{Emulator, Options, initial_store};

use super::{Cluster, Unsettled};
use crate::history::{observer, write_of};
use schedlab_clusters::scheduler_objects::scheduler_objects;

/// The start of virtual time.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A cluster in memory.
#[derive(Debug)]
pub(crate) struct EmulatedCluster {
    emulator: Emulator,
    /// The number of writes, except to leases.
    writes: Arc<AtomicU64>,
    /// How long nothing may be written before the cluster counts as idle.
    quiet_period: Duration,
}

impl EmulatedCluster {
    /// Starts a cluster that contains only the scheduler's CRDs and priority classes. Call it on
    /// the runtime whose time it follows.
    pub(crate) fn start(seed: u64, feature_gates: FeatureGates) -> Self {
        // Most scenarios of a run start from the same store.
        static BEGINNING: OnceLock<(u64, FeatureGates, Store)> = OnceLock::new();
        let options =
            Options { seed, feature_gates, ..Options::with_clock(Clock::starting_at(epoch())) };
        let gates = &options.feature_gates;
        let (of_seed, of_gates, store) =
            BEGINNING.get_or_init(|| (seed, gates.clone(), store_with_scheduler_objects(&options)));
        let store = if *of_seed == seed && of_gates == gates {
            store.clone()
        } else {
            store_with_scheduler_objects(&options)
        };
        let emulator = Emulator::start_with(store, options);
        let writes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&writes);
        emulator.observe_writes(Box::new(move |entry| {
            if !is_heartbeat(entry) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Self { emulator, writes, quiet_period: quiet_after(Duration::from_secs(1)) }
    }

    /// Lets an audit observe every write, including those of the past.
    pub(crate) fn observe(&self, audit: &Audit) {
        self.log().iter().for_each(|entry| audit.observe(&write_of(entry)));
        self.emulator.observe_writes(observer(audit));
    }

    /// Sets the time from one scheduling cycle to the next.
    pub(crate) fn set_period(&mut self, period: Duration) {
        self.quiet_period = quiet_after(period);
    }

    /// The emulator itself.
    pub(crate) fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// The current virtual time.
    pub(crate) fn now(&self) -> Timestamp {
        self.emulator.clock().now()
    }

    /// The number of writes, except to leases.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Every change so far.
    pub(crate) fn log(&self) -> Vec<Arc<LogEntry>> {
        self.emulator.log_since(0).unwrap_or_default()
    }
}

impl Cluster for EmulatedCluster {
    fn client(&self) -> kube::Client {
        self.emulator.client()
    }

    /// Idle: nothing was written during two scheduling cycles.
    async fn settle(&self, limit: Duration) -> Result<(), Unsettled> {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let before = self.writes();
            tokio::time::sleep(self.quiet_period).await;
            if self.writes() == before {
                return Ok(());
            }
            if tokio::time::Instant::now() >= end {
                return Err(Unsettled { limit });
            }
        }
    }
}

fn store_with_scheduler_objects(options: &Options) -> Store {
    let objects =
        scheduler_objects().map(|(group, plural, object)| (Resource::new(group, plural), object));
    initial_store(options, objects)
        .expect("the scheduler's own CRDs and priority classes are valid")
}

fn quiet_after(period: Duration) -> Duration {
    2 * period + Duration::from_millis(1)
}

/// The start of virtual time.
pub fn epoch() -> Timestamp {
    EPOCH.parse().expect("the epoch is a timestamp")
}

fn is_heartbeat(entry: &LogEntry) -> bool {
    &*entry.key.resource.plural == "leases"
}
