//! `schedlab list` and `schedlab check`: load and match features without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::{CommandOutput, NothingSelected, UsageError, shards, suite};
use crate::cli::{Check, List, ListFormat, Selection};
use crate::exit::ExitStatus;
use schedlab_conformance::features::{self, Case, CaseQuery, FeaturePath, FeatureSuite};
use schedlab_conformance::report::{self, Diagnostic, Diagnostics};
use schedlab_conformance::runner;
use schedlab_conformance::static_check;
use schedlab_conformance::steps::catalogue;
use schedlab_conformance::text::counted_noun;

/// The query for the selection on a command line.
pub(super) fn case_query(
    selection: &Selection,
    results: &std::path::Path,
) -> anyhow::Result<CaseQuery> {
    let ids = if selection.last_failed { Some(last_failed_ids(results)?) } else { None };
    Ok(CaseQuery {
        paths: suite::feature_paths(&selection.paths),
        tags: selection.tags.clone(),
        names: selection.name.clone(),
        exact: selection.exact,
        ids,
        shard: selection.shard,
        times: shards::load_times(selection.timings.as_deref(), results)?,
    })
}

fn last_failed_ids(results: &std::path::Path) -> anyhow::Result<BTreeSet<String>> {
    let latest =
        report::latest_report_text(results).map_err(|error| UsageError(format!("{error:#}")))?;
    features::last_failed_ids(&latest)
}

/// Loads the features at these paths.
pub(super) fn load_suite(paths: &[FeaturePath]) -> anyhow::Result<FeatureSuite> {
    for path in paths {
        if !path.exists() {
            return Err(suite::missing_path_error(&path.path).into());
        }
        if path.line == Some(0) {
            let path = features::display_path(&path.path);
            let message = "got line 0, expected the line of a scenario, from 1";
            return Err(UsageError(format!("{path}:0: {message}")).into());
        }
    }
    let mut suite = features::load_suite(paths, catalogue::is_step)?;
    if suite.without_assertions.is_empty() {
        return Ok(suite);
    }
    let mut found = std::mem::take(&mut suite.without_assertions);
    found.extend(all_problems(&suite));
    Err(Diagnostics::sorted(found).into())
}

/// Diagnostics about undefined and ambiguous steps. A step that occurs in several places is
/// reported once, at the first of them.
fn unmatched_step_diagnostics(suite: &FeatureSuite) -> Vec<Diagnostic> {
    let steps = catalogue::step_collection();
    let mut places: BTreeMap<(String, &str), BTreeSet<ScenarioPlace<'_>>> = BTreeMap::new();
    let mut messages: BTreeMap<(String, &str), String> = BTreeMap::new();
    let all = suite.cases.iter().flat_map(|case| case.steps.iter().map(move |step| (case, step)));
    for (case, step) in all {
        let key = (format!("{:?}", step.ty), step.value.as_str());
        if !messages.contains_key(&key) {
            let Some((_, message)) = runner::step_mismatch_message(step, &steps) else { continue };
            messages.insert(key.clone(), message);
        }
        let place = ScenarioPlace { file: &case.location.file, line: step.position.line };
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
struct ScenarioPlace<'a> {
    file: &'a str,
    line: usize,
}

/// Everything that a run of the features would reject: steps that match no pattern, and invalid
/// input.
fn all_problems(suite: &FeatureSuite) -> Vec<Diagnostic> {
    let mut problems = unmatched_step_diagnostics(suite);
    problems.extend(static_check::check_cases(&suite.cases));
    Diagnostics::sorted(problems).0
}

/// The error for a selection that matches no scenario.
pub(super) fn nothing_selected(suite: &FeatureSuite, query: &CaseQuery) -> NothingSelected {
    let why = match &query.ids {
        Some(failed) if failed.is_empty() => "nothing failed in the last run".to_owned(),
        Some(_) | None => format!(
            "none of {} in {} matches the given paths, lines, tags and names; see them with \
             `schedlab list`",
            counted_noun(suite.cases.len(), "scenario"),
            counted_noun(suite.files.len(), "file")
        ),
    };
    NothingSelected(why)
}

/// Runs `schedlab list`: prints the selected scenarios.
pub fn run_list_command(args: &List) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let query = case_query(&args.selection, &args.results)?;
    let suite = load_suite(&query.paths)?;
    let selected = features::select_cases(&suite.cases, &query);
    if selected.is_empty() {
        return Err(nothing_selected(&suite, &query).into());
    }
    let cases = selected.cases;
    suite::note_embedded_cases(&cases, "listing", &mut output);
    output.print_result(&match args.format {
        ListFormat::Terse => terse_case_list(&cases),
        ListFormat::Json => case_list_json(&cases)?,
    });
    Ok(ExitStatus::Passed)
}

fn terse_case_list(cases: &[&Case]) -> String {
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
    /// The capabilities of a scheduler that the scenario needs.
    capabilities: BTreeSet<&'static str>,
}

fn case_list_json(cases: &[&Case]) -> anyhow::Result<String> {
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
            capabilities: case.required_capabilities(),
        })
        .collect();
    Ok(serde_json::to_string_pretty(&listed)? + "\n")
}

/// Runs `schedlab check`: prints what a run of the features would reject.
pub fn run_check_command(args: &Check) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let suite = load_suite(&suite::feature_paths(&args.paths))?;
    if suite.cases.is_empty() {
        return Err(nothing_selected(&suite, &CaseQuery::default()).into());
    }
    suite::note_embedded_cases(&suite.cases.iter().collect::<Vec<_>>(), "checking", &mut output);
    let problems = all_problems(&suite);
    for problem in &problems {
        // A problem of several lines is set apart.
        let end = if problem.message.contains('\n') { "\n" } else { "" };
        output.print_note(&format!("{problem}{end}"));
    }
    let steps: usize = suite.cases.iter().map(|case| case.steps.len()).sum();
    output.print_result(&format!(
        "{} in {}, {}: {}\n",
        counted_noun(suite.cases.len(), "scenario"),
        counted_noun(suite.files.len(), "file"),
        counted_noun(steps, "step"),
        counted_noun(problems.len(), "problem"),
    ));
    Ok(if problems.is_empty() { ExitStatus::Passed } else { ExitStatus::Failed })
}
