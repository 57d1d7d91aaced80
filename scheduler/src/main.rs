//! `schedlab-scheduler`: runs the scheduler against a cluster, or prints what it needs there.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Arguments, Command};

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => cli::run(&arguments),
        Command::Explain(arguments) => cli::explain(&arguments),
        Command::Replay(arguments) => cli::replay(&arguments),
        Command::Snapshot(arguments) => cli::snapshot(&arguments),
        Command::ConfigSchema => cli::print_config_schema(),
        Command::Crds => cli::print_crds(),
        Command::Webhooks(arguments) => cli::print_webhooks(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
