//! The scheduler's shell: the Kubernetes side of the pure core (`schedlab-scheduler-core`).
//! [`run`] watches a cluster, builds a snapshot, lets the core compute a plan and applies that
//! plan through the API. All state lives in the cluster: a restarted scheduler continues where
//! its predecessor stopped. Scheduling decisions themselves are made in the core only.

pub mod admission;
mod api;
mod apply;
mod binder;
mod cache;
pub mod cli;
mod concurrency;
pub mod config;
mod dra;
pub mod explain;
mod karta;
pub mod logging;
mod parse;
mod podgrouper;
pub mod progress;
mod queue_controller;
mod records;
pub mod replay;
mod run;
mod snapshot_builder;
pub mod snapshot_file;
pub mod trace;
pub mod usage;
mod watch;

#[cfg(test)]
mod malformed_tests;

pub use config::{
    Binding, Clock, Component, Config, ConfigFile, ConfigSource, ConfigSourceError,
    DefaultPriorities, FeatureGateError, FeatureGates, Flavor, GpuReservation, IdlePolicy,
    NodePool, QueueMetricLabel, RunUntil,
};
pub use progress::{CycleTimings, Progress, QueueSummary};
pub use run::{health, leader_election, metrics, metrics::Metrics, run, run_until};
pub use snapshot_builder::{ClusterObjects, build_snapshot};
