//! All pending jobs, by leaf queue and job order. A job that comes before the preemptor decides
//! when its queue's turn comes, even if it cannot be placed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::SchedulingSignature;
use crate::{
    model::QueueId,
    queues::{JobKey, OrderPurpose, QueueAccounts, QueueCandidate, QueueOrder, QueuedJob},
    resources::PerResource,
};

/// The next request of each pending job, and the order of the queues.
#[derive(Clone, Debug)]
pub(crate) struct PendingJobs {
    leaves: Vec<LeafQueue>,
    queue_order: QueueOrder,
}

/// What distinguishes a job from other jobs of its queue with an equal request: the signature and
/// the number of its next pods, and whether it is preemptible. `None`: no other job is equivalent.
pub(super) type JobClass = Option<(SchedulingSignature, usize, bool)>;

/// The request of a job's next pods, and the class of the job.
type RequestClass = (PerResource<i64>, JobClass);

#[derive(Clone, Debug, Default)]
struct LeafQueue {
    jobs: BTreeMap<JobKey, RequestClass>,
    /// Number of the queue's jobs by request and class.
    counts: BTreeMap<RequestClass, u32>,
}

impl PendingJobs {
    pub(super) fn new(
        accounts: &QueueAccounts,
        jobs: impl IntoIterator<Item = (QueuedJob, JobClass)>,
    ) -> Self {
        let leaves = vec![LeafQueue::default(); accounts.len()];
        let mut pending =
            Self { leaves, queue_order: QueueOrder::new(accounts, OrderPurpose::Allocate) };
        let mut queues = BTreeSet::new();
        for (job, class) in jobs {
            pending.insert_job(&job, class);
            queues.insert(job.queue);
        }
        for queue in queues {
            pending.on_accounts_changed(accounts, queue);
        }
        pending
    }

    /// Adds a job. The caller then calls [`Self::on_accounts_changed`].
    pub(super) fn insert_job(&mut self, job: &QueuedJob, class: JobClass) {
        let leaf = &mut self.leaves[job.queue.0 as usize];
        let request = (job.request, class);
        if leaf.jobs.insert(job.key, request.clone()).is_none() {
            *leaf.counts.entry(request).or_default() += 1;
        }
    }

    /// Removes a job that was placed. The caller then calls [`Self::on_accounts_changed`].
    pub(crate) fn remove_job(&mut self, queue: QueueId, key: JobKey) {
        let leaf = &mut self.leaves[queue.0 as usize];
        let Some(request) = leaf.jobs.remove(&key) else { return };
        let Some(count) = leaf.counts.get_mut(&request) else { return };
        *count -= 1;
        if *count == 0 {
            leaf.counts.remove(&request);
        }
    }

    /// Updates the queue order after a change of the jobs or the accounts of `queue`.
    pub(crate) fn on_accounts_changed(&mut self, accounts: &QueueAccounts, queue: QueueId) {
        let first = self.first_job(queue, None, None);
        let candidate =
            first.map(|(_, job)| QueueCandidate { job, victims: PerResource::default() });
        self.queue_order.set_candidate(accounts, queue, candidate);
    }

    /// The order of the queues by their pending jobs alone, without victims.
    pub(super) const fn queue_order(&self) -> &QueueOrder {
        &self.queue_order
    }

    /// The first job of `queue` between the positions `after` and `end`, and its request.
    pub(super) fn first_job(
        &self,
        queue: QueueId,
        after: Option<JobKey>,
        end: Option<JobKey>,
    ) -> Option<(JobKey, PerResource<i64>)> {
        let jobs = self.leaves[queue.0 as usize].jobs.range(keys_between(after, end)?);
        jobs.map(|(key, (request, _))| (*key, *request)).next()
    }

    /// Of the jobs between `after` and `end`: the last of the consecutive jobs that are equivalent
    /// to the first one. They have its request and class, so their order makes no difference.
    pub(super) fn last_equivalent(
        &self,
        queue: QueueId,
        after: Option<JobKey>,
        end: Option<JobKey>,
    ) -> Option<JobKey> {
        let leaf = &self.leaves[queue.0 as usize];
        let mut jobs = leaf.jobs.range(keys_between(after, end)?);
        if let Some(((_, Some(_)), _)) = leaf.counts.first_key_value()
            && leaf.counts.len() == 1
        {
            return jobs.next_back().map(|(key, _)| *key);
        }
        let (first, request) = jobs.next()?;
        let equivalent = jobs.take_while(|(_, other)| *other == request && request.1.is_some());
        Some(equivalent.last().map_or(*first, |(key, _)| *key))
    }
}

fn keys_between(
    after: Option<JobKey>,
    end: Option<JobKey>,
) -> Option<(Bound<JobKey>, Bound<JobKey>)> {
    if let (Some(after), Some(end)) = (after, end)
        && after >= end
    {
        return None;
    }
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    Some((after, end.map_or(Bound::Unbounded, Bound::Excluded)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{PodGroupId, Time},
        profile::JobOrderRule,
        queues::{Account, MinimumStatus},
        resources::Amount,
    };

    const Q: QueueId = QueueId(0);

    const PLAIN: JobClass = Some((SchedulingSignature::EMPTY, 1, true));

    fn accounts(queues: usize) -> QueueAccounts {
        let unlimited = PerResource::default().map(|_: i64| Amount::Unlimited);
        let account = Account {
            parent: None,
            priority: 0,
            created: Time(0),
            quota: unlimited,
            limit: unlimited,
            fair_share: PerResource::default(),
            allocated: PerResource::default(),
            allocated_non_preemptible: PerResource::default(),
            requested: PerResource::default(),
        };
        QueueAccounts::from_accounts(
            vec![account; queues],
            PerResource { gpu: 9, cpu: 9, memory: 9 },
        )
    }

    fn key(rank: u32) -> JobKey {
        JobKey::new(&JobOrderRule::ALL, 0, MinimumStatus::BelowMinimum, rank, PodGroupId(rank))
    }

    fn request(gpu: i64) -> PerResource<i64> {
        PerResource { gpu, ..PerResource::default() }
    }

    /// Jobs of the first queue, in order, with these GPU requests.
    fn pending_jobs(requests: &[i64]) -> PendingJobs {
        let jobs = (0..).zip(requests);
        let job =
            |(at, gpu): (u32, &i64)| QueuedJob { queue: Q, key: key(at), request: request(*gpu) };
        PendingJobs::new(&accounts(2), jobs.map(|it| (job(it), PLAIN)))
    }

    #[test]
    fn the_first_job_respects_both_bounds() {
        let pending = pending_jobs(&[5, 6, 7]);
        let first = |after: Option<u32>, end: Option<u32>| {
            let first_job = pending.first_job(Q, after.map(key), end.map(key));
            first_job.map(|(_, request)| request.gpu)
        };
        assert_eq!([first(None, None), first(Some(0), None)], [Some(5), Some(6)]);
        assert_eq!([first(Some(2), None), first(None, Some(0))], [None, None]);
        assert_eq!([first(Some(0), Some(2)), first(Some(0), Some(1))], [Some(6), None]);
        assert_eq!([first(Some(1), Some(1)), first(Some(2), Some(1))], [None, None]);
        assert_eq!(pending.first_job(QueueId(1), None, None), None);
    }

    #[test]
    fn consecutive_jobs_with_equal_requests_are_equivalent() {
        let mut pending = pending_jobs(&[1, 1, 2, 1, 1]);
        let last_equivalent = |pending: &PendingJobs, after: Option<u32>, end: Option<u32>| {
            pending.last_equivalent(Q, after.map(key), end.map(key)).map(|key| key.group().0)
        };
        assert_eq!(last_equivalent(&pending, None, None), Some(1));
        assert_eq!(last_equivalent(&pending, Some(0), None), Some(1));
        assert_eq!(last_equivalent(&pending, Some(1), None), Some(2));
        assert_eq!(last_equivalent(&pending, Some(2), None), Some(4));
        assert_eq!(last_equivalent(&pending, Some(2), Some(4)), Some(3));
        assert_eq!(last_equivalent(&pending, Some(4), None), None);
        pending.remove_job(Q, key(0));
        assert_eq!(last_equivalent(&pending, None, None), Some(1));
        pending.remove_job(Q, key(2));
        assert_eq!(last_equivalent(&pending, None, None), Some(4));
        assert_eq!(last_equivalent(&pending, None, Some(4)), Some(3));
    }

    #[test]
    fn a_queue_has_a_turn_as_long_as_it_has_jobs() {
        let accounts = accounts(2);
        let mut pending = pending_jobs(&[1]);
        assert_eq!(pending.queue_order().best_queue(), Some(Q));
        pending.remove_job(Q, key(0));
        pending.on_accounts_changed(&accounts, Q);
        assert_eq!(pending.queue_order().best_queue(), None);
        let queue = QueueId(1);
        pending.insert_job(&QueuedJob { queue, key: key(0), request: request(1) }, None);
        pending.on_accounts_changed(&accounts, queue);
        assert_eq!(pending.queue_order().best_queue(), Some(queue));
    }
}
