//! The program `schedlab`: [`cli`] parses the command line and [`commands`] implements the
//! subcommands. What they use is in crates of its own: `schedlab-conformance` runs features,
//! `schedlab-clusters` starts real clusters, `schedlab-apps` simulates and upgrades.
#![allow(clippy::missing_errors_doc, reason = "subcommands of a program, which print their errors")]

pub mod cli;
pub mod commands;
pub mod exit;
