//! DefaultPreemption (kube-scheduler): for a pod without a node, evict pods of lower priority
//! from one node, no more than needed, and promise it their room. Disruption budgets are not
//! looked at; every node is a candidate, where kube-scheduler tries a sample.

use std::cmp::Reverse;

use crate::{
    decision::{EvictionCause, Misfit, Preemption, Reason},
    framework::PostFilter,
    model::{NodeId, PodId, PreemptionPolicy, Time},
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
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, session: &mut Session<'_>, pod: PodId, reason: Reason) -> Reason {
        let Reason::NoNode { misfits, .. } = reason else { return reason };
        let preemption = match session.pod(pod).preemption_policy {
            PreemptionPolicy::Never => Preemption::PolicyNever,
            PreemptionPolicy::PreemptLowerPriority => preempt(session, pod),
        };
        Reason::Unschedulable { misfits, preemption }
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
            Ok(victims) => {
                let candidate = Candidate { node, victims };
                let better = |best: &Candidate| candidate.rank(session) < best.rank(session);
                if best.as_ref().is_none_or(better) {
                    best = Some(candidate);
                }
            }
            Err(_) => no_victims += 1,
        }
    }
    let Some(Candidate { node, victims }) = best else {
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

/// The fewest pods of lower priority whose leaving makes room; leaves the session as it was.
fn victims_on(session: &mut Session<'_>, pod: PodId, node: NodeId) -> Result<Vec<PodId>, Misfit> {
    let start = session.checkpoint();
    let priority = session.pod(pod).priority;
    let mut lower: Vec<PodId> = session.room(node).staying.clone();
    lower.retain(|other| session.can_evict(*other) && session.pod(*other).priority < priority);
    lower.sort_by_key(|other| importance(session, *other));
    for other in &lower {
        session.evict(*other);
    }
    let fits = session.fits(pod, node);
    let mut victims = Vec::new();
    if fits.is_ok() {
        for other in lower {
            session.restore(other);
            if session.fits(pod, node).is_err() {
                session.evict(other);
                victims.push(other);
            }
        }
    }
    session.undo_to(start);
    fits.map(|_| victims)
}

/// Higher priority, then running for longer, is more important.
fn importance(session: &Session<'_>, pod: PodId) -> (Reverse<i32>, Time, PodId) {
    let of = session.pod(pod);
    (Reverse(of.priority), of.started.unwrap_or(session.snapshot.now), pod)
}

impl Candidate {
    /// The smallest is chosen: lowest top priority, then lowest sum of priorities, fewest pods,
    /// latest start of the most important ones, name of the node.
    fn rank(&self, session: &Session<'_>) -> impl Ord + use<> {
        let priority = |pod: &PodId| i64::from(session.pod(*pod).priority);
        let top = self.victims.iter().map(priority).max().unwrap_or(i64::MIN);
        let shift = 1 << 31;
        let sum: i64 = self.victims.iter().map(|pod| priority(pod) + shift).sum();
        let most_important = self.victims.iter().filter(|pod| priority(pod) == top);
        let started = most_important.filter_map(|pod| session.pod(*pod).started).min();
        (top, sum, self.victims.len(), Reverse(started), self.node)
    }
}
