//! A cache of jobs whose search failed (KAI: minimal job representatives). A job of the same queue
//! and signature that requests no less is not searched for again.

use std::collections::BTreeMap;

use super::{Preemptor, SchedulingSignature};
use crate::{
    framework::{MinRuntimeProtection, Session},
    model::QueueId,
};

/// The jobs for which a search failed in the present action, by queue, preemptibility and
/// signature.
#[derive(Default)]
pub(super) struct FailedJobCache(BTreeMap<(QueueId, bool, SchedulingSignature), Vec<FailedJob>>);

/// The demand of a job, in a form that can be compared with other jobs.
#[derive(PartialEq, Eq)]
pub(super) struct JobDemand {
    /// Queue, preemptibility and signature of the job; only jobs of equal class are compared.
    class: (QueueId, bool, SchedulingSignature),
    amount: FailedJob,
}

#[derive(PartialEq, Eq)]
pub(super) struct FailedJob {
    priority: i32,
    /// Number of pods of each shape, in the order of the shapes.
    pods: Vec<u64>,
    /// The victim whose minimum run time made the search fail, if one did.
    pub(super) protection: Option<MinRuntimeProtection>,
}

impl JobDemand {
    /// Returns `None` if no other job is equivalent.
    pub(super) fn new(session: &Session<'_>, preemptor: &Preemptor) -> Option<Self> {
        let signature = SchedulingSignature::for_pods(session, preemptor.group, &preemptor.pods)?;
        let priority = session.group(preemptor.group).priority;
        let pods = preemptor.pods_by_shape(session).into_values().collect();
        let class = (preemptor.queue, preemptor.preemptible, signature);
        Some(Self { class, amount: FailedJob { priority, pods, protection: None } })
    }
}

impl FailedJobCache {
    /// Finds a failed job of the same class that requested no more than this one, so that this one
    /// fails, too.
    pub(super) fn find_covering(
        &self,
        JobDemand { class, amount }: &JobDemand,
    ) -> Option<&FailedJob> {
        let mut failed = self.0.get(class).into_iter().flatten();
        let covers = |failed: &&FailedJob| {
            amount.priority <= failed.priority
                && failed.pods.iter().zip(&amount.pods).all(|(then, now)| then <= now)
        };
        failed.find(covers)
    }

    pub(super) fn insert_failed_job(
        &mut self,
        JobDemand { class, amount }: JobDemand,
        protection: Option<MinRuntimeProtection>,
    ) {
        self.0.entry(class).or_default().push(FailedJob { protection, ..amount });
    }
}
