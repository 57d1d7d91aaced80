//! Which pod of a group is served first.

use std::cmp::Ordering;

use crate::{
    Snapshot,
    model::{Leader, Pod, PodId},
    profile::TaskRule,
};

/// The place of every pod among its group's, first to be served first.
pub(super) fn task_ranks(snapshot: &Snapshot, rules: &[TaskRule]) -> Vec<u32> {
    let mut by_group = vec![Vec::new(); snapshot.pod_groups.len()];
    for (pod, id) in snapshot.pods.iter().zip(0..) {
        if let Some(group) = pod.group {
            by_group[group.0 as usize].push(PodId(id));
        }
    }
    let mut ranks = vec![0; snapshot.pods.len()];
    for mut pods in by_group {
        if pods.len() > 1 {
            pods.sort_by(|a, b| {
                let (left, right) = (&snapshot.pods[a.0 as usize], &snapshot.pods[b.0 as usize]);
                compare(rules, left, right).then(a.cmp(b))
            });
        }
        for (pod, rank) in pods.into_iter().zip(0..) {
            ranks[pod.0 as usize] = rank;
        }
    }
    ranks
}

/// By the rules, then the older first, then by uid.
fn compare(rules: &[TaskRule], left: &Pod, right: &Pod) -> Ordering {
    let by_rules = rules.iter().map(|rule| rank(*rule, left).cmp(&rank(*rule, right)));
    let by_age = (left.created, &left.uid).cmp(&(right.created, &right.uid));
    by_rules.fold(Ordering::Equal, Ordering::then).then(by_age)
}

/// What a rule makes of a pod; less is better.
fn rank(rule: TaskRule, pod: &Pod) -> i64 {
    match rule {
        TaskRule::Kubeflow => i64::from(pod.leads != Some(Leader::Kubeflow)),
        TaskRule::Ray => i64::from(pod.leads != Some(Leader::Ray)),
        TaskRule::TaskOrder => pod.task_priority.map_or(i64::MAX, |priority| -i64::from(priority)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Time, testing::snapshot_of};

    #[test]
    fn the_highest_task_priority_comes_first_any_before_none_then_the_oldest() {
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
        assert_eq!(task_ranks(&snapshot, &TaskRule::ALL), [3, 1, 0, 2, 4]);
    }

    #[test]
    fn the_first_rule_of_the_profile_that_tells_two_pods_apart_decides() {
        let mut snapshot = snapshot_of("job a pods=4");
        snapshot.pods[1].leads = Some(Leader::Ray);
        snapshot.pods[2].leads = Some(Leader::Kubeflow);
        snapshot.pods[3].task_priority = Some(1);
        let [kubeflow, ray, task_order] = TaskRule::ALL;
        assert_eq!(task_ranks(&snapshot, &[kubeflow, ray, task_order]), [3, 1, 0, 2]);
        assert_eq!(task_ranks(&snapshot, &[ray, kubeflow, task_order]), [3, 0, 1, 2]);
        assert_eq!(task_ranks(&snapshot, &[kubeflow, task_order, ray]), [3, 2, 0, 1]);
        assert_eq!(task_ranks(&snapshot, &[task_order, kubeflow, ray]), [3, 2, 1, 0]);
        assert_eq!(task_ranks(&snapshot, &[task_order]), [1, 2, 3, 0]);
        assert_eq!(task_ranks(&snapshot, &[]), [0, 1, 2, 3]);
    }
}
