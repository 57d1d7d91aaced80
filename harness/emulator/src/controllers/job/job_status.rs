//! The state of a job: the counts in its status plus its uncounted pods.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::index_backoff::{FailedPod, PerIndexBackoff};
use super::policy::{self, FailureAction};
use super::{has_tracking_finalizer, indexes};
use crate::controllers::workload::{api_count, clamped_count_at, is_active, is_ready};
use crate::reconcile::fields::{set_counts, time_after_secs, time_at};
use crate::reconcile::pod_status::is_finished;
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{annotation, condition, is_deleting, list, number, remove, set, text},
};

pub(super) const COMPLETION_INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";

/// The pods of a Job by state, and the counts for the Job's status.
pub(super) struct JobStatus<'v> {
    /// Pods that are pending or running.
    pub(super) active: Vec<(&'v Key, &'v Object)>,
    /// Pods that are terminating.
    pub(super) terminating: Vec<(&'v Key, &'v Object)>,
    /// Ended pods that `status` does not count yet. The counts below include them.
    pub(super) uncounted: Vec<(&'v Key, &'v Object)>,
    /// Failed pods that still exist.
    pub(super) failures: Vec<&'v Object>,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    /// The completed indexes of an indexed Job, as far as they are below `completions`.
    pub(super) completed: BTreeSet<i64>,
    /// The state of the indexes; `None` without `backoffLimitPerIndex`.
    pub(super) per_index: Option<PerIndexBackoff<'v>>,
    /// The message of the Job's failure, if the pod failure policy fails the Job.
    pub(super) policy_failure: Option<String>,
    indexed: bool,
}

impl<'v> JobStatus<'v> {
    pub(super) fn from_pods(job: &Value, pods: &[(&'v Key, &'v Object)]) -> Self {
        let indexed = is_indexed(job);
        let mut job_status = Self {
            active: Vec::new(),
            terminating: Vec::new(),
            uncounted: Vec::new(),
            failures: Vec::new(),
            succeeded: clamped_count_at(job, &["status", "succeeded"], 0),
            failed: clamped_count_at(job, &["status", "failed"], 0),
            completed: indexes::parse_indexes(text(job, &["status", "completedIndexes"])),
            per_index: PerIndexBackoff::from_job(job),
            policy_failure: None,
            indexed,
        };
        job_status.completed.retain(|index| is_in_range(job, *index));
        let mut lost = Vec::new();
        for (key, pod) in pods {
            job_status.add_pod(key, pod, job, &mut lost);
        }
        if indexed {
            job_status.succeeded = api_count(&job_status.completed);
        }
        job_status.count_failures(lost, job);
        job_status
    }

    /// Adds a pod. A failed pod that `status` does not count yet is added to `lost`.
    fn add_pod(
        &mut self,
        key: &'v Key,
        pod: &'v Object,
        job: &Value,
        lost: &mut Vec<FailedPod<'v>>,
    ) {
        if is_active(pod) {
            self.active.push((key, pod));
            return;
        }
        if !is_finished(pod) {
            self.terminating.push((key, pod));
        }
        let succeeded = text(pod, &["status", "phase"]) == "Succeeded";
        if succeeded && has_tracking_finalizer(pod) {
            self.uncounted.push((key, pod));
            match completion_index(pod).filter(|_| self.indexed) {
                Some(index) if is_in_range(job, index) => drop(self.completed.insert(index)),
                Some(_) => {}
                None => self.succeeded += 1,
            }
        }
        // The terminating pods of a failing job count as failed.
        let is_over = is_finished(pod) || !replaces_only_terminated(job) || is_failing(job);
        if succeeded || !is_over {
            return;
        }
        self.failures.push(pod);
        let action = policy::failure_action(job, pod);
        if let (None, FailureAction::FailJob(why)) = (&self.policy_failure, &action) {
            self.policy_failure = Some(why.clone());
        }
        if has_tracking_finalizer(pod) {
            lost.push(FailedPod { key, pod, action });
        }
    }

    /// Counts the failed pods, except those that must be kept for the retry of their index.
    fn count_failures(&mut self, mut lost: Vec<FailedPod<'v>>, job: &Value) {
        if let Some(per_index) = &mut self.per_index {
            let busy = self.active.iter().filter_map(|(_, pod)| completion_index(pod));
            let settled: BTreeSet<i64> = busy.chain(self.completed.iter().copied()).collect();
            let keeps = !is_failing(job) && condition(job, "SuccessCriteriaMet") != Some("True");
            per_index.record_failed_pods(&mut lost, &settled, keeps);
        }
        for one in lost {
            self.uncounted.push((one.key, one.pod));
            self.failed += i64::from(one.action != FailureAction::Ignore);
        }
    }

    /// Writes the counts to the status of `job`.
    pub(super) fn write_counts(&self, job: &mut Value) {
        let ready = api_count(self.active.iter().filter(|(_, pod)| is_ready(pod)));
        let always = [("ready", ready), ("terminating", api_count(&self.terminating))];
        let if_any = [
            ("active", api_count(&self.active)),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ];
        set_counts(job, &always, &if_any);
        set(job, &["status", "uncountedTerminatedPods"], json!({}));
        if self.indexed && self.completed.is_empty() {
            remove(job, &["status", "completedIndexes"]);
        } else if self.indexed {
            let done = indexes::format_indexes(&self.completed);
            set(job, &["status", "completedIndexes"], json!(done));
        }
        if let Some(per_index) = &self.per_index {
            let failed = indexes::format_indexes(&per_index.failed);
            set(job, &["status", "failedIndexes"], json!(failed));
        }
    }

    /// The indexes that need no new pod now: completed, failed or with a pod.
    pub(super) fn occupied_indexes(&self, job: &Value) -> BTreeSet<i64> {
        let waits = if replaces_only_terminated(job) { self.terminating.as_slice() } else { &[] };
        let busy = self.active.iter().chain(waits).filter_map(|(_, pod)| completion_index(pod));
        let failed = self.per_index.iter().flat_map(|per_index| per_index.failed.iter());
        busy.chain(self.completed.iter().chain(failed).copied()).collect()
    }
}

/// Whether a terminating pod is replaced and counted only after its end.
pub(super) fn replaces_only_terminated(job: &Value) -> bool {
    text(job, &["spec", "podReplacementPolicy"]) == "Failed"
        || job["spec"]["podFailurePolicy"].is_object()
}

/// Whether the Job will fail and is stopping its pods (condition `FailureTarget`).
fn is_failing(job: &Value) -> bool {
    condition(job, "FailureTarget") == Some("True")
}

/// Whether `completionMode` is `Indexed`.
pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, &["spec", "completionMode"]) == "Indexed"
}

/// Whether an index is below the job's completions, which may fall while it runs.
pub(super) fn is_in_range(job: &Value, index: i64) -> bool {
    index < clamped_count_at(job, &["spec", "completions"], 0)
}

/// The completion index of a pod.
pub(super) fn completion_index(pod: &Value) -> Option<i64> {
    annotation(pod, COMPLETION_INDEX_ANNOTATION)?.parse().ok()
}

/// When a pod ended; for a terminating pod, when its deletion was requested.
pub(super) fn finish_time(pod: &Value) -> Timestamp {
    if is_deleting(pod) && !is_finished(pod) {
        let latest = time_at(pod, &["metadata", "deletionTimestamp"]).unwrap_or(Timestamp::MIN);
        let grace = number(pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        return time_after_secs(latest, grace.saturating_neg());
    }
    let containers = list(pod, &["status", "containerStatuses"]).iter();
    let ends = containers.filter_map(|one| time_at(one, &["state", "terminated", "finishedAt"]));
    ends.max().or_else(|| time_at(pod, &["status", "startTime"])).unwrap_or(Timestamp::MIN)
}
