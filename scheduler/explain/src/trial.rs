//! Simulates a suggestion: runs the cycles after it for a pod group.

use super::{MissingPods, NewNodeSize, TrialOutcome, decisions_for, missing_pods};
use schedlab_scheduler_core::{
    Decision, Plan, Profile, Snapshot,
    framework::{Fit, Session},
    inspect::{decide, next_snapshot},
    model::{Name, NodeId, Pod, PodGroupId, PodId, PodStatus},
    queues::MinimumStatus,
};

/// Number of cycles that are simulated after the one in which the group starts: it may be evicted
/// again, or not get its pipelined capacity.
const CYCLES_AFTER: usize = 3;

/// The outcome, the pods of the group that do not fit then, and the placements of other jobs.
pub(super) type TrialResult = (TrialOutcome, MissingPods, Vec<Decision>);

/// Runs the next cycle for the group, and a few more if the group is not where it was pipelined to.
pub(super) fn run_trial(cluster: &Snapshot, profile: &Profile, group: PodGroupId) -> TrialResult {
    let (mut statement, plan) = decide(cluster, profile, &mut ());
    let missing = missing_pods(&mut statement, group);
    let others = placed_others(&statement, &plan, group);
    match outcome(&statement, &plan, group) {
        runs @ TrialOutcome::Runs { fits, .. } => {
            let waits = pending_after(cluster, profile, group, &plan, fits);
            waits.unwrap_or((runs, missing, others))
        }
        waits @ (TrialOutcome::StillPending(_)
        | TrialOutcome::EvictedAgain(_)
        | TrialOutcome::NotSimulated) => (waits, missing, others),
    }
}

/// The result of the first later cycle in which needed pods of the group were evicted, or of the
/// last one, if the group gained no pod.
fn pending_after(
    cluster: &Snapshot,
    profile: &Profile,
    group: PodGroupId,
    plan: &Plan,
    fits: Fit,
) -> Option<TrialResult> {
    let (mut cluster_then, mut has_left) = (after_terminations(cluster, plan), false);
    // The reason of a group that is evicted in the last cycle appears in the next one.
    for cycle in 1..=CYCLES_AFTER + 1 {
        let (mut statement, plan) = decide(&cluster_then, profile, &mut ());
        has_left |= lost_its_minimum(&statement, &plan, group);
        let after = after_terminations(&cluster_then, &plan);
        let is_last = cycle >= CYCLES_AFTER || plan.decisions.is_empty();
        let has_more = count_placed(&after, group) > count_placed(cluster, group);
        if (has_left || is_last && !has_more)
            && let Some(reason) = plan.waiting.get(&group).cloned()
        {
            let others = placed_others(&statement, &plan, group);
            let waits = match fits {
                Fit::Later if !has_left => TrialOutcome::StillPending(reason),
                Fit::Now | Fit::Later => TrialOutcome::EvictedAgain(reason),
            };
            return Some((waits, missing_pods(&mut statement, group), others));
        }
        if is_last && !has_left {
            break;
        }
        cluster_then = after;
    }
    None
}

fn outcome(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> TrialOutcome {
    let decided = decisions_for(session, plan, group);
    let is_new = |pod: PodId| {
        let pod = session.pod(pod);
        pod.group == Some(group) && pod.node.is_none()
    };
    let placed = decided.iter().find_map(|decision| match decision {
        Decision::Bind { pod, node } => is_new(*pod).then_some((*node, Fit::Now)),
        Decision::Pipeline { pod, node } => is_new(*pod).then_some((*node, Fit::Later)),
        Decision::Evict { .. } => None,
    });
    let name = |node: NodeId| Name::clone(&session.node(node).name);
    match (placed, plan.waiting.get(&group)) {
        (Some((node, fits)), _) => {
            TrialOutcome::Runs { node: name(node), fits, new_nodes: NewNodeSize::default() }
        }
        (None, Some(reason)) => TrialOutcome::StillPending(reason.clone()),
        (None, None) => TrialOutcome::NotSimulated,
    }
}

/// The snapshot of the next cycle, with all releasing pods gone.
fn after_terminations(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = next_snapshot(snapshot, plan);
    next.remove_terminating_pods();
    next
}

/// Number of pods of the group that have a node.
fn count_placed(snapshot: &Snapshot, group: PodGroupId) -> usize {
    let held = |pod: &&Pod| {
        pod.group == Some(group) && pod.node.is_some() && pod.status != PodStatus::Releasing
    };
    snapshot.pods.iter().filter(held).count()
}

/// Placements of other jobs.
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

/// Whether evictions leave the group below its minimum.
fn lost_its_minimum(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> bool {
    let leaves = plan.decisions.iter().any(|decision| match decision {
        Decision::Evict { pod, .. } => session.pod(*pod).group == Some(group),
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    });
    leaves
        && session.members(group).minimum_status(session.group(group))
            == MinimumStatus::BelowMinimum
}
