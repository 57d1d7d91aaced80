//! Differences between two runs of the same scenarios in placements and pod histories. Runs may use
//! different clusters or schedulers: the recorded outcomes leave out times and which of several
//! equivalent nodes, GPUs or pods was chosen.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::expected_differences::ExpectedDifferences;
use crate::report::{CaseOutcome, CaseReport, Report, RunOutcome, WorkloadOutcome};
use crate::text::counted_noun;

pub use text::diff_text;
pub(super) use text::differences_text;

/// The comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunDiff {
    /// The scenarios that differ, in the order of the first run.
    pub differ: Vec<CaseDiff>,
    /// Scenarios whose differences are expected according to the file of expected differences.
    #[serde(rename = "known")]
    pub expected: Vec<CaseDiff>,
    /// Number of scenarios that ran in both runs and do not differ.
    pub equal: usize,
    /// Ids of scenarios that are in the first run only.
    pub only_a: Vec<String>,
    /// Ids of scenarios that are in the second run only.
    pub only_b: Vec<String>,
    /// Ids of scenarios that ran in the first run and were skipped in the second.
    pub skipped_b: Vec<String>,
    /// Ids of scenarios that ran in the second run and were skipped in the first.
    pub skipped_a: Vec<String>,
}

/// A scenario whose results differ between two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseDiff {
    /// The scenario's id: file and name.
    pub id: String,
    /// Where the scenario is: `file:line`.
    #[serde(rename = "place")]
    pub location: String,
    /// The differences between the two results.
    pub differences: Vec<Difference>,
}

/// One difference between two results of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What was compared, for example `verdict`.
    pub about: String,
    /// Lines that only the first run has.
    pub a: Vec<String>,
    /// Lines that only the second run has.
    pub b: Vec<String>,
}

/// Whether the order of events is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrder {
    /// The order is compared: both runs are in virtual time.
    Compared,
    /// The order is ignored: on a real cluster chance decides which object the scheduler observes
    /// first, and so which of several pods gets which of several nodes, and which of several
    /// interchangeable workloads runs first.
    Ignored,
}

/// Compares the reports on two runs.
pub fn diff_reports(a: &Report, b: &Report, order: EventOrder) -> RunDiff {
    let in_b: BTreeMap<&str, &CaseReport> = cases_run(b).map(|case| (&*case.id, case)).collect();
    let mut diff = RunDiff::default();
    (diff.only_a, diff.skipped_b) = ids_not_run_in_other(a, b);
    (diff.only_b, diff.skipped_a) = ids_not_run_in_other(b, a);
    for case in cases_run(a) {
        let Some(other) = in_b.get(&*case.id) else { continue };
        let differences = case_differences(case, other, order);
        if differences.is_empty() {
            diff.equal += 1;
        } else {
            let location = format!("{}:{}", case.file, case.line);
            diff.differ.push(CaseDiff { id: case.id.clone(), location, differences });
        }
    }
    diff
}

/// Scenarios that ran in `one` and not in `other`: those that are missing in `other`, and those
/// that were skipped there.
fn ids_not_run_in_other(one: &Report, other: &Report) -> (Vec<String>, Vec<String>) {
    let ran_there: BTreeSet<&str> = cases_run(other).map(|case| &*case.id).collect();
    let skipped = other.cases.iter().filter(|case| case.outcome == CaseOutcome::Skipped);
    let skipped: BTreeSet<&str> = skipped.map(|case| &*case.id).collect();
    let alone = cases_run(one).map(|case| &case.id).filter(|id| !ran_there.contains(id.as_str()));
    alone.cloned().partition(|id| !skipped.contains(id.as_str()))
}

impl RunDiff {
    /// Moves the differing scenarios that `known` lists to `expected`, unless their verdict
    /// differs.
    #[must_use]
    pub fn without_expected(mut self, known: &ExpectedDifferences) -> Self {
        let excused = |case: &CaseDiff| {
            let verdict = case.differences.iter().any(|one| one.about == VERDICT_FIELD);
            known.includes(&case.id) && !verdict
        };
        (self.expected, self.differ) = self.differ.into_iter().partition(excused);
        self
    }
}

const VERDICT_FIELD: &str = "verdict";

/// The cases of a report that ran.
pub(super) fn cases_run(report: &Report) -> impl Iterator<Item = &CaseReport> {
    report
        .cases
        .iter()
        .filter(|case| !matches!(case.outcome, CaseOutcome::NotRun | CaseOutcome::Skipped))
}

pub(super) fn case_differences(
    a: &CaseReport,
    b: &CaseReport,
    order: EventOrder,
) -> Vec<Difference> {
    let mut found = Vec::new();
    found.extend(line_difference(VERDICT_FIELD, &[verdict_text(a)], &[verdict_text(b)]));
    found.extend(line_difference("steps", &step_lines(a), &step_lines(b)));
    match (&a.run_outcome, &b.run_outcome) {
        (Some(a), Some(b)) => found.extend(run_outcome_differences(a, b, order)),
        (Some(_), None) => found.extend(line_difference("outcome", &[], &["has none".to_owned()])),
        (None, Some(_)) => found.extend(line_difference("outcome", &["has none".to_owned()], &[])),
        (None, None) => {}
    }
    found
}

/// The steps of a case with their tables and doc strings. They are compared because a changed
/// scenario may have another outcome.
fn step_lines(case: &CaseReport) -> Vec<String> {
    let lines = case.steps.iter().flat_map(|step| {
        let line = format!("{} {}", step.keyword.trim(), step.text);
        let below = step.below.iter().map(|line| format!("  {line}"));
        std::iter::once(line).chain(below)
    });
    lines.collect()
}

fn verdict_text(case: &CaseReport) -> String {
    let word = match case.outcome {
        CaseOutcome::Passed => "passed",
        CaseOutcome::Failed => "failed",
        CaseOutcome::Pending => "pending",
        CaseOutcome::NotRun => "not run",
        CaseOutcome::Skipped => "skipped",
    };
    let why = case.failure.as_ref().filter(|_| case.outcome == CaseOutcome::Failed);
    let why = why.and_then(|failure| failure.message.lines().next());
    why.map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"))
}

fn run_outcome_differences(a: &RunOutcome, b: &RunOutcome, order: EventOrder) -> Vec<Difference> {
    let mut found = Vec::new();
    let in_b = match order {
        EventOrder::Compared => b.workloads.clone(),
        EventOrder::Ignored => align_interchangeable(&a.workloads, &b.workloads),
    };
    let names: BTreeSet<&String> = a.workloads.keys().chain(in_b.keys()).collect();
    for name in names {
        let (a, b) = (a.workloads.get(name), in_b.get(name));
        let pods = |one: Option<&WorkloadOutcome>| {
            one.map_or_else(Vec::new, |one| counted_lines(&one.pods))
        };
        let stories = |one: Option<&WorkloadOutcome>| {
            one.map_or_else(Vec::new, |one| counted_lines(&one.histories))
        };
        found.extend(line_difference(&format!("pods of {name}"), &pods(a), &pods(b)));
        let about = format!("history of pods of {name}");
        found.extend(line_difference(&about, &stories(a), &stories(b)));
    }
    let kinds: BTreeSet<&String> = a.nodes.keys().chain(b.nodes.keys()).collect();
    for kind in kinds {
        let held = |one: &RunOutcome| {
            let held = one.nodes.get(kind).cloned().unwrap_or_default();
            match order {
                EventOrder::Compared => held,
                EventOrder::Ignored => held.iter().map(|held| pod_count_of_node(held)).collect(),
            }
        };
        let difference = line_difference(&format!("nodes like {kind}"), &held(a), &held(b));
        found.extend(difference.map(|one| Difference {
            a: node_content_lines(&one.a),
            b: node_content_lines(&one.b),
            ..one
        }));
    }
    // When the sets of events differ, the order adds nothing.
    let same = a.order.iter().collect::<BTreeSet<_>>() == b.order.iter().collect();
    if order == EventOrder::Compared && same && a.order != b.order {
        let (a, b) = differing_middle_lines(&a.order, &b.order);
        found.push(Difference { about: "order".to_owned(), a, b });
    }
    found
}

/// The outcomes of `b` with interchangeable workloads swapped so that as many as possible match
/// `a`: which of them runs first is chance when the order is ignored.
fn align_interchangeable(
    a: &BTreeMap<String, WorkloadOutcome>,
    b: &BTreeMap<String, WorkloadOutcome>,
) -> BTreeMap<String, WorkloadOutcome> {
    let mut result = b.clone();
    let mut classes: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, showing) in a.iter().filter(|(_, showing)| !showing.scheduling_inputs.is_empty()) {
        let other =
            b.get(name).filter(|other| other.scheduling_inputs == showing.scheduling_inputs);
        if other.is_some_and(|other| other != showing) {
            classes.entry(&showing.scheduling_inputs).or_default().push(name);
        }
    }
    for names in classes.values() {
        let mut left: Vec<&WorkloadOutcome> = names.iter().map(|name| &b[*name]).collect();
        let mut without: Vec<&String> = Vec::new();
        for name in names {
            match left.iter().position(|one| **one == a[*name]) {
                Some(at) => drop(result.insert((*name).clone(), left.swap_remove(at).clone())),
                None => without.push(name),
            }
        }
        for (name, showing) in without.into_iter().zip(left) {
            result.insert(name.clone(), showing.clone());
        }
    }
    result
}

fn counted_lines(counts: &BTreeMap<String, usize>) -> Vec<String> {
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect()
}

/// The number of pods in a text such as `4 infer, 4 train`. If the order of events is ignored, only
/// this number is compared: which pods share a node depends on which pod was observed first.
fn pod_count_of_node(held: &str) -> String {
    let counts = held.split(", ").filter_map(|part| part.split(' ').next()?.parse::<usize>().ok());
    counted_noun(counts.sum(), "pod")
}

/// What is on the nodes, one line for each different content, with the number of nodes that hold
/// it.
fn node_content_lines(held: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for one in held {
        *counts.entry(one).or_default() += 1;
    }
    let words = |(held, count): (&String, usize)| match count {
        1 => format!("{held} on one node"),
        several => format!("{held} on each of {several} nodes"),
    };
    counts.into_iter().map(words).collect()
}

/// The lines that only one of two lists has, where repeated lines count; `None` if there are none.
fn line_difference(subject: &str, a: &[String], b: &[String]) -> Option<Difference> {
    let without = |these: &[String], those: &[String]| {
        let mut those = those.to_vec();
        let mut left = Vec::new();
        for one in these {
            match those.iter().position(|other| other == one) {
                Some(at) => drop(those.swap_remove(at)),
                None => left.push(one.clone()),
            }
        }
        left
    };
    let (a, b) = (without(a, b), without(b, a));
    (!a.is_empty() || !b.is_empty()).then(|| Difference { about: subject.to_owned(), a, b })
}

/// What remains of two lists without their common beginning and end.
fn differing_middle_lines(a: &[String], b: &[String]) -> (Vec<String>, Vec<String>) {
    let front = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let part = |all: &[String]| all[front..all.len() - back].to_vec();
    (part(a), part(b))
}

#[cfg(test)]
mod tests;
