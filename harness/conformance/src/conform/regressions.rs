//! What changed between two reports on one profile.

use std::collections::BTreeMap;
use std::fmt;

use super::report::{ConformanceReport, LevelReport};

/// The result of a behaviour in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BehaviourResult {
    Passed,
    Failed,
    Skipped,
    Unsupported,
}

impl fmt::Display for BehaviourResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "was skipped",
            Self::Unsupported => "was unsupported",
        })
    }
}

/// The behaviours whose result differs between two reports, one sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportChanges {
    /// Behaviours that passed in the earlier report and do not in the later one.
    pub regressions: Vec<String>,
    /// All other behaviours with another result.
    pub others: Vec<String>,
}

impl ReportChanges {
    /// Compares two reports. Behaviours that only one of them has are left out: the later run may
    /// have been restricted to some of them, and profiles grow.
    pub fn between(earlier: &ConformanceReport, later: &ConformanceReport) -> Self {
        let before = results_by_id(earlier);
        let mut changes = Self::default();
        for (id, now) in results_by_id(later) {
            let Some(before) = before.get(id).filter(|before| **before != now) else { continue };
            let sentence = format!("{id} {before} in the baseline and {now} now");
            if *before == BehaviourResult::Passed {
                changes.regressions.push(sentence);
            } else {
                changes.others.push(sentence);
            }
        }
        changes
    }
}

fn results_by_id(report: &ConformanceReport) -> BTreeMap<&str, BehaviourResult> {
    let levels = report.areas.values().flat_map(|area| [&area.core, &area.extended]);
    levels.flat_map(results_of_level).collect()
}

fn results_of_level(level: &LevelReport) -> Vec<(&str, BehaviourResult)> {
    let passed = level.passed.iter().map(|one| (&*one.id, BehaviourResult::Passed));
    let failed = level.failed.iter().map(|one| (&*one.id, BehaviourResult::Failed));
    let skipped = level.skipped.iter().map(|one| (&*one.id, BehaviourResult::Skipped));
    let unsupported = level.unsupported.iter();
    let unsupported = unsupported.map(|one| (&*one.id, BehaviourResult::Unsupported));
    passed.chain(failed).chain(skipped).chain(unsupported).collect()
}
