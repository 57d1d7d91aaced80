//! Jobs that could evict others but for a minimum runtime, the preemption delay or the preemption
//! limit.

use std::time::Duration;

use super::Session;
use crate::model::PodGroupId;

/// A minimum runtime that keeps a job from evicting others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRuntimeProtection {
    /// The victim that is protected longest.
    pub victim: PodGroupId,
    /// The field of the queue or profile that protects it.
    pub field: &'static str,
    /// The minimum runtime.
    pub minimum: Duration,
}

impl Session<'_> {
    /// Whether any minimum runtime is configured.
    pub(crate) fn has_min_runtimes(&self) -> bool {
        let profile = [self.profile.preempt_min_runtime, self.profile.reclaim_min_runtime];
        let queues = self.snapshot.queues.iter();
        let queues =
            queues.flat_map(|queue| [queue.preempt_min_runtime, queue.reclaim_min_runtime]);
        let mut all = queues.flatten().chain(profile);
        self.profile.protects_min_runtime && all.any(|minimum| !minimum.is_zero())
    }

    /// The minimum runtime that kept the job from evicting others in this cycle.
    pub fn min_runtime_protection(&self, job: PodGroupId) -> Option<MinRuntimeProtection> {
        self.min_runtime_protections.get(&job).copied()
    }

    /// Only its preemption delay keeps the job from evicting others.
    pub fn is_blocked_by_delay(&self, job: PodGroupId) -> bool {
        self.blocked_by_delay.contains(&job)
    }

    pub(crate) fn record_blocked_by_delay(&mut self, job: PodGroupId) {
        self.blocked_by_delay.insert(job);
    }

    /// Only the limit of preemptions per cycle keeps the job from evicting others.
    pub fn is_blocked_by_limit(&self, job: PodGroupId) -> bool {
        self.blocked_by_limit.contains(&job)
    }

    pub(crate) fn record_blocked_by_limit(&mut self, jobs: impl IntoIterator<Item = PodGroupId>) {
        self.blocked_by_limit.extend(jobs);
    }

    pub(crate) fn record_min_runtime_protection(
        &mut self,
        job: PodGroupId,
        protection: MinRuntimeProtection,
    ) {
        self.min_runtime_protections.insert(job, protection);
    }
}
