//! Turns the changes of a session into decisions of the plan.

use std::collections::BTreeMap;

use super::{PodState, Session};
use crate::{
    Decision, EvictionCause,
    model::{GpuGroup, NumaAllocation, PodId},
    queues::QueueAccounts,
};

impl Session<'_> {
    /// Adds the pods allocated and pipelined since the last commit to the plan; they can no longer
    /// be undone. Panics if pods were evicted.
    pub fn commit(&mut self) {
        self.commit_evictions(|_| unreachable!("nothing was evicted"));
    }

    /// Like [`Self::commit`], for transactions with evictions; `cause` returns why a pod is
    /// evicted.
    pub fn commit_evictions(&mut self, cause: impl Fn(PodId) -> EvictionCause) {
        let log = std::mem::take(&mut self.log);
        let mut first = BTreeMap::new();
        for change in &log {
            first.entry(change.pod).or_insert(change.before);
        }
        for change in &log {
            if let Some(before) = first.remove(&change.pod) {
                self.record_decision(change.pod, before, &cause);
            }
        }
    }

    /// The shared GPUs of pods that were bound or pipelined.
    pub fn chosen_gpu_groups(&self) -> BTreeMap<PodId, Vec<GpuGroup>> {
        let groups = self.placed_pods().map(|pod| (pod, self.gpu_groups(pod).to_vec()));
        groups.filter(|(_, groups)| !groups.is_empty()).collect()
    }

    /// What pods that were bound or pipelined get of their node's NUMA zones.
    pub fn chosen_numa_allocations(&self) -> BTreeMap<PodId, Vec<NumaAllocation>> {
        let shares = self.placed_pods().map(|pod| (pod, self.numa_allocations(pod)));
        shares.filter(|(_, shares)| !shares.is_empty()).collect()
    }

    fn placed_pods(&self) -> impl Iterator<Item = PodId> {
        self.decisions.iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => Some(*pod),
            Decision::Evict { .. } => None,
        })
    }

    /// Returns and clears everything committed so far, in order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Everything committed so far, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Whether the profile's limit allows one more job to evict others, besides those counted and
    /// `more`.
    pub(crate) fn may_preempt(&self, more: usize) -> bool {
        self.profile.preemptions_max.is_none_or(|most| self.preemptions + more < most)
    }

    /// Counts `more` jobs that evicted others.
    pub(crate) fn count_preemptions(&mut self, more: usize) {
        self.preemptions += more;
    }

    /// Applies the decisions to the accounts as of the start of the cycle, as the next cycle will
    /// find them: bound pods are charged; evicted pods are not and request nothing. Pipelined pods
    /// are decided again by later cycles.
    pub(crate) fn apply_decisions(&self, accounts: &mut QueueAccounts) {
        for decision in &self.decisions {
            let (pod, node) = match decision {
                Decision::Bind { pod, node } => (*pod, Some(*node)),
                Decision::Evict { pod, .. } => (*pod, None),
                Decision::Pipeline { .. } => continue,
            };
            let Some((queue, group)) = self.queue_and_group(pod) else { continue };
            if let Some(node) = node {
                let charge = self.charge_on(pod, node);
                accounts.charge(queue, &charge, group.preemptible);
                accounts.add_request(queue, &charge);
                accounts.remove_request(queue, &self.charges.for_fair_share(self.pod(pod).shape));
            } else if let Some(from) = self.pod(pod).node {
                let charge = self.charge_on(pod, from);
                accounts.refund(queue, &charge, group.preemptible);
                accounts.remove_request(queue, &charge);
            }
        }
    }

    fn record_decision(
        &mut self,
        pod: PodId,
        before: PodState,
        cause: &impl Fn(PodId) -> EvictionCause,
    ) {
        let after = self.state(pod);
        let was_holding = matches!(before, PodState::Allocated(_));
        let leaves = matches!(after, PodState::Releasing(_) | PodState::Moving { .. });
        if was_holding && leaves {
            self.decisions.push(Decision::Evict { pod, cause: cause(pod) });
        }
        if before == after {
            return;
        }
        match after {
            PodState::Allocated(node) if !was_holding => {
                self.decisions.push(Decision::Bind { pod, node });
            }
            PodState::Pipelined(node) | PodState::Moving { to: node, .. } => {
                self.decisions.push(Decision::Pipeline { pod, node });
            }
            PodState::Allocated(_)
            | PodState::Pending
            | PodState::Gated
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished => {}
        }
    }
}
