//! All jobs that wait, by leaf queue and place: those that stand ahead of a job decide when its
//! queue's turn comes, even where they cannot be served.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::Likeness;
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

/// What tells a job of a queue from others that ask for as much: its next pods, how many they are,
/// and whether it is preemptible. `None`: it is like no other.
pub(super) type Kind = Option<(Likeness, usize, bool)>;

/// What a job asks for next, and its kind.
type Asked = (PerResource<i64>, Kind);

#[derive(Clone, Debug, Default)]
struct Leaf {
    jobs: BTreeMap<JobKey, Asked>,
    /// How many jobs ask for what.
    asked: BTreeMap<Asked, u32>,
}

impl Backlog {
    pub(super) fn new(ledger: &Ledger, jobs: impl IntoIterator<Item = (Waiting, Kind)>) -> Self {
        let leaves = vec![Leaf::default(); ledger.len()];
        let mut backlog = Self { leaves, race: Race::new(ledger, Direction::ToServe) };
        let mut queues = BTreeSet::new();
        for (job, kind) in jobs {
            backlog.insert(&job, kind);
            queues.insert(job.queue);
        }
        for queue in queues {
            backlog.accounts_changed(ledger, queue);
        }
        backlog
    }

    /// A job came. To be followed by [`Self::accounts_changed`].
    pub(super) fn insert(&mut self, job: &Waiting, kind: Kind) {
        let leaf = &mut self.leaves[job.queue.0 as usize];
        let asked = (job.request, kind);
        if leaf.jobs.insert(job.key, asked.clone()).is_none() {
            *leaf.asked.entry(asked).or_default() += 1;
        }
    }

    /// It was served. To be followed by [`Self::accounts_changed`].
    pub(crate) fn remove(&mut self, queue: QueueId, key: JobKey) {
        let leaf = &mut self.leaves[queue.0 as usize];
        let Some(asked) = leaf.jobs.remove(&key) else { return };
        let Some(count) = leaf.asked.get_mut(&asked) else { return };
        *count -= 1;
        if *count == 0 {
            leaf.asked.remove(&asked);
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
        jobs.map(|(key, (request, _))| (*key, *request)).next()
    }

    /// The last of the jobs from there on that ask for the same as the first and are of its kind,
    /// so that it makes no difference which of them is next.
    pub(super) fn last_alike(
        &self,
        queue: QueueId,
        after: Option<JobKey>,
        end: Option<JobKey>,
    ) -> Option<JobKey> {
        let leaf = &self.leaves[queue.0 as usize];
        let mut jobs = leaf.jobs.range(between(after, end)?);
        if let Some(((_, Some(_)), _)) = leaf.asked.first_key_value()
            && leaf.asked.len() == 1
        {
            return jobs.next_back().map(|(key, _)| *key);
        }
        let (first, asked) = jobs.next()?;
        let alike = jobs.take_while(|(_, other)| *other == asked && asked.1.is_some());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{PodGroupId, Time},
        profile::JobRule,
        queues::{Account, Shortfall},
        resources::Amount,
    };

    const Q: QueueId = QueueId(0);

    const PLAIN: Kind = Some((Likeness::NONE, 1, true));

    fn ledger(queues: usize) -> Ledger {
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
        Ledger::of(vec![account; queues], PerResource { gpu: 9, cpu: 9, memory: 9 })
    }

    fn key(place: u32) -> JobKey {
        JobKey::new(&JobRule::ALL, 0, Shortfall::BelowMinimum, place, PodGroupId(place))
    }

    fn asks(gpu: i64) -> PerResource<i64> {
        PerResource { gpu, ..PerResource::default() }
    }

    /// Jobs of the first queue in their places, by what they ask for.
    fn backlog(requests: &[i64]) -> Backlog {
        let jobs = (0..).zip(requests);
        let job = |(at, gpu): (u32, &i64)| Waiting { queue: Q, key: key(at), request: asks(*gpu) };
        Backlog::new(&ledger(2), jobs.map(|it| (job(it), PLAIN)))
    }

    #[test]
    fn the_first_job_stands_behind_one_and_before_another() {
        let backlog = backlog(&[5, 6, 7]);
        let first = |after: Option<u32>, end: Option<u32>| {
            let found = backlog.first(Q, after.map(key), end.map(key));
            found.map(|(_, request)| request.gpu)
        };
        assert_eq!([first(None, None), first(Some(0), None)], [Some(5), Some(6)]);
        assert_eq!([first(Some(2), None), first(None, Some(0))], [None, None]);
        assert_eq!([first(Some(0), Some(2)), first(Some(0), Some(1))], [Some(6), None]);
        assert_eq!([first(Some(1), Some(1)), first(Some(2), Some(1))], [None, None]);
        assert_eq!(backlog.first(QueueId(1), None, None), None);
    }

    #[test]
    fn jobs_in_a_row_that_ask_for_the_same_are_alike() {
        let mut backlog = backlog(&[1, 1, 2, 1, 1]);
        let alike = |backlog: &Backlog, after: Option<u32>, end: Option<u32>| {
            backlog.last_alike(Q, after.map(key), end.map(key)).map(|key| key.group().0)
        };
        assert_eq!(alike(&backlog, None, None), Some(1));
        assert_eq!(alike(&backlog, Some(0), None), Some(1));
        assert_eq!(alike(&backlog, Some(1), None), Some(2));
        assert_eq!(alike(&backlog, Some(2), None), Some(4));
        assert_eq!(alike(&backlog, Some(2), Some(4)), Some(3));
        assert_eq!(alike(&backlog, Some(4), None), None);
        backlog.remove(Q, key(0));
        assert_eq!(alike(&backlog, None, None), Some(1));
        backlog.remove(Q, key(2));
        assert_eq!(alike(&backlog, None, None), Some(4));
        assert_eq!(alike(&backlog, None, Some(4)), Some(3));
    }

    #[test]
    fn it_is_the_turn_of_a_queue_as_long_as_it_has_jobs() {
        let ledger = ledger(2);
        let mut backlog = backlog(&[1]);
        assert_eq!(backlog.race().best(), Some(Q));
        backlog.remove(Q, key(0));
        backlog.accounts_changed(&ledger, Q);
        assert_eq!(backlog.race().best(), None);
        let queue = QueueId(1);
        backlog.insert(&Waiting { queue, key: key(0), request: asks(1) }, None);
        backlog.accounts_changed(&ledger, queue);
        assert_eq!(backlog.race().best(), Some(queue));
    }
}
