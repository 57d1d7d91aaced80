//! A cache of jobs whose search failed (KAI: minimal job representatives). A job of the same queue
//! and signature that requests no less is not searched for again; in consolidation, a job of any
//! queue.

use std::collections::BTreeMap;

use super::{Preemptor, SchedulingSignature};
use crate::{
    framework::{MinRuntimeProtection, Session},
    model::QueueId,
};

/// The jobs for which a search failed in the present action, by queue, preemptibility and
/// signature.
#[derive(Default)]
pub(super) struct FailedJobCache(BTreeMap<JobClass, Vec<FailedJob>>);

/// Queue, preemptibility and signature of a job; only jobs of equal class are compared. No queue if
/// the failure holds for jobs of all queues.
type JobClass = (Option<QueueId>, bool, SchedulingSignature);

/// For which jobs a failed search shows that they fail, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureScope {
    /// Jobs of the same queue, of no higher priority.
    Queue,
    /// Jobs of all queues.
    AllQueues,
}

/// The demand of a job, in a form that can be compared with other jobs.
#[derive(PartialEq, Eq)]
pub(super) struct JobDemand {
    class: JobClass,
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
        let class = (Some(preemptor.queue), preemptor.preemptible, signature);
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
        let (_, preemptible, signature) = class;
        let of_all_queues = self.0.get(&(None, *preemptible, signature.clone()));
        let mut failed = self.0.get(class).into_iter().chain(of_all_queues).flatten();
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
        scope: FailureScope,
    ) {
        let (queue, preemptible, signature) = class;
        let (queue, priority) = match scope {
            FailureScope::Queue => (queue, amount.priority),
            FailureScope::AllQueues => (None, i32::MAX),
        };
        let failed = FailedJob { priority, protection, ..amount };
        self.0.entry((queue, preemptible, signature)).or_default().push(failed);
    }
}
