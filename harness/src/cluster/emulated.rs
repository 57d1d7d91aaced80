//! The emulator, in this process and on this thread's clock.
//! Heartbeats are no news: a cluster in which only they are written is quiet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use schedlab_emulator::clock::Clock;
use schedlab_emulator::store::{LogEntry, Resource, Store};
use schedlab_emulator::{Emulator, Options, beginning};

use super::{Cluster, Unsettled, scheduler_objects};
use crate::audit::Audit;

/// When virtual time begins.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A cluster in memory with an audit that sees every write.
#[derive(Debug)]
pub struct Emulated {
    emulator: Emulator,
    /// Writes that mean something: all but heartbeats.
    writes: Arc<AtomicU64>,
    /// How long nothing may be written for the cluster to count as quiet.
    quiet: Duration,
}

impl Emulated {
    /// Starts a cluster with nothing but what comes with the scheduler. Call it on the runtime
    /// whose time it shall follow.
    pub fn start(seed: u64) -> Self {
        // Scenarios of a run begin alike.
        static BEGINNING: OnceLock<(u64, Store)> = OnceLock::new();
        let options = Options { seed, ..Options::at(Clock::starting_at(epoch())) };
        let (of, store) = BEGINNING.get_or_init(|| (seed, installed(&options)));
        let store = if *of == seed { store.clone() } else { installed(&options) };
        let emulator = Emulator::start_with(store, options);
        let writes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&writes);
        emulator.on_write(Box::new(move |entry| {
            if !is_heartbeat(entry) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Self { emulator, writes, quiet: quiet_after(Duration::from_secs(1)) }
    }

    /// Has an audit see every write, those of the past included.
    pub fn observe(&self, audit: &Audit) {
        self.log().iter().for_each(|entry| audit.observe(entry));
        self.emulator.on_write(audit.observer());
    }

    /// The time from one scheduling cycle to the next.
    pub fn set_period(&mut self, period: Duration) {
        self.quiet = quiet_after(period);
    }

    /// The cluster itself.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Its time.
    pub fn now(&self) -> Timestamp {
        self.emulator.clock().now()
    }

    /// Milliseconds of its time since it began.
    pub fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.now().duration_since(epoch()).as_millis()).unwrap_or(0)
    }

    /// How many writes there were that mean something.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Every change so far.
    pub fn log(&self) -> Vec<Arc<LogEntry>> {
        self.emulator.log_since(0).unwrap_or_default()
    }
}

impl Cluster for Emulated {
    fn client(&self) -> kube::Client {
        self.emulator.client()
    }

    /// Quiet is: nothing was written while the scheduler had two cycles to write in.
    async fn settle(&self, limit: Duration) -> Result<(), Unsettled> {
        let end = tokio::time::Instant::now() + limit;
        loop {
            let before = self.writes();
            tokio::time::sleep(self.quiet).await;
            if self.writes() == before {
                return Ok(());
            }
            if tokio::time::Instant::now() >= end {
                return Err(Unsettled { limit });
            }
        }
    }
}

fn installed(options: &Options) -> Store {
    let objects =
        scheduler_objects().map(|(group, plural, object)| (Resource::new(group, plural), object));
    beginning(options, objects).expect("what comes with the scheduler is valid")
}

fn quiet_after(period: Duration) -> Duration {
    2 * period + Duration::from_millis(1)
}

/// When a cluster's time begins.
pub(crate) fn epoch() -> Timestamp {
    EPOCH.parse().expect("the epoch is a timestamp")
}

fn is_heartbeat(entry: &LogEntry) -> bool {
    &*entry.key.resource.plural == "leases"
}
