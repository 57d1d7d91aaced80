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

use std::process::ExitCode;

use clap::Parser as _;
use schedlab_scheduler::logging;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;
use schedlab_conformance::report::Diagnostics;

pub use cases::cases;
pub use check::{check, list};
pub use clean::clean;
pub use diff::diff;
pub use doctor::doctor;
pub(crate) use output::Output;
pub use replay::replay;
pub use run::run;
pub use simulate::simulate;
pub use snapshot::snapshot;
pub use steps::steps;
pub use up::up;
pub use upgrade::upgrade;

/// Parses the command line and runs the subcommand.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Passed }.into();
        }
    };
    if let Err(error) = logging::init(cli.log_format, "off") {
        return report_error(&UsageError(error.to_string()).into()).into();
    }
    run_command(cli.command).unwrap_or_else(|error| report_error(&error)).into()
}

fn run_command(command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Run(args) => run(&args),
        Command::List(args) => list(&args),
        Command::Check(args) => check(&args),
        Command::Steps(args) => steps(&args),
        Command::Up(args) => up(&args),
        Command::Keep(args) => {
            schedlab_clusters::process::run_watchdog(&args.log, &args.words)?;
            Ok(ExitStatus::Passed)
        }
        Command::Snapshot(verb) => snapshot(&verb),
        Command::Simulate(args) => simulate(&args),
        Command::Cases(args) => cases(&args),
        Command::Replay(args) => replay(&args),
        Command::Diff(args) => diff(&args),
        Command::Upgrade(args) => upgrade(&args),
        Command::Doctor(args) => doctor(&args),
        Command::Clean(args) => clean(&args),
    }
}

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

/// The error that no scenario matches the selection; the text says why.
#[derive(Debug, thiserror::Error)]
#[error("nothing selected: {0}")]
pub struct NothingSelected(pub String);

/// The error of an invalid command line; the text says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
