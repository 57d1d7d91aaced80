//! DefaultPreemption for PodGroups (kube-scheduler with feature gate `GenericWorkload`): for a gang
//! that fits nowhere, all pods of lower priority are evicted in thought; the gang is placed; and as
//! many victims as possible stay, the most important first. A PodGroup whose pods are disrupted
//! together stays or leaves as a whole.

use std::{cmp::Reverse, collections::BTreeMap};

use super::default_preemption::violating_pods;
use crate::{
    framework::{PostFilter, Session, Statement},
    model::{NodeId, PodGroupId, PodId, PreemptionPolicy, Time},
    plan::EvictionCause,
    reason::{FitErrors, PodGroupFailure, PodGroupPreemption, Reason},
};

/// Evicts pods of lower priority for a gang.
#[derive(Debug)]
pub(super) struct GangPreemption;

/// Pods that are evicted together.
struct Victim {
    pods: Vec<PodId>,
    is_group: bool,
    priority: i32,
    started: Time,
}

impl PostFilter for GangPreemption {
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason {
        let Some(group) = statement.pod(pod).group else { return reason };
        if !statement.group(group).is_gang() {
            return reason;
        }
        let Some(failure) = failure(statement, group, reason.clone()) else { return reason };
        let preemption = preempt(statement, group);
        Reason::PodGroupUnschedulable(PodGroupFailure { preemption, ..failure })
    }
}

/// The failed attempt, without the search for victims; `None`: it failed for another reason.
fn failure(session: &Session<'_>, group: PodGroupId, reason: Reason) -> Option<PodGroupFailure> {
    let spec = session.group(group);
    let min_count = spec.sub_groups.first().map_or(1, |only| only.min_member.max(1));
    let active = session.members(group).active_count();
    let (scheduled, domains, fit_errors) = match reason {
        Reason::GangDoesNotFit { fitting, fit_errors, .. } => (fitting, None, fit_errors),
        Reason::NoNode { fit_errors, .. } => (active, None, fit_errors),
        Reason::ExceedsClusterCapacity { underlying: Some(underlying), .. } => {
            return failure(session, group, *underlying);
        }
        Reason::ExceedsClusterCapacity { pods, missing, underlying: None, .. } => {
            (active + pods.saturating_sub(missing), None, FitErrors::default())
        }
        Reason::NoTopologyDomain(no_domain) => {
            let domains = u32::try_from(no_domain.domains.len()).unwrap_or(u32::MAX);
            let first = no_domain.domains.first().map_or(0, |(_, pods)| *pods);
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            (active + first, Some(domains), FitErrors::default())
        }
        Reason::Queue(_)
        | Reason::NotReady(_)
        | Reason::PodsDiffer(_)
        | Reason::SchedulingBackoff
        | Reason::OverLimit { .. }
        | Reason::NonPreemptibleOverQuota { .. }
        | Reason::QueueDepthReached { .. }
        | Reason::Pipelined { .. }
        | Reason::PreemptionDelay { .. }
        | Reason::PreemptionLimitReached { .. }
        | Reason::MinRuntime { .. }
        | Reason::FairShareExceeded { .. }
        | Reason::HeadOfLineBlocked { .. }
        | Reason::Unschedulable { .. }
        | Reason::PodGroupUnschedulable(_) => return None,
    };
    let scheduled = scheduled.min(min_count - 1);
    Some(PodGroupFailure {
        min_count,
        scheduled,
        remaining: min_count - 1 - scheduled,
        domains,
        fit_errors,
        preemption: PodGroupPreemption::NoVictims,
    })
}

fn preempt(statement: &mut Statement<'_>, group: PodGroupId) -> PodGroupPreemption {
    let pods: Vec<PodId> = statement.members(group).waiting_pods().collect();
    let never = |pod: &PodId| statement.pod(*pod).preemption_policy == PreemptionPolicy::Never;
    if pods.iter().any(never) {
        return PodGroupPreemption::PolicyNever;
    }
    let victims = possible_victims(statement, statement.group(group).priority);
    if victims.is_empty() {
        return PodGroupPreemption::NoVictims;
    }
    let start = statement.checkpoint();
    for pod in victims.iter().flat_map(|victim| &victim.pods) {
        statement.evict(*pod);
    }
    statement.set_pipelines_anywhere(true);
    let placed = statement.pipeline_group(group);
    statement.set_pipelines_anywhere(false);
    let pods = match placed {
        Ok(pods) => pods,
        Err(failure) => {
            statement.undo_to(start);
            let scheduled = statement.members(group).active_count() + failure.found;
            return PodGroupPreemption::NotHelpful { scheduled };
        }
    };
    let nodes = pods.iter().filter_map(|pod| statement.state(*pod).charged_node());
    let places: Vec<(PodId, NodeId)> = pods.iter().copied().zip(nodes).collect();
    let mut leaving = 0;
    for victim in victims {
        if !reprieve(statement, &places, &victim) {
            leaving += victim.pods.len();
        }
    }
    if leaving == 0 {
        statement.undo_to(start);
        return PodGroupPreemption::NotHelpful {
            scheduled: statement.members(group).active_count(),
        };
    }
    statement.commit_evictions(|_| EvictionCause::Preempt { preemptor: group });
    PodGroupPreemption::Nominated { victims: u32::try_from(leaving).unwrap_or(u32::MAX) }
}

/// All pods of lower priority, in the order in which they may stay: those whose disruption budget
/// would be violated first, then the most important.
fn possible_victims(session: &Session<'_>, priority: i32) -> Vec<Victim> {
    let priority_of = |pod: PodId| {
        let of = session.pod(pod);
        of.group.map_or(of.priority, |group| session.group(group).priority)
    };
    let is_lower = |pod: &PodId| session.can_evict(*pod) && priority_of(*pod) < priority;
    let mut by_unit: BTreeMap<(Option<PodGroupId>, Option<PodId>), Victim> = BTreeMap::new();
    for pod in session.pod_ids().filter(is_lower) {
        let of = session.pod(pod);
        let together = of.group.filter(|group| session.group(*group).evicted_together);
        let key = (together, together.is_none().then_some(pod));
        let started = of.started.unwrap_or(session.snapshot.now);
        let victim = by_unit.entry(key).or_insert_with(|| Victim {
            pods: Vec::new(),
            is_group: of.group.is_some_and(|group| session.group(group).is_gang()),
            priority: priority_of(pod),
            started,
        });
        victim.pods.push(pod);
        victim.started = victim.started.min(started);
    }
    let mut victims: Vec<Victim> = by_unit.into_values().collect();
    victims.sort_by_key(|victim| {
        let size = if victim.is_group { victim.pods.len() } else { 0 };
        (Reverse(victim.priority), Reverse(victim.is_group), Reverse(size), victim.started)
    });
    let all = victims.iter().flat_map(|victim| victim.pods.iter().copied()).collect();
    let violating = violating_pods(session, all);
    victims.sort_by_key(|victim| !victim.pods.iter().any(|pod| violating.contains(pod)));
    victims
}

/// Lets a victim stay if the gang still fits where it was placed.
fn reprieve(statement: &mut Statement<'_>, places: &[(PodId, NodeId)], victim: &Victim) -> bool {
    let start = statement.checkpoint();
    for pod in &victim.pods {
        statement.cancel_eviction(*pod);
    }
    for (pod, _) in places {
        statement.cancel_pipeline(*pod);
    }
    for (pod, node) in places {
        if statement.fit(*pod, *node).is_err() {
            statement.undo_to(start);
            return false;
        }
        statement.pipeline(*pod, *node);
    }
    true
}
