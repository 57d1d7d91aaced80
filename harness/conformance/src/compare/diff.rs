//! Differences between two runs of the same scenarios in placements and pod histories. Runs may use
//! different clusters or schedulers: the recorded outcomes leave out times and which of several
//! equivalent nodes, GPUs or pods was chosen.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::expected_differences::ExpectedDifferences;
use crate::report::{CaseReport, Outcome, Report, RunOutcome, WorkloadOutcome};
use crate::text::counted;

pub(super) use text::differences_text;
pub use text::text;

/// The comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
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
    /// The order is ignored: on a real cluster chance decides which object the scheduler observes first, and so
    /// which of several pods gets which of several nodes, and which of several interchangeable
    /// workloads runs first.
    Ignored,
}

/// Compares two runs.
pub fn diff(a: &Report, b: &Report, order: EventOrder) -> Diff {
    let in_b: BTreeMap<&str, &CaseReport> = cases_run(b).map(|case| (&*case.id, case)).collect();
    let mut diff = Diff::default();
    (diff.only_a, diff.skipped_b) = only_in(a, b);
    (diff.only_b, diff.skipped_a) = only_in(b, a);
    for case in cases_run(a) {
        let Some(other) = in_b.get(&*case.id) else { continue };
        let differences = differences(case, other, order);
        if differences.is_empty() {
            diff.equal += 1;
        } else {
            let location = format!("{}:{}", case.file, case.line);
            diff.differ.push(CaseDiff { id: case.id.clone(), location, differences });
        }
    }
    diff
}

/// Scenarios that ran in one run and not in the other: those not run there, and those skipped
/// there.
fn only_in(one: &Report, other: &Report) -> (Vec<String>, Vec<String>) {
    let ran_there: BTreeSet<&str> = cases_run(other).map(|case| &*case.id).collect();
    let skipped = other.cases.iter().filter(|case| case.outcome == Outcome::Skipped);
    let skipped: BTreeSet<&str> = skipped.map(|case| &*case.id).collect();
    let alone = cases_run(one).map(|case| &case.id).filter(|id| !ran_there.contains(id.as_str()));
    alone.cloned().partition(|id| !skipped.contains(id.as_str()))
}

impl Diff {
    /// Moves expected differences to `expected`. A different verdict is never expected.
    #[must_use]
    pub fn without_expected(mut self, known: &ExpectedDifferences) -> Self {
        let excused = |case: &CaseDiff| {
            let verdict = case.differences.iter().any(|one| one.about == VERDICT);
            known.includes(&case.id) && !verdict
        };
        (self.expected, self.differ) = self.differ.into_iter().partition(excused);
        self
    }
}

const VERDICT: &str = "verdict";

/// The cases of a report that ran.
pub(super) fn cases_run(report: &Report) -> impl Iterator<Item = &CaseReport> {
    report.cases.iter().filter(|case| !matches!(case.outcome, Outcome::NotRun | Outcome::Skipped))
}

pub(super) fn differences(a: &CaseReport, b: &CaseReport, order: EventOrder) -> Vec<Difference> {
    let mut found = Vec::new();
    found.extend(line_difference(VERDICT, &[verdict(a)], &[verdict(b)]));
    found.extend(line_difference("steps", &steps(a), &steps(b)));
    match (&a.run_outcome, &b.run_outcome) {
        (Some(a), Some(b)) => found.extend(outcome_differences(a, b, order)),
        (Some(_), None) => found.extend(line_difference("outcome", &[], &["has none".to_owned()])),
        (None, Some(_)) => found.extend(line_difference("outcome", &["has none".to_owned()], &[])),
        (None, None) => {}
    }
    found
}

/// The steps with their tables and doc strings: a changed scenario may have another outcome.
fn steps(case: &CaseReport) -> Vec<String> {
    let lines = case.steps.iter().flat_map(|step| {
        let line = format!("{} {}", step.keyword.trim(), step.text);
        let below = step.below.iter().map(|line| format!("  {line}"));
        std::iter::once(line).chain(below)
    });
    lines.collect()
}

fn verdict(case: &CaseReport) -> String {
    let word = match case.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Pending => "pending",
        Outcome::NotRun => "not run",
        Outcome::Skipped => "skipped",
    };
    let why = case.failure.as_ref().filter(|_| case.outcome == Outcome::Failed);
    let why = why.and_then(|failure| failure.message.lines().next());
    why.map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"))
}

fn outcome_differences(a: &RunOutcome, b: &RunOutcome, order: EventOrder) -> Vec<Difference> {
    let mut found = Vec::new();
    let in_b = match order {
        EventOrder::Compared => b.workloads.clone(),
        EventOrder::Ignored => align_interchangeable(&a.workloads, &b.workloads),
    };
    let names: BTreeSet<&String> = a.workloads.keys().chain(in_b.keys()).collect();
    for name in names {
        let (a, b) = (a.workloads.get(name), in_b.get(name));
        let pods =
            |one: Option<&WorkloadOutcome>| one.map_or_else(Vec::new, |one| counts_text(&one.pods));
        let stories = |one: Option<&WorkloadOutcome>| {
            one.map_or_else(Vec::new, |one| counts_text(&one.histories))
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
                EventOrder::Ignored => held.iter().map(|held| pod_count(held)).collect(),
            }
        };
        let difference = line_difference(&format!("nodes like {kind}"), &held(a), &held(b));
        found.extend(difference.map(|one| Difference {
            a: on_nodes(&one.a),
            b: on_nodes(&one.b),
            ..one
        }));
    }
    // When the sets of events differ, the order adds nothing.
    let same = a.order.iter().collect::<BTreeSet<_>>() == b.order.iter().collect();
    if order == EventOrder::Compared && same && a.order != b.order {
        let (a, b) = differing_middle(&a.order, &b.order);
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

fn counts_text(counts: &BTreeMap<String, usize>) -> Vec<String> {
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect()
}

/// The number of pods in `4 infer, 4 train`. Which pod was observed first decides which pods share
/// a node, not how many.
fn pod_count(held: &str) -> String {
    let counts = held.split(", ").filter_map(|part| part.split(' ').next()?.parse::<usize>().ok());
    counted(counts.sum(), "pod")
}

/// The pods on nodes, with the number of nodes that hold the same.
fn on_nodes(held: &[String]) -> Vec<String> {
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

/// Multiset difference of two lists, in both directions.
fn line_difference(about: &str, a: &[String], b: &[String]) -> Option<Difference> {
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
    (!a.is_empty() || !b.is_empty()).then(|| Difference { about: about.to_owned(), a, b })
}

/// The parts of two lists between their common prefix and suffix.
fn differing_middle(a: &[String], b: &[String]) -> (Vec<String>, Vec<String>) {
    let front = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let part = |all: &[String]| all[front..all.len() - back].to_vec();
    (part(a), part(b))
}

#[cfg(test)]
mod tests;
