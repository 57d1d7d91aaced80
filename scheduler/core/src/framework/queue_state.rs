//! The accounts of the queues, and what pods are charged to them: now, and when the next cycle
//! starts.

use std::{collections::BTreeSet, sync::Arc};

use super::{PodState, Session, Statement, pod::PodFacts};
use crate::{
    Snapshot,
    framework::Profile,
    model::{NodeId, PodGroup, PodId, QueueId, ShapeId, SnapshotChanges},
    queues::{Charge, ChargeTable, PodCharge, QueueAccounts, charges_of_pods},
    resources::PerResource,
};

/// The accounts of the queues, and what queues are charged for each pod.
#[derive(Clone, Debug)]
pub(super) struct QueueState {
    pub(super) accounts: QueueAccounts,
    /// The accounts at the start of the cycle.
    initial: Arc<QueueAccounts>,
    pub(super) charges: Arc<ChargeTable>,
    /// What each pod is charged in the snapshot.
    pods: Arc<Vec<PodCharge>>,
}

impl QueueState {
    /// The accounts of the queues as in the snapshot.
    pub(super) fn new(snapshot: &Snapshot, profile: &Profile, pods: &[PodFacts]) -> Self {
        let charges = ChargeTable::new(snapshot);
        let charged = charges_of_pods(snapshot, &charges);
        let rules = profile.fair_share_rules();
        let accounts =
            QueueAccounts::from_charges(snapshot, rules, &charges, &charged, ungrouped(pods));
        let initial = Arc::new(accounts.clone());
        Self { accounts, initial, charges: Arc::new(charges), pods: Arc::new(charged) }
    }

    /// Follows changes of the snapshot: `pods` are those that changed or were inserted, `facts` are
    /// about all pods.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        changes: &SnapshotChanges,
        pods: &[PodId],
        facts: &[PodFacts],
    ) {
        let charges = ChargeTable::new(snapshot);
        let is_exact = charges.has_same_gpus(&self.charges)
            && !charges.depends_on_other_pods()
            && !self.charges.depends_on_other_pods()
            && !self.accounts.may_saturate();
        if !is_exact {
            *self = Self::new(snapshot, profile, facts);
            return;
        }
        let known = Arc::make_mut(&mut self.pods);
        let nothing = PodCharge::nothing();
        for gone in changes.pod_edit.removed() {
            self.accounts.replace_pod(&known[*gone as usize], &nothing);
        }
        changes.pod_edit.apply(known, |_| PodCharge::nothing());
        for id in pods {
            let (at, pod) = (id.0 as usize, &snapshot.pods[id.0 as usize]);
            let charge = PodCharge::of_pod(snapshot, &charges, pod);
            self.accounts.replace_pod(&known[at], &charge);
            known[at] = charge;
        }
        self.accounts.count_total(snapshot, &charges, ungrouped(facts));
        self.accounts.divide_fair_shares(snapshot);
        self.charges = Arc::new(charges);
        self.initial = Arc::new(self.accounts.clone());
    }

    /// Restores the accounts of the start of the cycle.
    pub(super) fn restore(&mut self) {
        self.accounts = QueueAccounts::clone(&self.initial);
    }

    /// Whether both hold the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.accounts == other.accounts && self.pods == other.pods
    }
}

fn ungrouped(pods: &[PodFacts]) -> impl Iterator<Item = PodId> {
    let pods = (0..).map(PodId).zip(pods);
    pods.filter(|(_, facts)| facts.group.is_none()).map(|(id, _)| id)
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
        let touched: BTreeSet<PodId> = self.session.pods.touched_pods().collect();
        for pod in touched {
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
