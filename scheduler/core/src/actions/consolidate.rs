//! Consolidation: moves running pods to free contiguous capacity for a pending preemptible job.
//! Every evicted pod is pipelined onto another node, and the number of moved jobs is limited. With
//! a spread placement strategy the action does nothing.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    framework::Statement,
    model::{PodGroupId, QueueId},
    plan::EvictionCause,
    profile::{Action, Placement},
    solver::{
        AcceptedSolutions, EvictableUnit, EvictionPolicy, FailureScope, Preemptor, SearchContext,
        SearchMode, Solution, solve_pending_jobs,
    },
};

/// Searches victims that can move to other nodes, for each pending preemptible job that fits after
/// those moves.
pub fn run(statement: &mut Statement<'_>, accepted: &mut AcceptedSolutions) {
    let profile = statement.profile;
    if ![profile.gpu_placement, profile.cpu_placement].contains(&Placement::Spread) {
        solve_pending_jobs(
            statement,
            &Consolidate { victims_max: profile.consolidation_victims_max },
            accepted,
        );
    }
}

struct Consolidate {
    victims_max: usize,
}

impl EvictionPolicy for Consolidate {
    fn action(&self) -> Action {
        Action::Consolidate
    }

    fn may_start(&self, context: &SearchContext<'_>, preemptor: &Preemptor) -> bool {
        let amounts = preemptor.request.values().into_iter().zip(context.free.values());
        preemptor.preemptible && amounts.into_iter().all(|(requested, free)| requested <= free)
    }

    fn may_evict_from(&self, _: &SearchContext<'_>, _: &Preemptor, _: QueueId) -> bool {
        true
    }

    fn remaining_protection(
        &self,
        _: &SearchContext<'_>,
        _: &Preemptor,
        _: &EvictableUnit,
    ) -> Option<Duration> {
        None
    }

    fn accepts_solution(&self, _: &SearchContext<'_>, _: &Preemptor, solution: &Solution) -> bool {
        let jobs: BTreeSet<PodGroupId> = solution.moved.iter().map(|unit| unit.group).collect();
        solution.victims.is_empty() && jobs.len() <= self.victims_max
    }

    fn search_mode(&self) -> SearchMode {
        SearchMode::Move
    }

    /// Jobs of all queues may move the same pods, so equal jobs of other queues fail, too. KAI also
    /// keeps one cache of failed jobs for all queues.
    fn failure_scope(&self) -> FailureScope {
        FailureScope::AllQueues
    }

    fn considers_same_units_for_all(&self) -> bool {
        true
    }

    fn eviction_cause(
        &self,
        _: &SearchContext<'_>,
        preemptor: &Preemptor,
        _: &EvictableUnit,
    ) -> EvictionCause {
        EvictionCause::Consolidate { preemptor: preemptor.group }
    }
}
