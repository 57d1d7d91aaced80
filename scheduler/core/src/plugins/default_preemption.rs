//! DefaultPreemption (kube-scheduler): for a pod without a node, evict pods of lower priority
//! from one node, no more than needed, and promise it their room. Budgets are kept where
//! that is possible; every node is a candidate, where kube-scheduler tries a sample.

use std::cmp::Reverse;

use crate::{
    decision::{Deallocation, EvictionCause, Misfit, Preemption, Reason},
    framework::PostFilter,
    model::{DisruptionBudget, NodeId, Pod, PodId, PreemptionPolicy, Time, labels_match},
    session::Session,
};

/// Evicts lower priorities.
#[derive(Debug)]
pub(super) struct DefaultPreemption;

/// A node and who would have to leave it.
struct Candidate {
    node: NodeId,
    /// The most important first.
    victims: Vec<PodId>,
    /// How many of them leave although their disruption budget does not allow it.
    violating: usize,
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, session: &mut Session<'_>, pod: PodId, reason: Reason) -> Reason {
        let Reason::NoNode { misfits, .. } = reason else { return reason };
        let preemption = match session.pod(pod).preemption_policy {
            PreemptionPolicy::Never => Preemption::PolicyNever,
            PreemptionPolicy::PreemptLowerPriority => preempt(session, pod),
        };
        Reason::Unschedulable { misfits, deallocation: Deallocation::NoClaims, preemption }
    }
}

fn preempt(session: &mut Session<'_>, pod: PodId) -> Preemption {
    let (mut not_helpful, mut no_victims) = (0, 0);
    let mut best: Option<Candidate> = None;
    for node in session.node_ids() {
        match session.fits(pod, node) {
            Err(misfit) if !misfit.is_curable() => {
                not_helpful += 1;
                continue;
            }
            Err(_) | Ok(_) => {}
        }
        match victims_on(session, pod, node) {
            Ok(candidate) => {
                let better = |best: &Candidate| candidate.rank(session) < best.rank(session);
                if best.as_ref().is_none_or(better) {
                    best = Some(candidate);
                }
            }
            Err(_) => no_victims += 1,
        }
    }
    let Some(Candidate { node, victims, .. }) = best else {
        return Preemption::Useless { not_helpful, no_victims };
    };
    for victim in victims {
        session.evict(victim);
    }
    session.promise(pod, node);
    let preemptor = session.pod(pod).group.expect("only pods of ours wait");
    session.commit_evictions(|_| EvictionCause::Preempt { preemptor });
    Preemption::Nominated
}

/// The fewest pods of lower priority whose leaving makes room, those last whose budgets would be
/// violated; leaves the session as it was.
fn victims_on(session: &mut Session<'_>, pod: PodId, node: NodeId) -> Result<Candidate, Misfit> {
    let start = session.checkpoint();
    let priority = session.pod(pod).priority;
    let mut lower: Vec<PodId> = session.room(node).staying.clone();
    lower.retain(|other| session.can_evict(*other) && session.pod(*other).priority < priority);
    lower.sort_by_key(|other| importance(session, *other));
    for other in &lower {
        session.evict(*other);
    }
    let fits = session.fits(pod, node);
    let mut candidate = Candidate { node, victims: Vec::new(), violating: 0 };
    if fits.is_ok() {
        let (guarded, free) = guarded_and_free(session, lower);
        let stay = |session: &mut Session<'_>, other: PodId| {
            session.restore(other);
            let stays = session.fits(pod, node).is_ok();
            if !stays {
                session.evict(other);
            }
            stays
        };
        candidate.victims = guarded;
        candidate.victims.retain(|other| !stay(session, *other));
        candidate.violating = candidate.victims.len();
        candidate.victims.extend(free.into_iter().filter(|other| !stay(session, *other)));
        candidate.victims.sort_by_key(|other| importance(session, *other));
    }
    session.undo_to(start);
    fits.map(|_| candidate)
}

/// Who would leave against the word of a disruption budget, if all leave in their order, and who
/// would not.
fn guarded_and_free(session: &Session<'_>, leaving: Vec<PodId>) -> (Vec<PodId>, Vec<PodId>) {
    let budgets = &session.snapshot.budgets;
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    let violates = |pod: &PodId| {
        let mut violates = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            if budget_counts(budget, session.pod(*pod)) {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violates
    };
    leaving.into_iter().partition(violates)
}

/// The pod's leaving is a disruption that the budget has not counted yet.
fn budget_counts(budget: &DisruptionBudget, pod: &Pod) -> bool {
    budget.namespace == pod.namespace
        && !budget.selector.requirements.is_empty()
        && !pod.labels.is_empty()
        && labels_match(Some(&budget.selector), &pod.labels)
        && !budget.disrupted.contains(&pod.name)
}

/// Higher priority, then running for longer, is more important.
fn importance(session: &Session<'_>, pod: PodId) -> (Reverse<i32>, Time, PodId) {
    let of = session.pod(pod);
    (Reverse(of.priority), of.started.unwrap_or(session.snapshot.now), pod)
}

impl Candidate {
    /// The smallest is chosen: fewest violated budgets, lowest top priority, then lowest sum of priorities, fewest pods,
    /// latest start of the most important ones, name of the node.
    fn rank(&self, session: &Session<'_>) -> impl Ord + use<> {
        let priority = |pod: &PodId| i64::from(session.pod(*pod).priority);
        let top = self.victims.iter().map(priority).max().unwrap_or(i64::MIN);
        let shift = 1 << 31;
        let sum: i64 = self.victims.iter().map(|pod| priority(pod) + shift).sum();
        let most_important = self.victims.iter().filter(|pod| priority(pod) == top);
        let started = most_important.filter_map(|pod| session.pod(*pod).started).min();
        (self.violating, top, sum, self.victims.len(), Reverse(started), self.node)
    }
}
