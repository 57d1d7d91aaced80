//! Preempt: inside one queue a job takes the place of preemptible ones of strictly lower
//! priority (by how much, the profile says), even beyond the queue's fair share. Minimum run times
//! protect gangs, never their elastic surplus.

use std::time::Duration;

use crate::{
    decision::EvictionCause,
    model::QueueId,
    profile::Action,
    session::Session,
    victims::{Before, Piece, Purpose, Solution, Solved, Unit, Wanted, protection, serve},
};

/// Serves every job that outranks running ones of its queue.
pub(crate) fn run(session: &mut Session<'_>, solved: &mut Solved) {
    serve(session, &Preempt, solved);
}

struct Preempt;

impl Purpose for Preempt {
    fn action(&self) -> Action {
        Action::Preempt
    }

    fn may_start(&self, before: &Before<'_>, wanted: &Wanted) -> bool {
        wanted.preemptible || before.ledger.keeps_quotas(wanted.queue, wanted.request)
    }

    fn may_take_from(&self, _: &Before<'_>, wanted: &Wanted, queue: QueueId) -> bool {
        queue == wanted.queue
    }

    fn protected_for(&self, before: &Before<'_>, wanted: &Wanted, unit: &Unit) -> Option<Duration> {
        let [running, waiting] =
            [unit.group, wanted.group].map(|group| i64::from(before.group(group).priority));
        if waiting - running < i64::from(before.profile.priority_difference_min.max(1)) {
            return Some(Duration::MAX);
        }
        match unit.piece {
            Piece::Surplus => None,
            Piece::Core => protection::from_preemption(before, unit.group),
        }
    }

    fn accepts(&self, _: &Before<'_>, _: &Wanted, _: &Solution) -> bool {
        true
    }

    fn is_preemption(&self) -> bool {
        true
    }

    fn cause(&self, _: &Before<'_>, wanted: &Wanted, _: &Unit) -> EvictionCause {
        EvictionCause::Preempt { preemptor: wanted.group }
    }
}
