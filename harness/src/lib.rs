//! Conformance tests for Kubernetes GPU schedulers: runs Gherkin features and reports a verdict.
//!
//! From the top: [`cli`] parses the command line and [`commands`] implements the subcommands;
//! [`features`] loads and selects scenarios; [`catalogue`] knows every step; [`runner`] runs each
//! scenario on a thread and a clock of its own; [`report`] writes the results. Steps (`steps`) act
//! on a [`world::World`], which reaches its [`scenario_cluster`] through a Kubernetes client.
//! [`render`] turns what a scenario showed into text, which [`snapshots`] compares with reviewed
//! files; the crate `schedlab_audit` checks every write.

pub mod cli;
pub mod commands;
pub mod exit;
pub mod interrupt;

pub mod catalogue;
pub mod features;

pub mod runner;

pub mod diff;
pub mod report;
pub mod snapshots;

mod manifests;
mod steps;
pub mod world;

pub mod api;
pub mod cleanup;
pub mod clusters;
pub mod external_tools;
mod kubeconfig;
pub mod observed;
mod process;
pub mod progress;
pub mod scenario_cluster;
mod scheduler_objects;
pub mod scheduler_source;
pub mod target;
mod tenancy;
pub mod text;

mod audit;
mod change;
mod cluster_scoped;
pub mod render;

pub mod cases;
pub mod doctor;
pub mod simulate;
pub mod upgrade;
