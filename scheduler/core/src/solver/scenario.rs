//! The simulation of one scenario of a search: only units on the fewest sufficient nodes are
//! evicted, and the job is placed. Evicted units that are not needed stay, best first; units that
//! fit elsewhere are moved; the rest must be acceptable.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    EvictableUnit, LimitCheck, NodeSet, Search, SearchMode, Solution, UnitPortion,
    evictable_unit::requeued_units,
    relocation::{RelocationCheck, is_within_limits},
    requeue_simulation::{Participant, RequeueSimulation},
    search::LastTrial,
};
use crate::{
    framework::{FreedCapacity, PodState, Session, Statement},
    model::{NodeId, PodGroupId, PodId, ShapeId},
    resources::PerResource,
};

impl<'p, A: Fn(&Solution) -> bool> Search<'_, '_, 'p, A> {
    /// Simulates evictions in one required topology domain after the other, or on all nodes if no
    /// domain is required. Returns the first acceptable solution. `needed` is the number of pods to
    /// place, by shape.
    pub(super) fn simulate_in_domains(
        &mut self,
        needed: &BTreeMap<ShapeId, u64>,
    ) -> Option<Solution> {
        let Some(domains) = self.required_domains else {
            if self.is_blocked_by_shape() {
                debug_assert!(
                    !self.places_all_on_fewest_nodes(needed),
                    "counts rejected moves that work"
                );
                self.trials += 1;
                self.statement.count_filtered();
                return None;
            }
            return self.simulate_in_domain(needed, None);
        };
        let fitting = domains.iter().enumerate().filter(|(at, domain)| {
            self.may_have_new_result(*at, domain) && self.has_capacity_in_domain(needed, domain)
        });
        let fitting: Vec<(usize, &BTreeSet<NodeId>)> = fitting.collect();
        fitting.into_iter().find_map(|(at, domain)| {
            let latest_in_domain =
                self.assumed_evicted.last().is_some_and(|unit| is_on_nodes(unit, domain));
            self.last_trials.insert(
                at,
                LastTrial { evicted_count: self.assumed_evicted.len(), latest_in_domain },
            );
            self.simulate_in_domain(needed, Some(domain))
        })
    }

    /// Whether a new simulation in the domain may have another result than the last one: another
    /// candidate in the domain is assumed evicted, or other nodes are tried first.
    fn may_have_new_result(&self, domain_index: usize, domain: &BTreeSet<NodeId>) -> bool {
        self.last_trials.get(&domain_index).is_none_or(|trial| {
            trial.latest_in_domain
                || self.assumed_evicted[trial.evicted_count..]
                    .iter()
                    .any(|unit| is_on_nodes(unit, domain))
        })
    }

    /// Simulates evictions on the fewest nodes with room for the `needed` pods: first of as few
    /// units as suffice, then of all units on these nodes. If that fails, simulates evictions on
    /// all nodes with room.
    fn simulate_in_domain(
        &mut self,
        needed: &BTreeMap<ShapeId, u64>,
        domain: Option<&BTreeSet<NodeId>>,
    ) -> Option<Solution> {
        let few = self.choose_fewest_nodes(needed, domain);
        if let Some(evicted) = self.choose_fewest_units(&few)
            && let Some(found) = self.simulate_evictions(evicted)
        {
            return Some(found);
        }
        let found = self.simulate_evictions(self.units_to_evict_on(&few));
        let has_topology = self.statement.group(self.preemptor.group).has_topology_constraint();
        let may_need_more =
            || self.is_contested || needed.len() > 1 || has_topology || self.has_exclusion_terms();
        if found.is_some() || !may_need_more() {
            return found;
        }
        let mut all = NodeSet::new(self.evicted_on_node.len());
        let with_room = needed.keys().flat_map(|shape| self.capacity.nodes_with_room(*shape));
        all.extend(
            with_room.copied().filter(|node| domain.is_none_or(|domain| domain.contains(node))),
        );
        // The fewest nodes are some of these.
        if few.len() == all.len() {
            return None;
        }
        self.simulate_evictions(self.units_to_evict_on(&all))
    }

    /// Whether anti-affinity, or resources that pods cannot share, matter; the capacity counts
    /// ignore these.
    fn has_exclusion_terms(&self) -> bool {
        self.preemptor.pods.iter().any(|pod| self.statement.has_anti_affinity(*pod))
    }

    /// Chooses nodes for the needed pods of each shape: nodes with idle capacity, then those with
    /// the fewest candidates, starting with the nodes of the latest candidate.
    fn choose_fewest_nodes(
        &self,
        needed: &BTreeMap<ShapeId, u64>,
        domain: Option<&BTreeSet<NodeId>>,
    ) -> NodeSet {
        let evicted_on = |node: NodeId| self.evicted_on_node[node.0 as usize];
        let latest: BTreeSet<NodeId> = self
            .assumed_evicted
            .last()
            .into_iter()
            .flat_map(|unit| &unit.pods)
            .map(|(_, at)| *at)
            .collect();
        let mut chosen = NodeSet::new(self.evicted_on_node.len());
        for (&shape, &count) in needed {
            let nodes = self.capacity.nodes_with_room(shape).iter().copied();
            let nodes = nodes.filter(|node| domain.is_none_or(|domain| domain.contains(node)));
            let (mut nodes, mut others): (Vec<NodeId>, Vec<NodeId>) =
                nodes.partition(|node| evicted_on(*node) == 0);
            others.sort_by_cached_key(|at| (!latest.contains(at), evicted_on(*at), *at));
            nodes.extend(others);
            let (mut sum, mut used_domains) = (0, BTreeSet::new());
            chosen.extend(nodes.into_iter().filter(|node| {
                let first_of_its_domain = self
                    .open_domains
                    .as_ref()
                    .map(|open_domains| used_domains.insert(open_domains.domain_of(*node)));
                let count_here = first_of_its_domain.map_or_else(
                    || u64::from(self.capacity.count_fitting_on(shape, *node)),
                    u64::from,
                );
                let is_needed = (sum < count && count_here > 0) || evicted_on(*node) == 0;
                sum += count_here;
                is_needed
            }));
        }
        chosen
    }

    /// For pods that exclude each other: the first assumed evictions on `nodes` that free capacity
    /// for one pod each. `None` for other pods.
    fn choose_fewest_units(&self, nodes: &NodeSet) -> Option<Vec<usize>> {
        self.open_domains.as_ref()?;
        let shape = self.statement.pod(*self.preemptor.pods.first()?).shape;
        let (mut freed, nothing) =
            (BTreeMap::<NodeId, FreedCapacity>::new(), FreedCapacity::default());
        let mut chosen = vec![false; self.assumed_evicted.len()];
        for (unit, is_chosen) in self.assumed_evicted.iter().zip(&mut chosen) {
            let lacks_room = |(_, node): &(PodId, NodeId)| {
                let freed_here = freed.get(node).unwrap_or(&nothing);
                nodes.contains(*node) && !self.capacity.would_fit(shape, *node, freed_here)
            };
            *is_chosen = unit.pods.iter().any(lacks_room);
            if !*is_chosen {
                continue;
            }
            for &(pod, at) in &unit.pods {
                let (node, groups) =
                    (self.statement.node(at), self.statement.allocated_gpu_groups(pod));
                freed.entry(at).or_default().free_pod(node, self.statement.shape_of(pod), groups);
            }
        }
        Some(self.with_required_units(chosen))
    }

    /// The positions of the assumed evictions on `nodes`, and of the units that must be evicted
    /// with them.
    fn units_to_evict_on(&self, nodes: &NodeSet) -> Vec<usize> {
        let is_there = |unit: &&EvictableUnit| unit.pods.iter().any(|(_, at)| nodes.contains(*at));
        self.with_required_units(self.assumed_evicted.iter().map(is_there).collect())
    }

    /// The positions of the chosen candidates, of as many more as queue limits require, and of all
    /// elastic units of gangs whose minimum is among them.
    fn with_required_units(&self, mut chosen: Vec<bool>) -> Vec<usize> {
        if !self.is_within_limits {
            self.choose_more_within_limits(&mut chosen);
        }
        let units = || self.assumed_evicted.iter().zip(&chosen).enumerate();
        let cores = units()
            .filter(|(_, (unit, is_chosen))| **is_chosen && unit.portion == UnitPortion::Minimum);
        let whole: BTreeSet<PodGroupId> = cores.map(|(_, (unit, _))| unit.group).collect();
        let evicted = units().filter(|(_, (unit, is_chosen))| {
            **is_chosen || unit.portion == UnitPortion::Elastic && whole.contains(&unit.group)
        });
        evicted.map(|(at, _)| at).collect()
    }

    /// Chooses further candidates, in their order, until the queues of the job stay within limits.
    fn choose_more_within_limits(&self, chosen: &mut [bool]) {
        let accounts = self.statement.accounts();
        let mut limits = LimitCheck::with_share_bounds(self.share_bounds);
        let first = self.assumed_evicted.iter().zip(&*chosen).filter(|(_, is_chosen)| **is_chosen);
        first.for_each(|(unit, _)| limits.record_freed(accounts, unit));
        for (unit, is_chosen) in self.assumed_evicted.iter().zip(chosen) {
            if limits.allows_job(accounts, self.preemptor) {
                break;
            }
            if !std::mem::replace(is_chosen, true) {
                limits.record_freed(accounts, unit);
            }
        }
    }

    /// Whether none of the units' pods is placed again.
    fn are_all_leaving(&self, units: &[EvictableUnit]) -> bool {
        count_pods(&self.units_without_restored_pods(units)) == count_pods(units)
    }

    /// Simulates the eviction of the assumed evictions at these `positions`. Returns the solution if
    /// it is acceptable.
    fn simulate_evictions(&mut self, positions: Vec<usize>) -> Option<Solution> {
        self.trials += 1;
        if self.statement.has_spent_simulations() {
            return None;
        }
        let evicted: Vec<&'p EvictableUnit> =
            positions.iter().map(|at| self.assumed_evicted[*at]).collect();
        if self.mode == SearchMode::Move && !self.may_place_all(&evicted) {
            debug_assert!(
                !self.places_all(&evicted.iter().copied().cloned().collect::<Vec<_>>()),
                "counts rejected moves that work"
            );
            self.statement.count_filtered();
            return None;
        }
        self.statement.count_simulated();
        if self.failed_evictions.contains(&positions) {
            return None;
        }
        let solution = self.evict_and_place(evicted.into_iter().cloned().collect());
        if solution.is_none() {
            self.failed_evictions.insert(positions);
        }
        solution
    }

    /// Evicts the units and places them again, and repeats this with only the units that were not
    /// restored in place, until all of them leave: in the next cycle the other units will not have
    /// moved. If too few units are left, because other jobs come first, all units of the previous
    /// attempt have to leave. Returns the solution if it is acceptable.
    fn evict_and_place(&mut self, mut evicted: Vec<EvictableUnit>) -> Option<Solution> {
        let start = self.statement.checkpoint();
        let mut more = None::<Vec<EvictableUnit>>;
        let solution = loop {
            match self.place_job_and_evicted(&evicted, Relocation::Anywhere) {
                Requeued::JobPlaced => {}
                Requeued::UnitNotMoved => break None,
                Requeued::JobNotPlaced => {
                    self.statement.undo_to(start);
                    self.is_rejected |= more.is_some();
                    break self.solution_without_relocation(more);
                }
            }
            let leaving = self.units_without_restored_pods(&evicted);
            if count_pods(&leaving) == count_pods(&evicted) {
                break Some(self.solution_from_leaving(evicted));
            }
            self.statement.undo_to(start);
            more = Some(std::mem::replace(&mut evicted, leaving));
        };
        let is_solved = solution.is_some();
        let solution = solution.filter(|solution| (self.accepts)(solution));
        if solution.is_none() {
            self.is_rejected |= is_solved;
            self.statement.undo_to(start);
        }
        match solution {
            Some(solution) if !self.share_bounds.is_empty() => {
                let start = self.statement.checkpoint();
                let fewer = self.without_needless_victims(solution.clone());
                if (self.accepts)(&fewer) {
                    return Some(fewer);
                }
                self.statement.undo_to(start);
                Some(solution)
            }
            other => other,
        }
    }

    /// Whether a simulation places the job and all evicted units. Debug builds check with it that
    /// counts reject only what fails.
    fn places_all(&mut self, evicted: &[EvictableUnit]) -> bool {
        let (start, is_contested) = (self.statement.checkpoint(), self.is_contested);
        let jobs_ahead = self.jobs_ahead.clone();
        let requeued = self.place_job_and_evicted(evicted, Relocation::Anywhere);
        self.statement.undo_to(start);
        (self.is_contested, self.jobs_ahead) = (is_contested, jobs_ahead);
        requeued == Requeued::JobPlaced
    }

    /// Whether the first simulation for the `needed` pods on all nodes would place the job and all
    /// evicted units.
    fn places_all_on_fewest_nodes(&mut self, needed: &BTreeMap<ShapeId, u64>) -> bool {
        let positions = self.units_to_evict_on(&self.choose_fewest_nodes(needed, None));
        let evicted: Vec<EvictableUnit> =
            positions.iter().map(|at| self.assumed_evicted[*at].clone()).collect();
        self.places_all(&evicted)
    }

    /// The solution if the job is placed and all `units` leave; `None` if it is not, or if there
    /// are no units.
    fn solution_without_relocation(
        &mut self,
        units: Option<Vec<EvictableUnit>>,
    ) -> Option<Solution> {
        let units = units?;
        let is_placed =
            self.place_job_and_evicted(&units, Relocation::Nowhere) == Requeued::JobPlaced;
        (is_placed && self.are_all_leaving(&units)).then(|| self.solution_from_leaving(units))
    }

    /// The solution without victims that are evicted only for a fair share: nothing would keep
    /// these from returning to their nodes.
    fn without_needless_victims(&mut self, mut solution: Solution) -> Solution {
        let pods = self.preemptor.pods.iter().copied();
        let excluding: Vec<PodId> =
            pods.filter(|pod| self.statement.has_anti_affinity(*pod)).collect();
        let mut leaving = BTreeSet::new();
        let mut victims = Vec::new();
        while let Some(unit) = solution.victims.pop() {
            let is_surplus = leaving.contains(&unit.group);
            if !is_surplus && restore_unit_in_place(self.statement, &unit, &excluding, self.mode) {
                continue;
            }
            if unit.portion == UnitPortion::Minimum {
                leaving.insert(unit.group);
            }
            victims.push(unit);
        }
        victims.reverse();
        Solution { victims, ..solution }
    }

    /// Places the job and the evicted units, each when its turn comes. Units that come before the
    /// job go to the best node; units that come after it stay on their node if they can.
    fn place_job_and_evicted(
        &mut self,
        evicted: &[EvictableUnit],
        relocation_policy: Relocation,
    ) -> Requeued {
        for (pod, _) in evicted.iter().flat_map(|unit| &unit.pods) {
            self.statement.evict(*pod);
        }
        let requeued = requeued_units(self.statement, evicted);
        let mut relocation = RelocationCheck::new(
            self.free_after_evictions(&requeued),
            self.mode,
            self.share_bounds,
        );
        let units = requeued.iter().map(AsRef::as_ref);
        let mut simulation =
            RequeueSimulation::new(self.statement, self.pending, [self.preemptor], units);
        let (mut is_preemptor_placed, mut excluding, mut pods_ahead) =
            (false, Vec::new(), Vec::new());
        loop {
            if !is_preemptor_placed {
                simulation.skip_infeasible_heads(self.statement);
            }
            let Some(participant) = simulation.next_participant(self.statement.accounts()) else {
                break;
            };
            let (queue, amount, is_placed) = match participant {
                Participant::Preemptor(job) => {
                    is_preemptor_placed = self.preemptor.pipeline_pods(self.statement);
                    self.is_contested |= !pods_ahead.is_empty();
                    self.jobs_ahead = charge_by_group(self.statement, &pods_ahead);
                    pods_ahead.drain(..).for_each(|pod| self.statement.cancel_pipeline(pod));
                    let pods = self.preemptor.pods.iter().copied();
                    excluding = pods.filter(|pod| self.statement.has_anti_affinity(*pod)).collect();
                    (job.queue, job.request, is_preemptor_placed)
                }
                Participant::Victim(unit)
                    if is_preemptor_placed && relocation_policy == Relocation::Nowhere =>
                {
                    (unit.queue, unit.amount, false)
                }
                Participant::Victim(unit) => {
                    let may_stay = is_preemptor_placed && !relocation.is_moving(unit.group);
                    let stays = may_stay
                        && relocation.is_within_shares(self.statement, unit)
                        && restore_unit_in_place(self.statement, unit, &excluding, self.mode);
                    let is_kept_or_moved = stays || relocation.relocate_unit(self.statement, unit);
                    (unit.queue, unit.amount, is_kept_or_moved)
                }
                Participant::PendingJob(_) if is_preemptor_placed => continue,
                Participant::PendingJob(job) => {
                    pods_ahead.extend(simulation.place_pending(
                        self.statement,
                        &mut relocation,
                        job,
                    ));
                    continue;
                }
            };
            match (participant, is_placed) {
                (Participant::Preemptor(_), false) => return Requeued::JobNotPlaced,
                (Participant::Victim(_), false) if self.mode == SearchMode::Move => {
                    return Requeued::UnitNotMoved;
                }
                (Participant::Victim(unit), false) => simulation.record_unplaced(unit),
                (
                    Participant::Preemptor(_) | Participant::Victim(_) | Participant::PendingJob(_),
                    _,
                ) => {
                    relocation.consume_free_capacity(amount);
                    simulation.on_accounts_changed(self.statement.accounts(), queue);
                }
            }
        }
        if is_preemptor_placed { Requeued::JobPlaced } else { Requeued::JobNotPlaced }
    }

    /// Free capacity of all nodes once the units are evicted. A claim that several pods share is
    /// counted for each of them, since each requests it.
    fn free_after_evictions(&self, requeued: &[Cow<'_, EvictableUnit>]) -> PerResource<i64> {
        requeued.iter().fold(self.capacity.total_free(), |sum, unit| sum.plus(unit.amount))
    }

    /// The evicted units without the pods that are restored in place.
    fn units_without_restored_pods(&self, evicted: &[EvictableUnit]) -> Vec<EvictableUnit> {
        let stays = |pod: PodId| matches!(self.statement.state(pod), PodState::Allocated(_));
        evicted.iter().filter_map(|unit| unit.without_pods(self.statement, stays)).collect()
    }

    /// Divides the units that leave their nodes into moved units and victims.
    fn solution_from_leaving(&self, leaving: Vec<EvictableUnit>) -> Solution {
        let has_place = |(pod, _): &(PodId, NodeId)| {
            matches!(self.statement.state(*pod), PodState::Moving { .. })
        };
        let (moved, victims) =
            leaving.into_iter().partition(|unit| unit.pods.iter().all(has_place));
        Solution { victims, moved, jobs_ahead: self.jobs_ahead.clone() }
    }
}

/// The result of placing the job and the evicted units again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requeued {
    /// The job was placed.
    JobPlaced,
    /// The job was not placed.
    JobNotPlaced,
    /// A unit that has to move fits nowhere ([`SearchMode::Move`] only).
    UnitNotMoved,
}

/// Where units that come after the job may be placed again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relocation {
    Anywhere,
    Nowhere,
}

/// For each group of the pods, the charge of its pods, in the order in which the groups were
/// placed.
fn charge_by_group(session: &Session<'_>, pods: &[PodId]) -> Vec<(PodGroupId, PerResource<i64>)> {
    let mut shares: Vec<(PodGroupId, PerResource<i64>)> = Vec::new();
    for pod in pods {
        let Some(group) = session.pod(*pod).group else { continue };
        let share = session.fair_share_request(&[*pod]);
        match shares.iter_mut().find(|(known, _)| *known == group) {
            Some((_, sum)) => *sum = sum.plus(share),
            None => shares.push((group, share)),
        }
    }
    shares
}

fn is_on_nodes(unit: &EvictableUnit, nodes: &BTreeSet<NodeId>) -> bool {
    unit.pods.iter().any(|(_, node)| nodes.contains(node))
}

fn count_pods(units: &[EvictableUnit]) -> usize {
    units.iter().map(|unit| unit.pods.len()).sum()
}

/// Restores the evicted unit on its nodes, if these have the capacity, queues stay within limits,
/// and the pods `excluding` still satisfy their anti-affinity. In mode [`SearchMode::Move`] a part
/// of the unit may stay if the rest fits elsewhere.
fn restore_unit_in_place(
    statement: &mut Statement<'_>,
    unit: &EvictableUnit,
    excluding: &[PodId],
    mode: SearchMode,
) -> bool {
    if !is_within_limits(statement, unit) {
        return false;
    }
    let (start, mut others) = (statement.checkpoint(), Vec::new());
    for &(pod, node) in &unit.pods {
        if can_pod_stay(statement, pod, node) {
            statement.cancel_eviction(pod);
        } else {
            others.push(pod);
            if mode == SearchMode::Evict {
                break;
            }
        }
    }
    let may_split = mode == SearchMode::Move && others.len() < unit.pods.len();
    let fits = (others.is_empty() || may_split)
        && excluding.iter().all(|pod| statement.satisfies_anti_affinity(*pod))
        && (others.is_empty() || statement.pipeline_all(&others));
    if !fits {
        statement.undo_to(start);
    }
    fits
}

/// Whether all pods of the unit could stay on their nodes at present.
pub(super) fn can_unit_stay(session: &Session<'_>, unit: &EvictableUnit) -> bool {
    is_within_limits(session, unit)
        && unit.pods.iter().all(|(pod, at)| can_pod_stay(session, *pod, *at))
}

fn can_pod_stay(session: &Session<'_>, pod: PodId, node: NodeId) -> bool {
    let (shape, info, spec) = (session.shape_of(pod), session.node_info(node), session.node(node));
    info.requests_on(spec, shape).fits_in(&info.free_after_release())
        && shape.fractional_gpu.as_ref().is_none_or(|shared| {
            info.can_keep_devices(spec, shared, session.allocated_gpu_groups(pod))
        })
        && session.can_keep_numa(pod, node)
}
