//! What each verb does. Data goes to standard output, everything else to standard error.

mod again;
mod cases;
mod check;
mod clean;
mod diff;
mod doctor;
mod output;
mod replay;
mod run;
mod simulate;
mod snapshot;
mod stage;
mod steps;
mod up;
mod upgrade;

use crate::exit::Exit;
use crate::features::Problems;

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

/// Tells an error that ended a command, and how the program ends.
pub fn report_error(error: &anyhow::Error) -> Exit {
    let mut output = Output::detect();
    if let Some(problems) = error.downcast_ref::<Problems>() {
        output.note(&problems.to_string());
        return Exit::Failed;
    }
    if let Some(nothing) = error.downcast_ref::<NothingSelected>() {
        output.note(&nothing.to_string());
        return Exit::NothingSelected;
    }
    output.note(&format!("schedlab: {error:#}"));
    if error.downcast_ref::<UsageError>().is_some() { Exit::Usage } else { Exit::NotStarted }
}

/// No scenario matches what was asked for, and why.
#[derive(Debug, thiserror::Error)]
#[error("nothing selected: {0}")]
pub struct NothingSelected(pub String);

/// A command line that asks for something impossible.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
