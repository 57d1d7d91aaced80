//! The decisions of the scheduler as a pure function: [`schedule`] takes a [`Snapshot`] of the
//! cluster and a [`Profile`] and returns a [`Plan`]. No IO, no clock, no hash order: equal
//! snapshots give equal plans. A pod that cannot run is a result with a [`Reason`], never an error.
//! The crate `schedlab-scheduler` translates Kubernetes objects and applies plans.

mod actions;
pub mod audit;
mod cycle;
pub mod explain;
mod fair_share_reason;
pub mod fairshare;
pub mod framework;
mod head_of_line;
pub mod inspect;
mod next_snapshot;
pub mod plan;
pub mod plugins;
pub mod profile;
pub mod queues;
pub mod reason;
mod requeue;
pub mod session;
mod solver;
pub mod synthetic;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use schedlab_model as model;
pub use schedlab_model::resources;

pub use cycle::{CycleObserver, schedule, schedule_observed};
pub use model::Snapshot;
pub use plan::{Decision, EvictionCause, Plan, QueueUsage};
pub use profile::Profile;
pub use reason::Reason;
