//! Conformance tests for Kubernetes GPU schedulers: runs Gherkin features and reports a verdict.
//!
//! [`features`] loads and selects scenarios; [`runner`] runs each one on a thread and a clock of
//! its own. [`steps`] act on a [`world::World`]: one cluster, reached through a Kubernetes client,
//! and one of the [`schedulers`] under test. [`history`] says what each write means, and the audit
//! judges it. [`render`] turns what a scenario showed into text, which [`snapshots`] compares with
//! reviewed files; [`compare`] compares the outcome with another run's. [`report`] writes the
//! results. [`conform`] says what the results of a profile's scenarios mean for a scheduler.
//! [`static_check`] finds without a cluster what a run would reject. [`suite_files`] reads the files
//! of all of them, from disk or from the program itself.

pub mod compare;
pub mod conform;
pub mod features;
pub mod history;
pub mod render;
pub mod report;
pub mod runner;
pub mod schedulers;
pub mod snapshots;
pub mod static_check;
pub mod steps;
pub mod suite_files;
pub mod text;
pub mod world;
