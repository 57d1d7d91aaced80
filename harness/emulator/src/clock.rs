//! The clock of a cluster, shared by all components.
//!
//! It is based on tokio's timer: virtual in a runtime with a paused clock, real otherwise. Only
//! [`Clock::real`] reads the system clock.

use jiff::Timestamp;
use tokio::time::Instant;

/// The clock of a cluster.
#[derive(Clone, Debug)]
pub struct Clock {
    epoch: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock that shows `epoch` now. Call it inside the tokio runtime whose time the clock
    /// follows.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, origin: Instant::now() }
    }

    /// A clock that follows the system time.
    #[allow(clippy::disallowed_methods, reason = "the one place where the machine's clock is read")]
    pub fn real() -> Self {
        let now = std::time::SystemTime::now();
        Self::starting_at(Timestamp::try_from(now).expect("the system time fits a timestamp"))
    }

    /// The current time of the cluster.
    pub fn now(&self) -> Timestamp {
        let elapsed = self.origin.elapsed();
        self.epoch.checked_add(elapsed).expect("a run ends before the year 9999")
    }

    /// The tokio instant of a cluster time: now for a time in the past, and at most thirty years
    /// after the start.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let wait = std::time::Duration::try_from(time.duration_since(self.epoch));
        let longest = std::time::Duration::from_hours(30 * 365 * 24);
        self.origin + wait.unwrap_or_default().min(longest)
    }
}
