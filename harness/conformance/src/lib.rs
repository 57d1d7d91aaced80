//! Conformance tests for Kubernetes GPU schedulers: runs Gherkin features and reports a verdict.
//!
//! [`features`] loads and selects scenarios; [`catalogue`] knows every step; [`runner`] runs each
//! scenario on a thread and a clock of its own; [`report`] writes the results. Steps ([`steps`]) act
//! on a [`world::World`], which reaches its [`scenario_cluster`] through a Kubernetes client.
//! [`render`] turns what a scenario showed into text, which [`snapshots`] compares with reviewed
//! files; [`audit`] watches every write.
#![allow(clippy::missing_errors_doc, reason = "72 functions lack the section")]

pub mod audit;
pub mod catalogue;
pub mod change;
pub mod diff;
pub mod features;
pub mod manifests;
pub mod observed;
pub mod progress;
pub mod render;
pub mod report;
pub mod runner;
pub mod scenario_cluster;
pub mod snapshots;
pub mod steps;
pub mod target;
pub mod text;
pub mod world;
