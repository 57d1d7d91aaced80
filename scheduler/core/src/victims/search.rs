//! The search for victims. Units are imagined gone one after the other, in the order in which
//! they are considered, until the counts of [`Rooms`] say that the job could fit; only then it
//! is tried for real ([`super::trial`]). So a hopeless job costs one walk over the candidates,
//! and no trial.

use std::collections::{BTreeMap, BTreeSet};

use super::{Apart, Backlog, Manner, Rooms, Solution, Unit, Wanted};
use crate::{
    model::{NodeId, PodGroupId, QueueId, ShapeId},
    queues::Ledger,
    resources::PerResource,
    session::Session,
};

/// After so many trials in a row, only every so often another one.
const EAGER_TRIALS: usize = 16;
/// The same once a cycle has tried [`TRIALS_MAX`] times: each trial costs, and what it evicts and
/// does not need stays.
const LATE_TRIALS: usize = 1;
const TRIALS_MAX: usize = 512;

/// One search for one job.
pub(crate) struct Search<'a, 's, 'p, A> {
    pub(crate) session: &'a mut Session<'s>,
    pub(crate) rooms: &'a mut Rooms,
    /// All that waits, the job included.
    pub(crate) backlog: &'p Backlog,
    pub(crate) wanted: &'p Wanted,
    /// Is what it takes acceptable?
    pub(crate) accepts: A,
    pub(crate) manner: Manner,
    /// Places that the job is required to keep to: all of it fits into one of them.
    pub(crate) places: Option<&'p [BTreeSet<NodeId>]>,
    /// The last trial in each of them.
    pub(crate) tried: BTreeMap<usize, Tried>,
    /// Where each pod needs a place of its own.
    pub(crate) apart: Option<Apart>,
    /// Candidates that are imagined gone.
    pub(crate) gone: Vec<&'p Unit>,
    /// In a trial, others came before the job and took room that was made for it.
    pub(crate) is_contested: bool,
    /// In the last one, these did, and so much of it.
    pub(crate) ahead: Vec<(PodGroupId, PerResource<i64>)>,
}

/// The job was tried in a place, and failed. Until another candidate there is gone, too, it fails
/// there again.
#[derive(Clone, Copy)]
pub(crate) struct Tried {
    /// How many candidates were gone.
    pub(super) gone: usize,
    /// The latest of them had been there, and its nodes were preferred.
    pub(super) latest_was_there: bool,
}

impl<'p, A: Fn(&Solution) -> bool> Search<'_, '_, 'p, A> {
    /// Walks over `candidates` until the job has its places and what that takes is acceptable.
    /// Then the session shows it, not committed; otherwise the session is as it was.
    pub(crate) fn run(mut self, candidates: impl Iterator<Item = &'p Unit>) -> Option<Solution> {
        let needed = self.wanted.pods_by_shape(self.session);
        let mut limits = Limits::default();
        let (mut trials, mut next_trial, mut untried) = (0, 0, false);
        let mut solution = None;
        for unit in candidates {
            self.imagine_gone(unit);
            limits.give(self.session.ledger(), unit);
            if !self.counts_suffice(&needed) || !limits.suffice(self.session.ledger(), self.wanted)
            {
                self.session.count_filtered();
                continue;
            }
            untried = self.gone.len() < next_trial;
            if untried {
                continue;
            }
            let before = self.session.scenarios().simulated;
            solution = self.try_for_real(&needed);
            if solution.is_some() {
                break;
            }
            if self.session.scenarios().simulated == before {
                continue;
            }
            trials += 1;
            let is_late = self.session.scenarios().simulated > TRIALS_MAX;
            let in_a_row = if is_late { LATE_TRIALS } else { EAGER_TRIALS };
            let pause = if trials < in_a_row { 1 } else { self.gone.len() / 8 + 1 };
            next_trial = self.gone.len() + pause;
        }
        if untried && solution.is_none() {
            solution = self.try_for_real(&needed);
        }
        self.rooms.forget();
        solution
    }

    fn imagine_gone(&mut self, unit: &'p Unit) {
        for &(pod, node) in &unit.pods {
            let (shape, groups) = (self.session.shape_of(pod), self.session.held_gpu_groups(pod));
            self.rooms.imagine_gone((node, self.session.node(node)), shape, groups);
        }
        if let Some(apart) = &mut self.apart {
            apart.note_gone(self.rooms, unit);
        }
        self.gone.push(unit);
    }

    fn counts_suffice(&self, needed: &BTreeMap<ShapeId, u64>) -> bool {
        let in_all = needed.iter().all(|(shape, count)| self.rooms.total(*shape) >= *count);
        let in_one = |place| self.suffice_in(needed, place);
        in_all
            && self.apart.as_ref().is_none_or(Apart::suffices)
            && self.places.is_none_or(|places| places.iter().any(in_one))
    }

    pub(super) fn suffice_in(
        &self,
        needed: &BTreeMap<ShapeId, u64>,
        place: &BTreeSet<NodeId>,
    ) -> bool {
        needed.iter().all(|(shape, count)| {
            let in_place = place.iter().map(|node| u64::from(self.rooms.on(*shape, *node)));
            in_place.sum::<u64>() >= *count
        })
    }
}

/// What the candidates that are imagined gone give back to the queues above the job.
#[derive(Default)]
pub(super) struct Limits {
    given: BTreeMap<QueueId, PerResource<i64>>,
}

impl Limits {
    pub(super) fn give(&mut self, ledger: &Ledger, unit: &Unit) {
        for queue in ledger.path(unit.queue) {
            let given = self.given.entry(queue).or_default();
            *given = given.plus(unit.amount);
        }
    }

    pub(super) fn suffice(&self, ledger: &Ledger, wanted: &Wanted) -> bool {
        ledger.path(wanted.queue).all(|queue| {
            let given = self.given.get(&queue).copied().unwrap_or_default();
            ledger.keeps_limit(queue, wanted.request, given)
        })
    }
}
