//! Reclaim: a queue takes back from others what it deserves, by the rules in
//! [`crate::queues::reclaim`]. Priorities of jobs do not matter across queues; minimum run times
//! protect gangs, never their elastic surplus.

use std::time::Duration;

use crate::{
    decision::EvictionCause,
    model::QueueId,
    profile::Action,
    queues::{
        reclaim::{Reclaimer, Victims},
        usage_lines,
    },
    session::Session,
    victims::{Before, Piece, Purpose, Solution, Solved, Unit, Wanted, protection, serve},
};

/// Serves every job whose queue deserves more than it has.
pub(crate) fn run(session: &mut Session<'_>, solved: &mut Solved) {
    serve(session, &Reclaim, solved);
}

struct Reclaim;

impl Purpose for Reclaim {
    fn action(&self) -> Action {
        Action::Reclaim
    }

    fn may_start(&self, before: &Before<'_>, wanted: &Wanted) -> bool {
        reclaimer(wanted).may_start(before.ledger)
    }

    fn may_take_from(&self, before: &Before<'_>, wanted: &Wanted, queue: QueueId) -> bool {
        queue != wanted.queue && reclaimer(wanted).may_take_from(before.ledger, queue)
    }

    fn protected_for(&self, before: &Before<'_>, wanted: &Wanted, unit: &Unit) -> Option<Duration> {
        match unit.piece {
            Piece::Surplus => None,
            Piece::Core => protection::from_reclaim(before, wanted.queue, unit.group),
        }
    }

    fn accepts(&self, before: &Before<'_>, wanted: &Wanted, solution: &Solution) -> bool {
        let mut victims = Victims::new();
        let moved = if before.profile.consolidating_reclaim { &[][..] } else { &solution.moved };
        for unit in solution.victims.iter().chain(moved) {
            victims.entry(unit.queue).or_default().push(unit.amount);
        }
        reclaimer(wanted).may_take(before.ledger, &victims, before.profile.reclaim_saturation_milli)
    }

    fn is_preemption(&self) -> bool {
        true
    }

    fn cause(&self, before: &Before<'_>, wanted: &Wanted, unit: &Unit) -> EvictionCause {
        let queues = (wanted.queue, unit.queue);
        let usage = usage_lines(before.ledger, &before.snapshot.queues, queues);
        EvictionCause::Reclaim { preemptor: wanted.group, usage: usage.into() }
    }
}

fn reclaimer(wanted: &Wanted) -> Reclaimer {
    Reclaimer { queue: wanted.queue, preemptible: wanted.preemptible, request: wanted.share }
}
