//! One trial of a search: with nothing evicted but what stands on the fewest nodes that suffice,
//! the job gets its places. What was evicted and not needed stays where it is, best first; what
//! fits elsewhere is moved; the rest must be acceptable.

use std::collections::{BTreeMap, BTreeSet};

use super::{Returning, Search, Solution, Unit, search::Limits};
use crate::{
    model::{NodeId, PodGroupId, PodId, ShapeId},
    queues::Ledger,
    resources::{Amount, PerResource},
    session::Session,
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
        let solution = self.simulate(nodes).filter(|solution| (self.accepts)(solution));
        if solution.is_none() {
            self.session.undo_to(start);
        }
        solution
    }

    fn simulate(&mut self, nodes: &BTreeSet<NodeId>) -> Option<Solution> {
        let evicted = self.units_on(nodes);
        for (pod, _) in evicted.iter().flat_map(|unit| &unit.pods) {
            self.session.evict(*pod);
        }
        self.session.promise_all(&self.wanted.pods, Some(nodes)).then_some(())?;
        let going = keep_what_fits(self.session, &evicted);
        let gone = going
            .iter()
            .fold(PerResource::default(), |sum: PerResource<i64>, unit| sum.plus(unit.amount));
        let left = self.rooms.free_in_all().plus(gone).minus(self.wanted.request);
        Some(self.move_elsewhere(&going, left))
    }

    /// Gives units that cannot stay a place elsewhere, where there is one. A shape that found
    /// none finds none later; `left` is all that is free on all nodes together.
    fn move_elsewhere(&mut self, going: &[&Unit], mut left: PerResource<i64>) -> Solution {
        let mut solution = Solution::default();
        let mut homeless: BTreeSet<ShapeId> = BTreeSet::new();
        for unit in going {
            let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
            let shapes: BTreeSet<ShapeId> =
                pods.iter().map(|pod| self.session.pod(*pod).shape).collect();
            let moved = unit.amount.within(left.map(Amount::Exactly))
                && homeless.is_disjoint(&shapes)
                && within_limits(self.session.ledger(), unit)
                && self.session.promise_all(&pods, None);
            if moved {
                left = left.minus(unit.amount);
                solution.moved.push((*unit).clone());
                continue;
            }
            if shapes.len() == 1 && pods.len() == 1 {
                homeless.extend(shapes);
            }
            solution.victims.push((*unit).clone());
        }
        let order: BTreeMap<_, usize> =
            self.gone.iter().enumerate().map(|(at, unit)| (unit.key, at)).collect();
        solution.victims.sort_by_key(|unit| order[&unit.key]);
        solution
    }
}

/// Takes back evictions in the order in which queues and jobs are served, gangs before their
/// surplus, as long as nodes have the room and queues the limits. Answers what could not stay.
fn keep_what_fits<'p>(session: &mut Session<'_>, evicted: &[&'p Unit]) -> Vec<&'p Unit> {
    let mut going = Vec::new();
    let mut broken: BTreeSet<PodGroupId> = BTreeSet::new();
    let mut returning = Returning::new(session.ledger(), evicted);
    while let Some(unit) = returning.next(session.ledger()) {
        let stays = !broken.contains(&unit.group) && keep(session, unit);
        if stays {
            returning.accounts_changed(session.ledger(), unit.queue);
        } else {
            broken.insert(unit.group);
            going.push(unit);
        }
    }
    going
}

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

/// Would the unit's queue, and all above it, keep their limits if it came back?
fn within_limits(ledger: &Ledger, unit: &Unit) -> bool {
    let nothing = PerResource::default();
    ledger.path(unit.queue).all(|queue| ledger.keeps_limit(queue, unit.amount, nothing))
}
