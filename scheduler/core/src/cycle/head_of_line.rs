//! Finds pending jobs that are blocked by an earlier job of their queue (head-of-line blocking).

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::requeue::lacks_capacity;
use crate::{
    actions::allocate::PendingReasons,
    framework::Session,
    model::{PodGroupId, QueueId},
    queues::JobKey,
    reason::Reason,
};

/// The pod groups that wait for capacity (of nodes or of their queue) behind an earlier job of the
/// same queue that also waits for capacity.
pub(crate) fn blocked_by_head_of_line(
    session: &Session<'_>,
    reasons: &PendingReasons,
) -> BTreeSet<PodGroupId> {
    let mut heads = HeadJobs::default();
    let pending = reasons.iter().filter(|(_, reason)| waits_for_capacity(reason));
    // Jobs that cannot run whatever is evicted block no others.
    let pending = pending.filter(|(id, _)| session.may_run_after_evictions(**id));
    let blocked = pending.filter_map(|(&id, _)| {
        let queue = session.group(id).queue_id()?;
        heads.insert_job(queue, session.current_job_key(id)).map(|behind| behind.group())
    });
    blocked.collect()
}

/// The first job of each queue in job order.
#[derive(Default)]
pub(crate) struct HeadJobs(BTreeMap<QueueId, JobKey>);

impl HeadJobs {
    /// Adds a job of the queue. Returns the job that is then known to be behind another one: the
    /// added job, or the former first job that it displaces.
    pub(crate) fn insert_job(&mut self, queue: QueueId, job: JobKey) -> Option<JobKey> {
        match self.0.entry(queue) {
            Entry::Vacant(vacant) => {
                vacant.insert(job);
                None
            }
            Entry::Occupied(mut first) if job < *first.get() => Some(first.insert(job)),
            Entry::Occupied(_) => Some(job),
        }
    }

    /// The first job of the queue, if it comes before `job`.
    pub(crate) fn head_before(&self, queue: QueueId, job: JobKey) -> Option<JobKey> {
        self.0.get(&queue).copied().filter(|first| *first < job)
    }
}

const fn waits_for_capacity(reason: &Reason) -> bool {
    lacks_capacity(reason)
        || matches!(
            reason,
            Reason::OverLimit { .. }
                | Reason::NonPreemptibleOverQuota { .. }
                | Reason::FairShareExceeded { .. }
        )
}
