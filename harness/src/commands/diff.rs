//! `schedlab diff`: compares two runs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CommandOutput, UsageError};
use crate::cli::{DiffRuns, Format};
use crate::exit::ExitStatus;
use schedlab_conformance::compare::{self, Baseline, EventOrder, ExpectedDifferences, RunDiff};
use schedlab_conformance::report::Report;
use schedlab_conformance::text::{self, counted_noun};

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
    let (a, in_a) = read_run(&args.run_a, &args.results)?;
    let (b, in_b) = read_run(&args.run_b, &args.results)?;
    let order = if in_a.is_virtual_time() && in_b.is_virtual_time() && !args.any_order {
        EventOrder::Compared
    } else {
        EventOrder::Ignored
    };
    let diff = compare::diff_reports(&in_a, &in_b, order)
        .without_expected(&load_expected_differences(args.expected_differences.as_deref())?);
    if diff.differ.is_empty() && diff.expected.is_empty() && diff.equal == 0 {
        output.print_note(&format!("{a} and {b} have no scenario in common: nothing is compared"));
        return Ok(ExitStatus::NothingSelected);
    }
    output.print_result(&match args.format {
        Format::Json => {
            serde_json::to_string_pretty(&DiffOutput { a: &a, b: &b, diff: &diff })? + "\n"
        }
        Format::Text => compare::diff_text(&diff, &run_title(&a, &in_a), &run_title(&b, &in_b)),
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
    let (title, report) = read_run(run, results)?;
    Ok(Baseline::new(&title, &report, load_expected_differences(expected)?, order))
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

/// Loads a run by its folder, its name in the results folder, `latest`, or its report file.
fn read_run(run: &str, results: &Path) -> anyhow::Result<(String, Report)> {
    let candidates = [PathBuf::from(run), results.join(run)];
    let file = candidates.iter().find_map(|path| {
        let inside = path.join("report.json");
        if inside.is_file() { Some(inside) } else { path.is_file().then(|| path.clone()) }
    });
    let Some(file) = file else {
        return Err(UsageError(format!(
            "got run `{run}`, expected a folder that `schedlab run` wrote, its name in {0}, or \
             `latest`: neither {run}/report.json nor {}/{run}/report.json exists{}",
            results.display(),
            newest_run_names(results)
        ))
        .into());
    };
    let text = text::read_text_file(&file).map_err(|unreadable| {
        UsageError(unreadable.message_with_file(&file.display().to_string()))
    })?;
    let report: Report = serde_json::from_str(&text).map_err(|error| {
        UsageError(format!("{}: not a report of `schedlab run`: {error}", file.display()))
    })?;
    let file = resolve_latest(&file);
    let shown = file.strip_prefix("./").unwrap_or(&file);
    let folder = shown.parent().filter(|_| shown.ends_with("report.json")).unwrap_or(shown);
    if report.cases.iter().all(|case| case.run_outcome.is_none()) {
        let message = "has no placements and events: it was written by an older schedlab, or \
                       nothing was run; run it again";
        return Err(UsageError(format!("{} {message}", file.display())).into());
    }
    Ok((folder.display().to_string(), report))
}

/// The file with the link `latest` in its path resolved to the run to which the link points.
fn resolve_latest(file: &Path) -> PathBuf {
    let named = || {
        let folder = file.parent()?;
        let target = std::fs::read_link(folder).ok()?;
        Some(folder.parent()?.join(target).join(file.file_name()?))
    };
    named().unwrap_or_else(|| file.to_path_buf())
}

/// The names of the newest runs, as a hint for a mistyped name.
fn newest_run_names(results: &Path) -> String {
    let entries = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("report.json").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let newest: Vec<String> = names.into_iter().rev().take(5).collect();
    if newest.is_empty() {
        String::new()
    } else {
        format!(
            "; the newest are {}",
            newest.join(
                ", \
        "
            )
        )
    }
}
