//! The snapshot of the next cycle, if nothing happens except what a plan decides.

use crate::{
    Decision, Plan, Snapshot,
    model::{NodeId, PodStatus, Time},
};

/// The snapshot one second later if the plan was applied: bound pods run, and evicted pods are gone
/// and created again as pending pods.
pub fn next_snapshot(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = snapshot.clone();
    next.now = Time(next.now.0 + 1000);
    for decision in &plan.decisions {
        let (pod, status, node): (_, _, Option<NodeId>) = match decision {
            Decision::Bind { pod, node } => (pod, PodStatus::Running, Some(*node)),
            Decision::Evict { pod, .. } => (pod, PodStatus::Pending, None),
            Decision::Pipeline { .. } => continue,
        };
        let (groups, zones) = (plan.gpu_groups.get(pod), plan.numa_allocations.get(pod));
        let pod = &mut next.pods[pod.0 as usize];
        (pod.status, pod.node) = (status, node);
        pod.gpu_groups = groups.filter(|_| node.is_some()).cloned().unwrap_or_default();
        pod.numa_allocations = zones.filter(|_| node.is_some()).cloned().unwrap_or_default();
        let group = pod.group.map(|group| &mut next.pod_groups[group.0 as usize]);
        if let (Some(group), Some(_)) = (group, node) {
            group.last_start = group.last_start.or(Some(next.now));
        }
    }
    next
}
