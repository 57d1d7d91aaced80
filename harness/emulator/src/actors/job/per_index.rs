//! Failures that count for each index on its own (`backoffLimitPerIndex`).
//!
//! The pod that replaces a failed one carries how often its index has failed. Until it is there,
//! the finalizer holds the failed pod: from it the count is read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::indexes;
use super::policy::Action;
use super::tally::{ended, index};
use crate::actors::workload::count_at;
use crate::object::{annotation, number, text};
use crate::store::{Key, Object};
use schedlab_json::Value;

pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A pod whose failure is not counted yet.
pub(super) struct Lost<'v> {
    pub(super) key: &'v Key,
    pub(super) pod: &'v Object,
    pub(super) action: Action,
}

impl Lost<'_> {
    /// How often its index failed before, counted and ignored.
    fn before(&self) -> [i64; 2] {
        [FAILURES, IGNORED].map(|key| {
            let count = annotation(self.pod, key).and_then(|text| text.parse().ok());
            count.unwrap_or(0)
        })
    }

    /// How often its index has failed, counted and ignored.
    pub(super) fn failures(&self) -> [i64; 2] {
        let [counted, ignored] = self.before();
        if self.action == Action::Ignore { [counted, ignored + 1] } else { [counted + 1, ignored] }
    }

    fn is_last(&self, limit: i64) -> bool {
        match self.action {
            Action::FailIndex => true,
            Action::Ignore => false,
            Action::Count | Action::FailJob(_) => self.before()[0] >= limit,
        }
    }
}

/// What a job knows of its indexes.
pub(super) struct PerIndex<'v> {
    limit: i64,
    completions: i64,
    /// The indexes that failed for good.
    pub(super) failed: BTreeSet<i64>,
    /// The last failed pod of each index that has no other yet.
    pub(super) held: BTreeMap<i64, Lost<'v>>,
}

impl<'v> PerIndex<'v> {
    pub(super) fn of(job: &Value) -> Option<Self> {
        Some(Self {
            limit: number(job, &["spec", "backoffLimitPerIndex"])?,
            completions: count_at(job, &["spec", "completions"], 0),
            failed: indexes::parse(text(job, &["status", "failedIndexes"])),
            held: BTreeMap::new(),
        })
    }

    /// Takes note of failures; those of indexes that are not `settled` stay here, if any may.
    pub(super) fn take(&mut self, lost: &mut Vec<Lost<'v>>, settled: &BTreeSet<i64>, keeps: bool) {
        let in_range = |index: &i64| (0..self.completions).contains(index);
        for one in lost.iter().filter(|one| one.is_last(self.limit)) {
            self.failed.extend(index(one.pod).filter(in_range));
        }
        let is_open = |index: &i64| {
            keeps && in_range(index) && !settled.contains(index) && !self.failed.contains(index)
        };
        let (mut open, others): (Vec<_>, Vec<_>) =
            lost.drain(..).partition(|one| index(one.pod).is_some_and(|index| is_open(&index)));
        *lost = others;
        open.sort_by_key(|one| (one.before().iter().sum::<i64>(), ended(one.pod)));
        for one in open {
            let earlier = index(one.pod).and_then(|index| self.held.insert(index, one));
            lost.extend(earlier);
        }
    }

    /// How often each index failed that now waits for a pod, and when last.
    pub(super) fn waits(&self, index: i64) -> Option<(i64, Timestamp)> {
        let held = self.held.get(&index)?;
        Some((held.failures().iter().sum(), ended(held.pod)))
    }

    /// Why the job fails for its indexes.
    pub(super) fn verdict(&self, job: &Value, completed: i64) -> Option<[&'static str; 2]> {
        let failed = i64::try_from(self.failed.len()).unwrap_or(i64::MAX);
        let most = number(job, &["spec", "maxFailedIndexes"]);
        if most.is_some_and(|most| failed > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(["MaxFailedIndexesExceeded", message]);
        }
        let is_through = failed > 0 && failed + completed >= self.completions;
        is_through.then_some(["FailedIndexes", "Job has failed indexes"])
    }
}
