//! The queue of a scenario: the preemptor and the evicted units are placed in queue and job order.
//! All other pending jobs take part: they decide when the turn of their queue comes, and take
//! capacity if they come first. Otherwise capacity that was reclaimed for one job would go to
//! another in the next cycle, and would be reclaimed again.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    EvictableUnit, PendingJobs, Preemptor, UnitKey, UnitPortion, relocation::RelocationCheck,
    solve::queued_job,
};
use crate::{
    framework::{Session, Statement},
    model::{PodGroupId, PodId, QueueId},
    queues::{JobKey, MinimumStatus, QueueAccounts, QueueCandidate, QueueOrder, QueuedJob},
    resources::PerResource,
};

/// Simulates the order in which the next cycle places the preemptor, its victims and other pending
/// jobs. Holds those that have not had their turn.
pub(super) struct RequeueSimulation<'p> {
    pending: &'p PendingJobs,
    queue_order: QueueOrder,
    leaves: BTreeMap<QueueId, LeafQueue<'p>>,
    /// Number of preemptors and victims that have not had their turn.
    remaining: usize,
    /// Groups of which a better unit was not placed: worse units of these groups cannot be placed
    /// either.
    broken_groups: BTreeSet<PodGroupId>,
}

#[derive(Default)]
struct LeafQueue<'p> {
    participants: BTreeMap<UnitKey, Participant<'p>>,
    /// The last pending job that had its turn.
    last_turn: Option<JobKey>,
}

/// A job or evicted unit whose turn it is to be placed.
#[derive(Clone, Copy)]
pub(super) enum Participant<'p> {
    /// The job for which the scenario is simulated.
    Preemptor(&'p Preemptor),
    /// An evicted unit.
    Victim(&'p EvictableUnit),
    /// Another pending job, which takes the capacity it can get.
    PendingJob(PendingJob),
}

/// Another pending job. If it cannot be placed, it stands for all equivalent jobs that follow it in
/// its queue.
#[derive(Clone, Copy)]
pub(super) struct PendingJob {
    queue: QueueId,
    key: JobKey,
    request: PerResource<i64>,
}

impl<'p> RequeueSimulation<'p> {
    pub(super) fn new(
        session: &Session<'_>,
        pending: &'p PendingJobs,
        jobs: impl IntoIterator<Item = &'p Preemptor>,
        evicted: impl IntoIterator<Item = &'p EvictableUnit>,
    ) -> Self {
        let mut leaves: BTreeMap<QueueId, LeafQueue<'p>> = BTreeMap::new();
        // An elastic job that has several turns asks for one more pod each time.
        let jobs = jobs
            .into_iter()
            .zip(0..)
            .map(|(job, at)| (job.queue, (job.key, at), Participant::Preemptor(job)));
        let units = evicted
            .into_iter()
            .map(|unit| (unit.queue, requeue_key(session, unit), Participant::Victim(unit)));
        let mut remaining = 0;
        for (queue, key, participant) in jobs.chain(units) {
            leaves.entry(queue).or_default().participants.insert(key, participant);
            remaining += 1;
        }
        let queues: Vec<QueueId> = leaves.keys().copied().collect();
        let queue_order = pending.queue_order().clone();
        let broken_groups = BTreeSet::new();
        let mut simulation = Self { pending, queue_order, leaves, remaining, broken_groups };
        for queue in queues {
            simulation.on_accounts_changed(session.accounts(), queue);
        }
        simulation
    }

    /// Skips pending jobs that would take their queue over its share and that are rejected whatever
    /// is evicted, as the allocate action does ([`crate::actions::allocate`]).
    pub(super) fn skip_infeasible_heads(&mut self, session: &Session<'_>) {
        while let Some(queue) = self.queue_order.next_over_share(session.accounts()) {
            if let Some(Participant::PendingJob(first)) = self.first_participant(queue)
                && !session.may_be_placed(first.key.group())
            {
                self.take_turn(queue);
                self.on_accounts_changed(session.accounts(), queue);
            }
        }
    }

    /// Returns the participant whose turn it is. Units of `broken_groups` are skipped.
    pub(super) fn next_participant(&mut self, accounts: &QueueAccounts) -> Option<Participant<'p>> {
        while self.remaining > 0 {
            let queue = self.queue_order.best_queue()?;
            let participant = self.take_turn(queue)?;
            self.on_accounts_changed(accounts, queue);
            match participant {
                Participant::PendingJob(_) => return Some(participant),
                Participant::Preemptor(_) | Participant::Victim(_) => self.remaining -= 1,
            }
            let is_broken = match participant {
                Participant::Victim(unit) => self.broken_groups.contains(&unit.group),
                Participant::Preemptor(_) | Participant::PendingJob(_) => false,
            };
            if !is_broken {
                return Some(participant);
            }
        }
        None
    }

    fn take_turn(&mut self, queue: QueueId) -> Option<Participant<'p>> {
        let leaf = self.leaves.entry(queue).or_default();
        let first = leaf.participants.first_key_value().map(|(key, _)| key.0);
        if let Some((key, request)) = self.pending.first_job(queue, leaf.last_turn, first) {
            leaf.last_turn = self.pending.last_equivalent(queue, leaf.last_turn, first);
            return Some(Participant::PendingJob(PendingJob { queue, key, request }));
        }
        let (key, participant) = leaf.participants.pop_first()?;
        leaf.last_turn = Some(key.0);
        Some(participant)
    }

    /// Places the pending job as far as it fits, and returns the pods that were placed.
    pub(super) fn place_pending(
        &mut self,
        statement: &mut Statement<'_>,
        relocation: &mut RelocationCheck<'_>,
        PendingJob { queue, key, .. }: PendingJob,
    ) -> Vec<PodId> {
        let placed = relocation.pipeline_pending(statement, key.group());
        if !placed.is_empty() {
            let leaf = self.leaves.entry(queue).or_default();
            leaf.last_turn = Some(key);
            if let Some(QueuedJob { key, request, .. }) = queued_job(statement, key.group()) {
                let more = PendingJob { queue, key, request };
                leaf.participants.insert((key, 0), Participant::PendingJob(more));
            }
            self.on_accounts_changed(statement.accounts(), queue);
        }
        placed
    }

    /// Records a unit that was not placed: worse units of its group are skipped.
    pub(super) fn record_unplaced(&mut self, unit: &EvictableUnit) {
        self.broken_groups.insert(unit.group);
    }

    /// Updates the queue order after a placement in `queue`.
    pub(super) fn on_accounts_changed(&mut self, accounts: &QueueAccounts, queue: QueueId) {
        let request = self.first_participant(queue).map(|first| match first {
            Participant::Preemptor(job) => job.share_request,
            Participant::Victim(unit) => unit.amount,
            Participant::PendingJob(pending_job) => pending_job.request,
        });
        let candidate = request.map(|job| QueueCandidate { job, victims: PerResource::default() });
        self.queue_order.set_candidate(accounts, queue, candidate);
    }

    /// The participant of this queue whose turn is next.
    fn first_participant(&self, queue: QueueId) -> Option<Participant<'p>> {
        let leaf = self.leaves.get(&queue);
        let participant = leaf.and_then(|leaf| leaf.participants.first_key_value());
        let (last_turn, end) =
            (leaf.and_then(|leaf| leaf.last_turn), participant.map(|(key, _)| key.0));
        match self.pending.first_job(queue, last_turn, end) {
            Some((key, request)) => {
                Some(Participant::PendingJob(PendingJob { queue, key, request }))
            }
            None => participant.map(|(_, participant)| *participant),
        }
    }
}

/// The position of an evicted unit in the job order of its queue: without its minimum, a group
/// counts as below its minimum.
fn requeue_key(session: &Session<'_>, unit: &EvictableUnit) -> UnitKey {
    let (_, rank) = unit.key;
    let shortfall = match (unit.portion, rank) {
        (UnitPortion::Minimum, _) => MinimumStatus::BelowMinimum,
        (UnitPortion::Elastic, 0..=2) => MinimumStatus::AtMinimum,
        (UnitPortion::Elastic, _) => MinimumStatus::AboveMinimum,
    };
    (session.job_key(unit.group, shortfall), rank)
}
