//! The subcommands. Data goes to standard output, everything else to standard error.

mod bisect;
mod capture;
mod case_input;
mod cases;
mod check;
mod clean;
mod compare;
mod compare_pods;
mod conform;
mod demo;
mod diff;
mod doctor;
mod environment;
mod explain;
mod feature;
mod init;
mod install_files;
mod lab;
mod live_progress;
mod minimise;
mod output;
mod record;
mod redact;
mod replay;
mod reproduce;
mod run;
mod run_both;
mod run_files;
mod shard_pods;
mod shards;
mod simulate;
mod snapshot;
mod steps;
mod suite;
mod top;
mod trace;
mod ui;
mod up;
mod upgrade;
mod whatif;

use std::process::ExitCode;

use schedlab_scheduler::logging::{self, LogFormat};

use crate::cli::settings::{self, ParseError};
use crate::cli::{CaseCommand, Command};
use crate::exit::ExitStatus;
use schedlab_conformance::report::Diagnostics;

pub use bisect::run_bisect_command;
pub use capture::run_capture_command;
pub use cases::run_cases_command;
pub use check::{run_check_command, run_list_command};
pub use clean::run_clean_command;
pub use compare::run_compare_command;
pub use conform::run_conform_command;
pub use demo::run_demo_command;
pub use diff::run_diff_command;
pub use doctor::run_doctor_command;
pub use explain::run_explain_command;
pub use feature::run_feature_command;
pub use lab::run_lab_command;
pub use minimise::run_minimise_command;
pub(crate) use output::{CommandOutput, OutputChoices};
pub use redact::run_redact_command;
pub use replay::run_replay_command;
pub use run::run;
pub use simulate::run_simulate_command;
pub use snapshot::run_snapshot_command;
pub use steps::run_steps_command;
pub use top::run_top_command;
pub use trace::run_trace_command;
pub use ui::run_ui_command;
pub use up::up;
pub use upgrade::run_upgrade_command;

/// Parses the command line and runs the subcommand.
pub fn main() -> ExitCode {
    let cli = match settings::parse_command_line(std::env::args_os()) {
        Ok(cli) => cli,
        Err(ParseError::CommandLine(error)) => {
            let _ = error.print();
            return if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Passed }.into();
        }
        Err(ParseError::Settings(error)) => {
            return report_error(&UsageError(error.to_string()).into()).into();
        }
    };
    output::set_choices(OutputChoices { color: cli.color, quiet: cli.quiet });
    let is_scheduler = matches!(cli.command, Command::Scheduler(_));
    let log_level = if is_scheduler { schedlab_scheduler::cli::LOG_LEVEL } else { "off" };
    if let Err(error) = logging::init(cli.log_format, log_level) {
        return report_error(&UsageError(error.to_string()).into()).into();
    }
    run_command(cli.command, cli.log_format).unwrap_or_else(|error| report_error(&error)).into()
}

fn run_command(command: Command, log_format: LogFormat) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Init(args) => init::run_init_command(&args),
        Command::Run(args) => run(&args),
        Command::Merge(args) => shards::run_merge_command(&args),
        Command::ShardPod(args) => shard_pods::run_shard_pod_command(*args),
        Command::Conform(args) => run_conform_command(&args),
        Command::List(args) => run_list_command(&args),
        Command::Check(args) => run_check_command(&args),
        Command::Steps(args) => run_steps_command(&args),
        Command::Ui(args) => run_ui_command(&args),
        Command::Demo(args) => run_demo_command(&args),
        Command::Lab(verb) => run_lab_command(&verb),
        Command::Up(args) => up(&args),
        Command::Top(args) => run_top_command(&args),
        Command::Keep(args) => {
            schedlab_clusters::process::run_watchdog(&args.log, &args.words)?;
            Ok(ExitStatus::Passed)
        }
        Command::Snapshot(verb) => run_snapshot_command(&verb),
        Command::Simulate(args) => run_simulate_command(&args),
        Command::Trace(verb) => run_trace_command(&verb),
        Command::Compare(args) => run_compare_command(&args),
        Command::Cases(args) => run_cases_command(&args),
        Command::Case(command) => run_case_command(&command),
        Command::Whatif(args) => whatif::run_whatif_command(&args),
        Command::Diff(args) => run_diff_command(&args),
        Command::Bisect(args) => run_bisect_command(&args),
        Command::Upgrade(args) => run_upgrade_command(&args),
        Command::Doctor(args) => run_doctor_command(&args),
        Command::Clean(args) => run_clean_command(&args),
        Command::Completions(args) => install_files::run_completions_command(&args),
        Command::Man(args) => install_files::run_man_command(&args),
        Command::Scheduler(verb) => {
            let done = schedlab_scheduler::cli::run_verb("schedlab scheduler", log_format, verb);
            Ok(done.map_or(ExitStatus::Failed, |()| ExitStatus::Passed))
        }
    }
}

fn run_case_command(command: &CaseCommand) -> anyhow::Result<ExitStatus> {
    match command {
        CaseCommand::Replay(args) => run_replay_command(args),
        CaseCommand::Explain(args) => run_explain_command(args),
        CaseCommand::Capture(args) => run_capture_command(args),
        CaseCommand::Redact(args) => run_redact_command(args),
        CaseCommand::Minimise(args) => run_minimise_command(args),
        CaseCommand::Feature(args) => run_feature_command(args),
    }
}

/// Prints the error that ended a command and returns the exit status.
pub fn report_error(error: &anyhow::Error) -> ExitStatus {
    let mut output = CommandOutput::for_this_process();
    if let Some(problems) = error.downcast_ref::<Diagnostics>() {
        output.print_note(&problems.to_string());
        return ExitStatus::Failed;
    }
    if let Some(nothing) = error.downcast_ref::<NothingSelected>() {
        output.print_note(&nothing.to_string());
        return ExitStatus::NothingSelected;
    }
    output.print_note(&format!("schedlab: {error:#}"));
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
