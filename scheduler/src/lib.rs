//! The scheduler's shell: Kubernetes on one side, the pure core (`schedlab-scheduler-core`) on
//! the other. [`run`] watches a cluster, translates it into a snapshot, asks the core for a
//! plan and applies that plan through the API. Nothing is kept outside the cluster: a
//! scheduler that starts anew goes on where the old one stopped.

pub mod admission;
mod api;
mod apply;
mod binder;
pub mod captured;
pub mod config;
pub mod crds;
pub mod explain;
pub mod health;
mod karta;
pub mod leader;
pub mod metrics;
mod mirror;
mod pacing;
mod parse;
mod pod_groups;
mod podgrouper;
pub mod preview;
mod queues;
pub mod replay;
mod run;
pub mod status;
pub mod trace;
mod translate;
pub mod usage;
mod watch;

#[cfg(test)]
mod malformed_tests;

pub use config::{
    Binding, Clock, Component, Config, ConfigFile, DefaultPriorities, Ends, Flavor, GivenError,
    GivenFile, GpuReservation, Idle, NodePool, QueueMetricLabel,
};
pub use metrics::Metrics;
pub use run::{run, run_until};
pub use status::{QueueStatus, Status};
