//! `schedlab list` and `schedlab check`: load and match features without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::{NothingSelected, Output, UsageError};
use crate::cli::{Check, List, ListFormat, Selection};
use crate::exit::ExitStatus;
use schedlab_conformance::features::{self, Case, FeaturePath, Query, Suite};
use schedlab_conformance::report::{self, Diagnostic, Diagnostics};
use schedlab_conformance::runner;
use schedlab_conformance::static_check;
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
    let mut found = std::mem::take(&mut suite.without_assertions);
    found.extend(problems(&suite));
    Err(Diagnostics::sorted(found).into())
}

/// Diagnostics of undefined and ambiguous steps. A step that several places have is one diagnostic at
/// the first of them.
fn unmatched_steps(suite: &Suite) -> Vec<Diagnostic> {
    let steps = catalogue::step_collection();
    let mut places: BTreeMap<(String, &str), BTreeSet<Place<'_>>> = BTreeMap::new();
    let mut messages: BTreeMap<(String, &str), String> = BTreeMap::new();
    let all = suite.cases.iter().flat_map(|case| case.steps.iter().map(move |step| (case, step)));
    for (case, step) in all {
        let key = (format!("{:?}", step.ty), step.value.as_str());
        if !messages.contains_key(&key) {
            let Some((_, message)) = runner::step_mismatch(step, &steps) else { continue };
            messages.insert(key.clone(), message);
        }
        let place = Place { file: &case.location.file, line: step.position.line };
        places.entry(key).or_default().insert(place);
    }
    let problem = |(key, message): ((String, &str), String)| {
        let mut places = places.get(&key)?.iter();
        let first = places.next()?;
        let others: Vec<String> =
            places.map(|place| format!("{}:{}", place.file, place.line)).collect();
        let also = match others.as_slice() {
            [] => String::new(),
            others => format!("\nalso at {}", others.join(", ")),
        };
        Some(Diagnostic::new(first.file, first.line, message + &also))
    };
    messages.into_iter().filter_map(problem).collect()
}

/// The place of a step in the feature files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    file: &'a str,
    line: usize,
}

/// Everything that a run would reject: steps that match nothing, and invalid input.
fn problems(suite: &Suite) -> Vec<Diagnostic> {
    let mut problems = unmatched_steps(suite);
    problems.extend(static_check::check(&suite.cases));
    Diagnostics::sorted(problems).0
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
    let problems = problems(&suite);
    for problem in &problems {
        // A problem of several lines is set apart.
        let end = if problem.message.contains('\n') { "\n" } else { "" };
        output.note(&format!("{problem}{end}"));
    }
    let steps: usize = suite.cases.iter().map(|case| case.steps.len()).sum();
    output.data(&format!(
        "{} in {}, {}: {}\n",
        counted(suite.cases.len(), "scenario"),
        counted(suite.files.len(), "file"),
        counted(steps, "step"),
        counted(problems.len(), "problem"),
    ));
    Ok(if problems.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}
