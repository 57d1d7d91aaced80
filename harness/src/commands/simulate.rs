//! `schedlab simulate`: replays a trace and prints a table or JSON.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_apps::experiment::Monitor;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_scheduler::ConfigSourceError;

use super::compare::check_writable;
use super::live_progress::{LiveProgress, Watched, time_left};
use super::{CommandOutput, UsageError};
use crate::exit::ExitStatus;
use schedlab_apps::simulate::{self, SchedulerRefused, TraceError};

/// Runs the simulation and prints its report. The command fails if the audit found a violation.
/// Ctrl-C ends the simulation and reports what was simulated.
pub fn run_simulate_command(args: &simulate::Args) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    if let Some(page) = &args.html {
        check_writable(page)?;
    }
    let (monitor, interrupt) = (Monitor::default(), Interrupt::listen()?);
    let watched = Simulation { monitor: monitor.clone() };
    let progress = LiveProgress::start(watched, interrupt.clone(), &output, args.progress);
    let simulated = simulate::simulate(args, &monitor);
    drop(progress);
    let simulation = simulated.map_err(usage_error_of_input)?;
    for warning in &simulation.warnings {
        output.print_note(&format!("warning: {warning}"));
    }
    let report = &simulation.report;
    if args.json {
        output.print_result(&format!("{}\n", serde_json::to_string_pretty(report)?));
    } else {
        let colors = output.colors;
        output.print_result(&report.to_table(colors));
    }
    if let (Some(path), Some(page)) = (&args.html, &simulation.html) {
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        output.print_progress(&format!("wrote {}", path.display()));
    }
    for breach in &report.breaches {
        output.print_note(breach);
    }
    if report.is_partial {
        let progress = monitor.progress();
        output.print_note(&format!(
            "interrupted on day {:.2}: {} of {} jobs had arrived, {} had started, {} had ended",
            progress.virtual_secs / 86_400.0,
            report.arrived,
            progress.jobs,
            progress.started,
            progress.ended
        ));
        return Ok(ExitStatus::Interrupted);
    }
    Ok(if report.breaches.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// An error of an input file is one of the command line; others stay what they are.
pub(super) fn usage_error_of_input(error: anyhow::Error) -> anyhow::Error {
    let is_input = error.is::<TraceError>()
        || error.is::<ConfigSourceError>()
        || error.is::<SchedulerRefused>();
    if is_input { UsageError(error.to_string()).into() } else { error }
}

/// The simulation, for its progress.
struct Simulation {
    monitor: Monitor,
}

impl Watched for Simulation {
    fn line(&self, elapsed: Duration) -> String {
        let progress = self.monitor.progress();
        let days = progress.virtual_secs / 86_400.0;
        let rate = days / elapsed.as_secs_f64().max(0.1);
        format!(
            "day {days:.2}: {:.0} % of GPUs used, {:.0} GPUs pending; {} of {} jobs ended; \
             {rate:.2} days/s{}",
            progress.utilisation_percent,
            progress.pending_gpus,
            progress.ended,
            progress.jobs,
            time_left(progress.fraction(), elapsed)
        )
    }

    fn stop(&self) {
        self.monitor.stop();
    }
}
