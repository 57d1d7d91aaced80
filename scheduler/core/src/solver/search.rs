//! The search for victims of one job. Units are assumed evicted one after the other, in the order
//! in which they are considered, until the counts of [`CapacityIndex`] say that the job could fit;
//! only then a scenario is simulated ([`super::scenario`]). So a job that can never fit costs one
//! walk over the candidates and no simulation.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    CapacityIndex, EvictableUnit, OpenDomains, PendingJobs, Preemptor, SearchMode, Solution,
    move_bound::BlockingShape,
};
use crate::{
    framework::Statement,
    model::{NodeId, PodGroupId, QueueId, ShapeId},
    queues::QueueAccounts,
    resources::PerResource,
};

/// Number of simulations of one search that run for every further candidate. After that, a
/// simulation runs only for every few candidates.
const TRIALS_PER_CANDIDATE_MAX: usize = 16;
/// Like [`TRIALS_PER_CANDIDATE_MAX`], once a cycle has run [`TRIALS_UNTIL_LATE`] simulations: each
/// one costs time, and victims that the last simulation did not need stay.
const TRIALS_PER_CANDIDATE_MAX_LATE: usize = 1;
pub(super) const TRIALS_UNTIL_LATE: usize = 512;

/// The search for victims for one job.
pub(crate) struct Search<'a, 's, 'p, A> {
    pub(crate) statement: &'a mut Statement<'s>,
    pub(crate) capacity: &'a mut CapacityIndex,
    /// All pending jobs, the preemptor included.
    pub(crate) pending: &'p PendingJobs,
    pub(crate) preemptor: &'p Preemptor,
    /// Whether the rules of the action accept a solution.
    pub(crate) accepts: A,
    pub(crate) mode: SearchMode,
    /// Domains of the required topology level: the whole job must fit into one of them.
    pub(crate) required_domains: Option<&'p [BTreeSet<NodeId>]>,
    /// The last failed simulation in each required domain, by index of the domain.
    pub(crate) last_trials: BTreeMap<usize, LastTrial>,
    /// The exclusion domains, if the pods of the job exclude each other.
    pub(crate) open_domains: Option<OpenDomains>,
    /// Candidates that are assumed evicted so far.
    pub(crate) assumed_evicted: Vec<&'p EvictableUnit>,
    /// Number of pods that are assumed evicted, by node.
    pub(crate) evicted_on_node: Vec<u32>,
    /// The evictions, by position in `assumed_evicted`, whose simulation failed. It fails again.
    pub(crate) failed_evictions: BTreeSet<Vec<usize>>,
    /// Whether the queues of the job stay within limits and `share_bounds` without an eviction.
    pub(crate) is_within_limits: bool,
    /// Ancestors of the job's queue that must stay within their fair shares.
    pub(crate) share_bounds: &'p [QueueId],
    /// Whether in a simulation the job was placed, but the solution was not acceptable or did not
    /// last.
    pub(crate) is_rejected: bool,
    /// Whether in a simulation other jobs came first and took capacity that was freed for this one.
    pub(crate) is_contested: bool,
    /// By shape of candidates that were compared with that of the job: whether pods of the shape
    /// move in vain.
    pub(crate) shapes_in_vain: Vec<Option<bool>>,
    /// A shape that rejected moves, as long as it may reject all moves so far.
    pub(crate) blocking_shape: Option<BlockingShape>,
    /// Shapes for whose pods the assumed evictions leave enough room.
    pub(crate) shapes_with_room: BTreeSet<ShapeId>,
    /// Number of scenarios that were simulated, or rejected because counts show that they fail.
    pub(crate) trials: usize,
    /// The jobs that came first in the last simulation, and how much capacity they took.
    pub(crate) jobs_ahead: Vec<(PodGroupId, PerResource<i64>)>,
}

/// The outcome of the search for one job.
pub(super) enum SearchOutcome {
    /// The search found an acceptable solution.
    Solved(Solution),
    /// The job fits once pods are evicted, but no solution was acceptable or lasted.
    Rejected,
    /// The job does not fit.
    NotFound,
}

impl SearchOutcome {
    pub(super) fn into_solution(self) -> Option<Solution> {
        match self {
            Self::Solved(solution) => Some(solution),
            Self::Rejected | Self::NotFound => None,
        }
    }
}

/// A failed simulation in a domain. It fails again until another candidate in that domain is
/// assumed evicted.
#[derive(Clone, Copy)]
pub(crate) struct LastTrial {
    /// Number of candidates that were assumed evicted at that time.
    pub(super) evicted_count: usize,
    /// Whether the candidate that was assumed evicted last was in the domain. The simulation tried
    /// its nodes first; with another last candidate it may have another result.
    pub(super) latest_in_domain: bool,
}

impl<'p, A: Fn(&Solution) -> bool> Search<'_, '_, 'p, A> {
    /// Assumes one candidate after the other evicted, until the job fits and the solution is
    /// acceptable. The solution is then applied, but not committed; without a solution nothing
    /// changes.
    pub(crate) fn run_search(
        mut self,
        candidates: impl Iterator<Item = &'p EvictableUnit>,
    ) -> SearchOutcome {
        let needed = self.preemptor.pods_by_shape(self.statement);
        let mut limits = LimitCheck::with_share_bounds(self.share_bounds);
        let (mut trials, mut next_trial, mut untried) = (0, 0, false);
        let mut solution = None;
        let interchangeable = self.interchangeable_shape();
        let mut is_allowed = self.is_within_limits;
        for unit in candidates {
            if interchangeable.is_some_and(|shape| self.moves_in_vain(unit, shape)) {
                self.statement.count_filtered();
                continue;
            }
            self.assume_evicted(unit);
            // Evictions only lower the use of queues.
            is_allowed = is_allowed || {
                limits.record_freed(self.statement.accounts(), unit);
                limits.allows_job(self.statement.accounts(), self.preemptor)
            };
            if !is_allowed || !self.has_enough_capacity(&needed) {
                self.statement.count_filtered();
                continue;
            }
            untried = self.assumed_evicted.len() < next_trial;
            if untried {
                continue;
            }
            let trials_before = self.trials;
            solution = self.simulate_in_domains(&needed);
            if solution.is_some() {
                break;
            }
            if self.trials == trials_before {
                continue;
            }
            trials += 1;
            let is_late = self.statement.scenario_counts().simulated > TRIALS_UNTIL_LATE;
            let eager_trials =
                if is_late { TRIALS_PER_CANDIDATE_MAX_LATE } else { TRIALS_PER_CANDIDATE_MAX };
            let step = if trials < eager_trials { 1 } else { self.assumed_evicted.len() / 8 + 1 };
            next_trial = self.assumed_evicted.len() + step;
        }
        if untried && solution.is_none() {
            solution = self.simulate_in_domains(&needed);
        }
        self.capacity.clear_assumptions();
        match solution {
            Some(solution) => SearchOutcome::Solved(solution),
            None if self.is_rejected => SearchOutcome::Rejected,
            None => SearchOutcome::NotFound,
        }
    }

    fn assume_evicted(&mut self, unit: &'p EvictableUnit) {
        for &(pod, node) in &unit.pods {
            let (shape, groups) =
                (self.statement.shape_of(pod), self.statement.allocated_gpu_groups(pod));
            self.capacity.assume_evicted(node, self.statement.node(node), shape, groups);
            self.evicted_on_node[node.0 as usize] += 1;
        }
        if let Some(open_domains) = &mut self.open_domains {
            open_domains.assume_evicted(self.capacity, unit);
        }
        self.assumed_evicted.push(unit);
    }

    fn has_enough_capacity(&self, needed: &BTreeMap<ShapeId, u64>) -> bool {
        let fits_in_total = needed
            .iter()
            .all(|(shape, count)| self.capacity.count_fitting_in_total(*shape) >= *count);
        let fits_in_domain = |domain| self.has_capacity_in_domain(needed, domain);
        fits_in_total
            && self.open_domains.as_ref().is_none_or(OpenDomains::has_enough_domains)
            && self.required_domains.is_none_or(|domains| domains.iter().any(fits_in_domain))
    }

    pub(super) fn has_capacity_in_domain(
        &self,
        needed: &BTreeMap<ShapeId, u64>,
        domain: &BTreeSet<NodeId>,
    ) -> bool {
        needed.iter().all(|(shape, count)| {
            let in_domain =
                domain.iter().map(|node| u64::from(self.capacity.count_fitting_on(*shape, *node)));
            in_domain.sum::<u64>() >= *count
        })
    }
}

/// Checks queue limits, with the amounts that assumed evictions free in each queue.
#[derive(Default)]
pub(super) struct LimitCheck<'a> {
    freed: BTreeMap<QueueId, PerResource<i64>>,
    /// Queues whose fair shares count as limits, too.
    share_bounds: &'a [QueueId],
}

impl<'a> LimitCheck<'a> {
    pub(super) fn with_share_bounds(share_bounds: &'a [QueueId]) -> Self {
        Self { freed: BTreeMap::new(), share_bounds }
    }

    pub(super) fn record_freed(&mut self, accounts: &QueueAccounts, unit: &EvictableUnit) {
        for queue in accounts.path_to_root(unit.queue) {
            let freed = self.freed.entry(queue).or_default();
            *freed = freed.plus(unit.amount);
        }
    }

    pub(super) fn allows_job(&self, accounts: &QueueAccounts, preemptor: &Preemptor) -> bool {
        accounts.path_to_root(preemptor.queue).all(|queue| {
            let freed = self.freed.get(&queue).copied().unwrap_or_default();
            let is_in_share = || accounts.fits_fair_share(queue, preemptor.share_request, freed);
            accounts.fits_limit(queue, preemptor.request, freed)
                && (!self.share_bounds.contains(&queue) || is_in_share())
        })
    }
}
