//! `schedlab diff`: what differs between two runs.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Output, UsageError};
use crate::cli::{DiffRuns, Format};
use crate::diff::{self, Diff, Known, Order, Reference};
use crate::exit::Exit;
use crate::report::Report;
use crate::text;

#[derive(Serialize)]
struct Told<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    diff: &'a Diff,
}

/// Compares two runs: 0 when equal, 1 when not or when one has scenarios that the other lacks, 4 when
/// they have none in common.
pub fn diff(args: &DiffRuns) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let (a, in_a) = read(&args.run_a, &args.results)?;
    let (b, in_b) = read(&args.run_b, &args.results)?;
    let order = if in_a.is_virtual() && in_b.is_virtual() && !args.any_order {
        Order::Counts
    } else {
        Order::IsChance
    };
    let diff = diff::diff(&in_a, &in_b, order).but(&known_differences(args.known.as_deref())?);
    if diff.differ.is_empty() && diff.known.is_empty() && diff.equal == 0 {
        output.note(&format!("{a} and {b} have no scenario in common: nothing is compared"));
        return Ok(Exit::NothingSelected);
    }
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&Told { a: &a, b: &b, diff: &diff })? + "\n",
        Format::Text => diff::text(&diff, &title(&a, &in_a), &title(&b, &in_b)),
    });
    let missing = diff.only_a.len() + diff.only_b.len();
    if missing > 0 && !args.common {
        output.note(&format!(
            "{missing} scenarios are in one run alone: --common compares what both have"
        ));
        return Ok(Exit::Failed);
    }
    Ok(if diff.differ.is_empty() { Exit::Passed } else { Exit::Failed })
}

/// The run that another one, on a cluster of which `order` is told, shall be like.
pub(super) fn reference(
    run: &str,
    known: Option<&Path>,
    results: &Path,
    order: Order,
) -> anyhow::Result<Reference> {
    let (title, report) = read(run, results)?;
    Ok(Reference::new(&title, &report, known_differences(known)?, order))
}

fn known_differences(file: Option<&Path>) -> anyhow::Result<Known> {
    let Some(file) = file else { return Ok(Known::default()) };
    let text = text::read(file);
    let text = text.map_err(|error| UsageError(error.of(&file.display().to_string())))?;
    Ok(Known::read(&text))
}

fn title(folder: &str, report: &Report) -> String {
    format!(
        "{folder}: {} scenarios on {}, seed {}",
        report.cases.len(),
        report.cluster,
        report.seed
    )
}

/// A run by its folder, its name in the results folder, `latest`, or its report file.
fn read(run: &str, results: &Path) -> anyhow::Result<(String, Report)> {
    let candidates = [PathBuf::from(run), results.join(run)];
    let file = candidates.iter().find_map(|path| {
        let inside = path.join("report.json");
        if inside.is_file() { Some(inside) } else { path.is_file().then(|| path.clone()) }
    });
    let Some(file) = file else {
        return Err(UsageError(format!(
            "`{run}` is no run: neither {run}/report.json nor {}/{run}/report.json is there; a run \
             is a folder that `schedlab run` wrote, its name in {0}, or `latest`{}",
            results.display(),
            known(results)
        ))
        .into());
    };
    let text = text::read(&file)
        .map_err(|unreadable| UsageError(unreadable.of(&file.display().to_string())))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| {
        UsageError(format!("{}: not a report of `schedlab run`: {error}", file.display()))
    })?;
    let file = named(&file);
    let shown = file.strip_prefix("./").unwrap_or(&file);
    let folder = shown.parent().filter(|_| shown.ends_with("report.json")).unwrap_or(shown);
    if report.cases.iter().all(|case| case.showing.is_none()) {
        let message = "has no placements and events: it was written by an older schedlab, or \
                       nothing was run; run it again";
        return Err(UsageError(format!("{} {message}", file.display())).into());
    }
    Ok((folder.display().to_string(), report))
}

/// `latest` by the name of the run that it is now.
fn named(file: &Path) -> PathBuf {
    let named = || {
        let folder = file.parent()?;
        let target = std::fs::read_link(folder).ok()?;
        Some(folder.parent()?.join(target).join(file.file_name()?))
    };
    named().unwrap_or_else(|| file.to_path_buf())
}

/// The newest runs, for somebody who mistyped one.
fn known(results: &Path) -> String {
    let entries = std::fs::read_dir(results).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("report.json").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let newest: Vec<String> = names.into_iter().rev().take(5).collect();
    if newest.is_empty() { String::new() } else { format!("; there are {}", newest.join(", ")) }
}
