//! Which remedies together let a pod group run: each is tried on a copy of the cluster in which
//! those before it were taken.

use super::{
    Step, Tried, decisions_for,
    what_if::{Missing, with_remedy},
};
use crate::{
    Decision, Plan, Profile, Reason, Snapshot,
    cycle::decide,
    decision::{Quantity, Remedy},
    model::{Name, NodeId, PodGroupId, PodId},
    session::{Fits, Session},
};

/// Most remedies that are told one after the other.
const STEPS_MAX: usize = 12;

/// Most cycles that are tried in search of them.
const TRIES_MAX: usize = 64;

/// One remedy on top of the other, until the group runs or nothing more can be tried.
pub(super) fn remedies(
    (snapshot, profile): (&Snapshot, &Profile),
    (group, reason, mut missing): (PodGroupId, &Reason, Missing),
    mut others: Vec<Decision>,
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut cluster, mut reason) = (snapshot.clone(), reason.clone());
    // Before more of the last remedy was tried.
    let mut last_alone: Option<Step> = None;
    let mut others_took = false;
    for _ in 0..TRIES_MAX {
        let remedy = reason.remedy();
        let more = steps.last().filter(|_| others_took).and_then(|last| more_of(last, &remedy));
        if more.is_none() && (steps.len() == STEPS_MAX || is_told(&steps, &remedy)) {
            if let (Some(alone), Some(last)) = (last_alone, steps.last_mut()) {
                *last = alone;
            }
            break;
        }
        let cured = with_remedy(&cluster, (group, &missing), &remedy);
        let tried = cured.as_ref().map_or(Tried::Untold, |cured| {
            let (mut session, plan) = decide(cured, profile, &mut ());
            missing = super::missing(&mut session, group);
            let before = std::mem::replace(&mut others, placed_others(&session, &plan, group));
            others_took = before != others;
            outcome(&session, &plan, group)
        });
        if let (Some(more), Some(last)) = (more, steps.last_mut()) {
            last_alone.get_or_insert_with(|| last.clone());
            (last.in_all, last.tried) = (Some(more), tried.clone());
        } else {
            last_alone = None;
            steps.push(Step { remedy, in_all: None, tried: tried.clone() });
        }
        match (tried, cured) {
            (Tried::Waits(next), Some(cured)) => (reason, cluster) = (next, cured),
            (Tried::Waits(_) | Tried::Runs { .. } | Tried::Untold, _) => break,
        }
    }
    steps
}

/// Who else gets a node, and which.
pub(super) fn placed_others(
    session: &Session<'_>,
    plan: &Plan,
    group: PodGroupId,
) -> Vec<Decision> {
    let is_other = |pod: PodId| session.pod(pod).group != Some(group);
    let placed = plan.decisions.iter().filter(|decision| match decision {
        Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => is_other(*pod),
        Decision::Evict { .. } => false,
    });
    placed.cloned().collect()
}

/// To tell it again would not help.
fn is_told(steps: &[Step], remedy: &Remedy) -> bool {
    let remedy = remedy.to_string();
    steps.iter().any(|step| step.remedy.to_string() == remedy)
}

/// Both remedies together, if the second is only more of the first.
fn more_of(step: &Step, next: &Remedy) -> Option<Remedy> {
    match (step.in_all.as_ref().unwrap_or(&step.remedy), next) {
        (
            Remedy::Raise { queue, bound, by, .. },
            Remedy::Raise { queue: q, bound: b, by: more, to },
        ) if queue == q && bound == b && by.resource == more.resource => {
            let amount = by.amount.saturating_add(more.amount);
            let by = Quantity { resource: by.resource.clone(), amount };
            Some(Remedy::Raise { queue: Name::clone(queue), bound: *bound, by, to: to.clone() })
        }
        (
            Remedy::MakeRoom { pods, short, room },
            Remedy::MakeRoom { pods: more, room: again, .. },
        ) if room == again => {
            let pods = pods.saturating_add(*more);
            Some(Remedy::MakeRoom { pods, short: short.clone(), room: *room })
        }
        (
            Remedy::Admit { misfit, nodes, pods, apart_over },
            Remedy::Admit { misfit: again, pods: more, .. },
        ) if misfit == again && misfit.needs_a_node_each() => {
            let pods = pods.saturating_add(*more);
            let (misfit, apart_over) = (misfit.clone(), apart_over.clone());
            Some(Remedy::Admit { misfit, nodes: *nodes, pods, apart_over })
        }
        _ => None,
    }
}

fn outcome(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> Tried {
    let decided = decisions_for(session, plan, group);
    let placed = decided.iter().find_map(|decision| match decision {
        Decision::Bind { node, .. } => Some((*node, Fits::Now)),
        Decision::Pipeline { pod, node } => {
            (session.pod(*pod).group == Some(group)).then_some((*node, Fits::Later))
        }
        Decision::Evict { .. } => None,
    });
    let name = |node: NodeId| Name::clone(&session.node(node).name);
    match (placed, plan.waiting.get(&group)) {
        (Some((node, fits)), _) => Tried::Runs { node: name(node), fits },
        (None, Some(reason)) => Tried::Waits(reason.clone()),
        (None, None) => Tried::Untold,
    }
}
