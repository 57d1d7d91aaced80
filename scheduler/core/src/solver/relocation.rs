//! Checks in a scenario whether an evicted unit, or another pending job, would fit on any node.

use std::collections::BTreeSet;

use super::{EvictableUnit, SchedulingSignature, SearchMode};
use crate::{
    framework::{Session, Statement},
    model::{PodGroupId, PodId, QueueId, ShapeId},
    resources::{Amount, PerResource},
};

/// Pipelines evicted units onto any node, and skips units that cannot fit: `free` is the capacity
/// left on all nodes together, and a shape that found no node in this scenario finds none later.
pub(super) struct RelocationCheck<'a> {
    free: PerResource<i64>,
    unplaceable: BTreeSet<ShapeId>,
    mode: SearchMode,
    /// Gangs of which a pod moves, so that all their pods must move.
    moving_gangs: BTreeSet<PodGroupId>,
    /// Signatures and pod counts of pending jobs that did not fit and need not be tried again.
    unaffected: BTreeSet<(SchedulingSignature, usize)>,
    /// Queues that must stay within their fair shares.
    share_bounds: &'a [QueueId],
}

impl<'a> RelocationCheck<'a> {
    pub(super) fn new(
        free: PerResource<i64>,
        mode: SearchMode,
        share_bounds: &'a [QueueId],
    ) -> Self {
        let (unplaceable, unaffected) = (BTreeSet::new(), BTreeSet::new());
        let moving_gangs = BTreeSet::new();
        Self { free, unplaceable, mode, moving_gangs, unaffected, share_bounds }
    }

    /// Whether the queues in `share_bounds` stay within their fair shares if the unit is placed
    /// again.
    pub(super) fn is_within_shares(&self, session: &Session<'_>, unit: &EvictableUnit) -> bool {
        if self.share_bounds.is_empty() {
            return true;
        }
        let (accounts, nothing) = (session.accounts(), PerResource::default());
        let charge = unit.requeue_charge(session);
        let mut bounded =
            accounts.path_to_root(unit.queue).filter(|queue| self.share_bounds.contains(queue));
        bounded.all(|queue| accounts.fits_fair_share(queue, charge, nothing))
    }

    /// Whether all pods of the gang must move.
    pub(super) fn is_moving(&self, group: PodGroupId) -> bool {
        self.moving_gangs.contains(&group)
    }

    /// Pipelines the next pods of another pending job that comes before the preemptor, and returns
    /// these pods; empty if they do not fit. KAI does not simulate these jobs, and may evict the
    /// same pods again and again.
    pub(super) fn pipeline_pending(
        &mut self,
        statement: &mut Statement<'_>,
        group: PodGroupId,
    ) -> Vec<PodId> {
        let pods = statement.next_chunk(group);
        if !statement.may_be_placed(group) {
            return Vec::new();
        }
        let signature = SchedulingSignature::for_pods(statement, group, &pods)
            .map(|signature| (signature, pods.len()));
        if signature.as_ref().is_some_and(|signature| self.unaffected.contains(signature)) {
            return Vec::new();
        }
        if statement.pipeline_all(&pods) {
            self.consume_free_capacity(statement.fair_share_request(&pods));
            return pods;
        }
        self.unaffected.extend(signature);
        Vec::new()
    }

    pub(super) fn consume_free_capacity(&mut self, amount: PerResource<i64>) {
        self.free = self.free.minus(amount);
    }

    pub(super) fn relocate_unit(
        &mut self,
        statement: &mut Statement<'_>,
        unit: &EvictableUnit,
    ) -> bool {
        let shapes: BTreeSet<ShapeId> =
            unit.pods.iter().map(|(pod, _)| statement.pod(*pod).shape).collect();
        if !unit.amount.is_within(self.free.map(Amount::Exactly))
            || !self.unplaceable.is_disjoint(&shapes)
        {
            return false;
        }
        if !is_within_limits(statement, unit) || !self.is_within_shares(statement, unit) {
            return false;
        }
        let pods: Vec<PodId> = unit.pods.iter().map(|(pod, _)| *pod).collect();
        let is_placed = statement.pipeline_all(&pods);
        let group = statement.group(unit.group);
        if is_placed {
            self.restore_in_place(statement, unit.group, &pods);
        } else if pods.len() == 1 && !(group.has_topology_constraint() || group.is_skipped) {
            self.unplaceable.extend(shapes);
        }
        is_placed
    }

    /// Restores pods that were pipelined onto the node they had. If this holds for only some pods
    /// of a gang, they are restored only in mode [`SearchMode::Move`]; in [`SearchMode::Evict`] the
    /// gang moves whole.
    fn restore_in_place(
        &mut self,
        statement: &mut Statement<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) {
        let in_place: Vec<PodId> =
            pods.iter().copied().filter(|pod| statement.is_pipelined_in_place(*pod)).collect();
        let all_stay = in_place.len() == pods.len() && !self.moving_gangs.contains(&group);
        if !all_stay && self.mode == SearchMode::Evict {
            self.moving_gangs.insert(group);
            return;
        }
        for pod in in_place {
            statement.cancel_eviction(pod);
        }
    }
}

/// Whether the queue of the unit and all queues above it stay within their limits if the unit is
/// placed again.
pub(super) fn is_within_limits(session: &Session<'_>, unit: &EvictableUnit) -> bool {
    let (accounts, nothing, charge) =
        (session.accounts(), PerResource::default(), unit.requeue_charge(session));
    accounts.path_to_root(unit.queue).all(|queue| accounts.fits_limit(queue, charge, nothing))
}
