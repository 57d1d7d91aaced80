//! `schedlab simulate`: replays a trace and prints a table or JSON.

use schedlab_scheduler::ConfigSourceError;

use super::{Output, UsageError};
use crate::exit::ExitStatus;
use schedlab_apps::simulate::{self, TraceError};

/// Runs the simulation. A broken audit rule is a failure, whatever the figures are.
pub fn simulate(args: &simulate::Args) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    let simulation =
        simulate::simulate(args).map_err(|error| match error.downcast::<TraceError>() {
            Ok(fault) => UsageError(fault.to_string()).into(),
            Err(error) => match error.downcast::<ConfigSourceError>() {
                Ok(fault) => UsageError(fault.to_string()).into(),
                Err(error) => error,
            },
        })?;
    for warning in &simulation.warnings {
        output.note(&format!("warning: {warning}"));
    }
    let report = &simulation.report;
    if args.json {
        output.data(&format!("{}\n", serde_json::to_string_pretty(report)?));
    } else {
        output.data(&report.table());
    }
    for breach in &report.breaches {
        output.note(breach);
    }
    Ok(if report.breaches.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}
