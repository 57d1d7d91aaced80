//! `list` and `check`: what a run would do, without a cluster.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::{NothingSelected, Output, UsageError};
use crate::cli::{Check, List, ListFormat, Selection};
use crate::exit::Exit;
use crate::features::{self, Asked, Case, Problems, Query, Suite};
use crate::report::Problem;
use crate::{report, runner, vocabulary};

/// What a selection means in terms of loaded features.
pub(super) fn query(selection: &Selection, results: &std::path::Path) -> anyhow::Result<Query> {
    let ids = if selection.last_failed { Some(last_failed(results)?) } else { None };
    Ok(Query {
        asked: selection.paths.iter().map(|path| Asked::parse(path)).collect(),
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

/// Loads the features that are asked for.
pub(super) fn load(asked: &[Asked]) -> anyhow::Result<Suite> {
    for asked in asked {
        if !asked.path.exists() {
            let path = features::shown(&asked.path);
            return Err(UsageError(format!("{path}: no such file or folder")).into());
        }
        if asked.line == Some(0) {
            let path = features::shown(&asked.path);
            let allowed = "allowed is the line of a scenario, from 1 on";
            return Err(UsageError(format!("{path}:0: found line 0, {allowed}")).into());
        }
    }
    let mut suite = features::load(asked)?;
    if suite.silent.is_empty() {
        return Ok(suite);
    }
    let mut problems = std::mem::take(&mut suite.silent);
    problems.extend(not_understood(&suite));
    Err(Problems::sorted(problems).into())
}

/// Steps that the vocabulary does not know, or knows twice; each once.
fn not_understood(suite: &Suite) -> Vec<Problem> {
    let steps = vocabulary::collection();
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for case in &suite.cases {
        for step in &case.steps {
            let place = (&case.place.file, step.position.line, &step.value);
            let Some((_, message)) = runner::mismatch(step, &steps) else { continue };
            if seen.insert(place) {
                problems.push(Problem::new(&case.place.file, step.position.line, message));
            }
        }
    }
    problems
}

/// Says that nothing is left of a selection.
pub(super) fn nothing_selected(suite: &Suite, query: &Query) -> NothingSelected {
    let why = match &query.ids {
        Some(failed) if failed.is_empty() => "nothing failed in the last run".to_owned(),
        Some(_) | None => format!(
            "{} scenarios in {} files, none of which matches the paths, lines, tags and names \
             given; see them with `schedlab list`",
            suite.cases.len(),
            suite.files.len()
        ),
    };
    NothingSelected(why)
}

/// `schedlab list`.
pub fn list(args: &List) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let query = query(&args.selection, &args.results)?;
    let suite = load(&query.asked)?;
    let cases = features::select(&suite.cases, &query);
    if cases.is_empty() {
        return Err(nothing_selected(&suite, &query).into());
    }
    output.data(&match args.format {
        ListFormat::Terse => terse(&cases),
        ListFormat::Json => json(&cases)?,
    });
    Ok(Exit::Passed)
}

fn terse(cases: &[&Case]) -> String {
    cases.iter().fold(String::new(), |mut out, case| {
        let _ = writeln!(out, "{}:{}: {}", case.place.file, case.place.line, case.name);
        out
    })
}

#[derive(Serialize)]
struct Listed<'a> {
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
    let listed: Vec<Listed<'_>> = cases
        .iter()
        .map(|case| Listed {
            id: case.id(),
            file: &case.place.file,
            line: case.place.line,
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
pub fn check(args: &Check) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let asked: Vec<Asked> = args.paths.iter().map(|path| Asked::parse(path)).collect();
    let suite = load(&asked)?;
    if suite.cases.is_empty() {
        return Err(nothing_selected(&suite, &Query::default()).into());
    }
    let problems = not_understood(&suite);
    for problem in &problems {
        output.note(&format!("{problem}\n"));
    }
    let count: usize = suite.cases.iter().map(|case| case.steps.len()).sum();
    output.data(&format!(
        "{} scenarios in {} files, {count} steps: {} not understood\n",
        suite.cases.len(),
        suite.files.len(),
        problems.len(),
    ));
    Ok(if problems.is_empty() { Exit::Passed } else { Exit::Failed })
}
