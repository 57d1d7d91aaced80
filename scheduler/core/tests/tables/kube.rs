//! Profile `kube`: the behaviour of default kube-scheduler.

use insta::assert_snapshot;

use schedlab_testkit::kube_plan_of;

#[test]
fn forty_one_gpu_pods_on_thirty_two_gpus_of_which_one_is_taken_run_thirty_one() {
    let plan = kube_plan_of(
        "
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8
        node n4 gpus=8
        foreign other gpus=1 priority=50 on n1
        job a pods=40 gpus=1 cpu=1 memory=1Gi
    ",
    );
    let runs = |line: &&str| line.contains(" runs on ");
    assert_eq!(plan.lines().filter(runs).count(), 31);
    let rest: Vec<&str> = plan.lines().filter(|line| !runs(line)).collect();
    assert_snapshot!(rest.join("\n"), @"a-31 to a-39 (9) pending: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.");
}

#[test]
fn the_emptiest_node_is_chosen_by_cpu_and_memory() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8 memory=32Gi
        node n2 cpu=8 memory=32Gi
        job running cpu=4 memory=16Gi on n1
        job a cpu=1 memory=4Gi
    "), @"a runs on n2");
}

#[test]
fn equal_nodes_are_taken_by_name() {
    assert_snapshot!(kube_plan_of("
        node n2 cpu=8
        node n1 cpu=8
        job a cpu=1 memory=1Gi
    "), @"a runs on n1");
}

#[test]
fn the_higher_priority_is_scheduled_first() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        job low gpus=1 priority=1
        job high gpus=1 priority=2
    "), @r"
    high runs on n1
    low pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
    ");
}

#[test]
fn a_higher_priority_evicts_no_more_than_needed_and_waits() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=4
        job low pods=4 gpus=1 priority=1 on n1 n1 n1 n1
        job high gpus=2 priority=5
    "), @r"
    low-2 leaves n1 for high (preempt)
    low-3 leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn the_node_with_the_least_important_victims_is_chosen() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job middle gpus=1 priority=3 on n1
        job low gpus=1 priority=1 on n2
        job high gpus=1 priority=5
    "), @r"
    low leaves n2 for high (preempt)
    high waits for n2
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn fewer_victims_are_better() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job small pods=2 gpus=1 priority=1 on n1 n1
        job large gpus=2 priority=1 on n2
        job high gpus=2 priority=5
    "), @r"
    large leaves n2 for high (preempt)
    high waits for n2
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn the_node_on_which_no_disruption_budget_is_violated_is_chosen() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job guarded gpus=1 priority=1 label app=guarded on n1
        job middle gpus=1 priority=3 on n2
        budget guarded allows=0 label app=guarded
        job high gpus=1 priority=5
    "), @r"
    middle leaves n2 for high (preempt)
    high waits for n2
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn a_pod_protected_by_a_disruption_budget_is_evicted_last() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=4
        job guarded pods=2 gpus=1 priority=1 label app=guarded on n1 n1
        job other pods=2 gpus=1 priority=2 on n1 n1
        budget guarded allows=1 label app=guarded
        job high gpus=2 priority=5
    "), @r"
    other-1 leaves n1 for high (preempt)
    guarded-0 leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn a_disruption_budget_is_violated_as_a_last_resort() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        job guarded gpus=1 priority=1 label app=guarded on n1
        budget guarded allows=0 label app=guarded
        job high gpus=1 priority=5
    "), @r"
    guarded leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn a_pod_that_its_budget_counts_as_disrupted_may_leave() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job guarded gpus=1 priority=1 label app=guarded on n1
        job middle gpus=1 priority=3 on n2
        budget guarded allows=0 label app=guarded disrupted guarded
        job high gpus=1 priority=5
    "), @r"
    guarded leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn a_disruption_budget_without_a_selector_protects_no_pod() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job free gpus=1 priority=1 label app=free on n1
        job middle gpus=1 priority=3 on n2
        budget empty allows=0
        job high gpus=1 priority=5
    "), @r"
    free leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.
    ");
}

#[test]
fn equal_priority_never_preempts() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        job a gpus=1 priority=5 on n1
        job b gpus=1 priority=5
    "), @"b pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.");
}

#[test]
fn no_pod_is_moved_to_make_room() {
    let plan = kube_plan_of(
        "
        node n1 gpus=2
        node n2 gpus=2
        job left gpus=1 on n1
        job right gpus=1 on n2
        job a gpus=2
    ",
    );
    assert!(!plan.contains("leaves") && plan.starts_with("a pending"), "{plan}");
}

#[test]
fn a_pod_with_preemption_policy_never_stays_pending() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        job low gpus=1 priority=1 on n1
        job high gpus=1 priority=5 never-preempts
    "), @"high pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: not eligible due to preemptionPolicy=Never.");
}

#[test]
fn preemption_that_would_not_help_does_not_happen() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=8 taint dedicated=x:NoSchedule
        job low gpus=1 priority=1 on n1
        job high gpus=4 priority=5
    "), @"high pending: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.");
}

#[test]
fn a_nominated_pod_waits_for_its_node_and_evicts_no_more() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job leaving gpus=1 priority=1 releasing on n1
        job low gpus=1 priority=1 on n2
        job high gpus=1 priority=5 nominated=n1
    "), @r"
    high waits for n1
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: not eligible due to a terminating pod on the nominated node.
    ");
}

#[test]
fn a_nominated_pod_evicts_no_more_however_long_its_victims_take() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1
        node n2 gpus=1
        job leaving gpus=1 priority=1 releasing for=60m on n1
        job low gpus=1 priority=1 on n2
        job high gpus=1 priority=5 nominated=n1
    "), @r"
    high waits for n1
    high pending: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: not eligible due to a terminating pod on the nominated node.
    ");
}

#[test]
fn no_other_pod_takes_the_capacity_of_a_nominated_pod() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=2
        job leaving gpus=1 priority=1 releasing on n1
        job high gpus=2 priority=5 nominated=n1
        job low gpus=1 priority=1
    "), @r"
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: not eligible due to a terminating pod on the nominated node.
    low pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
    ");
}

#[test]
fn ten_pods_with_room_for_eight_run_in_part() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=8
        job a pods=10 gpus=1
    "), @r"
    a-0 runs on n1
    a-1 runs on n1
    a-2 runs on n1
    a-3 runs on n1
    a-4 runs on n1
    a-5 runs on n1
    a-6 runs on n1
    a-7 runs on n1
    a-8, a-9 pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
    ");
}

#[test]
fn nodes_with_an_untolerated_prefer_no_schedule_taint_come_last() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8 taint slow=yes:PreferNoSchedule
        node n2 cpu=8
        job running cpu=6 memory=4Gi on n2
        job a cpu=1 memory=1Gi
    "), @"a runs on n2");
}

#[test]
fn a_preferred_node_beats_an_emptier_one() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8
        node n2 cpu=8 label zone=a
        job running cpu=2 memory=4Gi on n2
        job a cpu=1 memory=1Gi prefers zone=a:10
    "), @"a runs on n2");
}

#[test]
fn among_equally_free_nodes_that_whose_balance_improves_is_chosen() {
    let plan = |tilted: &str, even: &str| {
        kube_plan_of(&format!(
            "
            node n1 cpu=8 memory=8Gi
            node n2 cpu=8 memory=8Gi
            job one cpu=4 memory=1Gi on {tilted}
            job two cpu=2 memory=3Gi on {even}
            job a cpu=1 memory=3Gi
        "
        ))
    };
    assert_snapshot!(plan("n1", "n2"), @"a runs on n1");
    assert_snapshot!(plan("n2", "n1"), @"a runs on n2");
}

#[test]
fn pods_without_requests_count_with_default_requests() {
    let plan = |node: &str| {
        kube_plan_of(&format!(
            "
            node n1 cpu=8 memory=8Gi
            node n2 cpu=8 memory=8Gi
            job humble on {node}
            job a cpu=1 memory=1Gi
        "
        ))
    };
    assert_snapshot!(plan("n1"), @"a runs on n2");
    assert_snapshot!(plan("n2"), @"a runs on n1");
}

#[test]
fn among_equally_important_victims_the_smaller_priority_sum_wins() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=4
        node n2 cpu=4
        job top priority=10 cpu=2 on n1
        job least priority=-5 cpu=2 on n1
        job alone priority=10 cpu=4 on n2
        job high priority=100 cpu=4
    "), @r"
    alone leaves n2 for high (preempt)
    high waits for n2
    high pending: 0/2 nodes are available: 2 Insufficient cpu.
    ");
}

#[test]
fn an_image_that_many_nodes_have_is_worth_more() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8 image rare
        node n2 cpu=8 image common
        node n3 cpu=8 image common
        node n4 cpu=8
        job a cpu=1 memory=1Gi image rare image common
    "), @"a runs on n2");
}

#[test]
fn a_node_that_has_the_image_beats_one_that_has_not() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8
        node n2 cpu=8 image big
        job a cpu=1 memory=1Gi image big
    "), @"a runs on n2");
}

#[test]
fn pods_of_one_replica_set_spread_over_hosts_by_default() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8
        node n2 cpu=8
        job other cpu=1 memory=8Gi on n2
        job a pods=2 cpu=1 memory=1Gi label pod-template-hash=x on n1
    "), @"a-1 runs on n2");
}

#[test]
fn pods_with_preferred_affinity_are_placed_together() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=8
        node n2 cpu=8
        job friend cpu=4 memory=8Gi label app=x on n2
        job a cpu=1 memory=1Gi likes app=x/host
    "), @"a runs on n2");
}

#[test]
fn every_short_resource_is_counted() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1 cpu=2
        node n2 gpus=8 cpu=2
        node n3 gpus=8 cpu=64 cordoned
        job a gpus=4 cpu=8
    "), @"a pending: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.");
}

#[test]
fn a_node_that_is_not_ready_is_kept_free_by_its_taint_only() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1 not-ready
        node n2 gpus=1 not-ready taint node.kubernetes.io/not-ready=:NoSchedule
        job a pods=2 gpus=1
    "), @r"
    a-0 runs on n1
    a-1 pending: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn pods_on_ineligible_nodes_do_not_count_for_topology_spread() {
    assert_snapshot!(kube_plan_of("
        node n1 label zone=a label kind=x
        node n2 label zone=a label kind=y
        node n3 label zone=b label kind=x
        job there pods=2 cpu=1 memory=1Gi label app=x on n2 n2
        job here cpu=1 memory=1Gi label app=x on n3
        job other cpu=1 memory=1Gi on n1
        job a cpu=1 memory=1Gi label app=x evenly app=x/zone/1 needs kind=x
    "), @"a runs on n1");
}

#[test]
fn preemption_helps_only_on_nodes_with_lower_priority_pods() {
    let output = |node: &str, there: &str, request: &str| {
        kube_plan_of(&format!(
            "
            node n1 cpu=8 label zone=a {node}
            job low priority=1 cpu=1 {there} on n1
            job high priority=5 {request}
        "
        ))
    };
    assert_snapshot!(output("", "", "cpu=9"), @"high pending: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "", "cpu=8"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient cpu.
    ");
    assert_snapshot!(output("cordoned", "", ""), @"high pending: 0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("taint a=b:NoSchedule", "", ""), @"high pending: 0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "", "needs zone=b"), @"high pending: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "", "near app=x/zone"), @"high pending: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "label app=x", "far app=x/zone"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.
    ");
    assert_snapshot!(output("", "far app=x/zone", "label app=x"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.
    ");
    assert_snapshot!(output("", "port=80", "port=80"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.
    ");
    assert_snapshot!(output("", "", "label app=x spread app=x/rack/1"), @"high pending: 0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "", "missing-volume=data"), @r#"high pending: 0/1 nodes are available: 1 node(s) rejected: persistentvolumeclaim "data" not found. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."#);
    assert_snapshot!(output("", "", "volume data@zone=b"), @"high pending: 0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "", "volume data?v1@zone=b"), @"high pending: 0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(output("", "volume once:data@", "volume once:data@"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.
    ");
}

#[test]
fn among_equal_victims_the_less_important_or_later_started_are_evicted() {
    let gone = |there: [&str; 4]| {
        let jobs = there.iter().zip(["a", "b", "c", "d"]);
        let jobs = jobs.map(|(job, name)| format!("job {name} cpu=1 priority={job}\n"));
        let plan = kube_plan_of(&format!(
            "
            node n1 cpu=2
            node n2 cpu=2
            {}
            job high priority=100 cpu=2
        ",
            jobs.collect::<String>()
        ));
        plan.lines().next().unwrap_or_default().to_owned()
    };
    assert_snapshot!(gone(["3 on n1", "2 on n1", "3 on n2", "1 on n2"]), @"c leaves n2 for high (preempt)");
    assert_snapshot!(gone(["3 on n2", "2 on n2", "3 on n1", "1 on n1"]), @"c leaves n1 for high (preempt)");
    assert_snapshot!(gone(["3 on n1", "1 on n2", "3 on n2", "1 on n1"]), @"c leaves n2 for high (preempt)");
    assert_snapshot!(gone(["3 on n2", "1 on n1", "3 on n1", "1 on n2"]), @"c leaves n1 for high (preempt)");
}
