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

/// Which rules apply, and how strictly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The profile of the scheduler.
    pub profile: AuditProfile,
    /// On which levels of the queue tree limits and quotas hold.
    pub bounds: BoundLevels,
    /// The maximum time between two writes of one decision; changes before that were seen by the
    /// scheduler. Zero under virtual time, where a cycle takes no time.
    pub window: Duration,
}

/// The profile by which a scheduler is audited, with its exceptions.
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

/// The queues whose limits and quotas hold for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundLevels {
    /// Its queue and all ancestors.
    All,
    /// Its leaf queue only (no full hierarchy).
    LeafOnly,
    /// No queue: the scheduler does not enforce them.
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
    /// Gangs whose changes may not be complete.
    pending: PendingChanges,
    /// Groups that were whole since they were last absent: a member that fails later is no breach.
    started: BTreeSet<Name>,
    breaches: Vec<Breach>,
}

impl Auditor {
    /// An auditor of an empty cluster. Pods that first appear bound count as bound by others.
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

    /// All breaches so far, in order of detection.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// A node was created, changed, or (`None`) deleted.
    pub fn node(&mut self, at: Time, name: &Name, node: Option<NodeView>) {
        self.advance(at);
        let span = self.span();
        set(&mut self.view.nodes, name, node, span);
    }

    /// A queue was created, changed, or (`None`) deleted.
    pub fn queue(&mut self, at: Time, name: &Name, queue: Option<QueueView>) {
        self.advance(at);
        if self.view.queues.get(name).and_then(|queue| queue.now.as_ref()) == queue.as_ref() {
            return;
        }
        let span = self.span();
        set(&mut self.view.queues, name, queue, span);
        self.accounts.rebuild_queues(&self.view);
    }

    /// A pod group was created, changed, or (`None`) deleted.
    pub fn group(&mut self, at: Time, name: &Name, group: Option<GroupView>) {
        self.advance(at);
        if self.view.groups.get(name).and_then(|group| group.now.as_ref()) == group.as_ref() {
            return;
        }
        self.accounts.charge_group(&self.view, name, accounts::Sign::Minus);
        let span = self.span();
        set(&mut self.view.groups, name, group, span);
        self.accounts.charge_group(&self.view, name, accounts::Sign::Plus);
    }

    /// A pod was created, changed, or (`None`) deleted by `writer`.
    pub fn pod(&mut self, at: Time, name: &Name, pod: Option<&PodView>, writer: Writer) {
        self.advance(at);
        let before = match pod {
            Some(pod) => self.view.pods.insert(name.clone(), pod.clone()),
            None => self.view.pods.remove(name),
        };
        self.accounts.pod_changed(&self.view, name, before.as_ref(), pod);
        let before = before.filter(|old| pod.is_none_or(|new| new.uid == old.uid));
        self.check_pod(name, before.as_ref(), pod, writer);
    }

    /// A device claim was created, changed, or (`None`) deleted. Reported claims must be allocated
    /// to, and reserved for, the pods that are bound with them.
    pub fn claim(&mut self, at: Time, name: &Name, claim: Option<ClaimView>) {
        self.advance(at);
        let before = match &claim {
            Some(claim) => self.view.claims.insert(name.clone(), claim.clone()),
            None => self.view.claims.remove(name),
        };
        sharing::check_claim(self, name, &before.unwrap_or_default(), &claim.unwrap_or_default());
    }

    /// The scheduler reported its cause for an eviction.
    pub fn eviction(&mut self, at: Time, eviction: &Eviction) {
        self.advance(at);
        eviction::check_cause(self, eviction);
        if eviction.kind == EvictionKind::Consolidate {
            gang::record_move(self, &eviction.pod);
        }
    }

    /// The scheduler evicted a pod, and `why` its cause is not known.
    pub fn unknown_cause(&mut self, at: Time, pod: &Name, why: &str) {
        self.advance(at);
        let detail = format!("the cause of the eviction of pod {pod} is unknown: {why}");
        self.report(Rule::Victim, vec![AuditedObject::Pod(pod.clone())], detail);
    }

    /// A queue status reports its use. Call it when the cluster has been quiescent for a while; the
    /// status must equal the sum over its pods.
    pub fn queue_status(&mut self, at: Time, name: &Name, allocated: &Amounts) {
        self.advance(at);
        accounts::check_status(self, name, allocated);
    }

    /// Advances the time to `at` without another fact.
    pub fn advance_to(&mut self, at: Time) {
        self.advance(at);
    }

    /// The scheduler reported the number of completed cycles: its writes so far belong to them or
    /// to the next one.
    pub fn cycles_ended(&mut self, cycles: u64) {
        self.pending.cycles = Some(cycles);
    }

    /// The scheduler was killed, possibly in the middle of a transaction.
    pub fn scheduler_killed(&mut self, at: Time) {
        self.advance(at);
        self.pending.interrupt(self.now);
    }

    /// The cluster is quiescent and the scheduler has finished: no gang may be bound in part.
    pub fn quiescent(&mut self, at: Time) {
        self.advance(at);
        self.close_pending();
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
            binding::check(self, name, before, after);
        }
        eviction::check(self, name, before, after, writer);
        gang::record(self, before, after, writer);
    }

    /// Advances the time and checks gangs that did not change within the window.
    fn advance(&mut self, at: Time) {
        if at <= self.now {
            return;
        }
        let due = self.pending.take_due(at, self.rules.window);
        self.check_gangs(&due);
        self.now = at;
    }

    /// All breaches of a history to which no fact is added.
    pub fn finish(mut self) -> Vec<Breach> {
        self.close_pending();
        self.breaches
    }

    /// Checks all pending changes: no more writes follow.
    fn close_pending(&mut self) {
        let due = self.pending.take_all();
        self.check_gangs(&due);
    }

    fn check_gangs(&mut self, due: &PendingChanges) {
        match self.rules.profile {
            AuditProfile::Kai => gang::check(self, due),
            AuditProfile::Kube => {}
        }
    }

    /// The time until the scheduler has seen a change that happens now.
    fn span(&self) -> TimeSpan {
        TimeSpan { from: self.now, until: self.now.after(self.rules.window) }
    }

    fn report(&mut self, rule: Rule, objects: Vec<AuditedObject>, detail: String) {
        self.breaches.push(Breach { rule, at: self.now, objects, detail });
    }
}

fn set<T>(
    map: &mut std::collections::BTreeMap<Name, RecentValue<T>>,
    name: &Name,
    value: Option<T>,
    span: TimeSpan,
) {
    map.entry(name.clone()).or_default().set(value, span);
}
