//! Reclaim: a queue takes back its fair share from other queues, by the rules in
//! [`crate::queues::reclaim`]. Job priorities do not matter across queues. Minimum run times
//! protect the minimum of gangs, never their elastic pods.

use std::time::Duration;

use crate::{
    framework::Statement,
    model::QueueId,
    plan::EvictionCause,
    profile::Action,
    queues::{
        queue_usage_lines,
        reclaim::{Reclaimer, RemainingUse, Victims},
    },
    resources::PerResource,
    solver::{
        AcceptedSolutions, EvictableUnit, EvictionPolicy, NarrowerSearch, Preemptor, SearchContext,
        Solution, UnitPortion, min_runtime, solve_pending_jobs,
    },
};

/// Searches victims in other queues for each pending job whose queue is below its fair share.
pub fn run(statement: &mut Statement<'_>, accepted: &mut AcceptedSolutions) {
    solve_pending_jobs(statement, &Reclaim, accepted);
}

struct Reclaim;

impl EvictionPolicy for Reclaim {
    fn action(&self) -> Action {
        Action::Reclaim
    }

    fn may_start(&self, context: &SearchContext<'_>, preemptor: &Preemptor) -> bool {
        reclaimer_of(preemptor).may_reclaim(context.accounts)
    }

    fn may_evict_from(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        queue: QueueId,
    ) -> bool {
        queue != preemptor.queue
            && reclaimer_of(preemptor).may_reclaim_from(context.accounts, queue)
    }

    fn remaining_protection(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        unit: &EvictableUnit,
    ) -> Option<Duration> {
        match unit.portion {
            UnitPortion::Elastic => None,
            UnitPortion::Minimum => {
                min_runtime::reclaim_protection(context, preemptor.queue, unit.group)
            }
        }
    }

    /// Narrower searches, tried when no solution was acceptable. A queue may not end over its fair
    /// share when it takes from a sibling, so the searches go level by level upward, and ancestors
    /// that would exceed their fair shares first take back what their own queues borrowed.
    fn narrower_searches(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
    ) -> Vec<NarrowerSearch> {
        let (accounts, nothing) = (context.accounts, PerResource::default());
        let mut restrictions = Vec::new();
        let mut share_bounds = Vec::new();
        for queue in accounts.path_to_root(preemptor.queue) {
            if !accounts.fits_fair_share(queue, preemptor.share_request, nothing) {
                share_bounds.push(queue);
            }
            let within = accounts.account(queue).parent;
            restrictions.push(NarrowerSearch { within, share_bounds: share_bounds.clone() });
        }
        restrictions
    }

    fn may_evict_next(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        remaining: &mut RemainingUse,
        unit: &EvictableUnit,
    ) -> bool {
        reclaimer_of(preemptor).take_next_amount(
            context.accounts,
            remaining,
            unit.queue,
            unit.amount,
        )
    }

    fn accepts_solution(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        solution: &Solution,
    ) -> bool {
        let mut victims = Victims::new();
        let moved =
            if context.profile.allow_consolidating_reclaim { &[][..] } else { &solution.moved };
        for unit in solution.victims.iter().chain(moved) {
            victims.entry(unit.queue).or_default().push(unit.amount);
        }
        reclaimer_of(preemptor).may_reclaim_all(
            context.accounts,
            &victims,
            context.profile.reclaim_saturation_milli,
        )
    }

    fn counts_as_preemption(&self) -> bool {
        true
    }

    fn eviction_cause(
        &self,
        context: &SearchContext<'_>,
        preemptor: &Preemptor,
        unit: &EvictableUnit,
    ) -> EvictionCause {
        let usage = queue_usage_lines(
            context.accounts,
            &context.snapshot.queues,
            preemptor.queue,
            unit.queue,
        );
        EvictionCause::Reclaim { preemptor: preemptor.group, usage: usage.into() }
    }
}

fn reclaimer_of(preemptor: &Preemptor) -> Reclaimer {
    Reclaimer {
        queue: preemptor.queue,
        preemptible: preemptor.preemptible,
        request: preemptor.share_request,
    }
}
