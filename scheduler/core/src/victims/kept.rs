//! What the next cycle would make of all that the actions of this one solved. Each solution was
//! tried alone, on accounts that the later ones change: who was evicted for the first job may come
//! before it once others have left its queue, too, and the same pods would be evicted again and
//! again.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Backlog, Free, Manner, Solution, Unit, Wanted,
    elsewhere::Elsewhere,
    returning::{Entry, Returning},
    units::on_return,
};
use crate::{
    decision::EvictionCause,
    model::{PodGroupId, PodId},
    resources::PerResource,
    session::{Checkpoint, PodState, Session},
};

/// A job that was served, and who leaves or moves for it.
pub(crate) struct Served {
    pub(super) wanted: Wanted,
    pub(super) solution: Solution,
    /// What the pods that are evicted are told.
    pub(super) causes: BTreeMap<PodId, EvictionCause>,
}

/// Nothing, if every job of this action keeps what it was promised, with what the actions before
/// it solved. Otherwise the session is as it was at `start`, and the first job is told that does
/// not go with those before it.
pub(super) fn spoiler(
    session: &mut Session<'_>,
    start: Checkpoint,
    backlog: &Backlog,
    (earlier, served, manner): (&[Served], &[Served], Manner),
) -> Option<PodGroupId> {
    let evicts = served.iter().any(|served| served.solution.units().next().is_some());
    // Whoever else comes before those that move was not asked when they were promised a place.
    let alone = manner == Manner::Evict && earlier.is_empty() && served.len() < 2;
    if alone || !evicts || are_kept(session, backlog, (earlier, served, manner)) {
        return None;
    }
    session.undo_to(start);
    let first_is_kept = manner == Manner::Evict && earlier.is_empty();
    let (mut kept, mut spoiled) = (usize::from(first_is_kept), served.len());
    while spoiled - kept > 1 {
        let middle = kept.midpoint(spoiled);
        if are_kept(session, backlog, (earlier, &served[..middle], manner)) {
            kept = middle;
        } else {
            spoiled = middle;
        }
    }
    Some(served[spoiled - 1].wanted.group)
}

/// All are served again in their turns, with those that left and those that wait, as if everybody
/// had left; who only moves comes back somewhere. The session is as it was afterwards.
fn are_kept(
    session: &mut Session<'_>,
    backlog: &Backlog,
    (earlier, served, manner): (&[Served], &[Served], Manner),
) -> bool {
    let all = || earlier.iter().chain(served);
    let new: BTreeSet<&[PodId]> = served.iter().map(|served| &*served.wanted.pods).collect();
    let is_new = |job: &Wanted| new.contains(&*job.pods);
    let start = session.checkpoint();
    let evicted = || all().flat_map(|served| served.solution.units());
    for (pod, _) in evicted().flat_map(|unit| &unit.pods) {
        if matches!(session.state(*pod), PodState::Holding(_)) {
            session.evict(*pod);
        } else {
            session.withdraw(*pod);
        }
    }
    let jobs = || all().map(|served| &served.wanted);
    jobs().flat_map(|job| &job.pods).for_each(|pod| session.withdraw(*pod));
    let free = session.node_ids().map(|node| Free::of(session, node).accounted());
    let back = on_return(session, evicted());
    // What pods share by claims is free once, and each of them asks for it.
    let claims =
        |unit: &&Unit| unit.pods.iter().any(|(pod, _)| !session.shape_of(*pod).claims.is_empty());
    let more = back.iter().map(AsRef::as_ref).filter(claims).map(|unit| unit.amount);
    let free = free.chain(more).fold(PerResource::default(), PerResource::plus);
    let mut elsewhere = Elsewhere::new(free, Manner::Evict);
    let mut returning = Returning::new(session, backlog, jobs(), back.iter().map(AsRef::as_ref));
    let (mut are_kept, mut waiting) = (true, served.len());
    while are_kept && (waiting > 0 || manner == Manner::Move) {
        returning.let_step_aside(session);
        let Some(entry) = returning.next(session.ledger()) else { break };
        let (queue, amount) = match entry {
            Entry::Job(job) => {
                let (is_new, is_served) = (is_new(job), job.promise(session));
                are_kept = is_served || !is_new;
                waiting -= usize::from(is_new);
                if !is_served {
                    continue;
                }
                (job.queue, job.request)
            }
            Entry::Unit(unit) if elsewhere.find_place(session, unit) => (unit.queue, unit.amount),
            Entry::Unit(unit) => {
                are_kept = manner == Manner::Evict;
                returning.lost(unit);
                continue;
            }
            Entry::Bystander(bystander) => {
                returning.pass(session, &mut elsewhere, bystander);
                continue;
            }
        };
        elsewhere.take(amount);
        returning.accounts_changed(session.ledger(), queue);
    }
    session.undo_to(start);
    are_kept
}
