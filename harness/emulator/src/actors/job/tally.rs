//! Where a job stands: what its status has counted, and what its pods add to that.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{indexes, is_tracked};
use crate::actors::workload::{count_at, counted, is_active, is_ready};
use crate::object::{annotation, is_deleting, remove, set, text};
use crate::store::{Key, Object};

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
            indexed,
        };
        for (key, pod) in pods {
            tally.add(key, pod);
        }
        if indexed {
            tally.succeeded = counted(&tally.completed);
        }
        tally
    }

    fn add(&mut self, key: &'v Key, pod: &'v Object) {
        if is_active(pod) {
            self.active.push((key, pod));
            return;
        }
        let succeeded = text(pod, &["status", "phase"]) == "Succeeded";
        let stops = text(pod, &["status", "phase"]) != "Failed" && !succeeded;
        if stops {
            self.terminating.push((key, pod));
        }
        if !succeeded {
            self.failures.push(pod);
        }
        if !is_tracked(pod) {
            return;
        }
        self.ended.push((key, pod));
        match (succeeded, index(pod).filter(|_| self.indexed)) {
            (true, Some(index)) => {
                self.completed.insert(index);
            }
            (true, None) => self.succeeded += 1,
            (false, _) => self.failed += 1,
        }
    }

    /// Writes the counts into a job's status.
    pub(super) fn write(&self, job: &mut Value) {
        let ready = counted(self.active.iter().filter(|(_, pod)| is_ready(pod)));
        let counts = [
            ("active", counted(&self.active)),
            ("ready", ready),
            ("terminating", counted(&self.terminating)),
            ("succeeded", self.succeeded),
            ("failed", self.failed),
        ];
        for (field, count) in counts {
            // Kubernetes leaves these three out when they are zero.
            if count == 0 && ["active", "succeeded", "failed"].contains(&field) {
                remove(job, &["status", field]);
            } else {
                set(job, &["status", field], json!(count));
            }
        }
        set(job, &["status", "uncountedTerminatedPods"], json!({}));
        if self.indexed && !self.completed.is_empty() {
            let done = indexes::format(&self.completed);
            set(job, &["status", "completedIndexes"], json!(done));
        }
    }

    /// The indexes that pods are at work on, by pods that are not being stopped.
    pub(super) fn running_indexes(&self) -> BTreeSet<i64> {
        self.active.iter().filter_map(|(_, pod)| index(pod)).collect()
    }
}

/// Whether each pod of a job has an index.
pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, &["spec", "completionMode"]) == "Indexed"
}

/// A pod's index.
pub(super) fn index(pod: &Value) -> Option<i64> {
    annotation(pod, INDEX)?.parse().ok()
}

/// Whether a pod was stopped rather than that it failed.
pub(super) fn was_stopped(pod: &Value) -> bool {
    is_deleting(pod)
}
