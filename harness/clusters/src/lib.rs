//! Real clusters and all that schedlab does with programs and files outside its own process.
//!
//! [`real_cluster`] starts or connects to the cluster of a run. [`cleanup`] registers and removes
//! what a run creates. [`api`] sends requests to a Kubernetes API. [`doctor`] checks what this
//! machine has.

pub mod api;
mod block_on;
pub mod cleanup;
pub mod doctor;
pub mod external_tools;
pub mod interrupt;
pub mod kubeconfig;
pub mod process;
pub mod real_cluster;
pub mod scheduler_objects;
pub mod scheduler_source;
pub mod shard_job;

pub use block_on::block_on;
