//! Whether who was evicted, or only waits, would find a place on any node.

use std::collections::BTreeSet;

use super::{Likeness, Manner, Unit};
use crate::{
    model::{PodGroupId, PodId, ShapeId},
    resources::{Amount, PerResource},
    session::Session,
};

/// Looks for places on any node, but not where there can be none: `left` is all that is free on
/// all nodes together, and a shape that found no place finds none later.
pub(super) struct Elsewhere {
    left: PerResource<i64>,
    homeless: BTreeSet<ShapeId>,
    manner: Manner,
    /// Gangs that move as a whole.
    moving: BTreeSet<PodGroupId>,
    /// Bystanders that would not fit, and how many pods of theirs.
    harmless: BTreeSet<(Likeness, usize)>,
}

impl Elsewhere {
    pub(super) fn new(left: PerResource<i64>, manner: Manner) -> Self {
        let (homeless, harmless) = (BTreeSet::new(), BTreeSet::new());
        Self { left, homeless, manner, moving: BTreeSet::new(), harmless }
    }

    /// The gang moves as a whole.
    pub(super) fn moves(&self, group: PodGroupId) -> bool {
        self.moving.contains(&group)
    }

    /// The next pods of a job that only waits, promised what was made for another, where they may
    /// have it. KAI does not ask, and may evict the same pods again and again.
    pub(super) fn gains(&mut self, session: &mut Session<'_>, group: PodGroupId) -> Vec<PodId> {
        let pods = session.next_chunk(group);
        if !session.may_be_placed(group) {
            return Vec::new();
        }
        let alike = Likeness::of(session, group, &pods).map(|alike| (alike, pods.len()));
        if alike.as_ref().is_some_and(|alike| self.harmless.contains(alike)) {
            return Vec::new();
        }
        if session.promise_all(&pods) {
            self.take(session.share_of(&pods));
            return pods;
        }
        self.harmless.extend(alike);
        Vec::new()
    }

    pub(super) fn take(&mut self, amount: PerResource<i64>) {
        self.left = self.left.minus(amount);
    }

    pub(super) fn find_place(&mut self, session: &mut Session<'_>, unit: &Unit) -> bool {
        let shapes: BTreeSet<ShapeId> =
            unit.pods.iter().map(|(pod, _)| session.pod(*pod).shape).collect();
        if !unit.amount.within(self.left.map(Amount::Exactly))
            || !self.homeless.is_disjoint(&shapes)
        {
            return false;
        }
        if !within_limits(session, unit) {
            return false;
        }
        let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
        let found = session.promise_all(&pods);
        let group = session.group(unit.group);
        if found {
            self.let_stay(session, unit.group, &pods);
        } else if pods.len() == 1 && !(group.is_placed() || group.left_alone) {
            self.homeless.extend(shapes);
        }
        found
    }

    /// Who would be back where it was stays: always when that is true of all, else only where
    /// gangs may be split.
    fn let_stay(&mut self, session: &mut Session<'_>, group: PodGroupId, pods: &[PodId]) {
        let back: Vec<PodId> =
            pods.iter().copied().filter(|pod| session.is_promised_what_it_has(*pod)).collect();
        let all_stay = back.len() == pods.len() && !self.moving.contains(&group);
        if !all_stay && self.manner == Manner::Evict {
            self.moving.insert(group);
            return;
        }
        for pod in back {
            session.restore(pod);
        }
    }
}

/// Would the unit's queue, and all above it, keep their limits if it came back?
pub(super) fn within_limits(session: &Session<'_>, unit: &Unit) -> bool {
    let (ledger, nothing, due) = (session.ledger(), PerResource::default(), unit.due(session));
    ledger.path(unit.queue).all(|queue| ledger.keeps_limit(queue, due, nothing))
}
