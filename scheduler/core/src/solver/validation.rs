//! Validates the solutions of all actions of a cycle together. Each solution was found alone, on
//! accounts that later solutions change: a victim of the first job may come before that job once
//! its queue lost more pods, and the same pods would be evicted again and again. So the next cycle
//! is simulated: all victims are gone, and pending jobs are allocated as they would be then.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    EvictableUnit, Preemptor, SearchInputs, SearchMemory, SearchMode, Solution,
    scenario::can_unit_stay,
};
use crate::{
    framework::{Checkpoint, PodState, Session, Statement},
    model::{PodGroupId, PodId, QueueId},
    plan::EvictionCause,
};

/// The solutions that the actions of a cycle accepted so far.
pub struct AcceptedSolutions {
    jobs: Vec<SolvedJob>,
    /// Whether all jobs of earlier actions keep their pipelined capacity, judged before the present
    /// action.
    earlier_are_upheld: bool,
    next_cycle: NextCycle,
    /// Maximum number of rounds in which conflicting jobs are excluded and the others are searched
    /// again; then the conflicting solutions are dropped.
    pub(super) rounds_max: usize,
    /// What cycles remember of failed searches; `None` if they remember nothing.
    memory: Option<SearchMemory>,
    /// Number of decisions of the cycle when the memory was compared with the cluster.
    compared_at: Option<usize>,
    /// What the searches of the cycle read.
    pub(super) inputs: SearchInputs,
}

const ROUNDS_MAX: usize = 3;

/// Number of conflicting jobs that are dropped one by one. After that, the next conflict drops all
/// later jobs, too.
const SINGLE_DROPS_MAX: usize = 8;

/// Allocates all pending jobs, as the next cycle does before it evicts.
pub type NextCycle = fn(&mut Statement<'_>);

/// A job with the solution that was found for it.
pub(crate) struct SolvedJob {
    pub(super) preemptor: Preemptor,
    pub(super) solution: Solution,
    pub(super) mode: SearchMode,
    /// The eviction cause of each evicted pod.
    pub(super) causes: BTreeMap<PodId, EvictionCause>,
}

/// Numbers of pods by pod group.
type PodCounts = BTreeMap<PodGroupId, usize>;

/// The pods that the simulated next cycle places.
#[derive(Default)]
struct NextCycleOutcome {
    /// Numbers of pods that must be placed, by group. It does not matter which pods of the group
    /// they are.
    expected: PodCounts,
    /// Numbers of pods that the next cycle places, by group.
    placed: PodCounts,
    /// Queues of the placed pods.
    gaining_queues: BTreeSet<QueueId>,
    /// Numbers of pods that were evicted in this cycle, by group.
    lost: PodCounts,
}

impl NextCycleOutcome {
    /// Records a pod that is pending when the next cycle starts, and whether that cycle places it.
    fn record_pod(&mut self, session: &Session<'_>, pod: PodId, is_placed: bool) {
        let Some(group) = session.pod(pod).group else { return };
        let leaves = matches!(session.state(pod), PodState::Releasing(_) | PodState::Moving { .. });
        if leaves || session.pod(pod).node.is_some() {
            *self.lost.entry(group).or_default() += 1;
        }
        if is_placed {
            *self.placed.entry(group).or_default() += 1;
            self.gaining_queues.extend(session.group(group).queue_id());
        }
    }

    fn record_expected(&mut self, job: &SolvedJob) {
        for (group, pods) in job.expected_pods() {
            *self.expected.entry(group).or_default() += pods;
        }
    }

    /// Groups that get more pods placed than expected, and more than they lost.
    fn groups_above_expected(&self) -> impl Iterator<Item = PodGroupId> {
        let is_more = |group: &PodGroupId| {
            let placed = self.placed.get(group);
            placed > self.expected.get(group) && placed > self.lost.get(group)
        };
        self.placed.keys().copied().filter(is_more)
    }

    fn has_expected(&self, group: PodGroupId) -> bool {
        self.placed.get(&group) >= self.expected.get(&group)
    }

    /// Whether the next cycle places the pods of the job.
    fn places_job(&self, job: &SolvedJob) -> bool {
        self.has_expected(job.preemptor.group)
    }

    /// Whether the next cycle places all pods that only move for the job.
    fn places_moved_pods(&self, job: &SolvedJob) -> bool {
        let mut moving = job.moved_units();
        moving.all(|unit| self.has_expected(unit.group))
    }

    /// Whether the next cycle places all moved pods and no victim of the job.
    fn returns_no_victim(&self, job: &SolvedJob) -> bool {
        let mut victims = job.solution.victims.iter();
        self.places_moved_pods(job) && !victims.any(|unit| self.placed.contains_key(&unit.group))
    }

    /// Whether the solution still holds in the next cycle: the job and the pods moved for it are
    /// placed. It also holds if other jobs that come first took the pipelined capacity, unless
    /// those are victims, other jobs of the victims' queues, or the job evicted pods of its own
    /// queue.
    fn upholds_solution(&self, job: &SolvedJob) -> bool {
        if self.places_job(job) {
            return self.places_moved_pods(job);
        }
        match job.mode {
            SearchMode::Evict => {
                let mut losing = job.solution.victims.iter().map(|unit| unit.queue);
                !losing.any(|queue| {
                    queue == job.preemptor.queue || self.gaining_queues.contains(&queue)
                })
            }
            SearchMode::Move => {
                self.places_moved_pods(job) && self.groups_above_expected().next().is_some()
            }
        }
    }
}

impl SolvedJob {
    /// The pods that must be placed, by group: those of the job and those that only move for it.
    fn expected_pods(&self) -> impl Iterator<Item = (PodGroupId, usize)> {
        let moving = self.moved_units().map(|unit| (unit.group, unit.pods.len()));
        moving.chain([(self.preemptor.group, self.preemptor.pods.len())])
    }

    /// Units that must be placed again: the moved units, if the action only moves pods.
    fn moved_units(&self) -> impl Iterator<Item = &EvictableUnit> {
        self.solution.evicted_units().filter(|_| self.mode == SearchMode::Move)
    }

    /// Applies the solution again. Returns whether it works: the job and all moved units are
    /// placed, and no victim could stay.
    fn reapply(&self, statement: &mut Statement<'_>) -> bool {
        for (pod, _) in self.solution.evicted_units().flat_map(|unit| &unit.pods) {
            statement.evict(*pod);
        }
        let moves = |statement: &mut Statement<'_>, unit: &EvictableUnit| {
            let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
            statement.pipeline_all(&pods)
                && !pods.iter().all(|pod| statement.is_pipelined_in_place(*pod))
        };
        self.preemptor.pipeline_pods(statement)
            && self.solution.moved.iter().all(|unit| moves(statement, unit))
            && !self.solution.victims.iter().any(|unit| can_unit_stay(statement, unit))
    }

    fn has_evictions(&self) -> bool {
        self.solution.evicted_units().next().is_some()
    }
}

impl AcceptedSolutions {
    /// Starts a cycle without solutions.
    pub fn new(next_cycle: NextCycle) -> Self {
        Self::with_rounds(next_cycle, ROUNDS_MAX)
    }

    /// Like [`Self::new`], with at most `rounds_max` rounds of searches.
    pub fn with_rounds(next_cycle: NextCycle, rounds_max: usize) -> Self {
        Self {
            jobs: Vec::new(),
            earlier_are_upheld: true,
            next_cycle,
            rounds_max,
            memory: None,
            compared_at: None,
            inputs: SearchInputs::default(),
        }
    }

    /// Skips searches that failed in earlier cycles and would fail again.
    pub(crate) fn set_memory(&mut self, memory: SearchMemory) {
        self.memory = Some(memory);
    }

    /// The memory for the next cycle.
    pub(crate) fn into_memory(self) -> Option<SearchMemory> {
        self.memory
    }

    /// The memory, without what no longer holds. Without new decisions since the last call the
    /// cluster is the same.
    pub(super) fn current_memory(&mut self, session: &Session<'_>) -> Option<&mut SearchMemory> {
        let decisions = Some(session.decisions().len());
        let memory = self.memory.as_mut()?;
        if self.compared_at != decisions {
            memory.observe_cluster(session);
            self.compared_at = decisions;
        }
        Some(memory)
    }

    /// Checks the solutions of earlier actions again: other jobs may have been placed since.
    pub(super) fn revalidate_earlier(&mut self, session: &Session<'_>) {
        self.earlier_are_upheld = true;
        self.earlier_are_upheld = self.jobs.is_empty() || self.are_upheld(session, &[]);
    }

    /// The groups that lost pods in this cycle.
    pub(super) fn victim_groups(&self) -> impl Iterator<Item = PodGroupId> + '_ {
        let units = self.jobs.iter().flat_map(|job| job.solution.evicted_units());
        units.map(|unit| unit.group)
    }

    /// Adds the solutions of the present action. Solutions without evictions need no further check.
    pub(super) fn add_solutions(&mut self, jobs: Vec<SolvedJob>) {
        self.jobs.extend(jobs.into_iter().filter(SolvedJob::has_evictions));
    }

    /// Returns `None` if every job keeps its pipelined capacity, including those of earlier
    /// actions. Otherwise undoes all changes to `start` and returns the first job of this action
    /// that conflicts with the ones before it.
    pub(super) fn find_conflict(
        &self,
        statement: &mut Statement<'_>,
        start: Checkpoint,
        jobs: &[SolvedJob],
    ) -> Option<PodGroupId> {
        if !jobs.iter().any(SolvedJob::has_evictions) || self.are_upheld(statement, jobs) {
            return None;
        }
        statement.undo_to(start);
        Some(jobs[self.first_conflict(statement, jobs, 0)].preemptor.group)
    }

    /// Drops jobs that conflict with the ones before them, and applies the other solutions again,
    /// without them. Does not search for other jobs instead.
    pub(super) fn drop_conflicts(
        &self,
        statement: &mut Statement<'_>,
        mut jobs: Vec<SolvedJob>,
    ) -> Vec<SolvedJob> {
        let start = statement.checkpoint();
        let (mut upheld, mut dropped) = (0, 0);
        while !jobs.is_empty() {
            let conflict = if self.are_upheld(statement, &jobs) {
                jobs.iter().position(|job| !job.reapply(statement))
            } else {
                Some(self.first_conflict(statement, &jobs, upheld))
            };
            let Some(conflict) = conflict else { break };
            statement.undo_to(start);
            upheld = conflict;
            if dropped == SINGLE_DROPS_MAX {
                jobs.truncate(conflict);
            } else {
                dropped += 1;
                jobs.remove(conflict);
            }
        }
        jobs
    }

    /// The index of the first job that conflicts with the ones before it. Requires that all jobs
    /// together conflict and the first `upheld` jobs do not.
    fn first_conflict(
        &self,
        session: &Session<'_>,
        jobs: &[SolvedJob],
        mut upheld: usize,
    ) -> usize {
        let mut conflict = jobs.len();
        while conflict - upheld > 1 {
            let middle = upheld.midpoint(conflict);
            if self.are_upheld(session, &jobs[..middle]) {
                upheld = middle;
            } else {
                conflict = middle;
            }
        }
        conflict - 1
    }

    /// Whether every job keeps its pipelined capacity, or loses it to jobs that come first.
    fn are_upheld(&self, session: &Session<'_>, jobs: &[SolvedJob]) -> bool {
        let mut next = self.after_evictions(session, jobs);
        let is_pending = |pod: &PodId| next.state(*pod) == PodState::Pending;
        let pending: Vec<PodId> = session.pod_ids().filter(is_pending).collect();
        (self.next_cycle)(&mut next);
        let mut outcome = NextCycleOutcome::default();
        for pod in pending {
            outcome.record_pod(session, pod, next.state(pod).charged_node().is_some());
        }
        let earlier = self.jobs.iter().filter(|_| self.earlier_are_upheld);
        earlier.clone().for_each(|job| outcome.record_expected(job));
        // Other jobs of its queue that come first may take the capacity of an earlier job, as long
        // as none of its victims returns.
        let taking_groups = outcome.groups_above_expected();
        let taking_queues = taking_groups.filter_map(|group| session.group(group).queue_id());
        let taking_queues: BTreeSet<QueueId> = taking_queues.collect();
        let present = || jobs.iter().filter(|job| job.has_evictions());
        present().for_each(|job| outcome.record_expected(job));
        let is_upheld = |job: &SolvedJob| {
            let is_capacity_taken = || taking_queues.contains(&job.preemptor.queue);
            outcome.upholds_solution(job) || outcome.returns_no_victim(job) && is_capacity_taken()
        };
        earlier.clone().all(is_upheld) && present().all(|job| outcome.upholds_solution(job))
    }

    /// The state at the start of the next cycle: the victims of `jobs` and of all earlier solutions
    /// are gone.
    fn after_evictions<'s>(&self, session: &Session<'s>, jobs: &[SolvedJob]) -> Statement<'s> {
        let mut next = Statement::new(session.clone());
        next.set_look_ahead(false);
        for job in self.jobs.iter().chain(jobs) {
            for (pod, _) in job.solution.evicted_units().flat_map(|unit| &unit.pods) {
                next.reset_to_pending(*pod);
            }
        }
        for pod in session.pod_ids() {
            if matches!(next.state(pod), PodState::Pipelined(_)) {
                next.cancel_pipeline(pod);
            }
        }
        next.redivide_fair_shares();
        next
    }
}
