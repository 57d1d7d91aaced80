//! Progress of a running scheduler: completed cycles, and the queues in the last one.

use std::time::Duration;

use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource, Resources},
};

/// The state of the scheduler that it publishes after each cycle through
/// [`crate::Config::progress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of completed cycles: decided and applied.
    pub cycles: u64,
    /// Number of plans made. A cycle without new input and before the deadline of the last plan
    /// reuses that plan.
    pub plans: u64,
    /// Number of bindings, evictions and pipelined pods of the last cycle.
    pub decisions: usize,
    /// Number of pod groups that wait after the last cycle.
    pub waiting_groups: usize,
    /// The last error of the API server in the last cycle.
    pub last_failure: Option<String>,
    /// Why the usage database provides no new data.
    pub usage_error: Option<String>,
    /// Warning about reservation pods that were idle in the last two cycles and that this scheduler
    /// does not delete, with the remedy.
    pub idle_reservations: Option<String>,
    /// Queues of the last cycle, ordered by name.
    pub queues: Vec<QueueSummary>,
    /// Durations of the phases of the last cycle that made a plan.
    pub timings: CycleTimings,
}

/// Durations of the phases of a cycle, by tokio's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleTimings {
    /// Grouping pods.
    pub group: Duration,
    /// Updating the snapshot.
    pub refresh: Duration,
    /// Deciding: the core.
    pub decide: Duration,
    /// Applying the plan: bindings, evictions, conditions and events.
    pub apply: Duration,
    /// Writing annotations, and the status of queues and groups.
    pub report: Duration,
    /// The whole cycle.
    pub whole: Duration,
}

impl CycleTimings {
    /// The phases in order, with their names.
    pub const fn phases(&self) -> [(&'static str, Duration); 5] {
        [
            ("group", self.group),
            ("refresh", self.refresh),
            ("decide", self.decide),
            ("apply", self.apply),
            ("report", self.report),
        ]
    }
}

/// A queue as the last cycle saw it, before its decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// Name of the Queue object.
    pub name: Name,
    /// Deserved quota of the queue.
    pub quota: PerResource<Amount>,
    /// Upper limit of the queue.
    pub limit: PerResource<Amount>,
    /// Fair share of the queue, in the units of [`Resources`].
    pub fair_share: PerResource<i64>,
    /// Used by bound pods of the queue and of its children.
    pub allocated: Resources,
    /// The part of `allocated` that non-preemptible pods use.
    pub allocated_non_preemptible: Resources,
    /// Allocated resources, plus requests of pending pods.
    pub requested: Resources,
}
