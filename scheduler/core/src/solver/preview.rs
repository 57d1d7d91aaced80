//! Eviction candidates without a search: all candidates of a queue, in the order in which a search
//! would consider them. Explanations list them.

use super::{EvictableUnit, EvictionCandidates, Portion, SearchContext, VictimOrder, min_runtime};
use crate::{
    framework::Session, model::QueueId, queues::reclaim::Reclaimer, resources::PerResource,
};

/// The units that reclaim would consider for `reclaimer`; empty if it may not start.
pub fn reclaim_candidates(session: &Session<'_>, reclaimer: Reclaimer) -> Vec<EvictableUnit> {
    let accounts = session.accounts();
    let (snapshot, profile, free) = (session.snapshot, session.profile, PerResource::default());
    let context = SearchContext { snapshot, profile, accounts, free };
    let candidates = EvictionCandidates::new(session);
    let queues = candidates
        .queues()
        .filter(|queue| *queue != reclaimer.queue && reclaimer.may_take_from(accounts, *queue));
    let is_candidate = |unit: &EvictableUnit| match unit.portion {
        Portion::Elastic => true,
        Portion::Minimum => {
            min_runtime::reclaim_protection(&context, reclaimer.queue, unit.group).is_none()
        }
    };
    if reclaimer.may_start(accounts) {
        VictimOrder::new(&candidates, accounts, queues, is_candidate).cloned().collect()
    } else {
        Vec::new()
    }
}

/// The units of `queue` and of the queues below it, in the order in which others would evict them.
pub fn eviction_order(session: &Session<'_>, queue: QueueId) -> Vec<EvictableUnit> {
    let accounts = session.accounts();
    let candidates = EvictionCandidates::new(session);
    let below = candidates.queues().filter(|leaf| accounts.path(*leaf).any(|above| above == queue));
    VictimOrder::new(&candidates, accounts, below, |_| true).cloned().collect()
}
