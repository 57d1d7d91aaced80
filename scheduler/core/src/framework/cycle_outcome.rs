//! What the actions of a cycle brought about so far: the committed decisions, what kept jobs from
//! evicting others, and counts for metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Session, Statement};
use crate::{
    Decision,
    model::{GpuGroup, NumaAllocation, PodGroupId, PodId},
    queues::QueueAccounts,
};

/// The results of a cycle's actions so far: decisions, and why jobs could not evict others.
#[derive(Clone, Debug, Default)]
pub(super) struct CycleOutcome {
    pub(super) decisions: Vec<Decision>,
    /// Pods that were placed in this cycle and then evicted, so that their binding is cancelled.
    pub(super) cancelled_bindings: BTreeSet<PodId>,
    /// Number of jobs that evicted pods of other jobs.
    preemptions: usize,
    min_runtime_protections: BTreeMap<PodGroupId, MinRuntimeProtection>,
    blocked_by_delay: BTreeSet<PodGroupId>,
    /// Jobs that only the limit of preemptions per cycle keeps from evicting others; a later cycle
    /// may let them.
    blocked_by_limit: BTreeSet<PodGroupId>,
    scenarios: ScenarioCounts,
    /// Number of victim sets that were simulated before the present action.
    simulated_before: usize,
    /// Whether an action simulated as many victim sets as the profile allows.
    is_search_limited: bool,
}

/// A minimum runtime of victims that keeps a job from evicting them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRuntimeProtection {
    /// The pod group that is protected longest.
    pub victim: PodGroupId,
    /// The field of the queue or profile that sets the minimum runtime.
    pub field: &'static str,
    /// The minimum runtime.
    pub minimum: Duration,
}

/// Number of victim sets (scenarios) considered in this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScenarioCounts {
    /// Number of simulated victim sets: the victims were evicted, then they and the preemptor
    /// placed.
    pub simulated: usize,
    /// Number of victim sets that capacity counts or queue limits rejected without a simulation.
    pub filtered: usize,
}

impl ScenarioCounts {
    /// The victim sets that were considered since there were `earlier` ones.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            simulated: self.simulated - earlier.simulated,
            filtered: self.filtered - earlier.filtered,
        }
    }
}

impl Session<'_> {
    /// All decisions committed so far, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.outcome.decisions
    }

    /// The shared GPUs chosen for the pods that this cycle bound or pipelined.
    pub fn chosen_gpu_groups(&self) -> BTreeMap<PodId, Vec<GpuGroup>> {
        let groups = self.placed_pods().map(|pod| (pod, self.gpu_groups(pod).to_vec()));
        groups.filter(|(_, groups)| !groups.is_empty()).collect()
    }

    /// The allocations of NUMA zones chosen for the pods that this cycle bound or pipelined.
    pub fn chosen_numa_allocations(&self) -> BTreeMap<PodId, Vec<NumaAllocation>> {
        let shares = self.placed_pods().map(|pod| (pod, self.numa_allocations(pod)));
        shares.filter(|(_, shares)| !shares.is_empty()).collect()
    }

    fn placed_pods(&self) -> impl Iterator<Item = PodId> {
        self.decisions().iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => Some(*pod),
            Decision::Evict { .. } => None,
        })
    }

    /// Applies the decisions to `accounts`, the accounts at the start of the cycle, so that they
    /// become what the next cycle will find: bound pods are charged; evicted pods are not charged
    /// and request nothing. Pipelined pods do not count, because later cycles decide them again.
    pub(crate) fn apply_decisions(&self, accounts: &mut QueueAccounts) {
        for decision in self.decisions() {
            let (pod, node) = match decision {
                Decision::Bind { pod, node } => (*pod, Some(*node)),
                Decision::Evict { pod, .. } => (*pod, None),
                Decision::Pipeline { .. } => continue,
            };
            let Some((queue, group)) = self.queue_and_group(pod) else { continue };
            if let Some(node) = node {
                let charge = self.charge_on(pod, node);
                accounts.charge_queue(queue, &charge, group.preemptible);
                accounts.add_request(queue, &charge);
                let pending = self.queues.charges.charge_for_fair_share(self.pod(pod).shape);
                accounts.remove_request(queue, &pending);
            } else if let Some(from) = self.pod(pod).node {
                let charge = self.charge_on(pod, from);
                accounts.refund_queue(queue, &charge, group.preemptible);
                accounts.remove_request(queue, &charge);
            }
        }
    }

    /// Whether the profile's limit of preemptions per cycle allows one more job to evict others,
    /// besides the committed jobs and `uncommitted` further ones.
    pub(crate) fn allows_another_preemptor(&self, uncommitted: usize) -> bool {
        self.profile
            .preemptions_max
            .is_none_or(|most| self.outcome.preemptions + uncommitted < most)
    }

    /// Whether any minimum runtime is configured.
    pub(crate) fn has_min_runtimes(&self) -> bool {
        let profile = [self.profile.preempt_min_runtime, self.profile.reclaim_min_runtime];
        let queues = self.snapshot.queues.iter();
        let queues =
            queues.flat_map(|queue| [queue.preempt_min_runtime, queue.reclaim_min_runtime]);
        let mut all = queues.flatten().chain(profile);
        self.profile.protects_min_runtime && all.any(|minimum| !minimum.is_zero())
    }

    /// The minimum runtime that kept the job from evicting others in this cycle; `None` if there
    /// was none.
    pub fn min_runtime_protection(&self, job: PodGroupId) -> Option<MinRuntimeProtection> {
        self.outcome.min_runtime_protections.get(&job).copied()
    }

    /// Whether only its preemption delay keeps the job from evicting others.
    pub fn is_blocked_by_delay(&self, job: PodGroupId) -> bool {
        self.outcome.blocked_by_delay.contains(&job)
    }

    /// Whether only the limit of preemptions per cycle keeps the job from evicting others.
    pub fn is_blocked_by_limit(&self, job: PodGroupId) -> bool {
        self.outcome.blocked_by_limit.contains(&job)
    }

    /// Numbers of victim sets that were considered since the start of the cycle.
    pub const fn scenario_counts(&self) -> ScenarioCounts {
        self.outcome.scenarios
    }

    /// Whether the present action has simulated as many victim sets as the profile allows.
    pub(crate) fn has_spent_simulations(&self) -> bool {
        let simulated = self.outcome.scenarios.simulated - self.outcome.simulated_before;
        self.profile.victim_search.simulations_max().is_some_and(|most| simulated >= most)
    }

    /// Whether an action of the cycle simulated as many victim sets as the profile allows: some of
    /// the pending jobs might evict others.
    pub const fn is_search_limited(&self) -> bool {
        self.outcome.is_search_limited
    }
}

impl Statement<'_> {
    /// Removes and returns all decisions committed so far, in order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.session.outcome.decisions)
    }

    /// Removes the bindings of pods that were placed and evicted again in this cycle. Returns the
    /// groups of these pods.
    pub(crate) fn remove_cancelled_bindings(&mut self) -> BTreeSet<PodGroupId> {
        let outcome = &mut self.session.outcome;
        let cancelled = std::mem::take(&mut outcome.cancelled_bindings);
        outcome.decisions.retain(|decision| match decision {
            Decision::Bind { pod, .. } => !cancelled.contains(pod),
            Decision::Evict { .. } | Decision::Pipeline { .. } => true,
        });
        cancelled.iter().filter_map(|pod| self.session.pod(*pod).group).collect()
    }

    /// Counts `more` further jobs that evicted others.
    pub(crate) const fn count_preemptions(&mut self, more: usize) {
        self.session.outcome.preemptions += more;
    }

    /// Ends the count of simulations of an action: the next one may simulate as many again.
    pub(crate) fn end_simulations_of_action(&mut self) {
        let is_spent = self.has_spent_simulations();
        let outcome = &mut self.session.outcome;
        outcome.is_search_limited |= is_spent;
        outcome.simulated_before = outcome.scenarios.simulated;
    }

    /// Sets the numbers back to those before a search that no decision depends on.
    pub(crate) const fn restore_scenario_counts(&mut self, counts: ScenarioCounts) {
        self.session.outcome.scenarios = counts;
    }

    pub(crate) const fn count_simulated(&mut self) {
        self.session.outcome.scenarios.simulated += 1;
    }

    pub(crate) const fn count_filtered(&mut self) {
        self.session.outcome.scenarios.filtered += 1;
    }

    /// Counts the victim sets of a search that is known to fail again.
    pub(crate) const fn count_scenarios(&mut self, more: ScenarioCounts) {
        self.session.outcome.scenarios.simulated += more.simulated;
        self.session.outcome.scenarios.filtered += more.filtered;
    }

    pub(crate) fn record_blocked_by_delay(&mut self, job: PodGroupId) {
        self.session.outcome.blocked_by_delay.insert(job);
    }

    pub(crate) fn record_blocked_by_limit(&mut self, jobs: impl IntoIterator<Item = PodGroupId>) {
        self.session.outcome.blocked_by_limit.extend(jobs);
    }

    pub(crate) fn record_min_runtime_protection(
        &mut self,
        job: PodGroupId,
        protection: MinRuntimeProtection,
    ) {
        self.session.outcome.min_runtime_protections.insert(job, protection);
    }
}
