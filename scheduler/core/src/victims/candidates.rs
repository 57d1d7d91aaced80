//! Whom a queue could make leave, without a search: all candidates, in the order in which they
//! would be considered.

use super::{Before, Piece, Pool, Unit, VictimLine, protection};
use crate::{model::QueueId, queues::reclaim::Reclaimer, resources::PerResource, session::Session};

/// Units that reclaim would consider for `reclaimer`; none where it may not start.
pub(crate) fn reclaim_candidates(session: &Session<'_>, reclaimer: Reclaimer) -> Vec<Unit> {
    let ledger = session.ledger();
    let (snapshot, profile, free) = (session.snapshot, session.profile, PerResource::default());
    let before = Before { snapshot, profile, ledger, free };
    let pool = Pool::new(session);
    let queues = pool
        .queues()
        .filter(|queue| *queue != reclaimer.queue && reclaimer.may_take_from(ledger, *queue));
    let may_go = |unit: &Unit| match unit.piece {
        Piece::Surplus => true,
        Piece::Core => protection::from_reclaim(&before, reclaimer.queue, unit.group).is_none(),
    };
    if reclaimer.may_start(ledger) {
        VictimLine::new(&pool, ledger, queues, may_go).cloned().collect()
    } else {
        Vec::new()
    }
}

/// The units of `queue` and of those below it, those first that others would take first.
pub(crate) fn first_to_leave(session: &Session<'_>, queue: QueueId) -> Vec<Unit> {
    let ledger = session.ledger();
    let pool = Pool::new(session);
    let below = pool.queues().filter(|leaf| ledger.path(*leaf).any(|above| above == queue));
    VictimLine::new(&pool, ledger, below, |_| true).cloned().collect()
}
