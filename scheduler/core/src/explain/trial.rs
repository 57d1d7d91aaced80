//! What comes of a remedy: what the cycles after it do for a pod group.

use super::{Missing, NewNodes, Tried, decisions_for, missing, next_snapshot::next_snapshot};
use crate::{
    Decision, Plan, Profile, Snapshot,
    cycle::decide,
    model::{Name, NodeId, Pod, PodGroupId, PodId, PodStatus},
    queues::Shortfall,
    session::{Fits, Session},
};

/// So many cycles after the one in which it starts are looked at, too: it may leave again, or not get
/// what it was promised.
const CYCLES_AFTER: usize = 3;

/// What comes of it, pods of the group for which there is no node then, and who else gets one.
pub(super) type Then = (Tried, Missing, Vec<Decision>);

/// What the next cycle there does for the group, or the few after it if it is not where it was to
/// be then; for which pods of it there is no node then, and who else gets one.
pub(super) fn tried(cluster: &Snapshot, profile: &Profile, group: PodGroupId) -> Then {
    let (mut session, plan) = decide(cluster, profile, &mut ());
    let missing = missing(&mut session, group);
    let others = placed_others(&session, &plan, group);
    match outcome(&session, &plan, group) {
        runs @ Tried::Runs { fits, .. } => {
            let waits = waits_after((cluster, profile, group), &plan, fits);
            waits.unwrap_or((runs, missing, others))
        }
        waits @ (Tried::Waits(_) | Tried::Leaves(_) | Tried::Untold) => (waits, missing, others),
    }
}

/// The same of the cycle, of the few after this plan, in which pods that it needs have left, or of
/// the last, if no more of them have a node then than before.
fn waits_after(
    (cluster, profile, group): (&Snapshot, &Profile, PodGroupId),
    plan: &Plan,
    fits: Fits,
) -> Option<Then> {
    let (mut then, mut has_left) = (quiet_after(cluster, plan), false);
    // Why it waits who leaves in the last of them is told in the next.
    for cycle in 1..=CYCLES_AFTER + 1 {
        let (mut session, plan) = decide(&then, profile, &mut ());
        has_left |= lost_its_minimum(&session, &plan, group);
        let after = quiet_after(&then, &plan);
        let is_last = cycle >= CYCLES_AFTER || plan.decisions.is_empty();
        let has_more = held(&after, group) > held(cluster, group);
        if (has_left || is_last && !has_more)
            && let Some(reason) = plan.waiting.get(&group).cloned()
        {
            let others = placed_others(&session, &plan, group);
            let waits = match fits {
                Fits::Later if !has_left => Tried::Waits(reason),
                Fits::Now | Fits::Later => Tried::Leaves(reason),
            };
            return Some((waits, missing(&mut session, group), others));
        }
        if is_last && !has_left {
            break;
        }
        then = after;
    }
    None
}

fn outcome(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> Tried {
    let decided = decisions_for(session, plan, group);
    let is_new = |pod: PodId| {
        let pod = session.pod(pod);
        pod.group == Some(group) && pod.node.is_none()
    };
    let placed = decided.iter().find_map(|decision| match decision {
        Decision::Bind { pod, node } => is_new(*pod).then_some((*node, Fits::Now)),
        Decision::Pipeline { pod, node } => is_new(*pod).then_some((*node, Fits::Later)),
        Decision::Evict { .. } => None,
    });
    let name = |node: NodeId| Name::clone(&session.node(node).name);
    match (placed, plan.waiting.get(&group)) {
        (Some((node, fits)), _) => {
            Tried::Runs { node: name(node), fits, new_nodes: NewNodes::default() }
        }
        (None, Some(reason)) => Tried::Waits(reason.clone()),
        (None, None) => Tried::Untold,
    }
}

/// The cluster in which the next cycle decides, when those who are leaving have left.
fn quiet_after(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = next_snapshot(snapshot, plan);
    next.let_leave();
    next
}

/// Pods of the group that have a node.
fn held(snapshot: &Snapshot, group: PodGroupId) -> usize {
    let held = |pod: &&Pod| {
        pod.group == Some(group) && pod.node.is_some() && pod.status != PodStatus::Releasing
    };
    snapshot.pods.iter().filter(held).count()
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

/// Pods of the group leave, and those that stay are too few.
fn lost_its_minimum(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> bool {
    let leaves = plan.decisions.iter().any(|decision| match decision {
        Decision::Evict { pod, .. } => session.pod(*pod).group == Some(group),
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    });
    leaves && session.members(group).shortfall(session.group(group)) == Shortfall::BelowMinimum
}
