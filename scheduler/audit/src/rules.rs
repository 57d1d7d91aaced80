//! Audits the invariants of a scheduler against a history of facts about a cluster. It is
//! independent of the code that makes plans: it shares no arithmetic, accounts or ordering with the
//! scheduler, or it would share its errors. Facts are reported one at a time, each costs as much as
//! it changes, and every violation is a [`Breach`] with rule, time, objects and numbers.
//!
//! Decisions are checked at their time, not later states: a quota may be
//! lowered below its use. The scheduler may not yet have seen other changes of the same window, so
//! a decision is right if it was right before or after such a change.

mod accounts;
mod binding;
mod breach;
mod eviction;
mod gang;
mod numa;
mod objects;
mod sharing;
#[cfg(test)]
mod tests;
mod view;

use std::{collections::BTreeSet, time::Duration};

use accounts::Accounts;
pub use breach::{AuditedObject, Breach, Rule};
pub use eviction::{Eviction, EvictionKind};
use gang::PendingChanges;
pub use objects::{
    Labels, Name, NodeSelectorTerm, Operator, Requirement, Taint, TaintEffect, Time, Toleration,
};
pub use view::{
    Amounts, ClaimView, DeviceShare, GroupView, NodeView, Phase, PodView, QueueView, SubGroupView,
    Writer,
};
use view::{ClusterView, RecentValue, TimeSpan};

/// Which rules the audit checks, and how strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The scheduling profile by which the scheduler is audited.
    pub profile: AuditProfile,
    /// On which levels of the queue tree limits and quotas hold.
    pub bounds: BoundLevels,
    /// Maximum time between two writes of one scheduling decision. The scheduler has seen every
    /// change that is older than this. Zero under virtual time, where a cycle takes no time.
    pub window: Duration,
}

/// The profile by which a scheduler is audited, with exceptions from the general rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditProfile {
    /// Profile `kai`: queues, gangs, preemptible victims. Reclaimed gangs may leave their queue
    /// below its quota (rule 7 compares before it subtracts), priority protects within one queue
    /// only (9), victim sets need not be minimal, and pipelined placements are forgotten after each
    /// cycle (10, 11, 20).
    Kai,
    /// Profile `kube`: no queues, gangs or NUMA zones; every pod of lower priority may be a victim,
    /// and nodes that are not ready are checked by their taints alone.
    Kube,
}

/// The queues in the tree at which limits and quotas are checked for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundLevels {
    /// The pod's leaf queue and all ancestors.
    All,
    /// The pod's leaf queue only (KAI without full-hierarchy fairness).
    LeafOnly,
    /// No queue: the audited scheduler does not enforce limits and quotas.
    None,
}

impl Rules {
    /// The rules of profile `kai`.
    pub fn kai() -> Self {
        Self { profile: AuditProfile::Kai, bounds: BoundLevels::All, window: Duration::ZERO }
    }

    /// The rules of profile `kube`.
    pub fn kube() -> Self {
        Self { profile: AuditProfile::Kube, bounds: BoundLevels::All, window: Duration::ZERO }
    }
}

/// Follows a cluster and audits its scheduler.
#[derive(Clone, Debug)]
pub struct Auditor {
    rules: Rules,
    view: ClusterView,
    accounts: Accounts,
    /// Time of the last reported fact.
    now: Time,
    /// Gangs that changed recently, so that the scheduler may not be done with them.
    pending: PendingChanges,
    /// Pod groups that were complete since they were last absent: a member that fails later is no
    /// breach.
    started: BTreeSet<Name>,
    breaches: Vec<Breach>,
}

impl Auditor {
    /// Creates an auditor of an empty cluster. Pods that first appear with a node count as bound by
    /// another client.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            view: ClusterView::default(),
            accounts: Accounts::default(),
            now: Time(i64::MIN),
            pending: PendingChanges::default(),
            started: BTreeSet::new(),
            breaches: Vec::new(),
        }
    }

    /// All breaches found so far, in order of detection.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Observes that a node was created, changed, or (`None`) deleted.
    pub fn observe_node(&mut self, at: Time, name: &Name, node: Option<NodeView>) {
        self.advance_and_check_due(at);
        let span = self.visibility_span();
        set_recent_value(&mut self.view.nodes, name, node, span);
    }

    /// Observes that a queue was created, changed, or (`None`) deleted.
    pub fn observe_queue(&mut self, at: Time, name: &Name, queue: Option<QueueView>) {
        self.advance_and_check_due(at);
        if self.view.queues.get(name).and_then(|queue| queue.now.as_ref()) == queue.as_ref() {
            return;
        }
        let span = self.visibility_span();
        set_recent_value(&mut self.view.queues, name, queue, span);
        self.accounts.recompute_queue_accounts(&self.view);
    }

    /// Observes that a pod group was created, changed, or (`None`) deleted.
    pub fn observe_pod_group(&mut self, at: Time, name: &Name, group: Option<GroupView>) {
        self.advance_and_check_due(at);
        if self.view.groups.get(name).and_then(|group| group.now.as_ref()) == group.as_ref() {
            return;
        }
        self.accounts.charge_queues_for_group(&self.view, name, accounts::ChargeSign::Minus);
        let span = self.visibility_span();
        set_recent_value(&mut self.view.groups, name, group, span);
        self.accounts.charge_queues_for_group(&self.view, name, accounts::ChargeSign::Plus);
    }

    /// Observes that a pod was created, changed, or (`None`) deleted by `writer`.
    pub fn observe_pod(&mut self, at: Time, name: &Name, pod: Option<&PodView>, writer: Writer) {
        self.advance_and_check_due(at);
        let before = match pod {
            Some(pod) => self.view.pods.insert(name.clone(), pod.clone()),
            None => self.view.pods.remove(name),
        };
        self.accounts.update_pod(&self.view, name, before.as_ref(), pod);
        let before = before.filter(|old| pod.is_none_or(|new| new.uid == old.uid));
        self.check_pod(name, before.as_ref(), pod, writer);
    }

    /// Observes that a device claim was created, changed, or (`None`) deleted. A pod that is bound
    /// with an observed claim must have the claim allocated and reserved for it.
    pub fn observe_claim(&mut self, at: Time, name: &Name, claim: Option<ClaimView>) {
        self.advance_and_check_due(at);
        let before = match &claim {
            Some(claim) => self.view.claims.insert(name.clone(), claim.clone()),
            None => self.view.claims.remove(name),
        };
        sharing::check_claimed_devices(
            self,
            name,
            &before.unwrap_or_default(),
            &claim.unwrap_or_default(),
        );
    }

    /// Observes an eviction with the cause that the scheduler reported.
    pub fn observe_eviction(&mut self, at: Time, eviction: &Eviction) {
        self.advance_and_check_due(at);
        eviction::check_cause(self, eviction);
        if eviction.kind == EvictionKind::Consolidate {
            gang::record_move(self, &eviction.pod);
        }
    }

    /// Reports a breach: the scheduler evicted a pod and its cause is unknown; `why` says why.
    pub fn report_unknown_cause(&mut self, at: Time, pod: &Name, why: &str) {
        self.advance_and_check_due(at);
        let detail = format!("the cause of the eviction of pod {pod} is unknown: {why}");
        self.report_breach(Rule::Victim, vec![AuditedObject::Pod(pod.clone())], detail);
    }

    /// Checks the usage that a queue status reports: it must equal the sum over the queue's pods.
    /// Call this only when the cluster has been quiescent for a while.
    pub fn check_queue_status(&mut self, at: Time, name: &Name, allocated: &Amounts) {
        self.advance_and_check_due(at);
        accounts::check_queue_status(self, name, allocated);
    }

    /// Advances the time to `at` without observing a change.
    pub fn advance_to(&mut self, at: Time) {
        self.advance_and_check_due(at);
    }

    /// Observes the number of cycles that the scheduler has completed: all its writes so far belong
    /// to these cycles or to the next one.
    pub fn observe_completed_cycles(&mut self, cycles: u64) {
        self.pending.cycles = Some(cycles);
    }

    /// Records that the scheduler was killed, possibly between the writes of one decision.
    pub fn record_scheduler_kill(&mut self, at: Time) {
        self.advance_and_check_due(at);
        self.pending.record_interruption(self.now);
    }

    /// Checks a quiescent cluster, in which the scheduler has nothing left to do: no gang may be
    /// bound in part.
    pub fn check_quiescent_cluster(&mut self, at: Time) {
        self.advance_and_check_due(at);
        self.check_all_pending();
        gang::check_quiescent(self);
    }

    fn check_pod(
        &mut self,
        name: &Name,
        before: Option<&PodView>,
        after: Option<&PodView>,
        writer: Writer,
    ) {
        if let (Some(before), Some(after)) = (before, after) {
            binding::check_pod_change(self, name, before, after);
        }
        eviction::check_victim(self, name, before, after, writer);
        gang::record_pod_change(self, before, after, writer);
    }

    /// Advances the time, and checks the gangs that have not changed for longer than the window.
    fn advance_and_check_due(&mut self, at: Time) {
        if at <= self.now {
            return;
        }
        let due = self.pending.take_due(at, self.rules.window);
        self.check_gangs(&due);
        self.now = at;
    }

    /// Ends the audit and returns all breaches.
    pub fn finish(mut self) -> Vec<Breach> {
        self.check_all_pending();
        self.breaches
    }

    /// Checks all gangs with pending changes, because no further writes follow.
    fn check_all_pending(&mut self) {
        let due = self.pending.take_all();
        self.check_gangs(&due);
    }

    fn check_gangs(&mut self, due: &PendingChanges) {
        match self.rules.profile {
            AuditProfile::Kai => gang::check_changed_gangs(self, due),
            AuditProfile::Kube => {}
        }
    }

    /// The time span from now until the scheduler has certainly seen a change that happens now.
    fn visibility_span(&self) -> TimeSpan {
        TimeSpan { from: self.now, until: self.now.plus_span(self.rules.window) }
    }

    fn report_breach(&mut self, rule: Rule, objects: Vec<AuditedObject>, detail: String) {
        self.breaches.push(Breach { rule, at: self.now, objects, detail });
    }
}

fn set_recent_value<T>(
    map: &mut std::collections::BTreeMap<Name, RecentValue<T>>,
    name: &Name,
    value: Option<T>,
    span: TimeSpan,
) {
    map.entry(name.clone()).or_default().set_current(value, span);
}
