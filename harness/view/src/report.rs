//! The HTML report of a run: one file that works offline, with every scenario's steps, failure and
//! timeline; and the comparison of two runs side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use schedlab_conformance::compare::{Difference, RunDiff};
use schedlab_conformance::report::{CaseOutcome, CaseReport, Report, summary_text};
use schedlab_conformance::runner::{CaseHistory, HistoryRecorder};

use crate::drawing;
use crate::timeline::Timeline;

/// A page may load nothing; its own styles and scripts are inside.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// Number of differing scenarios whose timelines the comparison of two runs contains.
const DIFF_TIMELINES_MAX: usize = 200;

/// The encoded timelines of the scenarios of a run, by the id of the scenario.
pub type EncodedTimelines = BTreeMap<String, String>;

/// Collects the timelines of a run while it runs. Clones share the timelines.
#[derive(Clone, Debug, Default)]
pub struct TimelineCollector(Arc<Mutex<EncodedTimelines>>);

impl TimelineCollector {
    /// A recorder for a run, which adds each history as a timeline.
    pub fn recorder(&self) -> HistoryRecorder {
        let timelines = Arc::clone(&self.0);
        HistoryRecorder::new(move |history: CaseHistory| {
            let timeline = Timeline::of_log(&history.log, history.start, &history.step_revisions);
            // A timeline consists of texts and numbers, which JSON can represent.
            let Ok(encoded) = timeline.encode() else { return };
            let mut timelines = timelines.lock().unwrap_or_else(PoisonError::into_inner);
            timelines.insert(history.id, encoded);
        })
    }

    /// The timelines so far.
    pub fn timelines(&self) -> EncodedTimelines {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The report of a run as a page.
///
/// # Errors
/// The report cannot be represented in JSON.
pub fn html_report(report: &Report, timelines: &EncodedTimelines) -> serde_json::Result<String> {
    let cases: Vec<CaseReport> = report.cases.iter().map(without_outcome).collect();
    let script = concat!(
        include_str!("assets/cluster.js"),
        include_str!("assets/player.js"),
        include_str!("assets/report.js")
    );
    let body = html! {
        header {
            h1 { "schedlab: " (title(report)) }
            pre .summary tabindex="0" { (summary_text(report, None).trim()) }
            @for problem in &report.problems { pre .failure tabindex="0" { (problem) } }
        }
        div .columns {
            nav aria-label="Scenarios" { (filters(report)) (case_list(report)) }
            main #case {
                p { "Choose a scenario: its steps, why it failed, and the cluster after every write." }
                p .note { "Keys: / searches, n and p go to the next and the previous write." }
            }
        }
        script #cases type="application/json" data-seed=(report.seed) { (json_data(&cases)?) }
        @for (index, case) in report.cases.iter().enumerate() {
            @if let Some(timeline) = timelines.get(&case.id) {
                script id=(format!("timeline-{index}")) type="text/plain" { (PreEscaped(timeline)) }
            }
        }
    };
    Ok(document(&title(report), &body, script).into_string())
}

/// The comparison of two runs as a page, with both timelines of each scenario that differs.
pub fn html_diff(diff: &RunDiff, titles: [&str; 2], timelines: [&EncodedTimelines; 2]) -> String {
    let script = concat!(
        include_str!("assets/cluster.js"),
        include_str!("assets/player.js"),
        include_str!("assets/diff.js")
    );
    let body = html! {
        header {
            h1 { "schedlab: comparison of two runs" }
            p { "A: " (titles[0]) } p { "B: " (titles[1]) }
            p { strong {
                (diff.differ.len()) " different, " (diff.equal) " equal, "
                (diff.only_a.len()) " in A only, " (diff.only_b.len()) " in B only"
            } }
        }
        main {
            @if diff.differ.is_empty() { p { "All scenarios of both runs are equal." } }
            @for (index, case) in diff.differ.iter().enumerate() {
                details .difference open[index == 0] {
                    summary { (case.location) "  " (case.id.split_once(": ").map_or(&*case.id, |(_, name)| name)) }
                    (differences(&case.differences))
                    div .pair data-pair=(index) {}
                }
                @if index < DIFF_TIMELINES_MAX {
                    @for (side, of) in ["a", "b"].into_iter().zip(timelines) {
                        @if let Some(timeline) = of.get(&case.id) {
                            script id=(format!("{side}-{index}")) type="text/plain" { (PreEscaped(timeline)) }
                        }
                    }
                }
            }
            (missing("In A only", &diff.only_a)) (missing("In B only", &diff.only_b))
        }
    };
    document("comparison of two runs", &body, script).into_string()
}

fn differences(differences: &[Difference]) -> Markup {
    html! {
        @for difference in differences {
            h3 { (difference.about) }
            pre .change tabindex="0" {
                @for line in &difference.a { del { "A: " (line) } "\n" }
                @for line in &difference.b { ins { "B: " (line) } "\n" }
            }
        }
    }
}

fn missing(heading: &str, ids: &[String]) -> Markup {
    if ids.is_empty() {
        return Markup::default();
    }
    html! { h2 { (heading) } ul { @for id in ids { li { (id) } } } }
}

fn document(title: &str, body: &Markup, script: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(drawing::STYLES)) (PreEscaped(include_str!("assets/report.css"))) }
            }
            body { (body) script { (PreEscaped(script)) } }
        }
    }
}

/// Data for a script: JSON in which no tag can begin.
fn json_data<T: serde::Serialize>(data: &T) -> serde_json::Result<PreEscaped<String>> {
    Ok(PreEscaped(serde_json::to_string(data)?.replace('<', "\\u003c")))
}

fn without_outcome(case: &CaseReport) -> CaseReport {
    CaseReport { run_outcome: None, ..case.clone() }
}

fn title(report: &Report) -> String {
    let failed = report.count_of(CaseOutcome::Failed) + report.count_of(CaseOutcome::Pending);
    let passed = report.count_of(CaseOutcome::Passed);
    format!("{passed} passed, {failed} failed on {}, seed {}", report.cluster, report.seed)
}

fn filters(report: &Report) -> Markup {
    let areas: BTreeSet<&str> = report.cases.iter().map(|case| area(&case.file)).collect();
    let tags: BTreeSet<&str> =
        report.cases.iter().flat_map(|case| &case.tags).map(String::as_str).collect();
    html! {
        div .filters role="search" {
            label { "Status"
                select #status {
                    option value="" { "all" }
                    @for outcome in ["failed", "passed", "skipped", "pending", "not-run", "flaky"] {
                        option value=(outcome) { (outcome) }
                    }
                }
            }
            label { "Area"
                select #area {
                    option value="" { "all" } @for area in areas { option value=(area) { (area) } }
                }
            }
            label { "Tag"
                select #tag {
                    option value="" { "all" } @for tag in tags { option value=(tag) { "@" (tag) } }
                }
            }
            label { "Text" input #text type="search" placeholder="name, step or file"; }
            p #count .wide role="status" {}
        }
    }
}

/// The folder of a feature file, which is the area that it is about.
fn area(file: &str) -> &str {
    let folder = Path::new(file).parent().and_then(Path::file_name);
    folder.and_then(|name| name.to_str()).unwrap_or("features")
}

fn case_list(report: &Report) -> Markup {
    let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, case) in report.cases.iter().enumerate() {
        files.entry(&case.file).or_default().push(index);
    }
    let is_bad = |index: &usize| {
        matches!(report.cases[*index].outcome, CaseOutcome::Failed | CaseOutcome::Pending)
    };
    html! {
        div #list {
            @for (file, indexes) in &files {
                details open[indexes.iter().any(is_bad)] {
                    summary {
                        (file) " (" (indexes.len())
                        @let bad = indexes.iter().filter(|index| is_bad(index)).count();
                        @if bad > 0 { ", " (bad) " failed" } ")"
                    }
                    ul { @for index in indexes { (case_item(&report.cases[*index], *index)) } }
                }
            }
        }
    }
}

fn case_item(case: &CaseReport, index: usize) -> Markup {
    let (symbol, word) = symbol(case.outcome);
    html! {
        li data-case=(index) data-area=(area(&case.file)) data-text=(search_text(case)) {
            button type="button" class=(word) {
                span .symbol role="img" aria-label=(word) { (symbol) } " " (case.name)
                @if case.flaky { " (flaky)" }
            }
        }
    }
}

fn symbol(outcome: CaseOutcome) -> (&'static str, &'static str) {
    match outcome {
        CaseOutcome::Passed => ("✔", "passed"),
        CaseOutcome::Failed => ("✘", "failed"),
        CaseOutcome::Pending => ("?", "pending"),
        CaseOutcome::NotRun => ("–", "not-run"),
        CaseOutcome::Skipped => ("○", "skipped"),
    }
}

/// The text of a scenario that the text filter searches, in lower case.
fn search_text(case: &CaseReport) -> String {
    let mut text = format!("{} {} {}", case.file, case.feature, case.name);
    for step in &case.steps {
        let _ = write!(text, " {}", step.text);
    }
    text.to_lowercase()
}
