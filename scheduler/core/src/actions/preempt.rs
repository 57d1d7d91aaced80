//! Preempt: within one queue a job evicts preemptible jobs of strictly lower priority (the profile
//! sets the minimum difference), even if its queue is over its fair share. Minimum run times
//! protect the minimum of gangs, never their elastic pods.

use std::time::Duration;

use crate::{
    framework::Statement,
    model::QueueId,
    plan::EvictionCause,
    profile::Action,
    solver::{
        AcceptedSolutions, EvictableUnit, EvictionPolicy, Preemptor, SearchContext, Solution,
        UnitPortion, min_runtime, solve_pending_jobs,
    },
};

/// Searches victims for each pending job among running jobs of the same queue with a lower
/// priority.
pub fn run(statement: &mut Statement<'_>, accepted: &mut AcceptedSolutions) {
    solve_pending_jobs(statement, &Preempt, accepted);
}

struct Preempt;

impl EvictionPolicy for Preempt {
    fn action(&self) -> Action {
        Action::Preempt
    }

    fn may_start(&self, context: &SearchContext<'_>, preemptor: &Preemptor) -> bool {
        preemptor.preemptible || context.accounts.fits_quotas(preemptor.queue, preemptor.request)
    }

    fn may_evict_from(&self, _: &SearchContext<'_>, preemptor: &Preemptor, queue: QueueId) -> bool {
        queue == preemptor.queue
    }

    fn remaining_protection(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        unit: &EvictableUnit,
    ) -> Option<Duration> {
        let [running, waiting] =
            [unit.group, preemptor.group].map(|group| i64::from(context.group(group).priority));
        if waiting - running < i64::from(context.profile.priority_difference_min.max(1)) {
            return Some(Duration::MAX);
        }
        match unit.portion {
            UnitPortion::Elastic => None,
            UnitPortion::Minimum => min_runtime::preempt_protection(context, unit.group),
        }
    }

    fn accepts_solution(&self, _: &SearchContext<'_>, _: &Preemptor, _: &Solution) -> bool {
        true
    }

    fn counts_as_preemption(&self) -> bool {
        true
    }

    fn eviction_cause(
        &self,
        _: &SearchContext<'_>,
        preemptor: &Preemptor,
        _: &EvictableUnit,
    ) -> EvictionCause {
        EvictionCause::Preempt { preemptor: preemptor.group }
    }
}
