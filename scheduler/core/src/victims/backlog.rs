//! All jobs that wait, by leaf queue and place: those that stand ahead of a job decide when its
//! queue's turn comes, even where they cannot be served.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    model::QueueId,
    queues::{Direction, JobKey, Ledger, Offer, Race, Waiting},
    resources::PerResource,
};

/// What each waiting job asks for next, and whose turn it would be.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    leaves: Vec<Leaf>,
    race: Race,
}

#[derive(Clone, Debug, Default)]
struct Leaf {
    jobs: BTreeMap<JobKey, PerResource<i64>>,
    /// How many jobs ask for what.
    requests: BTreeMap<PerResource<i64>, u32>,
}

impl Backlog {
    pub(crate) fn new(ledger: &Ledger, jobs: &[Waiting]) -> Self {
        let leaves = vec![Leaf::default(); ledger.len()];
        let mut backlog = Self { leaves, race: Race::new(ledger, Direction::ToServe) };
        let mut queues = BTreeSet::new();
        for job in jobs {
            backlog.insert(job);
            queues.insert(job.queue);
        }
        for queue in queues {
            backlog.accounts_changed(ledger, queue);
        }
        backlog
    }

    /// A job came. To be followed by [`Self::accounts_changed`].
    pub(crate) fn insert(&mut self, job: &Waiting) {
        let leaf = &mut self.leaves[job.queue.0 as usize];
        if leaf.jobs.insert(job.key, job.request).is_none() {
            *leaf.requests.entry(job.request).or_default() += 1;
        }
    }

    /// It was served. To be followed by [`Self::accounts_changed`].
    pub(crate) fn remove(&mut self, queue: QueueId, key: JobKey) {
        let leaf = &mut self.leaves[queue.0 as usize];
        let Some(request) = leaf.jobs.remove(&key) else { return };
        let count = leaf.requests.entry(request).or_default();
        *count -= 1;
        if *count == 0 {
            leaf.requests.remove(&request);
        }
    }

    /// To be called when jobs or accounts of `queue` changed.
    pub(crate) fn accounts_changed(&mut self, ledger: &Ledger, queue: QueueId) {
        let first = self.first(queue, None, None);
        let offer = first.map(|(_, job)| Offer { job, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }

    /// Whose turn it would be if nobody but these waited.
    pub(super) const fn race(&self) -> &Race {
        &self.race
    }

    /// The first job of `queue` behind `after` and before `end`, and what it asks for.
    pub(super) fn first(
        &self,
        queue: QueueId,
        after: Option<JobKey>,
        end: Option<JobKey>,
    ) -> Option<(JobKey, PerResource<i64>)> {
        let jobs = self.leaves[queue.0 as usize].jobs.range(between(after, end)?);
        jobs.map(|(key, request)| (*key, *request)).next()
    }

    /// The last of the jobs from there on that ask for the same as the first, so that it makes
    /// no difference which of them is next.
    pub(super) fn last_alike(
        &self,
        queue: QueueId,
        after: Option<JobKey>,
        end: Option<JobKey>,
    ) -> Option<JobKey> {
        let leaf = &self.leaves[queue.0 as usize];
        let mut jobs = leaf.jobs.range(between(after, end)?);
        if leaf.requests.len() == 1 {
            return jobs.next_back().map(|(key, _)| *key);
        }
        let (first, request) = jobs.next()?;
        let alike = jobs.take_while(|(_, other)| *other == request);
        Some(alike.last().map_or(*first, |(key, _)| *key))
    }
}

fn between(after: Option<JobKey>, end: Option<JobKey>) -> Option<(Bound<JobKey>, Bound<JobKey>)> {
    if let (Some(after), Some(end)) = (after, end)
        && after >= end
    {
        return None;
    }
    let after = after.map_or(Bound::Unbounded, Bound::Excluded);
    Some((after, end.map_or(Bound::Unbounded, Bound::Excluded)))
}
