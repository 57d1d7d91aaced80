//! `schedlab-scheduler`: runs the scheduler against a cluster, or prints what it needs there.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;
use schedlab_scheduler::logging;

use cli::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let log_format = arguments.log_format;
    let logged = logging::init(log_format, "info").map_err(anyhow::Error::from);
    let done = logged.and_then(|()| match arguments.command {
        Command::Run(arguments) => cli::run(&arguments),
        Command::Explain(arguments) => cli::explain(&arguments),
        Command::Replay(arguments) => cli::replay(&arguments),
        Command::Snapshot(arguments) => cli::snapshot(&arguments),
        Command::ConfigSchema => cli::print_config_schema(),
        Command::Crds => cli::print_crds(),
        Command::Webhooks(arguments) => cli::print_webhooks(&arguments),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cli::report_error(&error, log_format);
            ExitCode::FAILURE
        }
    }
}
