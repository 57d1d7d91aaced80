//! DefaultPreemption (kube-scheduler): for a pod without a node, evicts as few pods of lower
//! priority as needed from one node, and nominates the pod to that node. Disruption budgets are
//! kept if possible. Difference from kube-scheduler: every node is a candidate, not a sample.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    framework::{PostFilter, Session, Statement},
    model::{DisruptionBudget, NodeId, Pod, PodId, PreemptionPolicy, Time, labels_match},
    plan::EvictionCause,
    reason::{DeallocationOutcome, FitError, PreemptionOutcome, Reason},
};

/// Plugin like kube-scheduler's `DefaultPreemption`: evicts pods of lower priority from one node so
/// that a pod fits there.
#[derive(Debug)]
pub(super) struct DefaultPreemption;

/// A node on which a pod would fit, with the victims that would have to leave it.
struct Candidate {
    node: NodeId,
    /// The pods to evict, the most important first.
    victims: Vec<PodId>,
    /// Number of victims whose disruption budget does not allow the eviction.
    budget_violations: usize,
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason {
        let Reason::NoNode { fit_errors, .. } = reason else { return reason };
        let preemption = match statement.pod(pod).preemption_policy {
            PreemptionPolicy::Never => PreemptionOutcome::PolicyNever,
            PreemptionPolicy::PreemptLowerPriority => evict_for_pod(statement, pod),
        };
        Reason::Unschedulable {
            fit_errors,
            deallocation: DeallocationOutcome::NoClaims,
            preemption,
        }
    }
}

fn evict_for_pod(statement: &mut Statement<'_>, pod: PodId) -> PreemptionOutcome {
    let (mut not_helpful, mut no_victims) = (0, 0);
    let mut best: Option<Candidate> = None;
    for node in statement.node_ids() {
        match statement.fit(pod, node) {
            Err(error) if !error.is_resolvable_by_eviction() => {
                not_helpful += 1;
                continue;
            }
            Err(_) | Ok(_) => {}
        }
        match find_victims_on(statement, pod, node) {
            Ok(candidate) => {
                let better = |best: &Candidate| {
                    candidate.preference_key(statement) < best.preference_key(statement)
                };
                if best.as_ref().is_none_or(better) {
                    best = Some(candidate);
                }
            }
            Err(_) => no_victims += 1,
        }
    }
    let Some(Candidate { node, victims, .. }) = best else {
        return PreemptionOutcome::NotHelpful { not_helpful, no_victims };
    };
    for victim in victims {
        statement.evict(victim);
    }
    statement.pipeline(pod, node);
    let preemptor = statement.pod(pod).group.expect("every pending pod has a group");
    statement.commit_evictions(|_| EvictionCause::Preempt { preemptor });
    PreemptionOutcome::Nominated
}

/// The fewest pods of lower priority on the node whose eviction lets the pod fit. Pods whose
/// disruption budget would be violated are evicted last. Undoes its changes.
fn find_victims_on(
    statement: &mut Statement<'_>,
    pod: PodId,
    node: NodeId,
) -> Result<Candidate, FitError> {
    let start = statement.checkpoint();
    let priority = statement.pod(pod).priority;
    let mut lower_priority: Vec<PodId> = statement.node_info(node).staying.clone();
    lower_priority
        .retain(|other| statement.can_evict(*other) && statement.pod(*other).priority < priority);
    lower_priority.sort_by_key(|other| importance_key(statement, *other));
    for other in &lower_priority {
        statement.evict(*other);
    }
    let fits = statement.fit(pod, node);
    let mut candidate = Candidate { node, victims: Vec::new(), budget_violations: 0 };
    if fits.is_ok() {
        let (violating, non_violating) = split_by_budget(statement, lower_priority);
        let reprieve = |statement: &mut Statement<'_>, other: PodId| {
            statement.cancel_eviction(other);
            let stays = statement.fit(pod, node).is_ok();
            if !stays {
                statement.evict(other);
            }
            stays
        };
        candidate.victims = violating;
        candidate.victims.retain(|other| !reprieve(statement, *other));
        candidate.budget_violations = candidate.victims.len();
        candidate
            .victims
            .extend(non_violating.into_iter().filter(|other| !reprieve(statement, *other)));
        candidate.victims.sort_by_key(|other| importance_key(statement, *other));
    }
    statement.undo_to(start);
    fits.map(|_| candidate)
}

/// Splits the pods, which are evicted in this order, into those whose eviction violates a
/// disruption budget and those whose eviction does not.
fn split_by_budget(session: &Session<'_>, leaving: Vec<PodId>) -> (Vec<PodId>, Vec<PodId>) {
    let budgets = &session.snapshot.budgets;
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    let violates = |pod: &PodId| {
        let mut violates = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            if is_counted_by_budget(budget, session.pod(*pod)) {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violates
    };
    leaving.into_iter().partition(violates)
}

/// The pods whose eviction, together with that of the others, violates a disruption budget.
pub(super) fn violating_pods(session: &Session<'_>, leaving: Vec<PodId>) -> BTreeSet<PodId> {
    split_by_budget(session, leaving).0.into_iter().collect()
}

/// Whether the budget counts the eviction of the pod as a disruption that it has not counted yet.
fn is_counted_by_budget(budget: &DisruptionBudget, pod: &Pod) -> bool {
    budget.namespace == pod.namespace
        && !budget.selector.requirements.is_empty()
        && !pod.labels.is_empty()
        && labels_match(Some(&budget.selector), &pod.labels)
        && !budget.disrupted.contains(&pod.name)
}

/// Sort key for victims: the more important pod first, by higher priority, then by earlier start.
fn importance_key(session: &Session<'_>, pod: PodId) -> (Reverse<i32>, Time, PodId) {
    let of = session.pod(pod);
    (Reverse(of.priority), of.started.unwrap_or(session.snapshot.now), pod)
}

impl Candidate {
    /// Sort key for candidate nodes; the smallest is chosen: fewest budget violations, lowest top
    /// priority, lowest sum of priorities, fewest pods, latest start of the most important pods,
    /// node name.
    fn preference_key(&self, session: &Session<'_>) -> impl Ord + use<> {
        let priority = |pod: &PodId| i64::from(session.pod(*pod).priority);
        let top = self.victims.iter().map(priority).max().unwrap_or(i64::MIN);
        let shift = 1 << 31;
        let sum: i64 = self.victims.iter().map(|pod| priority(pod) + shift).sum();
        let most_important = self.victims.iter().filter(|pod| priority(pod) == top);
        let started = most_important.filter_map(|pod| session.pod(*pod).started).min();
        (self.budget_violations, top, sum, self.victims.len(), Reverse(started), self.node)
    }
}
