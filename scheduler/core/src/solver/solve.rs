//! The solver loop of the three actions that evict: one search per job in queue order, the first
//! acceptable solution of each, and no second search for a job equivalent to one that failed. The
//! solutions of an action are committed when the simulated next cycle upholds them
//! ([`super::validation`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    CapacityIndex, EvictableUnit, EvictionCandidates, FailedSearch, JobClass, OpenDomains,
    PendingJobs, Preemptor, QueueAccounts, SchedulingSignature, Search, SearchContext,
    SearchInputs, SearchMode, Solution, VictimOrder,
    failed_jobs::{FailedJobCache, FailureScope, JobDemand},
    min_runtime,
    move_bound::MoveBounds,
    search::{LimitCheck, SearchOutcome},
    validation::{AcceptedSolutions, SolvedJob},
};
use crate::{
    framework::{MinRuntimeProtection, Session, Statement},
    model::{PodGroupId, PodId, QueueId},
    plan::EvictionCause,
    profile::Action,
    queues::{JobsByQueue, QueuedJob, first_jobs_per_queue, reclaim::RemainingUse},
    resources::PerResource,
};

/// The rules by which an action evicts.
pub(crate) trait EvictionPolicy {
    /// The action that these rules belong to.
    fn action(&self) -> Action;
    /// Whether a search for victims may start for the job.
    fn may_start(&self, context: &SearchContext<'_>, preemptor: &Preemptor) -> bool;
    /// Whether pods of this leaf queue may be evicted for the job.
    fn may_evict_from(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        queue: QueueId,
    ) -> bool;
    /// How long the unit remains protected from this job by a minimum runtime; `None`: the unit is
    /// not protected.
    fn remaining_protection(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        unit: &EvictableUnit,
    ) -> Option<Duration>;
    /// Narrower searches for a job for which no solution was acceptable.
    fn narrower_searches(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
    ) -> Vec<NarrowerSearch> {
        let _ = (context, preemptor);
        Vec::new()
    }
    /// In a narrower search: whether the unit may be evicted in addition. If so, its amount is
    /// subtracted from `remaining`.
    fn may_evict_next(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        remaining: &mut RemainingUse,
        unit: &EvictableUnit,
    ) -> bool {
        let _ = (context, preemptor, remaining, unit);
        true
    }
    /// Whether the solution as a whole is acceptable.
    fn accepts_solution(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        solution: &Solution,
    ) -> bool;
    /// Whether victims are evicted or only moved.
    fn search_mode(&self) -> SearchMode {
        SearchMode::Evict
    }
    /// For which jobs a failed search shows that they fail, too.
    fn failure_scope(&self) -> FailureScope {
        FailureScope::Queue
    }
    /// Whether the units of all other jobs are considered, whichever job evicts them.
    fn considers_same_units_for_all(&self) -> bool {
        false
    }
    /// Whether solutions count against the limit of preemptions per cycle.
    fn counts_as_preemption(&self) -> bool {
        false
    }
    /// The eviction cause for the pods of the unit.
    fn eviction_cause(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        unit: &EvictableUnit,
    ) -> EvictionCause;
}

/// A search with fewer candidates, or more queues that must stay within their fair shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NarrowerSearch {
    /// Only pods of queues below this one are candidates; `None`: those of all queues.
    pub(crate) within: Option<QueueId>,
    /// Ancestors of the job's queue that must stay within their fair shares: pods below these
    /// ancestors are evicted before other pods.
    pub(crate) share_bounds: Vec<QueueId>,
}

/// State shared by the searches of one action.
struct SolverState {
    candidates: EvictionCandidates,
    capacity: CapacityIndex,
    pending: PendingJobs,
    /// The candidates in the order in which they are considered for every job, if the action
    /// considers the same ones for all jobs; since the last solution.
    common_order: Option<Vec<EvictableUnit>>,
    /// What all moves together can make room for, if victims are only moved; since the last
    /// solution.
    move_bounds: Option<MoveBounds>,
    /// Jobs that could evict victims but exceed the limit of preemptions per cycle.
    preemption_limited: Vec<PodGroupId>,
    /// Whether jobs and victims of solutions were removed.
    has_solved: bool,
}

/// Maximum number of searches for jobs over the preemption limit. These searches run only to find
/// the reason of the jobs.
const SEARCHES_OVER_LIMIT_MAX: u32 = 16;

/// Searches victims for all pending jobs that may start, such that every job keeps its pipelined
/// capacity in the next cycle, including the jobs of solutions accepted earlier in this cycle. New
/// solutions are added to `accepted`.
pub(crate) fn solve_pending_jobs(
    statement: &mut Statement<'_>,
    policy: &impl EvictionPolicy,
    accepted: &mut AcceptedSolutions,
) {
    accepted.inputs.update(statement);
    let mut jobs = accepted.inputs.waiting_jobs(statement).to_vec();
    if jobs.is_empty() {
        return;
    }
    if let Some(depth) = statement.profile.queue_depth.get(&policy.action()) {
        jobs = first_jobs_per_queue(jobs, *depth);
    }
    jobs.retain(|job| statement.may_run_after_evictions(job.key.group()));
    let victim_search = statement.profile.victim_search;
    if !jobs.iter().any(|job| victim_search.includes(job.key.group())) {
        return;
    }
    // A group that lost pods in this cycle evicts no others in it: its lost pods come first in the
    // next cycle.
    let mut excluded: BTreeSet<PodGroupId> = accepted.victim_groups().collect();
    accepted.revalidate_earlier(statement);
    let mut rounds = 0;
    loop {
        let Some(mut state) = SolverState::new(statement, &jobs, policy, &mut accepted.inputs)
        else {
            return;
        };
        let start = statement.checkpoint();
        statement.set_look_ahead(true);
        let eligible = jobs.iter().filter(|job| {
            let group = job.key.group();
            victim_search.includes(group) && !excluded.contains(&group)
        });
        let mut solved = solve_each(statement, &mut state, eligible.copied(), policy, accepted);
        let conflict = accepted.find_conflict(statement, start, &solved);
        if let Some(conflict) = conflict {
            rounds += 1;
            if rounds < accepted.rounds_max && !statement.has_spent_simulations() {
                statement.set_look_ahead(false);
                excluded.insert(conflict);
                statement.return_capacity(state.capacity);
                continue;
            }
            solved = accepted.drop_conflicts(statement, solved);
        }
        statement.set_look_ahead(false);
        commit_solutions(statement, &solved, policy);
        statement.record_blocked_by_limit(std::mem::take(&mut state.preemption_limited));
        state.return_inputs(statement, &mut accepted.inputs, &jobs);
        break accepted.add_solutions(solved);
    }
}

impl SolverState {
    /// Collects the jobs and candidates. Returns `None` if no job may start or no pod is evictable.
    fn new(
        statement: &mut Statement<'_>,
        jobs: &[QueuedJob],
        policy: &impl EvictionPolicy,
        inputs: &mut SearchInputs,
    ) -> Option<Self> {
        let mut capacity = statement.take_capacity();
        let session: &Session<'_> = statement;
        // Only a placed job changes whether another may start.
        let context = SearchContext::new(session, session.accounts(), &capacity);
        let preemptors = jobs.iter().map(|job| Preemptor::new(session, *job));
        let startable = preemptors.filter(|preemptor| policy.may_start(&context, preemptor));
        let mut move_bounds = None;
        let may_place = |preemptor| {
            has_room_after_moves(session, policy, &mut move_bounds, &mut capacity, &preemptor)
        };
        if !startable.into_iter().any(may_place) {
            statement.return_capacity(capacity);
            return None;
        }
        let candidates = inputs.take_candidates(session, policy.search_mode());
        if candidates.queues().next().is_none() {
            statement.return_capacity(capacity);
            return None;
        }
        let pending = inputs.take_pending(session, jobs);
        Some(Self {
            candidates,
            capacity,
            pending,
            common_order: None,
            move_bounds,
            preemption_limited: Vec::new(),
            has_solved: false,
        })
    }

    /// Gives back what later actions can use.
    fn return_inputs(
        self,
        statement: &mut Statement<'_>,
        inputs: &mut SearchInputs,
        jobs: &[QueuedJob],
    ) {
        statement.return_capacity(self.capacity);
        if !self.has_solved {
            inputs.return_unchanged(self.candidates, jobs, self.pending);
        }
    }

    /// Removes the job and its victims, and returns the queues whose accounts changed.
    fn record_solved(
        &mut self,
        session: &Session<'_>,
        preemptor: &Preemptor,
        solution: &Solution,
    ) -> BTreeSet<QueueId> {
        (self.common_order, self.move_bounds) = (None, None);
        self.has_solved = true;
        self.pending.remove_job(preemptor.queue, preemptor.key);
        if let Some(more) = queued_job(session, preemptor.group) {
            self.pending.insert_job(&more, job_class(session, preemptor.group));
        }
        let mut touched = BTreeSet::from([preemptor.queue]);
        for unit in solution.evicted_units() {
            self.candidates.remove_unit(unit);
            touched.insert(unit.queue);
        }
        for queue in &touched {
            self.pending.on_accounts_changed(session.accounts(), *queue);
        }
        touched
    }
}

/// Searches victims for one job after the other, each on top of the solutions before it.
fn solve_each(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    jobs: impl Iterator<Item = QueuedJob>,
    policy: &impl EvictionPolicy,
    accepted: &mut AcceptedSolutions,
) -> Vec<SolvedJob> {
    let mut job_queue = JobsByQueue::new(statement.accounts(), jobs);
    let mut failed_jobs = FailedJobCache::default();
    let (mut solved, mut preemptions) = (Vec::new(), 0);
    let mut victim_groups = BTreeSet::new();
    // The accounts since the last solution.
    let mut accounts_before = None::<QueueAccounts>;
    while let Some(job) = job_queue.pop_next_job(statement.accounts()) {
        if policy.counts_as_preemption() && !statement.allows_another_preemptor(preemptions) {
            let rest = std::iter::from_fn(|| job_queue.pop_next_job(statement.accounts()));
            let rest: Vec<QueuedJob> = std::iter::once(job).chain(rest).collect();
            record_preemption_limited(statement, state, &rest, &victim_groups, policy);
            break;
        }
        let preemptor = Preemptor::new(statement, job);
        if victim_groups.contains(&preemptor.group)
            || !may_search(statement, state, &preemptor, policy)
        {
            continue;
        }
        let demand = JobDemand::new(statement, &preemptor);
        if let Some(failed) = demand.as_ref().and_then(|demand| failed_jobs.find_covering(demand)) {
            record_protection(statement, &preemptor, failed.protection);
            continue;
        }
        // After the first solution the cluster is another one.
        let memory = if solved.is_empty() { accepted.current_memory(statement) } else { None };
        let mut remembered = memory.and_then(|memory| {
            Some((memory, FailedSearch::new(statement, policy.action(), &preemptor)?))
        });
        if let Some((memory, search)) = &mut remembered
            && let Some(counts) = memory.find_failed(statement, search, preemptor.group)
        {
            statement.count_scenarios(counts);
            let scope = failure_scope(statement.accounts(), &preemptor, policy);
            if let Some(demand) = demand {
                failed_jobs.insert_failed_job(demand, None, scope);
            }
            continue;
        }
        let counts_before = statement.scenario_counts();
        let accounts: &QueueAccounts =
            accounts_before.get_or_insert_with(|| statement.accounts().clone());
        let context = SearchContext::new(statement, accounts, &state.capacity);
        let start = statement.checkpoint();
        let found = search_for_job(statement, state, &context, &preemptor, policy);
        if found.is_some() && is_preemption_delayed(statement, preemptor.group) {
            statement.undo_to(start);
            statement.record_blocked_by_delay(preemptor.group);
            continue;
        }
        let Some((solution, causes)) = found else {
            let protection =
                find_longest_protection(statement, state, &context, &preemptor, policy);
            record_protection(statement, &preemptor, protection);
            let scope = failure_scope(accounts, &preemptor, policy);
            if let Some(demand) = demand {
                failed_jobs.insert_failed_job(demand, protection, scope);
            }
            if let Some((memory, search)) = remembered {
                let counts = statement.scenario_counts().since(counts_before);
                memory.insert_failed(statement, search, preemptor.group, counts);
            }
            continue;
        };
        accounts_before = None;
        preemptions += usize::from(!solution.victims.is_empty());
        victim_groups.extend(solution.evicted_units().map(|unit| unit.group));
        for queue in state.record_solved(statement, &preemptor, &solution) {
            job_queue.on_accounts_changed(statement.accounts(), queue);
        }
        state.capacity.follow_changes(statement);
        solved.push(SolvedJob { preemptor, solution, mode: policy.search_mode(), causes });
    }
    solved
}

/// Whether the rules of the action let a search start for the job and counts do not show that it
/// fails.
fn may_search(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
) -> bool {
    let context = SearchContext::new(statement, statement.accounts(), &state.capacity);
    if !policy.may_start(&context, preemptor) {
        return false;
    }
    let SolverState { move_bounds, capacity, .. } = state;
    let has_room = has_room_after_moves(statement, policy, move_bounds, capacity, preemptor);
    if !has_room {
        debug_assert!(
            statement.profile.victim_search.simulations_max().is_some()
                || !is_solvable(statement, state, preemptor, policy),
            "counts rejected a job for which pods can move"
        );
        statement.count_filtered();
    }
    has_room
}

/// Whether a search finds a solution for the job. Debug builds check with it that counts reject
/// only jobs for which there is none.
fn is_solvable(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
) -> bool {
    let (accounts, start) = (statement.accounts().clone(), statement.checkpoint());
    let counts = statement.scenario_counts();
    let context = SearchContext::new(statement, &accounts, &state.capacity);
    let found = search_for_job(statement, state, &context, preemptor, policy);
    statement.undo_to(start);
    statement.restore_scenario_counts(counts);
    found.is_some()
}

/// Whether the job may have a place once pods moved; `true` if the action does not only move pods.
fn has_room_after_moves(
    session: &Session<'_>,
    policy: &impl EvictionPolicy,
    bounds: &mut Option<MoveBounds>,
    capacity: &mut CapacityIndex,
    job: &Preemptor,
) -> bool {
    match policy.search_mode() {
        SearchMode::Evict => true,
        SearchMode::Move => bounds
            .get_or_insert_with(|| MoveBounds::new(session, capacity))
            .may_place(session, capacity, job),
    }
}

/// For which jobs a failed search for the job shows that they fail, too.
fn failure_scope(
    accounts: &QueueAccounts,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
) -> FailureScope {
    // The limit of its own queue says nothing about jobs of others.
    let is_in_limit = LimitCheck::default().allows_job(accounts, preemptor);
    if is_in_limit { policy.failure_scope() } else { FailureScope::Queue }
}

/// Records which of these jobs have victims although they exceed the preemption limit, as far as
/// the first searches show.
fn record_preemption_limited(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    jobs: &[QueuedJob],
    victim_groups: &BTreeSet<PodGroupId>,
    policy: &impl EvictionPolicy,
) {
    let accounts = statement.accounts().clone();
    let mut known: Vec<(JobDemand, bool)> = Vec::new();
    let mut searches = 0;
    for job in jobs.iter().filter(|job| !victim_groups.contains(&job.key.group())) {
        let preemptor = Preemptor::new(statement, *job);
        let context = SearchContext::new(statement, &accounts, &state.capacity);
        if !policy.may_start(&context, &preemptor)
            || is_preemption_delayed(statement, preemptor.group)
        {
            continue;
        }
        let demand = JobDemand::new(statement, &preemptor);
        let same = known.iter().find(|(known, _)| demand.as_ref() == Some(known));
        let needs_victims = if let Some((_, needs_victims)) = same {
            *needs_victims
        } else if searches == SEARCHES_OVER_LIMIT_MAX {
            continue;
        } else {
            searches += 1;
            let start = statement.checkpoint();
            let found = search_for_job(statement, state, &context, &preemptor, policy);
            statement.undo_to(start);
            found.is_some_and(|(solution, _)| !solution.victims.is_empty())
        };
        if needs_victims {
            state.preemption_limited.push(preemptor.group);
        }
        known.extend(demand.map(|demand| (demand, needs_victims)));
    }
}

fn commit_solutions(
    statement: &mut Statement<'_>,
    solved: &[SolvedJob],
    policy: &impl EvictionPolicy,
) {
    if policy.counts_as_preemption() {
        let preempt = solved.iter().filter(|job| !job.solution.victims.is_empty());
        statement.count_preemptions(preempt.count());
    }
    let causes: BTreeMap<PodId, &EvictionCause> =
        solved.iter().flat_map(|job| &job.causes).map(|(pod, cause)| (*pod, cause)).collect();
    statement.commit_evictions(|pod| causes[&pod].clone());
}

fn is_preemption_delayed(session: &Session<'_>, group: PodGroupId) -> bool {
    let group = session.group(group);
    min_runtime::remaining_preemption_delay(session.snapshot.now, group).is_some()
}

/// Searches for a solution for the job. The solution is applied, but not committed.
fn search_for_job(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    context: &SearchContext<'_>,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
) -> Option<(Solution, BTreeMap<PodId, EvictionCause>)> {
    let is_candidate =
        |unit: &EvictableUnit| policy.remaining_protection(context, preemptor, unit).is_none();
    let solution = search_among(statement, state, context, preemptor, policy, is_candidate)?;
    let causes = eviction_causes(statement, context, preemptor, policy, &solution);
    Some((solution, causes))
}

/// The eviction cause of each evicted pod. Other jobs that come first and take freed capacity are
/// named as preemptors of the units that they take, if the rules allow them to evict those units.
/// The remaining units, and always the last one, are evicted for the job itself.
fn eviction_causes(
    session: &Session<'_>,
    context: &SearchContext<'_>,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
    solution: &Solution,
) -> BTreeMap<PodId, EvictionCause> {
    let job_ahead = |(group, share): &(PodGroupId, PerResource<i64>)| {
        Some((Preemptor::new(session, queued_job(session, *group)?), *share))
    };
    let mut jobs_ahead: Vec<(Preemptor, PerResource<i64>)> =
        solution.jobs_ahead.iter().filter_map(job_ahead).collect();
    let mut causes = BTreeMap::new();
    let last = solution.evicted_units().last().map(|unit| unit.key);
    for unit in solution.evicted_units() {
        let may_be_evicted_for = |other: &Preemptor| {
            other.group != unit.group
                && policy.may_start(context, other)
                && policy.may_evict_from(context, other, unit.queue)
                && policy.remaining_protection(context, other, unit).is_none()
        };
        let mut takers = jobs_ahead.iter_mut().filter(|(other, _)| may_be_evicted_for(other));
        let cause = match takers.next().filter(|_| Some(unit.key) != last) {
            None => policy.eviction_cause(context, preemptor, unit),
            Some((other, left)) => {
                *left = left.minus(unit.amount);
                policy.eviction_cause(context, other, unit)
            }
        };
        jobs_ahead.retain(|(_, left)| left.values().iter().any(|left| *left > 0));
        causes.extend(unit.pods.iter().map(|(pod, _)| (*pod, cause.clone())));
    }
    causes
}

/// The victim with the longest remaining minimum run time, among those that would be evicted for an
/// unsolved job if no minimum run time applied.
fn find_longest_protection(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    context: &SearchContext<'_>,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
) -> Option<MinRuntimeProtection> {
    if !statement.has_min_runtimes() {
        return None;
    }
    let remaining = |unit: &EvictableUnit| {
        policy.remaining_protection(context, preemptor, unit).unwrap_or_default()
    };
    let is_candidate = |unit: &EvictableUnit| remaining(unit) < Duration::MAX;
    let candidates = &state.candidates;
    let queues =
        candidates.queues().filter(|queue| policy.may_evict_from(context, preemptor, *queue));
    let mut units = queues.flat_map(|queue| candidates.units_worst_first(queue, None));
    if !units.any(|unit| is_candidate(unit) && !remaining(unit).is_zero()) {
        return None;
    }
    drop(units);
    let start = statement.checkpoint();
    let solution = search_among(statement, state, context, preemptor, policy, is_candidate);
    statement.undo_to(start);
    let solution = solution?;
    let protected = solution.evicted_units().filter(|unit| !remaining(unit).is_zero());
    let longest = protected.max_by_key(|unit| remaining(unit))?;
    let ran = statement.snapshot.now.elapsed_since(statement.group(longest.group).last_start?);
    let is_reclaim = policy.action() == Action::Reclaim;
    let field = if is_reclaim { "reclaimMinRuntime" } else { "preemptMinRuntime" };
    Some(MinRuntimeProtection { victim: longest.group, field, minimum: remaining(longest) + ran })
}

fn record_protection(
    statement: &mut Statement<'_>,
    preemptor: &Preemptor,
    protection: Option<MinRuntimeProtection>,
) {
    if let Some(protection) = protection {
        statement.record_min_runtime_protection(preemptor.group, protection);
    }
}

/// Searches among the units for which `is_candidate` holds. If the action's rules accept no
/// solution, narrower searches follow.
fn search_among(
    statement: &mut Statement<'_>,
    state: &mut SolverState,
    context: &SearchContext<'_>,
    preemptor: &Preemptor,
    policy: &impl EvictionPolicy,
    is_candidate: impl Fn(&EvictableUnit) -> bool,
) -> Option<Solution> {
    if statement.has_spent_simulations()
        || !statement.pods_may_run_after_evictions(preemptor.group, &preemptor.pods)
    {
        return None;
    }
    let eligibility = |pod: PodId| statement.shape_eligibility(pod);
    let shapes = preemptor.pods.iter().map(|pod| (*pod, statement.pod(*pod).shape));
    state.capacity.track_shapes(shapes, eligibility);
    let mut searcher = JobSearcher { state, context, preemptor, policy, is_candidate };
    match searcher.search_for_job(statement, None) {
        SearchOutcome::Solved(solution) => Some(solution),
        SearchOutcome::NotFound => None,
        SearchOutcome::Rejected => {
            let restrictions = policy.narrower_searches(context, preemptor);
            let mut outcomes = restrictions
                .iter()
                .map(|restriction| searcher.search_for_job(statement, Some(restriction)));
            outcomes.find_map(SearchOutcome::into_solution)
        }
    }
}

/// Runs the searches for one job.
struct JobSearcher<'a, 'c, P, C> {
    state: &'a mut SolverState,
    context: &'a SearchContext<'c>,
    preemptor: &'a Preemptor,
    policy: &'a P,
    is_candidate: C,
}

impl<P: EvictionPolicy, C: Fn(&EvictableUnit) -> bool> JobSearcher<'_, '_, P, C> {
    fn search_for_job(
        &mut self,
        statement: &mut Statement<'_>,
        restriction: Option<&NarrowerSearch>,
    ) -> SearchOutcome {
        let Self { state, context, preemptor, policy, is_candidate } = self;
        let SolverState { candidates, capacity, pending, common_order, .. } = &mut **state;
        let accounts = context.accounts;
        let is_inside = |queue: &QueueId| {
            let around = restriction.and_then(|restriction| restriction.within);
            around.is_none_or(|around| accounts.path_to_root(*queue).any(|above| above == around))
        };
        let queues = candidates
            .queues()
            .filter(|queue| is_inside(queue) && policy.may_evict_from(context, preemptor, *queue));
        let is_other_job =
            |unit: &EvictableUnit| unit.group != preemptor.group && is_candidate(unit);
        let accepts = |solution: &Solution| policy.accepts_solution(context, preemptor, solution);
        let required_domains = statement.required_domains(preemptor.group, &preemptor.pods);
        let open_domains = OpenDomains::new(statement, capacity, preemptor);
        let share_bounds =
            restriction.map_or(&[][..], |restriction| restriction.share_bounds.as_slice());
        let limits = LimitCheck::with_share_bounds(share_bounds);
        let (nodes, shapes) = (statement.snapshot.nodes.len(), statement.snapshot.shapes.len());
        let search = Search {
            statement,
            capacity,
            pending,
            preemptor,
            accepts,
            mode: policy.search_mode(),
            required_domains: required_domains.as_deref(),
            open_domains,
            last_trials: BTreeMap::new(),
            assumed_evicted: Vec::new(),
            evicted_on_node: vec![0; nodes],
            failed_evictions: BTreeSet::new(),
            is_within_limits: limits.allows_job(accounts, preemptor),
            share_bounds,
            is_rejected: false,
            is_contested: false,
            shapes_in_vain: vec![None; shapes],
            blocking_shape: None,
            shapes_with_room: BTreeSet::new(),
            trials: 0,
            jobs_ahead: Vec::new(),
        };
        let is_common = policy.considers_same_units_for_all() && restriction.is_none();
        if is_common && !candidates.has_units_of(preemptor.queue, preemptor.group) {
            let all = || VictimOrder::new(candidates, accounts, candidates.queues(), |_| true);
            let order = common_order.get_or_insert_with(|| all().cloned().collect());
            search.run_search(order.iter())
        } else {
            let victims = VictimOrder::new(candidates, accounts, queues, is_other_job);
            let mut remaining = RemainingUse::default();
            search.run_search(victims.filter(|unit| {
                restriction.is_none()
                    || policy.may_evict_next(context, preemptor, &mut remaining, unit)
            }))
        }
    }
}

/// Returns the job, if it has pods to place next.
pub(super) fn queued_job(session: &Session<'_>, id: PodGroupId) -> Option<QueuedJob> {
    let (group, members) = (session.group(id), session.members(id));
    let Ok(Some(queue)) = group.queue else { return None };
    if !members.has_waiting() || group.is_skipped || members.check_gang_ready(group).is_err() {
        return None;
    }
    let request = session.fair_share_request(&session.next_chunk(id));
    Some(QueuedJob { queue, key: session.current_job_key(id), request })
}

pub(super) fn job_class(session: &Session<'_>, id: PodGroupId) -> JobClass {
    let pods = session.next_chunk(id);
    let signature = SchedulingSignature::for_pods(session, id, &pods)?;
    Some((signature, pods.len(), session.group(id).preemptible))
}
