//! The accounts of the queues, and what pods are charged to them: now, and when the next cycle
//! starts.

use super::{PodState, Session, Statement};
use crate::{
    Snapshot,
    framework::Profile,
    model::{NodeId, PodGroup, PodId, QueueId, ShapeId},
    queues::{Charge, ChargeTable, QueueAccounts},
    resources::PerResource,
};

/// The accounts of the queues, and what queues are charged for each pod.
#[derive(Clone, Debug)]
pub(super) struct QueueState {
    pub(super) accounts: QueueAccounts,
    pub(super) charges: ChargeTable,
}

impl QueueState {
    /// The accounts of the queues as in the snapshot.
    pub(super) fn new(snapshot: &Snapshot, profile: &Profile) -> Self {
        let charges = ChargeTable::new(snapshot);
        let accounts = QueueAccounts::new(snapshot, profile.fair_share_rules(), &charges);
        Self { accounts, charges }
    }
}

impl<'s> Session<'s> {
    /// Current accounts of all queues.
    pub const fn accounts(&self) -> &QueueAccounts {
        &self.queues.accounts
    }

    pub(super) fn queue_and_group(&self, pod: PodId) -> Option<(QueueId, &'s PodGroup)> {
        let group = self.group(self.pod(pod).group?);
        group.queue_id().map(|queue| (queue, group))
    }

    /// What the pod's queue is charged while the pod is allocated on or pipelined to `node`.
    pub fn charge_on(&self, pod: PodId, node: NodeId) -> Charge {
        self.queues.charges.charge_on_node(self.pod(pod).shape, self.node(node))
    }

    /// Updates the account of a pod's queue after the pod's node changed.
    pub(super) fn update_charge(
        &mut self,
        pod: PodId,
        before: Option<NodeId>,
        after: Option<NodeId>,
    ) {
        let Some((queue, group)) = self.queue_and_group(pod) else { return };
        let charge = |node| self.charge_on(pod, node);
        let (before, after) = (before.map(charge), after.map(charge));
        if before == after {
            return;
        }
        if let Some(charge) = before {
            self.queues.accounts.refund_queue(queue, &charge, group.preemptible);
        }
        if let Some(charge) = after {
            self.queues.accounts.charge_queue(queue, &charge, group.preemptible);
        }
    }

    /// What the pending pods of a job request together, as counted for fair shares, queue order and
    /// reclaim.
    pub fn fair_share_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::charge_for_fair_share)
    }

    /// What the pending pods of a job request together, as counted for limits and quotas.
    pub fn bounds_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::charge_for_bounds)
    }

    fn additional_charge_for(
        &self,
        pods: &[PodId],
        charge: fn(&ChargeTable, ShapeId) -> Charge,
    ) -> PerResource<i64> {
        let Some(first) = pods.first() else { return PerResource::default() };
        let charges = pods.iter().map(|pod| charge(&self.queues.charges, self.pod(*pod).shape));
        self.additional_charge(*first, &charges.collect())
    }

    /// What the pod's queue would be charged in addition to its present account. For
    /// non-preemptible pods, claims that only preemptible pods use so far count in full.
    pub fn additional_charge(&self, pod: PodId, charge: &Charge) -> PerResource<i64> {
        let Some((queue, group)) = self.queue_and_group(pod) else { return charge.total() };
        let change = self.queues.accounts.additional_charge(queue, charge, group.preemptible);
        if group.preemptible { change.all } else { change.non_preemptible }
    }
}

/// How the node of a pod changed in this cycle, so that the pod's request differs in the next
/// cycle.
enum PodNodeChange {
    /// The pod left this node and is pending.
    Left(NodeId),
    /// The pod was bound to this node.
    Bound(NodeId),
}

impl Statement<'_> {
    /// Divides the fair shares again by the requests after this cycle: a bound pod requests its
    /// charge on its node, and a pod that left its node requests the charge of a pending pod.
    pub(crate) fn redivide_fair_shares(&mut self) {
        for pod in self.pod_ids() {
            let (Some(turned), Some((queue, _))) =
                (self.node_change_of_pod(pod), self.queue_and_group(pod))
            else {
                continue;
            };
            let waiting = self.pending_charge(pod);
            let (more, less) = match turned {
                PodNodeChange::Left(node) => (waiting, self.charge_on(pod, node)),
                PodNodeChange::Bound(node) => (self.charge_on(pod, node), waiting),
            };
            self.session.queues.accounts.add_request(queue, &more);
            self.session.queues.accounts.remove_request(queue, &less);
        }
        self.session.queues.accounts.divide_fair_shares(self.snapshot);
    }
}

impl Session<'_> {
    fn node_change_of_pod(&self, pod: PodId) -> Option<PodNodeChange> {
        match (self.pod(pod).node, self.state(pod)) {
            (Some(from), PodState::Pending) => Some(PodNodeChange::Left(from)),
            (None, PodState::Allocated(node)) => Some(PodNodeChange::Bound(node)),
            (Some(_) | None, _) => None,
        }
    }

    /// The charge that a pending pod requests. Pods of skipped groups request nothing.
    fn pending_charge(&self, pod: PodId) -> Charge {
        let is_left_alone = self.pod(pod).group.is_some_and(|it| self.group(it).is_skipped);
        if is_left_alone {
            Charge::default()
        } else {
            self.queues.charges.charge_for_fair_share(self.pod(pod).shape)
        }
    }
}
