//! The order of pods within a group.

use std::cmp::Ordering;

use crate::{
    Snapshot,
    model::{LeaderRole, Pod, PodId},
    profile::TaskOrderRule,
};

/// For every pod, its rank among the pods of its group; the lowest rank is placed first.
pub(super) fn task_ranks(snapshot: &Snapshot, rules: &[TaskOrderRule]) -> Vec<u32> {
    let mut by_group = vec![Vec::new(); snapshot.pod_groups.len()];
    for (pod, id) in snapshot.pods.iter().zip(0..) {
        if let Some(group) = pod.group {
            by_group[group.0 as usize].push(PodId(id));
        }
    }
    let mut ranks = vec![0; snapshot.pods.len()];
    for pods in by_group {
        rank_group(snapshot, rules, pods, &mut ranks);
    }
    ranks
}

/// Ranks the pods of one group.
pub(super) fn rank_group(
    snapshot: &Snapshot,
    rules: &[TaskOrderRule],
    mut pods: Vec<PodId>,
    ranks: &mut [u32],
) {
    if pods.len() > 1 {
        pods.sort_by(|a, b| {
            let (left, right) = (&snapshot.pods[a.0 as usize], &snapshot.pods[b.0 as usize]);
            compare_pods(rules, left, right).then(a.cmp(b))
        });
    }
    for (pod, rank) in pods.into_iter().zip(0..) {
        ranks[pod.0 as usize] = rank;
    }
}

/// Compares two pods by the rules, then by age (older first), then by uid.
fn compare_pods(rules: &[TaskOrderRule], left: &Pod, right: &Pod) -> Ordering {
    let by_rules =
        rules.iter().map(|rule| rank_by_rule(*rule, left).cmp(&rank_by_rule(*rule, right)));
    let by_age = (left.created, &left.uid).cmp(&(right.created, &right.uid));
    by_rules.fold(Ordering::Equal, Ordering::then).then(by_age)
}

/// Rank of a pod by one rule; the lower rank is placed first.
fn rank_by_rule(rule: TaskOrderRule, pod: &Pod) -> i64 {
    match rule {
        TaskOrderRule::Kubeflow => i64::from(pod.leader_role != Some(LeaderRole::Kubeflow)),
        TaskOrderRule::Ray => i64::from(pod.leader_role != Some(LeaderRole::Ray)),
        TaskOrderRule::TaskOrder => {
            pod.task_priority.map_or(i64::MAX, |priority| -i64::from(priority))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Time;
    use schedlab_testkit::snapshot_of;

    #[test]
    fn pods_are_ordered_by_task_priority_then_age() {
        let mut snapshot = snapshot_of("job a pods=5");
        for (pod, (priority, created)) in snapshot.pods.iter_mut().zip([
            (None, 7),
            (Some(1), 9),
            (Some(5), 9),
            (None, 3),
            (None, 7),
        ]) {
            (pod.task_priority, pod.created) = (priority, Time(created));
        }
        assert_eq!(task_ranks(&snapshot, &TaskOrderRule::ALL), [3, 1, 0, 2, 4]);
    }

    #[test]
    fn the_first_rule_that_distinguishes_two_pods_decides() {
        let mut snapshot = snapshot_of("job a pods=4");
        snapshot.pods[1].leader_role = Some(LeaderRole::Ray);
        snapshot.pods[2].leader_role = Some(LeaderRole::Kubeflow);
        snapshot.pods[3].task_priority = Some(1);
        let [kubeflow, ray, task_order] = TaskOrderRule::ALL;
        assert_eq!(task_ranks(&snapshot, &[kubeflow, ray, task_order]), [3, 1, 0, 2]);
        assert_eq!(task_ranks(&snapshot, &[ray, kubeflow, task_order]), [3, 0, 1, 2]);
        assert_eq!(task_ranks(&snapshot, &[kubeflow, task_order, ray]), [3, 2, 0, 1]);
        assert_eq!(task_ranks(&snapshot, &[task_order, kubeflow, ray]), [3, 2, 1, 0]);
        assert_eq!(task_ranks(&snapshot, &[task_order]), [1, 2, 3, 0]);
        assert_eq!(task_ranks(&snapshot, &[]), [0, 1, 2, 3]);
    }
}
