//! Where a pod stands, read from its status alone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::actors::fields::{after, time};
use crate::object::{list, number};
use schedlab_json::Value;

/// The longest wait between restarts.
const BACK_OFF_MAX: Duration = Duration::from_mins(5);
/// A run this long is a good run: the next restart waits no more.
const GOOD_RUN: SignedDuration = SignedDuration::from_mins(10);

/// A pod's stage before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bound, not yet seen by its kubelet.
    Arriving,
    /// Admitted; its containers are being made.
    Starting {
        /// When it was admitted.
        since: Timestamp,
    },
    /// Its containers run.
    Running {
        /// When they started.
        since: Timestamp,
    },
    /// Its containers ended and will be started again.
    BackingOff {
        /// When.
        until: Timestamp,
    },
}

impl Stage {
    pub(super) fn of(pod: &Value) -> Self {
        let Some(admitted) = time(pod, &["status", "startTime"]) else { return Self::Arriving };
        let Some(first) = list(pod, &["status", "containerStatuses"]).first() else {
            return Self::Starting { since: admitted };
        };
        if let Some(since) = time(first, &["state", "running", "startedAt"]) {
            return Self::Running { since };
        }
        match time(first, &["lastState", "terminated", "finishedAt"]) {
            Some(ended) => Self::BackingOff { until: after(ended, waited(restarts(first))) },
            None => Self::Starting { since: admitted },
        }
    }
}

/// How the containers of a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    /// The exit code.
    pub(super) code: i32,
    /// `Completed`, `Error`, or that nothing is known.
    pub(super) reason: &'static str,
}

impl Exit {
    /// Stopped on request, in time.
    pub(super) const TERMINATED: Self = Self { code: 143, reason: "Error" };
    /// Stopped by force when the grace period was over.
    pub(super) const KILLED: Self = Self { code: 137, reason: "Error" };

    /// Stopped before it ran.
    pub(super) const NEVER_RAN: Self = Self { code: 137, reason: "ContainerStatusUnknown" };

    /// The end of a run by itself.
    pub(super) fn of_run(code: i32) -> Self {
        Self { code, reason: if code == 0 { "Completed" } else { "Error" } }
    }
}

/// How long a running pod that ends now waits for its restart. The first restart is immediate,
/// as is one after a good run; then 10 s, doubling up to 5 min.
pub(super) fn back_off(pod: &Value, now: Timestamp) -> Duration {
    let Some(first) = list(pod, &["status", "containerStatuses"]).first() else {
        return Duration::ZERO;
    };
    let started = time(first, &["state", "running", "startedAt"]).unwrap_or(now);
    if now.duration_since(started) >= GOOD_RUN {
        return Duration::ZERO;
    }
    waited(restarts(first))
}

fn restarts(container: &Value) -> u32 {
    let restarts = number(container, &["restartCount"]).unwrap_or(0);
    u32::try_from(restarts).unwrap_or(0)
}

fn waited(restarts: u32) -> Duration {
    let Some(doublings) = restarts.checked_sub(1) else { return Duration::ZERO };
    let secs = 10_u64.saturating_mul(2_u64.saturating_pow(doublings));
    Duration::from_secs(secs).min(BACK_OFF_MAX)
}
