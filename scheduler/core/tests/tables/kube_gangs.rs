//! Profile `kube` with PodGroups of Kubernetes: gangs, the preemption of whole gangs, topology.

use insta::assert_snapshot;

use schedlab_scheduler_core::{
    Decision, Profile,
    model::{PodGroupId, PodId, PreemptionPolicy},
    schedule,
};
use schedlab_testkit::{kube_plan_of, kube_snapshot_of};

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        node n2 gpus=1
        gang a pods=4 gpus=1
        gang b pods=3 gpus=1
    "), @"
    b runs on n1 x2, n2
    a pending: minCount (4) cannot be satisfied: 3 scheduled, 0 remaining, No preemption victims found for incoming preemptor
    ");
}

#[test]
fn a_gang_is_not_tried_before_its_minimum_exists() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=8
        gang a pods=2 min=3 gpus=1
    "), @"a pending: Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated");
}

#[test]
fn pods_above_the_minimum_run_if_there_is_room() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=3
        gang a pods=4 min=2 gpus=1
    "), @"
    a runs on n1 x3
    a pending: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, No preemption victims found for incoming preemptor
    ");
}

#[test]
fn a_gang_evicts_pods_on_several_nodes_and_no_more_than_needed() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job low pods=4 gpus=1 priority=1 on n1 n1 n2 n2
        gang a pods=3 gpus=1 priority=10
    "), @"
    low-0 leaves n1 for a (preempt)
    low-1 leaves n1 for a (preempt)
    low-3 leaves n2 for a (preempt)
    a waits for n1 x2, n2
    a pending: minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, found a placement for podgroup, preempting 3 victims
    ");
}

#[test]
fn a_gang_that_is_disrupted_as_a_whole_leaves_as_a_whole() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        node n2 gpus=2
        gang low pods=3 gpus=1 priority=1 whole on n1 n1 n2
        gang a pods=2 gpus=1 priority=10
    "), @"
    low leaves n1 x2, n2 for a (preempt)
    a waits for n1 x2
    a pending: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, found a placement for podgroup, preempting 3 victims
    ");
}

#[test]
fn a_gang_of_single_disruption_loses_only_the_pods_that_are_in_the_way() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        node n2 gpus=2
        gang low pods=3 gpus=1 priority=1 on n1 n1 n2
        gang a pods=2 gpus=1 priority=10
    "), @"
    low leaves n1 x2 for a (preempt)
    a waits for n1 x2
    a pending: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, found a placement for podgroup, preempting 2 victims
    ");
}

#[test]
fn no_gang_is_evicted_for_one_that_does_not_fit_anyway() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        gang low pods=2 gpus=1 priority=1 whole on n1 n1
        gang a pods=3 gpus=1 priority=10
    "), @"a pending: minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining");
}

#[test]
fn all_pods_of_a_gang_run_in_one_domain() {
    assert_snapshot!(kube_plan_of("
        topology rack levels rack
        node n1 gpus=2 label rack=a
        node n2 gpus=1 label rack=b
        node n3 gpus=2 label rack=b
        gang a pods=3 gpus=1 together=rack/rack
        gang b pods=3 gpus=1 together=rack/rack
    "), @"
    a runs on n2, n3 x2
    b pending: 0/2 placements are available, first placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, No preemption victims found for incoming preemptor
    ");
}

#[test]
fn a_preempting_gang_stays_in_one_domain() {
    assert_snapshot!(kube_plan_of("
        topology rack levels rack
        node n1 gpus=2 label rack=a
        node n2 gpus=1 label rack=b
        node n3 gpus=2 label rack=b
        job low pods=2 gpus=1 priority=1 on n1 n3
        gang a pods=3 gpus=1 priority=10 together=rack/rack
    "), @"
    low-1 leaves n3 for a (preempt)
    a waits for n2, n3 x2
    a pending: 0/2 placements are available, first placement status: minCount (3) cannot be satisfied: 1 scheduled, 1 remaining, found a placement for podgroup, preempting 1 victims
    ");
}

/// The plan of profile `kube` for a cluster as text in which the pods of group `b` belong to group
/// `a`.
fn plan_with_pods_of_b_in_a(text: &str) -> String {
    let mut snapshot = kube_snapshot_of(text);
    let id = |name: &str| {
        let found = snapshot.pod_groups.iter().position(|group| *group.name == *name);
        let at = found.expect("the cluster has the group");
        PodGroupId(u32::try_from(at).expect("a snapshot has fewer than 2^32 groups"))
    };
    let (a, b) = (id("a"), id("b"));
    for pod in snapshot.pods.iter_mut().filter(|pod| pod.group == Some(b)) {
        pod.group = Some(a);
    }
    let plan = schedule(&snapshot, &Profile::kube());
    let on = |pod: PodId| snapshot.pods[pod.0 as usize].name.to_string();
    let lines = plan.decisions.iter().map(|decision| match decision {
        Decision::Bind { pod, node } => {
            format!("{} runs on {}", on(*pod), snapshot.nodes[node.0 as usize].name)
        }
        Decision::Evict { .. } | Decision::Pipeline { .. } => format!("{decision:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_pod_that_fits_nowhere_does_not_keep_the_others_from_being_the_minimum() {
    assert_snapshot!(plan_with_pods_of_b_in_a("
        node n1 gpus=2
        gang b gpus=4
        gang a pods=2 gpus=1
    "), @"
    a-0 runs on n1
    a-1 runs on n1
    ");
}

#[test]
fn a_group_goes_to_the_domain_that_holds_most_of_its_pods() {
    assert_snapshot!(kube_plan_of("
        topology rack levels rack
        node n1 gpus=2 cpu=8 label rack=a
        node n2 gpus=4 cpu=8 label rack=b
        gang a pods=4 min=2 gpus=1 together=rack/rack
    "), @"a runs on n2 x4");
}

#[test]
fn a_group_goes_to_the_fullest_of_the_domains_that_hold_it_whole() {
    assert_snapshot!(kube_plan_of("
        topology rack levels rack
        node n1 gpus=4 cpu=8 label rack=a
        node n2 gpus=4 cpu=8 label rack=b
        job other cpu=4 on n2
        gang a pods=2 gpus=1 together=rack/rack
    "), @"a runs on n2 x2");
}

#[test]
fn terminating_pods_of_a_gang_count_and_determine_its_domain() {
    assert_snapshot!(kube_plan_of("
        topology rack levels rack
        node n1 gpus=8 label rack=a
        node n2 gpus=8 label rack=b
        gang a pods=3 gpus=1 releasing on n2 together=rack/rack
    "), @"a runs on n2 x2");
}

#[test]
fn a_group_whose_pods_have_another_priority_is_not_placed() {
    let mut snapshot = kube_snapshot_of(
        "
        node n1 gpus=8
        gang a pods=2 gpus=1 priority=5
    ",
    );
    snapshot.pods[1].priority = 7;
    let plan = schedule(&snapshot, &Profile::kube());
    let reasons = plan.waiting.values().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(plan.decisions.is_empty());
    assert_snapshot!(reasons, @"all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 5");
}

#[test]
fn a_group_whose_pods_have_several_preemption_policies_is_not_placed() {
    let mut snapshot = kube_snapshot_of(
        "
        node n1 gpus=8
        gang a pods=2 gpus=1
    ",
    );
    snapshot.pods[1].preemption_policy = PreemptionPolicy::Never;
    let plan = schedule(&snapshot, &Profile::kube());
    let reasons = plan.waiting.values().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(plan.decisions.is_empty());
    assert_snapshot!(reasons, @"all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority");
}
