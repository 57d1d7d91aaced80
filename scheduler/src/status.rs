//! What a running scheduler tells about itself: how many cycles are done, and how the last
//! one saw the queues.

use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource, Resources},
};

/// Told after each cycle, through [`crate::Config::status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Cycles completed since the start: decided and applied.
    pub cycles: u64,
    /// Plans made in them. A cycle before which nothing happened and nothing came due keeps the
    /// plan of the one before.
    pub plans: u64,
    /// Binds, evictions and promises of the last cycle.
    pub decisions: usize,
    /// Pod groups that waited after the last cycle.
    pub waiting: usize,
    /// What the API server refused in the last cycle, if anything.
    pub last_failure: Option<String>,
    /// Why nothing new is known of past usage, where a database is asked for it.
    pub usage_trouble: Option<String>,
    /// Reservation pods that keep GPUs for nobody, and did in the cycle before, where this scheduler
    /// does not end them, and what helps.
    pub idle_reservations: Option<String>,
    /// The queues of the last cycle, by name.
    pub queues: Vec<QueueStatus>,
}

/// One queue as the last cycle saw it, before it decided anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// `metadata.name`.
    pub name: Name,
    /// What it deserves.
    pub quota: PerResource<Amount>,
    /// What it may use at most.
    pub limit: PerResource<Amount>,
    /// Its fair share, in the units of [`Resources`].
    pub fair_share: PerResource<i64>,
    /// Used by its bound pods and those of its children.
    pub allocated: Resources,
    /// Of that, by non-preemptible pods.
    pub allocated_non_preemptible: Resources,
    /// Allocated, and asked for by its pending pods.
    pub requested: Resources,
}
