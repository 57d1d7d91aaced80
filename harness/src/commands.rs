//! The subcommands. Data goes to standard output, everything else to standard error.

mod cases;
mod check;
mod clean;
mod diff;
mod doctor;
mod environment;
mod output;
mod replay;
mod reproduce;
mod run;
mod simulate;
mod snapshot;
mod steps;
mod up;
mod upgrade;

use crate::exit::ExitStatus;
use crate::features::Diagnostics;

pub use cases::cases;
pub use check::{check, list};
pub use clean::clean;
pub use diff::diff;
pub use doctor::doctor;
pub(crate) use output::Output;
pub use replay::{Replay, replay};
pub use run::run;
pub use simulate::simulate;
pub use snapshot::snapshot;
pub use steps::steps;
pub use up::up;
pub use upgrade::upgrade;

/// Prints the error that ended a command and returns the exit status.
pub fn report_error(error: &anyhow::Error) -> ExitStatus {
    let mut output = Output::detect();
    if let Some(problems) = error.downcast_ref::<Diagnostics>() {
        output.note(&problems.to_string());
        return ExitStatus::Failed;
    }
    if let Some(nothing) = error.downcast_ref::<NothingSelected>() {
        output.note(&nothing.to_string());
        return ExitStatus::NothingSelected;
    }
    output.note(&format!("schedlab: {error:#}"));
    if error.downcast_ref::<UsageError>().is_some() {
        ExitStatus::Usage
    } else {
        ExitStatus::NotStarted
    }
}

/// No scenario matches the selection, and why.
#[derive(Debug, thiserror::Error)]
#[error("nothing selected: {0}")]
pub struct NothingSelected(pub String);

/// An invalid command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
