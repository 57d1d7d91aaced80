//! `schedlab simulate`: replays a trace and prints a table or JSON.

use schedlab_scheduler::ConfigSourceError;

use super::{CommandOutput, UsageError};
use crate::exit::ExitStatus;
use schedlab_apps::simulate::{self, TraceError};

/// Runs the simulation and prints its report. The command fails if the audit found a violation.
pub fn run_simulate_command(args: &simulate::Args) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let simulation =
        simulate::simulate(args).map_err(|error| match error.downcast::<TraceError>() {
            Ok(fault) => UsageError(fault.to_string()).into(),
            Err(error) => match error.downcast::<ConfigSourceError>() {
                Ok(fault) => UsageError(fault.to_string()).into(),
                Err(error) => error,
            },
        })?;
    for warning in &simulation.warnings {
        output.print_note(&format!("warning: {warning}"));
    }
    let report = &simulation.report;
    if args.json {
        output.print_result(&format!("{}\n", serde_json::to_string_pretty(report)?));
    } else {
        output.print_result(&report.to_table());
    }
    for breach in &report.breaches {
        output.print_note(breach);
    }
    Ok(if report.breaches.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}
