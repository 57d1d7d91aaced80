//! The accounts of the queues, and what pods are charged to them.

use super::Session;
use crate::{
    Snapshot,
    framework::Profile,
    model::{NodeId, PodGroup, PodId, QueueId, ShapeId},
    queues::{Charge, ChargeTable, QueueAccounts},
    resources::PerResource,
};

/// The accounts of the queues, and what pods are charged to them.
#[derive(Clone, Debug)]
pub(super) struct QueueState {
    pub(super) accounts: QueueAccounts,
    pub(super) charges: ChargeTable,
}

impl QueueState {
    /// As in the snapshot.
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

    /// What its queue is charged while the pod is allocated on or pipelined to `node`.
    pub fn charge_on(&self, pod: PodId, node: NodeId) -> Charge {
        self.queues.charges.on_node(self.pod(pod).shape, self.node(node))
    }

    /// Charges the queue of a pod that moves between nodes.
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
            self.queues.accounts.refund(queue, &charge, group.preemptible);
        }
        if let Some(charge) = after {
            self.queues.accounts.charge(queue, &charge, group.preemptible);
        }
    }

    /// What the pending pods of a job request together, as counted for fair shares, queue order and
    /// reclaim.
    pub fn fair_share_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::for_fair_share)
    }

    /// What the pending pods of a job request together, as counted for limits and quotas.
    pub fn bounds_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::for_bounds)
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

    /// What the pod's queue would be charged in addition. For non-preemptible work, claims count
    /// that only preemptible work has.
    pub fn additional_charge(&self, pod: PodId, charge: &Charge) -> PerResource<i64> {
        let Some((queue, group)) = self.queue_and_group(pod) else { return charge.total() };
        let change = self.queues.accounts.charge_change(queue, charge, group.preemptible);
        if group.preemptible { change.all } else { change.non_preemptible }
    }
}
