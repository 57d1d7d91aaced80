//! Proves what a Kubernetes GPU scheduler does: features in, verdict out.
//!
//! Read downwards: [`cli`] is what people type and [`commands`] what it does; [`features`]
//! loads and selects scenarios, [`vocabulary`] knows every step, [`runner`] runs scenarios,
//! each on a thread and a clock of its own, and [`report`] tells what came of them. Steps
//! (`steps`) act on a [`world::World`], which reaches its [`cluster`] through a Kubernetes
//! client. What a scenario showed is put into words by [`snapshots`] and compared with what a
//! person [`reviewed`]; the [`audit`] watches every write.

pub mod cli;
pub mod commands;
pub mod exit;
pub mod interrupt;

pub mod features;
pub mod vocabulary;

pub mod runner;

pub mod diff;
pub mod report;
pub mod reviewed;

mod objects;
mod steps;
pub mod world;

pub mod api;
pub mod cluster;
pub mod ground;
mod kubeconfig;
pub mod leftovers;
mod processes;
pub mod progress;
pub mod target;
pub mod text;
pub mod tools;
mod veil;
pub mod view;

pub mod audit;
mod fenced;
mod fields;
pub mod happenings;
pub mod snapshots;

pub mod cases;
pub mod doctor;
pub mod simulate;
pub mod upgrade;
