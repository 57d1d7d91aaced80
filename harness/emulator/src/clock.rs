//! The one clock of a cluster, handed to everything that asks for the time.
//!
//! It is read through tokio's timer, so it is virtual on a runtime whose clock is paused and
//! real elsewhere. Only [`Clock::real`] reads the machine's clock.

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the cluster's time.
#[derive(Clone, Debug)]
pub struct Clock {
    epoch: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock that shows `epoch` now. Call it inside the runtime whose time it follows.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, origin: Instant::now() }
    }

    /// The machine's time.
    #[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    pub fn real() -> Self {
        let now = std::time::SystemTime::now();
        Self::starting_at(Timestamp::try_from(now).expect("this machine's year fits a timestamp"))
    }

    /// The cluster's time.
    pub fn now(&self) -> Timestamp {
        let elapsed = self.origin.elapsed();
        self.epoch.checked_add(elapsed).expect("a run ends before the year 9999")
    }

    /// When tokio's timers reach a moment of the cluster's time; now for what is past, and at
    /// most thirty years from the beginning.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let wait = std::time::Duration::try_from(time.duration_since(self.epoch));
        let longest = std::time::Duration::from_hours(30 * 365 * 24);
        self.origin + wait.unwrap_or_default().min(longest)
    }
}
