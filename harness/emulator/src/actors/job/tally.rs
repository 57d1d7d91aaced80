//! Where a job stands: what its status has counted, and what its pods add to that.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::per_index::{Lost, PerIndex};
use super::policy::{self, Action};
use super::{indexes, is_tracked};
use crate::actors::fields::{after_secs, set_counts, time};
use crate::actors::kubelet::is_finished;
use crate::actors::workload::{count_at, counted, is_active, is_ready};
use crate::object::{annotation, condition, is_deleting, list, number, set, text};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A job's pods and counts.
pub(super) struct Tally<'v> {
    /// Pods that run or wait.
    pub(super) active: Vec<(&'v Key, &'v Object)>,
    /// Pods that are being stopped.
    pub(super) terminating: Vec<(&'v Key, &'v Object)>,
    /// Pods whose end is not counted yet (the counts below have it).
    pub(super) ended: Vec<(&'v Key, &'v Object)>,
    /// Pods that failed and are still there.
    pub(super) failures: Vec<&'v Object>,
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    /// The indexes that are done, where the job has indexes.
    pub(super) completed: BTreeSet<i64>,
    /// Where failures count for each index.
    pub(super) per_index: Option<PerIndex<'v>>,
    /// Why the job fails, where its failure policy says so.
    pub(super) broken: Option<String>,
    indexed: bool,
}

impl<'v> Tally<'v> {
    pub(super) fn of(job: &Value, pods: &[(&'v Key, &'v Object)]) -> Self {
        let indexed = is_indexed(job);
        let mut tally = Self {
            active: Vec::new(),
            terminating: Vec::new(),
            ended: Vec::new(),
            failures: Vec::new(),
            succeeded: count_at(job, &["status", "succeeded"], 0),
            failed: count_at(job, &["status", "failed"], 0),
            completed: indexes::parse(text(job, &["status", "completedIndexes"])),
            per_index: PerIndex::of(job),
            broken: None,
            indexed,
        };
        let mut lost = Vec::new();
        for (key, pod) in pods {
            tally.add((key, pod), job, &mut lost);
        }
        if indexed {
            tally.succeeded = counted(&tally.completed);
        }
        tally.lose(lost, job);
        tally
    }

    /// Sorts a pod in; one whose failure is not counted yet goes to the `lost`.
    fn add(&mut self, one: (&'v Key, &'v Object), job: &Value, lost: &mut Vec<Lost<'v>>) {
        let (key, pod) = one;
        if is_active(pod) {
            self.active.push(one);
            return;
        }
        if !is_finished(pod) {
            self.terminating.push(one);
        }
        let succeeded = text(pod, &["status", "phase"]) == "Succeeded";
        if succeeded && is_tracked(pod) {
            self.ended.push(one);
            match index(pod).filter(|_| self.indexed) {
                Some(index) => drop(self.completed.insert(index)),
                None => self.succeeded += 1,
            }
        }
        // Of a job that is failing, pods that are stopped have failed.
        let is_over = is_finished(pod) || !waits_for_end(job) || is_failing(job);
        if succeeded || !is_over {
            return;
        }
        self.failures.push(pod);
        let action = policy::action(job, pod);
        if let (None, Action::FailJob(why)) = (&self.broken, &action) {
            self.broken = Some(why.clone());
        }
        if is_tracked(pod) {
            lost.push(Lost { key, pod, action });
        }
    }

    /// Counts the failures, but for those that pods which are still to come must know of.
    fn lose(&mut self, mut lost: Vec<Lost<'v>>, job: &Value) {
        if let Some(per_index) = &mut self.per_index {
            let busy = self.active.iter().filter_map(|(_, pod)| index(pod));
            let settled: BTreeSet<i64> = busy.chain(self.completed.iter().copied()).collect();
            let keeps = !is_failing(job) && condition(job, "SuccessCriteriaMet") != Some("True");
            per_index.take(&mut lost, &settled, keeps);
        }
        for one in lost {
            self.ended.push((one.key, one.pod));
            self.failed += i64::from(one.action != Action::Ignore);
        }
    }

    /// Writes the counts into a job's status.
    pub(super) fn write(&self, job: &mut Value) {
        let ready = counted(self.active.iter().filter(|(_, pod)| is_ready(pod)));
        let always = [("ready", ready), ("terminating", counted(&self.terminating))];
        let if_any = [
            ("active", counted(&self.active)),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ];
        set_counts(job, &always, &if_any);
        set(job, &["status", "uncountedTerminatedPods"], json!({}));
        if self.indexed && !self.completed.is_empty() {
            let done = indexes::format(&self.completed);
            set(job, &["status", "completedIndexes"], json!(done));
        }
        if let Some(per_index) = &self.per_index {
            let failed = indexes::format(&per_index.failed);
            set(job, &["status", "failedIndexes"], json!(failed));
        }
    }

    /// The indexes that need no further pod now.
    pub(super) fn taken_indexes(&self, job: &Value) -> BTreeSet<i64> {
        let waits = if waits_for_end(job) { self.terminating.as_slice() } else { &[] };
        let busy = self.active.iter().chain(waits).filter_map(|(_, pod)| index(pod));
        let failed = self.per_index.iter().flat_map(|per_index| per_index.failed.iter());
        busy.chain(self.completed.iter().chain(failed).copied()).collect()
    }
}

/// Whether a pod that is stopped is replaced, and counted, only once it has ended.
pub(super) fn waits_for_end(job: &Value) -> bool {
    text(job, &["spec", "podReplacementPolicy"]) == "Failed"
        || job["spec"]["podFailurePolicy"].is_object()
}

/// Whether it is settled that a job fails.
fn is_failing(job: &Value) -> bool {
    condition(job, "FailureTarget") == Some("True")
}

/// Whether each pod of a job has an index.
pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, &["spec", "completionMode"]) == "Indexed"
}

/// A pod's index.
pub(super) fn index(pod: &Value) -> Option<i64> {
    annotation(pod, INDEX)?.parse().ok()
}

/// When a pod ended, or was asked to.
pub(super) fn ended(pod: &Value) -> Timestamp {
    if is_deleting(pod) && !is_finished(pod) {
        let latest = time(pod, &["metadata", "deletionTimestamp"]).unwrap_or(Timestamp::MIN);
        let grace = number(pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        return after_secs(latest, grace.saturating_neg());
    }
    let containers = list(pod, &["status", "containerStatuses"]).iter();
    let ends = containers.filter_map(|one| time(one, &["state", "terminated", "finishedAt"]));
    ends.max().or_else(|| time(pod, &["status", "startTime"])).unwrap_or(Timestamp::MIN)
}
