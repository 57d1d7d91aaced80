//! Simulates a suggestion: runs the cycles after it for a pod group.

use super::{
    CycleSimulator, MissingPods, NewNodeSize, TrialOutcome, decisions_for, find_missing_pods,
};
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    framework::{Fit, Session},
    inspect::next_snapshot,
    model::{Name, NodeId, Pod, PodGroupId, PodId, PodStatus},
    queues::MinimumStatus,
};

/// Number of cycles that are simulated after the one in which the group starts: in these the group
/// may be evicted again, or not get its pipelined capacity.
const CYCLES_AFTER_START: usize = 3;

/// The result of a simulation: outcome for the group, pods of the group that do not fit, and
/// placements of other jobs.
pub(super) type TrialResult = (TrialOutcome, MissingPods, Vec<Decision>);

/// Simulates the next cycle for the group, and a few more cycles if the group is pipelined or may
/// be evicted again.
pub(super) fn run_trial(
    cluster: &Snapshot,
    simulator: &CycleSimulator<'_>,
    group: PodGroupId,
) -> TrialResult {
    let (mut statement, plan) = simulator.run(cluster);
    let missing = find_missing_pods(&mut statement, group);
    let others = placements_of_other_jobs(&statement, &plan, group);
    match trial_outcome(&statement, &plan, group) {
        runs @ TrialOutcome::Runs { fits, .. } => {
            let waits = result_if_pending_later(cluster, simulator, group, &plan, fits);
            waits.unwrap_or((runs, missing, others))
        }
        waits @ (TrialOutcome::StillPending(_)
        | TrialOutcome::EvictedAgain(_)
        | TrialOutcome::NotSimulated) => (waits, missing, others),
    }
}

/// The result of the first later cycle in which the group loses pods that it needs, or of the last
/// cycle if the group gained no pod; `None` otherwise. Once the limit of simulated evictions is
/// reached, no other group evicts pods of the group, so the cycles end when it has gained a pod.
fn result_if_pending_later(
    cluster: &Snapshot,
    simulator: &CycleSimulator<'_>,
    group: PodGroupId,
    plan: &Plan,
    fits: Fit,
) -> Option<TrialResult> {
    let gained = |now: &Snapshot| count_placed(now, group) > count_placed(cluster, group);
    let (mut cluster_then, mut has_left) = (next_snapshot_without_releasing(cluster, plan), false);
    // The reason of a group that is evicted in the last cycle appears in the next one.
    for cycle in 1..=CYCLES_AFTER_START + 1 {
        if simulator.is_limit_reached() && !has_left && gained(&cluster_then) {
            break;
        }
        let (mut statement, plan) = simulator.run(&cluster_then);
        has_left |= would_lose_minimum(&statement, &plan, group);
        let after = next_snapshot_without_releasing(&cluster_then, &plan);
        let is_last = cycle >= CYCLES_AFTER_START || plan.decisions.is_empty();
        if (has_left || is_last && !gained(&after))
            && let Some(reason) = plan.waiting.get(&group).cloned()
        {
            let others = placements_of_other_jobs(&statement, &plan, group);
            let waits = match fits {
                Fit::Later if !has_left => TrialOutcome::StillPending(reason),
                Fit::Now | Fit::Later => TrialOutcome::EvictedAgain(reason),
            };
            return Some((waits, find_missing_pods(&mut statement, group), others));
        }
        if is_last && !has_left {
            break;
        }
        cluster_then = after;
    }
    None
}

fn trial_outcome(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> TrialOutcome {
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

/// The snapshot of the next cycle, with all terminating pods gone.
fn next_snapshot_without_releasing(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
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

/// The decisions of the plan that place pods outside the group.
pub(super) fn placements_of_other_jobs(
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

/// Whether the evictions of the plan leave the group below its minimum.
fn would_lose_minimum(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> bool {
    let leaves = plan.decisions.iter().any(|decision| match decision {
        Decision::Evict { pod, .. } => session.pod(*pod).group == Some(group),
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    });
    leaves
        && session.members(group).minimum_status(session.group(group))
            == MinimumStatus::BelowMinimum
}
