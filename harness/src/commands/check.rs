//! `schedlab list` and `schedlab check`: load and match features without a cluster.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::{NothingSelected, Output, UsageError};
use crate::cli::{Check, List, ListFormat, Selection};
use crate::exit::ExitStatus;
use schedlab_conformance::features::{self, Case, FeaturePath, Query, Suite};
use schedlab_conformance::report::{self, Diagnostic, Diagnostics};
use schedlab_conformance::runner;
use schedlab_conformance::steps::catalogue;
use schedlab_conformance::text::counted;

/// Builds the query of a command line selection.
pub(super) fn query(selection: &Selection, results: &std::path::Path) -> anyhow::Result<Query> {
    let ids = if selection.last_failed { Some(last_failed(results)?) } else { None };
    Ok(Query {
        paths: selection.paths.iter().map(|path| FeaturePath::parse(path)).collect(),
        tags: selection.tags.clone(),
        names: selection.name.clone(),
        exact: selection.exact,
        ids,
        shard: selection.shard,
    })
}

fn last_failed(results: &std::path::Path) -> anyhow::Result<BTreeSet<String>> {
    let latest =
        report::latest_report(results).map_err(|error| UsageError(format!("{error:#}")))?;
    features::last_failed(&latest)
}

/// Loads the features of the given paths.
pub(super) fn load(paths: &[FeaturePath]) -> anyhow::Result<Suite> {
    for path in paths {
        if !path.path.exists() {
            let path = features::display_path(&path.path);
            return Err(UsageError(format!("{path}: no such file or folder")).into());
        }
        if path.line == Some(0) {
            let path = features::display_path(&path.path);
            let message = "got line 0, expected the line of a scenario, from 1";
            return Err(UsageError(format!("{path}:0: {message}")).into());
        }
    }
    let mut suite = features::load(paths, catalogue::is_step)?;
    if suite.without_assertions.is_empty() {
        return Ok(suite);
    }
    let mut problems = std::mem::take(&mut suite.without_assertions);
    problems.extend(unmatched_steps(&suite));
    Err(Diagnostics::sorted(problems).into())
}

/// Diagnostics of undefined and ambiguous steps; each once.
fn unmatched_steps(suite: &Suite) -> Vec<Diagnostic> {
    let steps = catalogue::step_collection();
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for case in &suite.cases {
        for step in &case.steps {
            let step_key = (&case.location.file, step.position.line, &step.value);
            let Some((_, message)) = runner::step_mismatch(step, &steps) else { continue };
            if seen.insert(step_key) {
                problems.push(Diagnostic::new(&case.location.file, step.position.line, message));
            }
        }
    }
    problems
}

/// The error for an empty selection.
pub(super) fn nothing_selected(suite: &Suite, query: &Query) -> NothingSelected {
    let why = match &query.ids {
        Some(failed) if failed.is_empty() => "nothing failed in the last run".to_owned(),
        Some(_) | None => format!(
            "none of {} in {} matches the given paths, lines, tags and names; see them with \
             `schedlab list`",
            counted(suite.cases.len(), "scenario"),
            counted(suite.files.len(), "file")
        ),
    };
    NothingSelected(why)
}

/// `schedlab list`.
pub fn list(args: &List) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    let query = query(&args.selection, &args.results)?;
    let suite = load(&query.paths)?;
    let cases = features::select(&suite.cases, &query);
    if cases.is_empty() {
        return Err(nothing_selected(&suite, &query).into());
    }
    output.data(&match args.format {
        ListFormat::Terse => terse(&cases),
        ListFormat::Json => json(&cases)?,
    });
    Ok(ExitStatus::Passed)
}

fn terse(cases: &[&Case]) -> String {
    cases.iter().fold(String::new(), |mut out, case| {
        let _ = writeln!(out, "{}:{}: {}", case.location.file, case.location.line, case.name);
        out
    })
}

#[derive(Serialize)]
struct ListedCase<'a> {
    id: String,
    file: &'a str,
    line: usize,
    feature: &'a str,
    rule: Option<&'a str>,
    name: &'a str,
    tags: &'a [String],
    steps: usize,
}

fn json(cases: &[&Case]) -> anyhow::Result<String> {
    let listed: Vec<ListedCase<'_>> = cases
        .iter()
        .map(|case| ListedCase {
            id: case.id(),
            file: &case.location.file,
            line: case.location.line,
            feature: &case.feature,
            rule: case.rule.as_deref(),
            name: &case.name,
            tags: &case.tags,
            steps: case.steps.len(),
        })
        .collect();
    Ok(serde_json::to_string_pretty(&listed)? + "\n")
}

/// `schedlab check`.
pub fn check(args: &Check) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    let paths: Vec<FeaturePath> = args.paths.iter().map(|path| FeaturePath::parse(path)).collect();
    let suite = load(&paths)?;
    if suite.cases.is_empty() {
        return Err(nothing_selected(&suite, &Query::default()).into());
    }
    let problems = unmatched_steps(&suite);
    for problem in &problems {
        output.note(&format!("{problem}\n"));
    }
    let steps: usize = suite.cases.iter().map(|case| case.steps.len()).sum();
    output.data(&format!(
        "{} in {}, {}: {} undefined or ambiguous\n",
        counted(suite.cases.len(), "scenario"),
        counted(suite.files.len(), "file"),
        counted(steps, "step"),
        problems.len(),
    ));
    Ok(if problems.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}
