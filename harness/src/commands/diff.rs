//! `schedlab diff`: compares two runs.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::run_files::read_run;
use super::{CommandOutput, UsageError};
use crate::cli::{DiffRuns, Format};
use crate::exit::ExitStatus;
use schedlab_conformance::compare::{self, Baseline, EventOrder, ExpectedDifferences, RunDiff};
use schedlab_conformance::report::Report;
use schedlab_conformance::text::{self, counted_noun};
use schedlab_view::report::html_diff;

#[derive(Serialize)]
struct DiffOutput<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    diff: &'a RunDiff,
}

/// Compares two runs. The exit status is 0 if they are equal, 1 if they differ or one has scenarios
/// that the other lacks, and 4 if they have no scenario in common.
pub fn run_diff_command(args: &DiffRuns) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let run_a = read_run(&args.run_a, &args.results)?;
    let run_b = read_run(&args.run_b, &args.results)?;
    let (a, in_a) = (&run_a.title, &run_a.report);
    let (b, in_b) = (&run_b.title, &run_b.report);
    let order = if in_a.is_virtual_time() && in_b.is_virtual_time() && !args.any_order {
        EventOrder::Compared
    } else {
        EventOrder::Ignored
    };
    let diff = compare::diff_reports(in_a, in_b, order)
        .without_expected(&load_expected_differences(args.expected_differences.as_deref())?);
    if diff.differ.is_empty() && diff.expected.is_empty() && diff.equal == 0 {
        output.print_note(&format!("{a} and {b} have no scenario in common: nothing is compared"));
        return Ok(ExitStatus::NothingSelected);
    }
    let titles = [run_title(a, in_a), run_title(b, in_b)];
    let titles = [titles[0].as_str(), titles[1].as_str()];
    if let Some(path) = &args.html {
        let page = html_diff(&diff, titles, [&run_a.timelines, &run_b.timelines]);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output.print_result(&match args.format {
        Format::Json => serde_json::to_string_pretty(&DiffOutput { a, b, diff: &diff })? + "\n",
        Format::Text => compare::diff_text(&diff, titles[0], titles[1]),
    });
    let missing = diff.only_a.len() + diff.only_b.len();
    if missing > 0 && !args.common {
        output.print_note(&format!(
            "{} in one run only: --common compares what both have",
            counted_noun(missing, "scenario")
        ));
        return Ok(ExitStatus::Failed);
    }
    Ok(if diff.differ.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// Loads the run that is the baseline for a run whose events are compared with `order`.
pub(super) fn load_baseline(
    run: &str,
    expected: Option<&Path>,
    results: &Path,
    order: EventOrder,
) -> anyhow::Result<Baseline> {
    let run = read_run(run, results)?;
    Ok(Baseline::new(&run.title, &run.report, load_expected_differences(expected)?, order))
}

fn load_expected_differences(file: Option<&Path>) -> anyhow::Result<ExpectedDifferences> {
    let Some(file) = file else { return Ok(ExpectedDifferences::default()) };
    let text = text::read_text_file(file);
    let text =
        text.map_err(|error| UsageError(error.message_with_file(&file.display().to_string())))?;
    Ok(ExpectedDifferences::parse(&text))
}

fn run_title(folder: &str, report: &Report) -> String {
    format!(
        "{folder}: {} on {}, seed {}",
        counted_noun(report.cases.len(), "scenario"),
        report.cluster,
        report.seed
    )
}
