//! The order in which victims are considered: the worst unit of the queue that exceeds its share
//! most; then the next one, as if the first had been evicted. Explanations list victims in that
//! order, without a search.

use std::collections::BTreeMap;

use super::{
    EvictableUnit, EvictionCandidates, SearchContext, SearchMode, UnitKey, UnitPortion, min_runtime,
};
use crate::{
    framework::Session,
    model::QueueId,
    queues::{OrderPurpose, QueueAccounts, QueueCandidate, QueueOrder, reclaim::Reclaimer},
    resources::PerResource,
};

/// An iterator over the candidates for eviction of one search, in the order in which they are
/// considered.
pub(crate) struct VictimOrder<'a, F> {
    candidates: &'a EvictionCandidates,
    accounts: &'a QueueAccounts,
    is_candidate: F,
    queue_order: QueueOrder,
    queues: BTreeMap<QueueId, QueueCandidates<'a>>,
}

/// For one queue, the amount already evicted and the next candidate.
#[derive(Clone, Copy, Default)]
struct QueueCandidates<'a> {
    evicted: PerResource<i64>,
    next: Option<&'a EvictableUnit>,
}

impl<'a, F: Fn(&EvictableUnit) -> bool> VictimOrder<'a, F> {
    /// Creates the order of the units of `queues` for which `is_candidate` holds.
    pub(crate) fn new(
        candidates: &'a EvictionCandidates,
        accounts: &'a QueueAccounts,
        queues: impl Iterator<Item = QueueId>,
        is_candidate: F,
    ) -> Self {
        let queue_order = QueueOrder::new(accounts, OrderPurpose::Evict);
        let mut order =
            Self { candidates, accounts, is_candidate, queue_order, queues: BTreeMap::new() };
        for queue in queues {
            order.advance_queue(queue, PerResource::default(), None);
        }
        order
    }

    /// Makes the first candidate after `last_unit` the next unit of `queue`.
    fn advance_queue(
        &mut self,
        queue: QueueId,
        evicted: PerResource<i64>,
        last_unit: Option<UnitKey>,
    ) {
        let next = self
            .candidates
            .units_worst_first(queue, last_unit)
            .find(|unit| (self.is_candidate)(unit));
        self.queues.insert(queue, QueueCandidates { evicted, next });
        let candidate = next.map(|unit| QueueCandidate {
            job: PerResource::default(),
            victims: evicted.plus(unit.amount),
        });
        self.queue_order.set_candidate(self.accounts, queue, candidate);
    }
}

impl<'a, F: Fn(&EvictableUnit) -> bool> Iterator for VictimOrder<'a, F> {
    type Item = &'a EvictableUnit;

    fn next(&mut self) -> Option<&'a EvictableUnit> {
        let queue = self.queue_order.best_queue()?;
        let QueueCandidates { evicted, next } = self.queues.get(&queue).copied()?;
        let unit = next?;
        self.advance_queue(queue, evicted.plus(unit.amount), Some(unit.key));
        Some(unit)
    }
}

/// The units that reclaim would consider for `reclaimer`; empty if it may not start.
pub fn reclaim_candidates(session: &Session<'_>, reclaimer: Reclaimer) -> Vec<EvictableUnit> {
    let accounts = session.accounts();
    let (snapshot, profile, free) = (session.snapshot, session.profile, PerResource::default());
    let context = SearchContext { snapshot, profile, accounts, free };
    let candidates = EvictionCandidates::new(session, SearchMode::Evict);
    let queues = candidates
        .queues()
        .filter(|queue| *queue != reclaimer.queue && reclaimer.may_reclaim_from(accounts, *queue));
    let is_candidate = |unit: &EvictableUnit| match unit.portion {
        UnitPortion::Elastic => true,
        UnitPortion::Minimum => {
            min_runtime::reclaim_protection(&context, reclaimer.queue, unit.group).is_none()
        }
    };
    if reclaimer.may_reclaim(accounts) {
        VictimOrder::new(&candidates, accounts, queues, is_candidate).cloned().collect()
    } else {
        Vec::new()
    }
}

/// The units of `queue` and of the queues below it, in the order in which others would evict them.
pub fn eviction_order(session: &Session<'_>, queue: QueueId) -> Vec<EvictableUnit> {
    let accounts = session.accounts();
    let candidates = EvictionCandidates::new(session, SearchMode::Evict);
    let below =
        candidates.queues().filter(|leaf| accounts.path_to_root(*leaf).any(|above| above == queue));
    VictimOrder::new(&candidates, accounts, below, |_| true).cloned().collect()
}
