//! The backoff limit per index (`backoffLimitPerIndex`).
//!
//! The replacement of a failed pod carries the failure count of its index. Until it exists, the
//! finalizer keeps the failed pod, which has the previous count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::indexes;
use super::job_status::{completion_index, finish_time};
use super::policy::FailureAction;
use crate::controllers::workload::clamped_count_at;
use crate::store::{Key, Object};
use schedlab_api::{
    Value,
    object::{annotation, number, text},
};

pub(super) const FAILURE_COUNT_ANNOTATION: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED_FAILURE_COUNT_ANNOTATION: &str =
    "batch.kubernetes.io/job-index-ignored-failure-count";

/// A failed pod of a Job that `status` does not count yet.
pub(super) struct FailedPod<'v> {
    pub(super) key: &'v Key,
    pub(super) pod: &'v Object,
    pub(super) action: FailureAction,
}

impl FailedPod<'_> {
    /// The numbers of earlier failures of the pod's index: counted and ignored ones.
    fn prior_failure_counts(&self) -> [i64; 2] {
        [FAILURE_COUNT_ANNOTATION, IGNORED_FAILURE_COUNT_ANNOTATION].map(|key| {
            let count = annotation(self.pod, key).and_then(|text| text.parse().ok());
            count.unwrap_or(0)
        })
    }

    /// The numbers of failures of the pod's index including this one: counted and ignored ones.
    pub(super) fn failure_counts(&self) -> [i64; 2] {
        let [counted, ignored] = self.prior_failure_counts();
        if self.action == FailureAction::Ignore {
            [counted, ignored + 1]
        } else {
            [counted + 1, ignored]
        }
    }

    fn exhausts_index(&self, limit: i64) -> bool {
        match self.action {
            FailureAction::FailIndex => true,
            FailureAction::Ignore => false,
            FailureAction::Count | FailureAction::FailJob(_) => {
                self.prior_failure_counts()[0] >= limit
            }
        }
    }
}

/// The state of the indexes of a job with `backoffLimitPerIndex`.
pub(super) struct PerIndexBackoff<'v> {
    limit: i64,
    completions: i64,
    /// The indexes that failed permanently.
    pub(super) failed: BTreeSet<i64>,
    /// The last failed pod of each index that has no replacement yet.
    pub(super) awaiting_retry: BTreeMap<i64, FailedPod<'v>>,
}

impl<'v> PerIndexBackoff<'v> {
    pub(super) fn from_job(job: &Value) -> Option<Self> {
        Some(Self {
            limit: number(job, &["spec", "backoffLimitPerIndex"])?,
            completions: clamped_count_at(job, &["spec", "completions"], 0),
            failed: indexes::parse_indexes(text(job, &["status", "failedIndexes"])),
            awaiting_retry: BTreeMap::new(),
        })
    }

    /// Records failed pods. If `keeps`, the last failed pod of each index that may be retried moves
    /// to `awaiting_retry`; all others remain in `lost`.
    pub(super) fn record_failed_pods(
        &mut self,
        lost: &mut Vec<FailedPod<'v>>,
        settled: &BTreeSet<i64>,
        keeps: bool,
    ) {
        let in_range = |index: &i64| (0..self.completions).contains(index);
        for one in lost.iter().filter(|one| one.exhausts_index(self.limit)) {
            self.failed.extend(completion_index(one.pod).filter(in_range));
        }
        let is_open = |index: &i64| {
            keeps && in_range(index) && !settled.contains(index) && !self.failed.contains(index)
        };
        let (mut open, others): (Vec<_>, Vec<_>) = lost
            .drain(..)
            .partition(|one| completion_index(one.pod).is_some_and(|index| is_open(&index)));
        *lost = others;
        open.sort_by_key(|one| {
            (one.prior_failure_counts().iter().sum::<i64>(), finish_time(one.pod))
        });
        for one in open {
            let earlier =
                completion_index(one.pod).and_then(|index| self.awaiting_retry.insert(index, one));
            lost.extend(earlier);
        }
    }

    /// The failure count and last failure of an index that awaits a retry.
    pub(super) fn retry_state(&self, index: i64) -> Option<(i64, Timestamp)> {
        let held = self.awaiting_retry.get(&index)?;
        Some((held.failure_counts().iter().sum(), finish_time(held.pod)))
    }

    /// The reason and message of the Job's failure, if the Job fails because of its failed indexes.
    pub(super) fn failure_reason(&self, job: &Value, completed: i64) -> Option<[&'static str; 2]> {
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
