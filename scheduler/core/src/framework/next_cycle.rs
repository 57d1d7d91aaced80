//! The state in which the next cycle starts if nothing else happens.

use super::{PodState, Session, Statement};
use crate::{
    model::{NodeId, PodId},
    queues::Charge,
};

/// How a pod's node changed in this cycle, so that its request differs in the next one.
enum NodeChange {
    /// It left this node and is pending.
    Left(NodeId),
    /// It was bound to this one.
    Bound(NodeId),
}

impl Statement<'_> {
    /// Divides the cluster again: a bound pod requests its charge on its node, a pod that left its
    /// node that of a pending pod.
    pub(crate) fn redivide_fair_shares(&mut self) {
        for pod in self.pod_ids() {
            let (Some(turned), Some((queue, _))) =
                (self.node_change(pod), self.queue_and_group(pod))
            else {
                continue;
            };
            let waiting = self.pending_charge(pod);
            let (more, less) = match turned {
                NodeChange::Left(node) => (waiting, self.charge_on(pod, node)),
                NodeChange::Bound(node) => (self.charge_on(pod, node), waiting),
            };
            self.session.queues.accounts.add_request(queue, &more);
            self.session.queues.accounts.remove_request(queue, &less);
        }
        self.session.queues.accounts.divide(self.snapshot);
    }
}

impl Session<'_> {
    fn node_change(&self, pod: PodId) -> Option<NodeChange> {
        match (self.pod(pod).node, self.state(pod)) {
            (Some(from), PodState::Pending) => Some(NodeChange::Left(from)),
            (None, PodState::Allocated(node)) => Some(NodeChange::Bound(node)),
            (Some(_) | None, _) => None,
        }
    }

    /// Skipped groups request nothing.
    fn pending_charge(&self, pod: PodId) -> Charge {
        let is_left_alone = self.pod(pod).group.is_some_and(|it| self.group(it).is_skipped);
        if is_left_alone {
            Charge::default()
        } else {
            self.queues.charges.for_fair_share(self.pod(pod).shape)
        }
    }
}
