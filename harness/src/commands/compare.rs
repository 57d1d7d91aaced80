//! `schedlab compare`: simulates two sides on one trace, and prints what differs beyond chance.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_apps::compare::{
    self, CompareProgress, Completion, MergeError, PromiseError, Promises, Results, ResultsHeader,
};
use schedlab_clusters::interrupt::Interrupt;

use super::compare_pods;
use super::live_progress::{LiveProgress, Watched, time_left};
use super::simulate::usage_error_of_input;
use super::{CommandOutput, UsageError};
use crate::cli::{Compare, RunPlace};
use crate::exit::ExitStatus;

/// Runs the comparison and prints its report. The command fails if B breaks a promise.
pub fn run_compare_command(command: &Compare) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let args = &command.comparison;
    if let Some(index) = command.pod_index {
        return compare_pods::run_in_pod(command, index, &mut output);
    }
    let promises = Promises::read(args).map_err(|error| UsageError(error.to_string()))?;
    if let Some(page) = &args.html {
        check_writable(page)?;
    }
    if !args.merge.is_empty() {
        let results =
            compare::read_and_merge(args).map_err(|error| UsageError(format!("{error:#}")))?;
        return print_report(&results, command, &promises, &mut output);
    }
    if command.shard_pods.on == RunPlace::Kubernetes {
        return match compare_pods::run_in_pods(command, &mut output)? {
            Some(results) => print_report(&results, command, &promises, &mut output),
            None => Ok(ExitStatus::Interrupted),
        };
    }
    let (results, completion) = simulate(command, &output)?;
    if args.only.is_some() {
        if completion == Completion::Stopped {
            output.print_note("interrupted: the results of the shard are incomplete");
            return Ok(ExitStatus::Interrupted);
        }
        output.print_result(&compare::results_text(&results)?);
        return Ok(ExitStatus::Passed);
    }
    if completion == Completion::Stopped {
        let (found, all) = (results.units.len(), 2 * results.header.seeds);
        output.print_note(&format!("interrupted after {found} of {all} simulations"));
        if compare::complete_pairs(&results) > 0 {
            print_report(&results, command, &promises, &mut output)?;
        }
        return Ok(ExitStatus::Interrupted);
    }
    print_report(&results, command, &promises, &mut output)
}

/// Runs the simulations of a shard, or all.
pub(super) fn simulate(
    command: &Compare,
    output: &CommandOutput,
) -> anyhow::Result<(Results, Completion)> {
    let args = &command.comparison;
    let plan = compare::plan(args).map_err(usage_error_of_plan)?;
    let (progress, interrupt) = (CompareProgress::default(), Interrupt::listen()?);
    let watched = Comparison { progress: progress.clone(), header: plan.header().clone() };
    let live = LiveProgress::start(watched, interrupt, output, args.progress);
    let ran = plan.run(args.only, &progress);
    drop(live);
    ran
}

/// Everything that a plan rejects is an input.
pub(super) fn usage_error_of_plan(error: anyhow::Error) -> anyhow::Error {
    match usage_error_of_input(error) {
        error if error.is::<UsageError>() => error,
        error => UsageError(format!("{error:#}")).into(),
    }
}

fn print_report(
    results: &Results,
    command: &Compare,
    promises: &Promises,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let args = &command.comparison;
    let report = compare::report(results, args, promises, output.colors).map_err(|error| {
        if error.is::<PromiseError>() || error.is::<MergeError>() {
            UsageError(format!("{error:#}")).into()
        } else {
            error
        }
    })?;
    for warning in &report.warnings {
        output.print_note(&format!("warning: {warning}"));
    }
    output.print_result(&report.text);
    if let (Some(path), Some(page)) = (&args.html, &report.html) {
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
        output.print_progress(&format!("wrote {}", path.display()));
    }
    let is_broken = report.verdicts.iter().any(|verdict| !verdict.is_kept);
    Ok(if is_broken { ExitStatus::Failed } else { ExitStatus::Passed })
}

/// Checks that a file can be written before hours of simulations.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| {
        UsageError(format!("--html {}: cannot write the file: {error}", path.display())).into()
    })
}

/// The comparison, for its progress.
struct Comparison {
    progress: CompareProgress,
    header: ResultsHeader,
}

impl Watched for Comparison {
    fn line(&self, elapsed: Duration) -> String {
        let (done, all) = (self.progress.done(), self.progress.all());
        let activities = self.progress.activities(&self.header).join(", ");
        let left = time_left(self.progress.fraction(), elapsed);
        format!("{done} of {all} simulations; {activities}{left}")
    }

    fn stop(&self) {
        self.progress.stop();
    }
}
