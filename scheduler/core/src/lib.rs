//! What a scheduler decides, as a pure function: [`schedule`] takes a [`Snapshot`] of the
//! cluster and a [`Profile`] and answers a [`Plan`]. No IO, no clock, no hash order; equal
//! snapshots give equal plans, and a pod that cannot run is a decision with a [`Reason`],
//! never an error. Translating Kubernetes objects and applying plans is the shell's work
//! (crate `schedlab-scheduler`).

#[expect(dead_code, reason = "the cycle that calls it comes with allocation")]
mod actions;
pub mod audit;
pub mod decision;
pub mod fairshare;
pub mod model;
pub mod plan;
pub mod profile;
pub mod queues;
pub mod resources;
pub mod session;
pub mod snapshot;
pub mod synthetic;
mod victims;
pub mod words;

pub use decision::{Decision, EvictionCause, Reason};
pub use plan::{Plan, QueueUse};
pub use profile::Profile;
pub use snapshot::Snapshot;

/// Decides one scheduling cycle.
pub fn schedule(snapshot: &Snapshot, profile: &Profile) -> Plan {
    let _ = (snapshot, profile);
    Plan::default()
}
