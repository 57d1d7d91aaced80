//! A trial's turns: the job and what was evicted for it are served in the order of queues and
//! jobs. Whatever else waits is not served, but it counts for whose turn it is: otherwise what
//! is reclaimed for a small job would go back, in the next cycle, to the queue it came from,
//! because a larger job stands ahead of the small one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Backlog, Piece, Unit, UnitKey, Wanted};
use crate::{
    model::{PodGroupId, QueueId},
    queues::{Direction, JobKey, Ledger, Offer, Race, Shortfall},
    resources::PerResource,
};

/// Who waits for a turn.
pub(super) struct Returning<'p> {
    backlog: &'p Backlog,
    race: Race,
    leaves: BTreeMap<QueueId, Leaf<'p>>,
    /// Entries that had no turn yet.
    left: usize,
    /// Groups whose better part did not return: the rest cannot.
    broken: BTreeSet<PodGroupId>,
}

#[derive(Default)]
struct Leaf<'p> {
    entries: BTreeMap<UnitKey, Entry<'p>>,
    /// The last job of the backlog that had its turn.
    passed: Option<JobKey>,
}

/// One that is served in its turn.
#[derive(Clone, Copy)]
pub(super) enum Entry<'p> {
    /// The job.
    Job(&'p Wanted),
    /// What was evicted.
    Unit(&'p Unit),
}

impl<'p> Returning<'p> {
    pub(super) fn new(
        ledger: &Ledger,
        backlog: &'p Backlog,
        job: &'p Wanted,
        evicted: &[&'p Unit],
    ) -> Self {
        let mut leaves: BTreeMap<QueueId, Leaf<'p>> = BTreeMap::new();
        let jobs = [(job.queue, (job.key, 0), Entry::Job(job))];
        let units = evicted.iter().map(|unit| (unit.queue, key_on_return(unit), Entry::Unit(unit)));
        for (queue, key, entry) in jobs.into_iter().chain(units) {
            leaves.entry(queue).or_default().entries.insert(key, entry);
        }
        let parents: BTreeSet<_> =
            leaves.keys().map(|queue| ledger.account(*queue).parent).collect();
        if parents.len() > 1 {
            for queue in backlog.queues() {
                leaves.entry(queue).or_default();
            }
        }
        let queues: Vec<QueueId> = leaves.keys().copied().collect();
        let race = Race::new(ledger, Direction::ToServe);
        let (left, broken) = (evicted.len() + 1, BTreeSet::new());
        let mut returning = Self { backlog, race, leaves, left, broken };
        for queue in queues {
            returning.accounts_changed(ledger, queue);
        }
        returning
    }

    /// Whose turn it is; units of broken groups never come.
    pub(super) fn next(&mut self, ledger: &Ledger) -> Option<Entry<'p>> {
        while self.left > 0 {
            let queue = self.race.best()?;
            let entry = self.take_turn(queue);
            self.accounts_changed(ledger, queue);
            self.left -= usize::from(entry.is_some());
            match entry {
                Some(Entry::Unit(unit)) if self.broken.contains(&unit.group) => {}
                Some(entry) => return Some(entry),
                None => {}
            }
        }
        None
    }

    /// The entry whose turn it is, or `None` when jobs of the backlog stood before it.
    fn take_turn(&mut self, queue: QueueId) -> Option<Entry<'p>> {
        let leaf = self.leaves.get_mut(&queue)?;
        let first = leaf.entries.first_key_value().map(|(key, _)| key.0);
        if let Some(last) = self.backlog.last_alike(queue, leaf.passed, first) {
            leaf.passed = Some(last);
            return None;
        }
        let (key, entry) = leaf.entries.pop_first()?;
        leaf.passed = Some(key.0);
        Some(entry)
    }

    /// It did not return, so what is worse of its group cannot.
    pub(super) fn lost(&mut self, unit: &Unit) {
        self.broken.insert(unit.group);
    }

    /// To be called when something returned to `queue`.
    pub(super) fn accounts_changed(&mut self, ledger: &Ledger, queue: QueueId) {
        let offer = self.leaves.get(&queue).and_then(|leaf| {
            let entry = leaf.entries.first_key_value();
            let ahead = self.backlog.first(queue, leaf.passed, entry.map(|(key, _)| key.0));
            match (ahead, entry.map(|(_, entry)| entry)) {
                (Some((_, request)), _) => Some(request),
                (None, Some(Entry::Job(job))) => Some(job.request),
                (None, Some(Entry::Unit(unit))) => Some(unit.amount),
                (None, None) => None,
            }
        });
        let offer = offer.map(|job| Offer { job, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }
}

/// Its place among waiting jobs: without its core a group is below its minimum.
fn key_on_return(unit: &Unit) -> UnitKey {
    let (key, place) = unit.key;
    let shortfall = match (unit.piece, place) {
        (Piece::Core, _) => Shortfall::BelowMinimum,
        (Piece::Surplus, 0..=2) => Shortfall::AtMinimum,
        (Piece::Surplus, _) => Shortfall::AboveMinimum,
    };
    (key.with(shortfall), place)
}
