//! What a scheduler decides, as a pure function: [`schedule`] takes a [`Snapshot`] of the
//! cluster and a [`Profile`] and answers a [`Plan`]. No IO, no clock, no hash order; equal
//! snapshots give equal plans, and a pod that cannot run is a decision with a [`Reason`],
//! never an error. Translating Kubernetes objects and applying plans is the shell's work
//! (crate `schedlab-scheduler`).

mod actions;
pub mod audit;
mod behind;
mod cycle;
mod deadlines;
pub mod decision;
pub mod explain;
pub mod fairshare;
pub mod framework;
pub mod model;
pub mod plan;
pub mod plugins;
pub mod profile;
pub mod queues;
pub mod resources;
pub mod session;
mod shares;
pub mod snapshot;
pub mod synthetic;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod victims;
pub mod words;

pub use cycle::{Onlooker, schedule, schedule_before};
pub use decision::{Decision, EvictionCause, Reason};
pub use plan::{Plan, QueueUse};
pub use profile::Profile;
pub use snapshot::Snapshot;
