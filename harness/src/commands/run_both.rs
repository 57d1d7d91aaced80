//! `schedlab run --and`: runs the same scenarios on two schedulers and compares the results.

use super::reproduce::scheduler_option;
use super::run::run_selected;
use super::{CommandOutput, UsageError};
use crate::cli::Run;
use crate::exit::ExitStatus;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::compare::{self, EventOrder};
use schedlab_conformance::report::{Report, Reporter};
use schedlab_conformance::text::counted_noun;

/// Runs the scenarios on both schedulers. The exit status is 0 if no scenario differs, 1 if one does,
/// and 4 if none ran on both. A run that could not start or was interrupted has its own status.
pub(super) fn run_both(
    args: &Run,
    second: &SchedulerSource,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let is_console = |it: &Reporter| matches!(it, Reporter::Pretty | Reporter::Github);
    if !args.reporter.iter().all(is_console) {
        let message = "--and: got a --reporter with a file, which both runs would write; expected \
                       pretty";
        return Err(UsageError(message.to_owned()).into());
    }
    let mut first_args = args.clone();
    first_args.and = None;
    let mut second_args = first_args.clone();
    second_args.environment.scheduler = second.clone();
    second_args.environment.target.clone_from(&args.and_target);
    let (title_a, a) = match run_one(&first_args, output)? {
        Ok(run) => run,
        Err(exit) => return Ok(exit),
    };
    let (title_b, b) = match run_one(&second_args, output)? {
        Ok(run) => run,
        Err(exit) => return Ok(exit),
    };
    let order = if a.is_virtual_time() && b.is_virtual_time() {
        EventOrder::Compared
    } else {
        EventOrder::Ignored
    };
    let diff = compare::diff_reports(&a, &b, order);
    if diff.differ.is_empty() && diff.equal == 0 {
        output.print_note("no scenario ran on both schedulers: nothing is compared");
        return Ok(ExitStatus::NothingSelected);
    }
    output.print_result(&compare::diff_text(&diff, &title_a, &title_b));
    Ok(if diff.differ.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// Runs the scenarios on one scheduler. Returns its title and the report; a status if there is no
/// whole report.
fn run_one(
    args: &Run,
    output: &mut CommandOutput,
) -> anyhow::Result<Result<(String, Report), ExitStatus>> {
    let scheduler = scheduler_option(&args.environment.scheduler);
    output.print_note(&format!("scheduler {scheduler}"));
    let (exit, report) = run_selected(args, output)?;
    Ok(match (exit, report) {
        (ExitStatus::Interrupted | ExitStatus::NotStarted, _) | (_, None) => Err(exit),
        (_, Some(report)) => {
            let count = counted_noun(report.cases.len(), "scenario");
            Ok((format!("{scheduler}: {count}"), report))
        }
    })
}
