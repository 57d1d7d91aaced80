//! What was tried becomes what is decided.

use std::collections::BTreeMap;

use super::{PodState, Session};
use crate::{
    Decision, EvictionCause,
    model::{GpuGroup, PodId, ZoneShare},
    queues::Ledger,
};

impl Session<'_> {
    /// What was placed and promised since the last commit becomes part of the plan and can no
    /// longer be undone. For transactions without evictions.
    pub fn commit(&mut self) {
        self.commit_evictions(|_| unreachable!("nothing was evicted"));
    }

    /// The same for transactions with evictions: `cause` says for whom and why a pod goes.
    pub fn commit_evictions(&mut self, cause: impl Fn(PodId) -> EvictionCause) {
        let log = std::mem::take(&mut self.log);
        let mut first = BTreeMap::new();
        for change in &log {
            first.entry(change.pod).or_insert(change.before);
        }
        for change in &log {
            if let Some(before) = first.remove(&change.pod) {
                self.decide(change.pod, before, &cause);
            }
        }
    }

    /// The shared devices of pods that were bound or promised room.
    pub fn chosen_gpu_groups(&self) -> BTreeMap<PodId, Vec<GpuGroup>> {
        let groups = self.placed().map(|pod| (pod, self.gpu_groups(pod).to_vec()));
        groups.filter(|(_, groups)| !groups.is_empty()).collect()
    }

    /// What pods that were bound or promised room have of their node's zones.
    pub fn chosen_zones(&self) -> BTreeMap<PodId, Vec<ZoneShare>> {
        let shares = self.placed().map(|pod| (pod, self.zones(pod)));
        shares.filter(|(_, shares)| !shares.is_empty()).collect()
    }

    fn placed(&self) -> impl Iterator<Item = PodId> {
        self.decisions.iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => Some(*pod),
            Decision::Evict { .. } => None,
        })
    }

    /// Everything committed so far, in order, for the plan.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Everything committed so far, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The profile bounds for how many workloads of a cycle others have to leave: besides those
    /// counted, and `more`, for another one?
    pub(crate) fn may_preempt(&self, more: usize) -> bool {
        self.profile.preemptions_max.is_none_or(|most| self.preemptions + more < most)
    }

    /// Others had to leave for so many more.
    pub(crate) fn count_preemptions(&mut self, more: usize) {
        self.preemptions += more;
    }

    /// Books what was decided in the accounts of before, as the next cycle will find it: who is
    /// bound is charged, who was asked to leave is not any more and asks for nothing. Promises
    /// are kept, or not, by later cycles.
    pub(crate) fn book_decisions(&self, ledger: &mut Ledger) {
        for decision in &self.decisions {
            let (pod, node) = match decision {
                Decision::Bind { pod, node } => (*pod, Some(*node)),
                Decision::Evict { pod, .. } => (*pod, None),
                Decision::Pipeline { .. } => continue,
            };
            let Some((queue, group)) = self.account_of(pod) else { continue };
            if let Some(node) = node {
                let bill = self.bill_on(pod, node);
                ledger.charge(queue, &bill, group.preemptible);
                ledger.ask(queue, &bill);
                ledger.ask_no_more(queue, &self.prices.to_share(self.pod(pod).shape));
            } else if let Some(from) = self.pod(pod).node {
                let bill = self.bill_on(pod, from);
                ledger.refund(queue, &bill, group.preemptible);
                ledger.ask_no_more(queue, &bill);
            }
        }
    }

    fn decide(&mut self, pod: PodId, before: PodState, cause: &impl Fn(PodId) -> EvictionCause) {
        let after = self.state(pod);
        let was_holding = matches!(before, PodState::Holding(_));
        let leaves = matches!(after, PodState::Releasing(_) | PodState::Moving { .. });
        if was_holding && leaves {
            self.decisions.push(Decision::Evict { pod, cause: cause(pod) });
        }
        if before == after {
            return;
        }
        match after {
            PodState::Holding(node) if !was_holding => {
                self.decisions.push(Decision::Bind { pod, node });
            }
            PodState::Promised(node) | PodState::Moving { to: node, .. } => {
                self.decisions.push(Decision::Pipeline { pod, node });
            }
            PodState::Holding(_)
            | PodState::Pending
            | PodState::Gated
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::Away
            | PodState::Lost
            | PodState::Finished => {}
        }
    }
}
