//! What the next cycle would make of all that the actions of this one solved. Each solution was
//! tried alone, on accounts that the later ones change: who was evicted for the first job may come
//! before it once others have left its queue, too, and the same pods would be evicted again and
//! again. So the next cycle is rehearsed: with everybody gone who was asked to leave, waiting work
//! is served as it would be then.

use std::collections::{BTreeMap, BTreeSet};

use super::{Manner, Solution, Unit, Wanted, trial::could_stay};
use crate::{
    decision::EvictionCause,
    model::{PodGroupId, PodId, QueueId},
    session::{Checkpoint, PodState, Session},
};

/// What the actions of a cycle solved so far.
pub(crate) struct Solved {
    served: Vec<Served>,
    /// All of those keep what they were promised, before the present action.
    earlier_are_kept: bool,
    next_cycle: NextCycle,
    /// So often all jobs but the spoilers are searched for; then what goes together is taken.
    pub(super) rounds_max: usize,
}

const ROUNDS_MAX: usize = 3;

/// So many jobs are left out one by one; then all behind the next one are.
const LEFT_OUT_MAX: usize = 8;

/// Serves all that waits, as the next cycle does before anybody is evicted.
pub(crate) type NextCycle = fn(&mut Session<'_>);

/// A job that was served, and who leaves or moves for it.
pub(crate) struct Served {
    pub(super) wanted: Wanted,
    pub(super) solution: Solution,
    pub(super) manner: Manner,
    /// What the pods that are evicted are told.
    pub(super) causes: BTreeMap<PodId, EvictionCause>,
}

/// How many of each group.
type Pods = BTreeMap<PodGroupId, usize>;

/// What the next cycle would make of it.
#[derive(Default)]
struct Outcome {
    /// So many of each group are to get places. Which pods of it those are does not matter.
    owed: Pods,
    /// So many do.
    placed: Pods,
    /// The queues of those.
    gaining: BTreeSet<QueueId>,
    /// So many lost theirs in this cycle.
    lost: Pods,
}

impl Outcome {
    /// A pod that waits as the cycle begins, and whether it gets a place.
    fn note(&mut self, session: &Session<'_>, (pod, is_placed): (PodId, bool)) {
        let Some(group) = session.pod(pod).group else { return };
        if session.pod(pod).node.is_some() {
            *self.lost.entry(group).or_default() += 1;
        }
        if is_placed {
            *self.placed.entry(group).or_default() += 1;
            self.gaining.extend(session.group(group).known_queue());
        }
    }

    fn note_owed(&mut self, served: &Served) {
        for (group, pods) in served.owes() {
            *self.owed.entry(group).or_default() += pods;
        }
    }

    /// Groups that get more than they are owed, or lost.
    fn growing_beyond_owed(&self) -> impl Iterator<Item = PodGroupId> {
        let is_more = |group: &PodGroupId| {
            let placed = self.placed.get(group);
            placed > self.owed.get(group) && placed > self.lost.get(group)
        };
        self.placed.keys().copied().filter(is_more)
    }

    fn has_its_places(&self, group: PodGroupId) -> bool {
        self.placed.get(&group) >= self.owed.get(&group)
    }

    /// The job has what it was promised.
    fn serves(&self, served: &Served) -> bool {
        self.has_its_places(served.wanted.group)
    }

    /// Those that only move have places.
    fn moves(&self, served: &Served) -> bool {
        let mut moving = served.moving();
        moving.all(|unit| self.has_its_places(unit.group))
    }

    /// Those that only move for the job have places, and nobody who left for it has one.
    fn takes_nobody_back(&self, served: &Served) -> bool {
        let mut victims = served.solution.victims.iter();
        self.moves(served) && !victims.any(|unit| self.placed.contains_key(&unit.group))
    }

    /// The job has what it was promised, and whoever only moves for it has a place; or others have
    /// what it was promised that come before it: nobody who left for it, nor another one of their
    /// queues, and then none of its own may have left.
    fn keeps(&self, served: &Served) -> bool {
        if self.serves(served) {
            return self.moves(served);
        }
        match served.manner {
            Manner::Evict => {
                let mut losing = served.solution.victims.iter().map(|unit| unit.queue);
                !losing.any(|queue| queue == served.wanted.queue || self.gaining.contains(&queue))
            }
            Manner::Move => self.moves(served) && self.growing_beyond_owed().next().is_some(),
        }
    }
}

impl Served {
    /// Who is to get places, and how many: pods of the job, and where others only move, those.
    fn owes(&self) -> impl Iterator<Item = (PodGroupId, usize)> {
        let moving = self.moving().map(|unit| (unit.group, unit.pods.len()));
        moving.chain([(self.wanted.group, self.wanted.pods.len())])
    }

    /// Who may not lose its place for good.
    fn moving(&self) -> impl Iterator<Item = &Unit> {
        self.solution.units().filter(|_| self.manner == Manner::Move)
    }

    /// The same leave, the job and those that only move get places, and nobody could stay.
    fn is_done_again(&self, session: &mut Session<'_>) -> bool {
        for (pod, _) in self.solution.units().flat_map(|unit| &unit.pods) {
            session.evict(*pod);
        }
        let moves = |session: &mut Session<'_>, unit: &Unit| {
            let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
            session.promise_all(&pods)
                && !pods.iter().all(|pod| session.is_promised_what_it_has(*pod))
        };
        self.wanted.promise(session)
            && self.solution.moved.iter().all(|unit| moves(session, unit))
            && !self.solution.victims.iter().any(|unit| could_stay(session, unit))
    }

    fn evicts(&self) -> bool {
        self.solution.units().next().is_some()
    }
}

impl Solved {
    /// Nothing yet.
    pub(crate) const fn new(next_cycle: NextCycle) -> Self {
        Self::in_rounds(next_cycle, ROUNDS_MAX)
    }

    /// The same with so many rounds of searches at most.
    pub(crate) const fn in_rounds(next_cycle: NextCycle, rounds_max: usize) -> Self {
        Self { served: Vec::new(), earlier_are_kept: true, next_cycle, rounds_max }
    }

    /// What the actions before solved is looked at once more: others may have come between.
    pub(super) fn begin(&mut self, session: &Session<'_>) {
        self.earlier_are_kept = true;
        self.earlier_are_kept = self.served.is_empty() || self.are_kept(session, &[]);
    }

    /// Whoever lost pods in this cycle.
    pub(super) fn losers(&self) -> impl Iterator<Item = PodGroupId> + '_ {
        let units = self.served.iter().flat_map(|served| served.solution.units());
        units.map(|unit| unit.group)
    }

    /// Solved by the present action. Who is promised room for which nobody leaves need not be asked
    /// again.
    pub(super) fn add(&mut self, served: Vec<Served>) {
        self.served.extend(served.into_iter().filter(Served::evicts));
    }

    /// Nothing, if every job keeps what it was promised, those that the actions before served included.
    /// Otherwise the session is as it was at `start`, and the first job of this action is told that
    /// does not go with those before it.
    pub(super) fn spoiler(
        &self,
        session: &mut Session<'_>,
        start: Checkpoint,
        served: &[Served],
    ) -> Option<PodGroupId> {
        if !served.iter().any(Served::evicts) || self.are_kept(session, served) {
            return None;
        }
        session.undo_to(start);
        Some(served[self.first_spoiled(session, served, 0)].wanted.group)
    }

    /// Leaves out jobs that do not go with those before them, and does what was solved for the others
    /// again, in a session in which nothing of it is done. Who could be served instead is not searched
    /// for.
    pub(super) fn without_spoilers(
        &self,
        session: &mut Session<'_>,
        mut served: Vec<Served>,
    ) -> Vec<Served> {
        let start = session.checkpoint();
        let (mut kept, mut left_out) = (0, 0);
        while !served.is_empty() {
            let spoiled = if self.are_kept(session, &served) {
                served.iter().position(|served| !served.is_done_again(session))
            } else {
                Some(self.first_spoiled(session, &served, kept))
            };
            let Some(spoiled) = spoiled else { break };
            session.undo_to(start);
            kept = spoiled;
            if left_out == LEFT_OUT_MAX {
                served.truncate(spoiled);
            } else {
                left_out += 1;
                served.remove(spoiled);
            }
        }
        served
    }

    /// The first of the jobs that does not go with those before it, where not all go together, but the
    /// first `kept` do.
    fn first_spoiled(&self, session: &Session<'_>, served: &[Served], mut kept: usize) -> usize {
        let mut spoiled = served.len();
        while spoiled - kept > 1 {
            let middle = kept.midpoint(spoiled);
            if self.are_kept(session, &served[..middle]) {
                kept = middle;
            } else {
                spoiled = middle;
            }
        }
        spoiled - 1
    }

    /// Every job has what it was promised, or others have it that come before.
    fn are_kept(&self, session: &Session<'_>, served: &[Served]) -> bool {
        let mut next = self.with_all_gone(session, served);
        let waits = |pod: &PodId| next.state(*pod) == PodState::Pending;
        let waiting: Vec<PodId> = session.pod_ids().filter(waits).collect();
        (self.next_cycle)(&mut next);
        let mut outcome = Outcome::default();
        for pod in waiting {
            outcome.note(session, (pod, next.state(pod).charged_on().is_some()));
        }
        let earlier = self.served.iter().filter(|_| self.earlier_are_kept);
        earlier.clone().for_each(|served| outcome.note_owed(served));
        // Others of its queue that come before an earlier one may have its room, as long as nobody
        // comes back who left for it.
        let taking = outcome.growing_beyond_owed();
        let taking = taking.filter_map(|group| session.group(group).known_queue());
        let taking: BTreeSet<QueueId> = taking.collect();
        let present = || served.iter().filter(|served| served.evicts());
        present().for_each(|served| outcome.note_owed(served));
        let is_settled = |served: &Served| {
            let is_taken = || taking.contains(&served.wanted.queue);
            outcome.keeps(served) || outcome.takes_nobody_back(served) && is_taken()
        };
        earlier.clone().all(is_settled) && present().all(|served| outcome.keeps(served))
    }

    /// As the next cycle begins, when those have left that had to for `served` and for all before.
    fn with_all_gone<'s>(&self, session: &Session<'s>, served: &[Served]) -> Session<'s> {
        let mut next = session.clone();
        next.look_ahead(false);
        for served in self.served.iter().chain(served) {
            for (pod, _) in served.solution.units().flat_map(|unit| &unit.pods) {
                next.wait_anew(*pod);
            }
        }
        for pod in session.pod_ids() {
            if matches!(next.state(pod), PodState::Promised(_)) {
                next.withdraw(pod);
            }
        }
        next.divide_again();
        next
    }
}
