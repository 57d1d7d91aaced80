//! Scheduling cases as neutral data: one cluster, the actions to take, and what must have become
//! of every job; and single decisions with their inputs. They are read, run on the scheduler's
//! core directly (without an API, a clock or a store) and compared. A case that needs what the
//! core does not know, or in which it decides otherwise on purpose, is not applicable and says
//! why. Cases that go on for rounds are run a second time as objects of an emulated cluster, with
//! the whole scheduler.

mod build;
mod compare;
mod differs;
#[cfg(test)]
mod example;
mod folder;
mod format;
mod oracle;
mod read;
mod report;
mod run;
mod shell;

pub use folder::run_folder;
pub use report::{Counts, FileReport, Judged, Report, Verdict};
