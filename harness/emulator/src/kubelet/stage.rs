//! The stage of a pod, derived from its status.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::reconcile::fields::{time_after, time_at};
use schedlab_api::{
    Value,
    object::{list, number},
};

/// The maximum delay between restarts of a pod's containers.
const BACKOFF_MAX: Duration = Duration::from_mins(5);
/// The length of a run after which the restart delay is reset.
const BACKOFF_RESET_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// The stage of a pod before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// Bound, but not yet admitted by the kubelet.
    Arriving,
    /// Admitted; the containers are being created.
    Starting {
        /// The time at which the pod was admitted.
        since: Timestamp,
    },
    /// The containers are running.
    Running {
        /// The time at which the containers started.
        since: Timestamp,
    },
    /// The containers ended and wait for a restart.
    BackingOff {
        /// The time at which the containers restart.
        until: Timestamp,
    },
}

impl PodStage {
    pub(super) fn from_pod(pod: &Value) -> Self {
        let Some(admitted) = time_at(pod, &["status", "startTime"]) else { return Self::Arriving };
        let Some(first) = list(pod, &["status", "containerStatuses"]).first() else {
            return Self::Starting { since: admitted };
        };
        if let Some(since) = time_at(first, &["state", "running", "startedAt"]) {
            return Self::Running { since };
        }
        match time_at(first, &["lastState", "terminated", "finishedAt"]) {
            Some(ended) => {
                Self::BackingOff { until: time_after(ended, backoff_delay(restart_count(first))) }
            }
            None => Self::Starting { since: admitted },
        }
    }
}

/// How the containers of a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContainerExit {
    /// The exit code.
    pub(super) code: i32,
    /// The reason: `Completed`, `Error` or `ContainerStatusUnknown`.
    pub(super) reason: &'static str,
}

impl ContainerExit {
    /// The containers ended within the grace period of a deletion.
    pub(super) const TERMINATED: Self = Self { code: 143, reason: "Error" };
    /// The containers were killed at the end of the grace period.
    pub(super) const KILLED: Self = Self { code: 137, reason: "Error" };

    /// The pod was deleted before its containers ran.
    pub(super) const NEVER_RAN: Self = Self { code: 137, reason: "ContainerStatusUnknown" };

    /// The containers ended by themselves with an exit code.
    pub(super) fn from_code(code: i32) -> Self {
        Self { code, reason: if code == 0 { "Completed" } else { "Error" } }
    }
}

/// The restart delay of a pod whose containers end now: none for the first restart and after a run
/// of 10 min, otherwise 10 s, doubling up to 5 min.
pub(super) fn restart_delay(pod: &Value, now: Timestamp) -> Duration {
    let Some(first) = list(pod, &["status", "containerStatuses"]).first() else {
        return Duration::ZERO;
    };
    let started = time_at(first, &["state", "running", "startedAt"]).unwrap_or(now);
    if now.duration_since(started) >= BACKOFF_RESET_AFTER {
        return Duration::ZERO;
    }
    backoff_delay(restart_count(first))
}

fn restart_count(container: &Value) -> u32 {
    let restarts = number(container, &["restartCount"]).unwrap_or(0);
    u32::try_from(restarts).unwrap_or(0)
}

fn backoff_delay(restarts: u32) -> Duration {
    let Some(doublings) = restarts.checked_sub(1) else { return Duration::ZERO };
    let secs = 10_u64.saturating_mul(2_u64.saturating_pow(doublings));
    Duration::from_secs(secs).min(BACKOFF_MAX)
}
