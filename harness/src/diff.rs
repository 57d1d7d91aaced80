//! What differs between two runs of the same scenarios: where pods are and what happened to them.
//! Runs may be of different clusters or schedulers. What makes no difference to a user, as which
//! of several equal nodes, GPUs or pods it was, has been left out by who recorded it; times are
//! no part of it either.

mod alike;
mod known;
mod reference;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::report::{CaseReport, Outcome, Report, Showing, WorkloadShowing};

pub use known::Known;
pub use reference::Reference;
pub use text::text;

/// Two runs compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// The scenarios that differ, in the order of the first run.
    pub differ: Vec<CaseDiff>,
    /// Those that differ and may, for a reason that somebody has written down.
    pub known: Vec<CaseDiff>,
    /// How many were run in both and are equal.
    pub equal: usize,
    /// In the first run alone.
    pub only_a: Vec<String>,
    /// In the second run alone.
    pub only_b: Vec<String>,
    /// Run in the first, and skipped in the second.
    pub skipped_b: Vec<String>,
    /// Run in the second, and skipped in the first.
    pub skipped_a: Vec<String>,
}

/// A scenario that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseDiff {
    /// File and name.
    pub id: String,
    /// Where it stands.
    pub place: String,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is about.
    pub about: String,
    /// What only the first run shows.
    pub a: Vec<String>,
    /// What only the second run shows.
    pub b: Vec<String>,
}

/// Whether the order in which pods were served counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It does: both runs have the same clock.
    Counts,
    /// It does not: on a real cluster, chance decides what is seen first, and with it which of
    /// several pods has come to which of several nodes, and which of several workloads that ask
    /// for the same has come first.
    IsChance,
}

/// Compares two runs.
pub fn diff(a: &Report, b: &Report, order: Order) -> Diff {
    let in_b: BTreeMap<&str, &CaseReport> = ran(b).map(|case| (&*case.id, case)).collect();
    let mut diff = Diff::default();
    (diff.only_a, diff.skipped_b) = alone(a, b);
    (diff.only_b, diff.skipped_a) = alone(b, a);
    for case in ran(a) {
        let Some(other) = in_b.get(&*case.id) else { continue };
        let differences = differences(case, other, order);
        if differences.is_empty() {
            diff.equal += 1;
        } else {
            let place = format!("{}:{}", case.file, case.line);
            diff.differ.push(CaseDiff { id: case.id.clone(), place, differences });
        }
    }
    diff
}

/// What was run in one run and not in the other, and of that what was skipped there: one that broke
/// off has not begun the rest.
fn alone(one: &Report, other: &Report) -> (Vec<String>, Vec<String>) {
    let ran_there: BTreeSet<&str> = ran(other).map(|case| &*case.id).collect();
    let skipped = other.cases.iter().filter(|case| case.outcome == Outcome::Skipped);
    let skipped: BTreeSet<&str> = skipped.map(|case| &*case.id).collect();
    let alone = ran(one).map(|case| &case.id).filter(|id| !ran_there.contains(id.as_str()));
    alone.cloned().partition(|id| !skipped.contains(id.as_str()))
}

impl Diff {
    /// Sets aside what may differ. A verdict never may.
    #[must_use]
    pub fn but(mut self, known: &Known) -> Self {
        let excused = |case: &CaseDiff| {
            let verdict = case.differences.iter().any(|one| one.about == VERDICT);
            known.names(&case.id) && !verdict
        };
        (self.known, self.differ) = self.differ.into_iter().partition(excused);
        self
    }
}

const VERDICT: &str = "verdict";

/// Scenarios of which anything was run.
fn ran(report: &Report) -> impl Iterator<Item = &CaseReport> {
    report.cases.iter().filter(|case| !matches!(case.outcome, Outcome::NotRun | Outcome::Skipped))
}

fn differences(a: &CaseReport, b: &CaseReport, order: Order) -> Vec<Difference> {
    let mut found = Vec::new();
    found.extend(lines(VERDICT, &[verdict(a)], &[verdict(b)]));
    found.extend(lines("steps", &steps(a), &steps(b)));
    match (&a.showing, &b.showing) {
        (Some(a), Some(b)) => found.extend(showings(a, b, order)),
        (Some(_), None) => found.extend(lines("record", &[], &["has none".to_owned()])),
        (None, Some(_)) => found.extend(lines("record", &["has none".to_owned()], &[])),
        (None, None) => {}
    }
    found
}

/// What it did, with what stands below its steps: a scenario that was changed may well show
/// something else.
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

fn showings(a: &Showing, b: &Showing, order: Order) -> Vec<Difference> {
    let mut found = Vec::new();
    let in_b = match order {
        Order::Counts => b.workloads.clone(),
        Order::IsChance => alike::exchanged(&a.workloads, &b.workloads),
    };
    let names: BTreeSet<&String> = a.workloads.keys().chain(in_b.keys()).collect();
    for name in names {
        let (a, b) = (a.workloads.get(name), in_b.get(name));
        let pods =
            |one: Option<&WorkloadShowing>| one.map_or_else(Vec::new, |one| counted(&one.pods));
        let stories =
            |one: Option<&WorkloadShowing>| one.map_or_else(Vec::new, |one| counted(&one.stories));
        found.extend(lines(&format!("pods of {name}"), &pods(a), &pods(b)));
        let about = format!("what happened to pods of {name}");
        found.extend(lines(&about, &stories(a), &stories(b)));
    }
    let kinds: BTreeSet<&String> = a.nodes.keys().chain(b.nodes.keys()).collect();
    for kind in kinds {
        let held = |one: &Showing| {
            let held = one.nodes.get(kind).cloned().unwrap_or_default();
            match order {
                Order::Counts => held,
                Order::IsChance => held.iter().map(|held| number(held)).collect(),
            }
        };
        let difference = lines(&format!("nodes like {kind}"), &held(a), &held(b));
        found.extend(difference.map(|one| Difference {
            a: on_nodes(&one.a),
            b: on_nodes(&one.b),
            ..one
        }));
    }
    // An order of other things is no news.
    let same = a.order.iter().collect::<BTreeSet<_>>() == b.order.iter().collect();
    if order == Order::Counts && same && a.order != b.order {
        let (a, b) = moved(&a.order, &b.order);
        found.push(Difference { about: "order".to_owned(), a, b });
    }
    found
}

fn counted(counts: &BTreeMap<String, usize>) -> Vec<String> {
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect()
}

/// How many pods `4 infer, 4 train` are. Whose pod was seen first decides who shares a node with
/// whom, not how full it gets.
fn number(held: &str) -> String {
    let counts = held.split(", ").filter_map(|part| part.split(' ').next()?.parse::<usize>().ok());
    match counts.sum() {
        1 => "1 pod".to_owned(),
        several => format!("{several} pods"),
    }
}

/// What nodes hold, with how many hold it.
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

/// What is in one list and not in the other, each as often as it is there more often.
fn lines(about: &str, a: &[String], b: &[String]) -> Option<Difference> {
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

/// The parts of two orders between what they begin and end with in common.
fn moved(a: &[String], b: &[String]) -> (Vec<String>, Vec<String>) {
    let front = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let part = |all: &[String]| all[front..all.len() - back].to_vec();
    (part(a), part(b))
}

#[cfg(test)]
mod tests;
