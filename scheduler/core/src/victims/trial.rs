//! One trial of a search: with nothing evicted but what stands on the fewest nodes that suffice,
//! the job gets its places. What was evicted and not needed stays where it is, best first; what
//! fits elsewhere is moved; the rest must be acceptable.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Search, Solution, Splits, Unit,
    returning::{Entry, Returning},
    search::Limits,
};
use crate::{
    model::{NodeId, PodId, ShapeId},
    queues::Ledger,
    resources::{Amount, PerResource},
    session::{PodState, Session},
};

impl<'p, A: Fn(&Solution) -> bool> Search<'_, '_, 'p, A> {
    /// First on as few nodes as the counts say; if that is not enough, on all that have room.
    pub(super) fn try_for_real(&mut self, needed: &BTreeMap<ShapeId, u64>) -> Option<Solution> {
        let few = self.fewest_nodes(needed);
        let all: BTreeSet<NodeId> =
            needed.keys().flat_map(|shape| self.rooms.nodes(*shape)).copied().collect();
        let wider = (needed.len() > 1 && few != all).then_some(all);
        self.trial(&few).or_else(|| self.trial(&wider?))
    }

    /// For each shape the nodes with room as they are, then those on which the fewest units
    /// stand, the latest candidate's first.
    fn fewest_nodes(&self, needed: &BTreeMap<ShapeId, u64>) -> BTreeSet<NodeId> {
        let mut standing: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (_, node) in self.gone.iter().flat_map(|unit| &unit.pods) {
            *standing.entry(*node).or_default() += 1;
        }
        let latest: BTreeSet<NodeId> =
            self.gone.last().into_iter().flat_map(|unit| &unit.pods).map(|(_, at)| *at).collect();
        let mut chosen = BTreeSet::new();
        for (&shape, &count) in needed {
            let mut nodes: Vec<NodeId> = self.rooms.nodes(shape).iter().copied().collect();
            nodes.sort_by_key(|at| {
                let units = standing.get(at).copied().unwrap_or(0);
                (units > 0, !latest.contains(at), units, *at)
            });
            let mut room = 0;
            chosen.extend(nodes.into_iter().take_while(|node| {
                let wanted = room < count || !standing.contains_key(node);
                room += u64::from(self.rooms.on(shape, *node));
                wanted
            }));
        }
        chosen
    }

    /// The imagined candidates that stand on `nodes`, and as many more as limits ask for.
    fn units_on(&self, nodes: &BTreeSet<NodeId>) -> Vec<&'p Unit> {
        let ledger = self.session.ledger();
        let stands_there = |unit: &Unit| unit.pods.iter().any(|(_, node)| nodes.contains(node));
        let mut limits = Limits::default();
        let mut chosen: Vec<bool> = self.gone.iter().map(|unit| stands_there(unit)).collect();
        for (unit, _) in self.gone.iter().zip(&chosen).filter(|(_, chosen)| **chosen) {
            limits.give(ledger, unit);
        }
        for (unit, chosen) in self.gone.iter().zip(&mut chosen) {
            if limits.suffice(ledger, self.wanted) {
                break;
            }
            if !*chosen {
                limits.give(ledger, unit);
                *chosen = true;
            }
        }
        self.gone.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(unit, _)| *unit).collect()
    }

    fn trial(&mut self, nodes: &BTreeSet<NodeId>) -> Option<Solution> {
        let start = self.session.checkpoint();
        let evicted = self.units_on(nodes);
        for (pod, _) in evicted.iter().flat_map(|unit| &unit.pods) {
            self.session.evict(*pod);
        }
        let solution = self.serve_in_turn(&evicted).then(|| self.outcome(&evicted));
        let solution = solution.filter(|solution| (self.accepts)(solution));
        if solution.is_none() {
            self.session.undo_to(start);
        }
        solution
    }

    /// The job and what was evicted for it get places, each in its turn. What comes before the
    /// job goes wherever it is best; what comes after it stays where it is, if it can.
    fn serve_in_turn(&mut self, evicted: &[&'p Unit]) -> bool {
        let mut elsewhere = Elsewhere::new(self.free_with_all_gone(evicted), self.splits);
        let mut returning =
            Returning::new(self.session.ledger(), self.backlog, self.wanted, evicted);
        let mut job_is_served = false;
        while let Some(entry) = returning.next(self.session.ledger()) {
            let (queue, amount, served) = match entry {
                Entry::Job(job) => {
                    job_is_served = self.promise_job();
                    (job.queue, job.request, job_is_served)
                }
                Entry::Unit(unit) => {
                    let stays = job_is_served && keep(self.session, unit);
                    let served = stays || elsewhere.find_place(self.session, unit);
                    (unit.queue, unit.amount, served)
                }
            };
            match (entry, served) {
                (Entry::Job(_), false) => return false,
                (Entry::Unit(unit), false) => returning.lost(unit),
                (Entry::Job(_) | Entry::Unit(_), true) => {
                    elsewhere.take(amount);
                    returning.accounts_changed(self.session.ledger(), queue);
                }
            }
        }
        job_is_served
    }

    fn promise_job(&mut self) -> bool {
        Limits::default().suffice(self.session.ledger(), self.wanted)
            && self.session.promise_all(&self.wanted.pods, None)
    }

    fn free_with_all_gone(&self, evicted: &[&Unit]) -> PerResource<i64> {
        let free = self.rooms.free_in_all();
        evicted.iter().fold(free, |sum, unit| sum.plus(unit.amount))
    }

    /// What became of the evicted.
    fn outcome(&self, evicted: &[&'p Unit]) -> Solution {
        let mut solution = Solution::default();
        for &unit in evicted {
            let state = |pod: &(PodId, NodeId)| self.session.state(pod.0);
            let mut unit = unit.clone();
            if unit.pods.iter().any(|pod| matches!(state(pod), PodState::Releasing(_))) {
                solution.victims.push(unit);
                continue;
            }
            unit.pods.retain(|pod| matches!(state(pod), PodState::Moving { .. }));
            if !unit.pods.is_empty() {
                solution.moved.push(unit);
            }
        }
        solution
    }
}

/// Looks for places on any node, but not where there can be none: `left` is all that is free on
/// all nodes together, and a shape that found no place finds none later.
struct Elsewhere {
    left: PerResource<i64>,
    homeless: BTreeSet<ShapeId>,
    splits: Splits,
}

impl Elsewhere {
    const fn new(left: PerResource<i64>, splits: Splits) -> Self {
        Self { left, homeless: BTreeSet::new(), splits }
    }

    fn take(&mut self, amount: PerResource<i64>) {
        self.left = self.left.minus(amount);
    }

    fn find_place(&mut self, session: &mut Session<'_>, unit: &Unit) -> bool {
        let shapes: BTreeSet<ShapeId> =
            unit.pods.iter().map(|(pod, _)| session.pod(*pod).shape).collect();
        if !unit.amount.within(self.left.map(Amount::Exactly))
            || !self.homeless.is_disjoint(&shapes)
        {
            return false;
        }
        let found = find_place(session, unit, self.splits);
        if !found && unit.pods.len() == 1 {
            self.homeless.extend(shapes);
        }
        found
    }
}

/// Takes the unit's eviction back, if nodes have the room and queues the limits.
fn keep(session: &mut Session<'_>, unit: &Unit) -> bool {
    let start = session.checkpoint();
    let fits = within_limits(session.ledger(), unit)
        && unit.pods.iter().all(|&(pod, node)| {
            let fits = session.shape_of(pod).requests.fits_in(&session.room(node).free_later());
            if fits {
                session.restore(pod);
            }
            fits
        });
    if !fits {
        session.undo_to(start);
    }
    fits
}

/// Promises the unit's pods room where it is best. Who would be back where it was stays: always
/// when that is true of all, else only where gangs may be split.
fn find_place(session: &mut Session<'_>, unit: &Unit, splits: Splits) -> bool {
    let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
    if !within_limits(session.ledger(), unit) || !session.promise_all(&pods, None) {
        return false;
    }
    let is_back =
        |pod: &PodId| matches!(session.state(*pod), PodState::Moving { from, to } if from == to);
    let (back, moving): (Vec<PodId>, Vec<PodId>) = pods.iter().copied().partition(is_back);
    if moving.is_empty() || splits == Splits::Allowed {
        for pod in back {
            session.restore(pod);
        }
    }
    true
}

/// Would the unit's queue, and all above it, keep their limits if it came back?
fn within_limits(ledger: &Ledger, unit: &Unit) -> bool {
    let nothing = PerResource::default();
    ledger.path(unit.queue).all(|queue| ledger.keeps_limit(queue, unit.amount, nothing))
}
