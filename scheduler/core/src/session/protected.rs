//! Jobs for which others would leave, were they not protected for a time, or did not so many leave
//! for others.

use std::time::Duration;

use super::Session;
use crate::model::PodGroupId;

/// What keeps others from leaving for a job, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Who is protected for the longest.
    pub victim: PodGroupId,
    /// By which field of a queue, or of the profile.
    pub field: &'static str,
    /// For how long it may run.
    pub minimum: Duration,
}

impl Session<'_> {
    /// Whether anything may be protected for a time at all.
    pub(crate) fn has_min_runtimes(&self) -> bool {
        let profile = [self.profile.preempt_min_runtime, self.profile.reclaim_min_runtime];
        let queues = self.snapshot.queues.iter();
        let queues =
            queues.flat_map(|queue| [queue.preempt_min_runtime, queue.reclaim_min_runtime]);
        let mut all = queues.flatten().chain(profile);
        self.profile.min_runtimes && all.any(|minimum| !minimum.is_zero())
    }

    /// What was found to keep others from leaving for the job, in this cycle.
    pub fn protection(&self, job: PodGroupId) -> Option<Protection> {
        self.protections.get(&job).copied()
    }

    /// Others would leave for the job, were it not too young to ask them to.
    pub fn is_only_too_young(&self, job: PodGroupId) -> bool {
        self.too_young.contains(&job)
    }

    pub(crate) fn note_too_young(&mut self, job: PodGroupId) {
        self.too_young.insert(job);
    }

    /// Others would leave for the job, did they not for others of this cycle already.
    pub fn is_only_bounded(&self, job: PodGroupId) -> bool {
        self.bounded.contains(&job)
    }

    pub(crate) fn note_bounded(&mut self, jobs: impl IntoIterator<Item = PodGroupId>) {
        self.bounded.extend(jobs);
    }

    pub(crate) fn note_protection(&mut self, job: PodGroupId, protection: Protection) {
        self.protections.insert(job, protection);
    }
}
