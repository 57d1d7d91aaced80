//! One trial of a search: with nothing evicted but what stands on the fewest nodes that suffice,
//! the job gets its places. What was evicted and not needed stays where it is, best first; what
//! fits elsewhere is moved; the rest must be acceptable.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Limits, Manner, Piece, Search, Solution, Unit, UnitKey,
    elsewhere::{Elsewhere, within_limits},
    returning::{Entry, Returning},
    search::Tried,
    units::on_return,
};
use crate::{
    model::{NodeId, PodGroupId, PodId, ShapeId},
    resources::PerResource,
    session::{Freed, PodState, Session},
};

impl<A: Fn(&Solution) -> bool> Search<'_, '_, '_, A> {
    /// First on as few nodes as the counts say; if that is not enough, on all that have room.
    pub(super) fn try_for_real(&mut self, needed: &BTreeMap<ShapeId, u64>) -> Option<Solution> {
        let Some(places) = self.places else { return self.try_in(needed, None) };
        let fitting = places
            .iter()
            .enumerate()
            .filter(|(at, place)| self.may_differ(*at, place) && self.suffice_in(needed, place));
        let fitting: Vec<(usize, &BTreeSet<NodeId>)> = fitting.collect();
        fitting.into_iter().find_map(|(at, place)| {
            let latest_was_there = self.gone.last().is_some_and(|unit| stands_in(unit, place));
            self.tried.insert(at, Tried { gone: self.gone.len(), latest_was_there });
            self.try_in(needed, Some(place))
        })
    }

    /// A candidate in this place has gone since the job was tried there, or other nodes come first.
    fn may_differ(&self, at: usize, place: &BTreeSet<NodeId>) -> bool {
        self.tried.get(&at).is_none_or(|tried| {
            tried.latest_was_there
                || self.gone[tried.gone..].iter().any(|unit| stands_in(unit, place))
        })
    }

    fn try_in(
        &mut self,
        needed: &BTreeMap<ShapeId, u64>,
        place: Option<&BTreeSet<NodeId>>,
    ) -> Option<Solution> {
        let few = self.fewest_nodes(needed, place);
        let all = needed.keys().flat_map(|shape| self.rooms.nodes(*shape)).copied();
        let all: BTreeSet<NodeId> =
            all.filter(|node| place.is_none_or(|place| place.contains(node))).collect();
        if let Some(evicted) = self.fewest_units(&few)
            && let Some(found) = self.trial(evicted)
        {
            return Some(found);
        }
        let found = self.trial(self.units_on(&few));
        if found.is_some() || few == all {
            return found;
        }
        let parts_are_placed = self.session.group(self.wanted.group).is_placed();
        let is_more_than_counted =
            || self.is_contested || needed.len() > 1 || parts_are_placed || self.is_kept_apart();
        if is_more_than_counted() { self.trial(self.units_on(&all)) } else { None }
    }

    /// Counts say little about it: who stands there matters, too.
    fn is_kept_apart(&self) -> bool {
        self.wanted.pods.iter().any(|pod| self.session.is_kept_apart(*pod))
    }

    /// For each shape the nodes with room as they are, then those on which the fewest units
    /// stand, the latest candidate's first.
    fn fewest_nodes(
        &self,
        needed: &BTreeMap<ShapeId, u64>,
        place: Option<&BTreeSet<NodeId>>,
    ) -> BTreeSet<NodeId> {
        let mut standing: BTreeMap<NodeId, u32> = BTreeMap::new();
        for (_, node) in self.gone.iter().flat_map(|unit| &unit.pods) {
            *standing.entry(*node).or_default() += 1;
        }
        let latest: BTreeSet<NodeId> =
            self.gone.last().into_iter().flat_map(|unit| &unit.pods).map(|(_, at)| *at).collect();
        let mut chosen = BTreeSet::new();
        for (&shape, &count) in needed {
            let mut nodes: Vec<NodeId> = self.rooms.nodes(shape).iter().copied().collect();
            nodes.retain(|node| place.is_none_or(|place| place.contains(node)));
            nodes.sort_by_key(|at| {
                let units = standing.get(at).copied().unwrap_or(0);
                (units > 0, !latest.contains(at), units, *at)
            });
            let (mut room, mut taken) = (0, BTreeSet::new());
            chosen.extend(nodes.into_iter().filter(|node| {
                let there = match &self.apart {
                    Some(apart) => u64::from(taken.insert(apart.place_of(*node))),
                    None => u64::from(self.rooms.on(shape, *node)),
                };
                let wanted = (room < count && there > 0) || !standing.contains_key(node);
                room += there;
                wanted
            }));
        }
        chosen
    }

    /// Where each pod needs a place of its own: of the imagined candidates on `nodes` the first that
    /// make room for one there.
    fn fewest_units(&self, nodes: &BTreeSet<NodeId>) -> Option<Vec<Unit>> {
        self.apart.as_ref()?;
        let shape = self.session.pod(*self.wanted.pods.first()?).shape;
        let (mut freed, nothing) = (BTreeMap::<NodeId, Freed>::new(), Freed::default());
        let mut chosen = BTreeSet::new();
        for unit in &self.gone {
            let lacks_room = |(_, node): &(PodId, NodeId)| {
                let gone = freed.get(node).unwrap_or(&nothing);
                nodes.contains(node) && !self.rooms.would_fit(shape, *node, gone)
            };
            if !unit.pods.iter().any(lacks_room) {
                continue;
            }
            chosen.insert(unit.key);
            for &(pod, at) in &unit.pods {
                let (node, groups) = (self.session.node(at), self.session.held_gpu_groups(pod));
                freed.entry(at).or_default().add(node, self.session.shape_of(pod), groups);
            }
        }
        Some(self.with_surplus(chosen))
    }

    /// The imagined candidates that stand on `nodes`, with what goes along.
    fn units_on(&self, nodes: &BTreeSet<NodeId>) -> Vec<Unit> {
        let there = self.gone.iter().filter(|unit| stands_in(unit, nodes));
        self.with_surplus(there.map(|unit| unit.key).collect())
    }

    /// These candidates, as many more as limits ask for, and all surplus of gangs whose core is
    /// among them.
    fn with_surplus(&self, mut chosen: BTreeSet<UnitKey>) -> Vec<Unit> {
        let ledger = self.session.ledger();
        let mut limits = Limits::default();
        let first = self.gone.iter().filter(|unit| chosen.contains(&unit.key));
        first.for_each(|unit| limits.give(ledger, unit));
        for unit in &self.gone {
            if limits.suffice(ledger, self.wanted) {
                break;
            }
            if chosen.insert(unit.key) {
                limits.give(ledger, unit);
            }
        }
        let is_chosen = |unit: &&&Unit| chosen.contains(&unit.key);
        let cores = self.gone.iter().filter(is_chosen).filter(|unit| unit.piece == Piece::Core);
        let whole: BTreeSet<PodGroupId> = cores.map(|unit| unit.group).collect();
        let evicted =
            self.gone.iter().filter(|unit| is_chosen(unit) || whole.contains(&unit.group));
        evicted.map(|unit| (*unit).clone()).collect()
    }

    /// Evicts, serves, and does so again with only those that left, until all of them leave: in
    /// the next cycle the others will not have moved. Where they are too few, since others come
    /// before the job then, all have to leave. Then what it takes must be acceptable.
    fn trial(&mut self, mut evicted: Vec<Unit>) -> Option<Solution> {
        self.session.count_simulated();
        let start = self.session.checkpoint();
        let mut more = None::<Vec<Unit>>;
        let solution = loop {
            if !self.serve_in_turn(&evicted, Returns::Anywhere) {
                self.session.undo_to(start);
                let more = more.filter(|more| self.serve_in_turn(more, Returns::Nowhere));
                let all_leave =
                    |more: &Vec<Unit>| count_pods(&self.leaving(more)) == count_pods(more);
                break more.filter(all_leave).map(|more| self.outcome(more));
            }
            let leaving = self.leaving(&evicted);
            if count_pods(&leaving) == count_pods(&evicted) {
                break Some(self.outcome(evicted));
            }
            self.session.undo_to(start);
            more = Some(std::mem::replace(&mut evicted, leaving));
        };
        let solution = solution.filter(|solution| (self.accepts)(solution));
        if solution.is_none() {
            self.session.undo_to(start);
        }
        solution
    }

    /// The job and what is evicted for it get places, each in its turn. What comes before the
    /// job goes wherever it is best; what comes after it stays where it is, if it can.
    fn serve_in_turn(&mut self, evicted: &[Unit], returns: Returns) -> bool {
        for (pod, _) in evicted.iter().flat_map(|unit| &unit.pods) {
            self.session.evict(*pod);
        }
        let back = on_return(self.session, evicted);
        let mut elsewhere = Elsewhere::new(self.free_with_all_gone(&back), self.manner);
        let units = back.iter().map(AsRef::as_ref);
        let mut returning = Returning::new(self.session, self.backlog, [self.wanted], units);
        let (mut job_is_served, mut apart, mut ahead) = (false, Vec::new(), Vec::new());
        loop {
            if !job_is_served {
                returning.let_step_aside(self.session);
            }
            let Some(entry) = returning.next(self.session.ledger()) else { break };
            let (queue, amount, served) = match entry {
                Entry::Job(job) => {
                    job_is_served = self.wanted.promise(self.session);
                    self.is_contested |= !ahead.is_empty();
                    self.ahead = shares(self.session, &ahead);
                    ahead.drain(..).for_each(|pod| self.session.withdraw(pod));
                    let pods = self.wanted.pods.iter().copied();
                    apart = pods.filter(|pod| self.session.is_kept_apart(*pod)).collect();
                    (job.queue, job.request, job_is_served)
                }
                Entry::Unit(unit) if job_is_served && returns == Returns::Nowhere => {
                    (unit.queue, unit.amount, false)
                }
                Entry::Unit(unit) => {
                    let may_stay = job_is_served && !elsewhere.moves(unit.group);
                    let stays = may_stay && keep(self.session, unit, (&apart, self.manner));
                    let served = stays || elsewhere.find_place(self.session, unit);
                    (unit.queue, unit.amount, served)
                }
                Entry::Bystander(_) if job_is_served => continue,
                Entry::Bystander(bystander) => {
                    ahead.extend(returning.pass(self.session, &mut elsewhere, bystander));
                    continue;
                }
            };
            match (entry, served) {
                (Entry::Job(_), false) => return false,
                (Entry::Unit(unit), false) => returning.lost(unit),
                (Entry::Job(_) | Entry::Unit(_) | Entry::Bystander(_), _) => {
                    elsewhere.take(amount);
                    returning.accounts_changed(self.session.ledger(), queue);
                }
            }
        }
        job_is_served
    }

    /// A claim that several share is counted for each of them, as each asks for it.
    fn free_with_all_gone(&self, back: &[Cow<'_, Unit>]) -> PerResource<i64> {
        back.iter().fold(self.rooms.free_in_all(), |sum, unit| sum.plus(unit.amount))
    }

    /// Of the evicted, those that do not stay.
    fn leaving(&self, evicted: &[Unit]) -> Vec<Unit> {
        let stays = |pod: PodId| matches!(self.session.state(pod), PodState::Holding(_));
        evicted.iter().filter_map(|unit| unit.without(self.session, stays)).collect()
    }

    /// What becomes of those that leave.
    fn outcome(&self, leaving: Vec<Unit>) -> Solution {
        let has_place = |(pod, _): &(PodId, NodeId)| {
            matches!(self.session.state(*pod), PodState::Moving { .. })
        };
        let (moved, victims) =
            leaving.into_iter().partition(|unit| unit.pods.iter().all(has_place));
        Solution { victims, moved, ahead: self.ahead.clone() }
    }
}

/// Where those that come after the job may be once it is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Returns {
    Anywhere,
    Nowhere,
}

/// What the pods of each group have, in the order in which the groups were served.
fn shares(session: &Session<'_>, pods: &[PodId]) -> Vec<(PodGroupId, PerResource<i64>)> {
    let mut shares: Vec<(PodGroupId, PerResource<i64>)> = Vec::new();
    for pod in pods {
        let Some(group) = session.pod(*pod).group else { continue };
        let share = session.share_of(&[*pod]);
        match shares.iter_mut().find(|(known, _)| *known == group) {
            Some((_, sum)) => *sum = sum.plus(share),
            None => shares.push((group, share)),
        }
    }
    shares
}

fn stands_in(unit: &Unit, place: &BTreeSet<NodeId>) -> bool {
    unit.pods.iter().any(|(_, node)| place.contains(node))
}

fn count_pods(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.pods.len()).sum()
}

/// Takes the unit's eviction back, if nodes have the room and queues the limits, and it does not
/// stand in the way of the pods `apart`. Where others only move, a part of it stays, too, if the
/// rest finds places elsewhere.
fn keep(session: &mut Session<'_>, unit: &Unit, (apart, manner): (&[PodId], Manner)) -> bool {
    if !within_limits(session, unit) {
        return false;
    }
    let (start, mut others) = (session.checkpoint(), Vec::new());
    for &(pod, node) in &unit.pods {
        if can_stay(session, pod, node) {
            session.restore(pod);
        } else {
            others.push(pod);
            if manner == Manner::Evict {
                break;
            }
        }
    }
    let may_part = manner == Manner::Move && others.len() < unit.pods.len();
    let fits = (others.is_empty() || may_part)
        && apart.iter().all(|pod| session.is_apart(*pod))
        && (others.is_empty() || session.promise_all(&others));
    if !fits {
        session.undo_to(start);
    }
    fits
}

/// All of the unit, as things are now.
pub(super) fn could_stay(session: &Session<'_>, unit: &Unit) -> bool {
    within_limits(session, unit) && unit.pods.iter().all(|(pod, at)| can_stay(session, *pod, *at))
}

fn can_stay(session: &Session<'_>, pod: PodId, node: NodeId) -> bool {
    let (shape, room, of) = (session.shape_of(pod), session.room(node), session.node(node));
    room.needed(of, shape).fits_in(&room.free_later())
        && shape
            .shared_gpu
            .as_ref()
            .is_none_or(|shared| room.can_keep(of, shared, session.held_gpu_groups(pod)))
        && session.can_keep_zones(pod, node)
}
