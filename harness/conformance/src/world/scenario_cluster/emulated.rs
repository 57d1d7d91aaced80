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

use super::{Cluster, UnsettledError};
use crate::history::{audit_observer, write_of_entry};
use schedlab_clusters::scheduler_objects::scheduler_objects;

/// The date and time at which virtual time starts.
const EMULATOR_EPOCH: &str = "2026-01-01T00:00:00Z";

/// An emulated cluster in this process.
#[derive(Debug)]
pub(crate) struct EmulatedCluster {
    emulator: Emulator,
    /// The number of writes so far, without those of leases.
    writes: Arc<AtomicU64>,
    /// How long nothing must be written for the cluster to count as idle.
    quiet_period: Duration,
    /// The date and time at which the cluster's time began.
    start_time: Timestamp,
}

impl EmulatedCluster {
    /// Starts a cluster that contains only the scheduler's CRDs and priority classes. The cluster
    /// follows the clock of the current runtime.
    pub(crate) fn start(seed: u64, feature_gates: FeatureGates) -> Self {
        // Most scenarios of a run start from the same store.
        static BEGINNING: OnceLock<(u64, FeatureGates, Store)> = OnceLock::new();
        let options = Options {
            seed,
            feature_gates,
            ..Options::with_clock(Clock::starting_at(epoch_timestamp()))
        };
        let gates = &options.feature_gates;
        let (of_seed, of_gates, store) =
            BEGINNING.get_or_init(|| (seed, gates.clone(), store_with_scheduler_objects(&options)));
        let store = if *of_seed == seed && of_gates == gates {
            store.clone()
        } else {
            store_with_scheduler_objects(&options)
        };
        Self::with_store(store, options, epoch_timestamp())
    }

    /// Like [`Self::start`], for a cluster whose time begins at `time`.
    pub(crate) fn start_at(time: Timestamp, seed: u64, feature_gates: FeatureGates) -> Self {
        let clock = Clock::starting_at(time);
        let options = Options { seed, feature_gates, ..Options::with_clock(clock) };
        Self::with_store(store_with_scheduler_objects(&options), options, time)
    }

    fn with_store(store: Store, options: Options, start_time: Timestamp) -> Self {
        let emulator = Emulator::start_with(store, options);
        let writes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&writes);
        emulator.observe_writes(Box::new(move |entry| {
            if !is_node_heartbeat(entry) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
        let quiet_period = quiet_period_for(Duration::from_secs(1));
        Self { emulator, writes, quiet_period, start_time }
    }

    /// Passes every write, including past ones, to an audit.
    pub(crate) fn observe_with_audit(&self, audit: &Audit) {
        self.write_log().iter().for_each(|entry| audit.observe_write(&write_of_entry(entry)));
        self.emulator.observe_writes(audit_observer(audit));
    }

    /// Sets the time from one scheduling cycle to the next.
    pub(crate) fn set_cycle_period(&mut self, period: Duration) {
        self.quiet_period = quiet_period_for(period);
    }

    /// The emulator that is the cluster.
    pub(crate) fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// When the cluster's time began.
    pub(crate) fn start_time(&self) -> Timestamp {
        self.start_time
    }

    /// The current virtual time.
    pub(crate) fn cluster_time(&self) -> Timestamp {
        self.emulator.clock().now()
    }

    /// The number of writes so far, without those of leases.
    pub(crate) fn write_count(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// The log entries of all writes so far.
    pub(crate) fn write_log(&self) -> Vec<Arc<LogEntry>> {
        self.emulator.log_since(0).unwrap_or_default()
    }
}

impl Cluster for EmulatedCluster {
    fn cluster_client(&self) -> kube::Client {
        self.emulator.client()
    }

    /// Waits until the cluster is idle: nothing was written during two scheduling cycles.
    async fn settle(&self, limit: Duration) -> Result<(), UnsettledError> {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let before = self.write_count();
            tokio::time::sleep(self.quiet_period).await;
            if self.write_count() == before {
                return Ok(());
            }
            if tokio::time::Instant::now() >= end {
                return Err(UnsettledError { limit });
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

fn quiet_period_for(period: Duration) -> Duration {
    2 * period + Duration::from_millis(1)
}

/// The start of virtual time.
pub fn epoch_timestamp() -> Timestamp {
    EMULATOR_EPOCH.parse().expect("the epoch is a timestamp")
}

fn is_node_heartbeat(entry: &LogEntry) -> bool {
    &*entry.key.resource.plural == "leases"
}
