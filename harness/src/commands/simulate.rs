//! `schedlab simulate`: a trace in, a table or JSON out.

use schedlab_scheduler::GivenError;

use super::{Output, UsageError};
use crate::exit::Exit;
use crate::simulate::{self, Fault};

/// Plays the trace. A broken rule of the scheduler is a failure, whatever the figures are.
pub fn simulate(args: &simulate::Args) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let simulation = simulate::simulate(args).map_err(|error| match error.downcast::<Fault>() {
        Ok(fault) => UsageError(fault.to_string()).into(),
        Err(error) => match error.downcast::<GivenError>() {
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
    Ok(if report.breaches.is_empty() { Exit::Passed } else { Exit::Failed })
}
