//! A trial's turns: jobs and what was evicted for them are served in the order of queues and
//! jobs. Whatever else waits has its turn, too: it decides when its queue comes, and takes room
//! if it comes first. Otherwise what is reclaimed for a job would go, in the next cycle, to
//! another, and be reclaimed again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Backlog, Piece, Unit, UnitKey, Wanted, elsewhere::Elsewhere, service::waiting};
use crate::{
    model::{PodGroupId, PodId, QueueId},
    queues::{JobKey, Ledger, Offer, Race, Shortfall, Waiting},
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
    /// A job that waits, too, and would take what it can get.
    Bystander(Bystander),
}

/// One that is not served in earnest. Where it gets nothing, it stands for all that follow it in
/// its queue, ask for the same and are of its kind.
#[derive(Clone, Copy)]
pub(super) struct Bystander {
    queue: QueueId,
    key: JobKey,
    request: PerResource<i64>,
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

    /// Those that wait, would take their queues beyond their shares, and are refused whoever
    /// leaves, step aside as in the next cycle ([`crate::actions::allocate`]).
    pub(super) fn let_step_aside(&mut self, session: &mut Session<'_>) {
        while let Some(queue) = self.race.reaching(session.ledger()) {
            if let Some(Entry::Bystander(first)) = self.first(queue)
                && !session.may_be_placed(first.key.group())
            {
                self.take_turn(queue);
                self.accounts_changed(session.ledger(), queue);
            }
        }
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
        if let Some((key, request)) = self.backlog.first(queue, leaf.passed, first) {
            leaf.passed = self.backlog.last_alike(queue, leaf.passed, first);
            return Some(Entry::Bystander(Bystander { queue, key, request }));
        }
        let (key, entry) = leaf.entries.pop_first()?;
        leaf.passed = Some(key.0);
        Some(entry)
    }

    /// The bystander takes what it gets: these pods.
    pub(super) fn pass(
        &mut self,
        session: &mut Session<'_>,
        elsewhere: &mut Elsewhere,
        Bystander { queue, key, .. }: Bystander,
    ) -> Vec<PodId> {
        let gains = elsewhere.gains(session, key.group());
        if !gains.is_empty() {
            let leaf = self.leaves.entry(queue).or_default();
            leaf.passed = Some(key);
            if let Some(Waiting { key, request, .. }) = waiting(session, key.group()) {
                let more = Bystander { queue, key, request };
                leaf.entries.insert((key, 0), Entry::Bystander(more));
            }
            self.accounts_changed(session.ledger(), queue);
        }
        gains
    }

    /// It did not return, so what is worse of its group cannot.
    pub(super) fn lost(&mut self, unit: &Unit) {
        self.broken.insert(unit.group);
    }

    /// To be called when something returned to `queue`.
    pub(super) fn accounts_changed(&mut self, ledger: &Ledger, queue: QueueId) {
        let request = self.first(queue).map(|first| match first {
            Entry::Job(job) => job.share,
            Entry::Unit(unit) => unit.amount,
            Entry::Bystander(bystander) => bystander.request,
        });
        let offer = request.map(|job| Offer { job, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }

    /// Whose turn it is in this queue.
    fn first(&self, queue: QueueId) -> Option<Entry<'p>> {
        let leaf = self.leaves.get(&queue);
        let entry = leaf.and_then(|leaf| leaf.entries.first_key_value());
        let (passed, end) = (leaf.and_then(|leaf| leaf.passed), entry.map(|(key, _)| key.0));
        match self.backlog.first(queue, passed, end) {
            Some((key, request)) => Some(Entry::Bystander(Bystander { queue, key, request })),
            None => entry.map(|(_, entry)| *entry),
        }
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
