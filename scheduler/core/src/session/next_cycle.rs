//! How the next cycle begins, if nothing else happens: for whoever would know what it decides.

use super::{PodState, Session, parts::PodParts};
use crate::{
    model::{NodeId, PodId},
    queues::Bill,
};

/// What became of a pod in this cycle, as far as it asks for something else in the next one.
enum Turned {
    /// It has left this node, and waits.
    Out(NodeId),
    /// It was bound to this one.
    In(NodeId),
}

impl Session<'_> {
    /// The pod has left the node that it had, if it had one, and waits anew.
    pub fn wait_anew(&mut self, pod: PodId) {
        self.step(pod, PodState::Pending, PodParts::default());
    }

    /// The cluster is divided anew: who was bound asks for what it costs on its node, and who has left
    /// its node for what whoever waits does.
    pub(crate) fn divide_again(&mut self) {
        for pod in self.pod_ids() {
            let (Some(turned), Some((queue, _))) = (self.turned(pod), self.account_of(pod)) else {
                continue;
            };
            let waiting = self.asked_while_waiting(pod);
            let (more, less) = match turned {
                Turned::Out(node) => (waiting, self.bill_on(pod, node)),
                Turned::In(node) => (self.bill_on(pod, node), waiting),
            };
            self.ledger.ask(queue, &more);
            self.ledger.ask_no_more(queue, &less);
        }
        self.ledger.divide(self.snapshot, self.profile);
    }

    fn turned(&self, pod: PodId) -> Option<Turned> {
        match (self.pod(pod).node, self.state(pod)) {
            (Some(from), PodState::Pending) => Some(Turned::Out(from)),
            (None, PodState::Holding(node)) => Some(Turned::In(node)),
            (Some(_) | None, _) => None,
        }
    }

    /// Nobody asks for groups that are left alone.
    fn asked_while_waiting(&self, pod: PodId) -> Bill {
        let is_left_alone = self.pod(pod).group.is_some_and(|it| self.group(it).left_alone);
        if is_left_alone { Bill::default() } else { self.prices.to_share(self.pod(pod).shape) }
    }
}
