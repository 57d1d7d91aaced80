//! A trial's turns: jobs and what was evicted for them are served in the order of queues and
//! jobs. Whatever else waits has its turn, too: it decides when its queue comes, and would take
//! the room if it came first. Otherwise what is reclaimed for a job would go, in the next cycle,
//! to another, and be reclaimed again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Backlog, Piece, Unit, UnitKey, Wanted};
use crate::{
    model::{PodGroupId, QueueId},
    queues::{JobKey, Ledger, Offer, Race, Shortfall},
    resources::PerResource,
    session::Session,
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
    /// A job that waits, and is only looked at. One stands for all that follow it in its queue
    /// and ask for the same.
    Bystander(PodGroupId),
}

impl<'p> Returning<'p> {
    pub(super) fn new(
        session: &Session<'_>,
        backlog: &'p Backlog,
        jobs: impl IntoIterator<Item = &'p Wanted>,
        evicted: impl IntoIterator<Item = &'p Unit>,
    ) -> Self {
        let mut leaves: BTreeMap<QueueId, Leaf<'p>> = BTreeMap::new();
        // One that is served again and again asks for one pod more each time.
        let jobs =
            jobs.into_iter().zip(0..).map(|(job, at)| (job.queue, (job.key, at), Entry::Job(job)));
        let units = evicted
            .into_iter()
            .map(|unit| (unit.queue, key_on_return(session, unit), Entry::Unit(unit)));
        let mut left = 0;
        for (queue, key, entry) in jobs.chain(units) {
            leaves.entry(queue).or_default().entries.insert(key, entry);
            left += 1;
        }
        let queues: Vec<QueueId> = leaves.keys().copied().collect();
        let race = backlog.race().clone();
        let broken = BTreeSet::new();
        let mut returning = Self { backlog, race, leaves, left, broken };
        for queue in queues {
            returning.accounts_changed(session.ledger(), queue);
        }
        returning
    }

    /// Whose turn it is; units of broken groups never come.
    pub(super) fn next(&mut self, ledger: &Ledger) -> Option<Entry<'p>> {
        while self.left > 0 {
            let queue = self.race.best()?;
            let entry = self.take_turn(queue)?;
            self.accounts_changed(ledger, queue);
            match entry {
                Entry::Bystander(_) => return Some(entry),
                Entry::Job(_) | Entry::Unit(_) => self.left -= 1,
            }
            let is_broken = matches!(entry, Entry::Unit(unit) if self.broken.contains(&unit.group));
            if !is_broken {
                return Some(entry);
            }
        }
        None
    }

    fn take_turn(&mut self, queue: QueueId) -> Option<Entry<'p>> {
        let leaf = self.leaves.entry(queue).or_default();
        let first = leaf.entries.first_key_value().map(|(key, _)| key.0);
        if let Some((ahead, _)) = self.backlog.first(queue, leaf.passed, first) {
            leaf.passed = self.backlog.last_alike(queue, leaf.passed, first);
            return Some(Entry::Bystander(ahead.group()));
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
        let leaf = self.leaves.entry(queue).or_default();
        let entry = leaf.entries.first_key_value();
        let ahead = self.backlog.first(queue, leaf.passed, entry.map(|(key, _)| key.0));
        let offer = match (ahead, entry.map(|(_, entry)| entry)) {
            (Some((_, request)), _) => Some(request),
            (None, Some(Entry::Job(job))) => Some(job.share),
            (None, Some(Entry::Unit(unit))) => Some(unit.amount),
            (None, Some(Entry::Bystander(_)) | None) => None,
        };
        let offer = offer.map(|job| Offer { job, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }
}

/// Its place among waiting jobs: without its core a group is below its minimum.
fn key_on_return(session: &Session<'_>, unit: &Unit) -> UnitKey {
    let (_, place) = unit.key;
    let shortfall = match (unit.piece, place) {
        (Piece::Core, _) => Shortfall::BelowMinimum,
        (Piece::Surplus, 0..=2) => Shortfall::AtMinimum,
        (Piece::Surplus, _) => Shortfall::AboveMinimum,
    };
    (session.job_key(unit.group, shortfall), place)
}
