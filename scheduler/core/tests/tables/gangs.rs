//! Gangs are placed whole or not at all, and report why they are pending.

use insta::assert_snapshot;

use schedlab_testkit::plan_of;

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=4
        node n3 gpus=4
        gang a pods=2 gpus=8
    "), @"a pending: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 3 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn a_gang_that_fits_runs() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        gang a pods=2 gpus=8
    "), @"a runs on n1, n2");
}

#[test]
fn a_gang_of_ten_gpus_takes_none_of_eight_free_ones() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job running gpus=8 on n2
        gang a pods=10 gpus=1
    "), @"a pending: Resources were found for 8 pods while 10 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn a_gang_larger_than_the_cluster_is_reported_as_such() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=1 cordoned
        gang a pods=10 gpus=1
    "), @"a pending: The workload cannot run on this cluster as it is: 10 pods that must run together request 10 GPUs, and all nodes on which they may run offer 8 GPUs.");
}

#[test]
fn two_gangs_that_fit_only_one_at_a_time_do_not_both_get_a_part() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang a pods=6 gpus=1
        gang b pods=6 gpus=1
    "), @r"
    a runs on n1 x6
    b pending: Resources were found for 2 pods while 6 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_failed_member_is_replaced_though_another_has_succeeded() {
    // One succeeded, one runs, and the third is the replacement of a failed one.
    assert_snapshot!(plan_of("
        node n1 gpus=3
        job a pods=3 min=3 gpus=1 succeeded=1 on n1
    "), @"a runs on n1");
    assert_snapshot!(plan_of("
        node n1 gpus=3
        job a pods=3 min=3 gpus=1 succeeded=1
    "), @"a runs on n1 x2");
    assert_snapshot!(plan_of("
        node n1 gpus=4
        gang a
          part head gpus=1 succeeded=1
          part workers pods=3 gpus=1 succeeded=1 on n1
    "), @"a runs on n1");
}

#[test]
fn the_rest_of_a_gang_of_which_one_succeeded_is_placed_whole_or_not_at_all() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job a pods=3 min=3 gpus=1 succeeded=1
    "), @"a pending: The workload cannot run on this cluster as it is: 2 pods that must run together request 2 GPUs, and all nodes on which they may run offer 1 GPUs.");
}

#[test]
fn a_gang_waits_for_members_that_do_not_exist_yet() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang a pods=3 min=4 gpus=1
    "), @"a pending: Job is not ready for scheduling. Waiting for 4 pods, currently 3 exist, 0 are gated");
}

#[test]
fn a_gang_waits_for_gated_members() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang a pods=4 gpus=1 gated=1
    "), @"a pending: Job is not ready for scheduling. Waiting for 4 pods, currently 4 exist, 1 are gated");
}

#[test]
fn a_gated_pod_does_not_hold_up_the_others() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a pods=2 gpus=1 gated=1
    "), @"a runs on n1");
}

#[test]
fn an_elastic_job_starts_with_its_minimum_and_grows() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a pods=10 min=4 gpus=1
    "), @r"
    a runs on n1 x8
    a pending: Resources were not found for pod default/a-8 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn elastic_jobs_get_their_first_surplus_in_turn_and_then_by_age() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a pods=8 min=2 gpus=1
        job b pods=8 min=2 gpus=1
    "), @r"
    a runs on n1 x2
    b runs on n1 x2
    a runs on n1
    b runs on n1
    a runs on n1 x2
    a pending: Resources were not found for pod default/a-5 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    b pending: Resources were not found for pod default/b-3 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_queue_whose_job_was_placed_yields_to_queues_that_have_less() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=1
        queue b quota=1
        job a1 gpus=1 queue=a
        job a2 gpus=1 queue=a
        job b1 gpus=1 queue=b
    "), @r"
    a1 runs on n1
    b1 runs on n1
    a2 pending: Resources were not found for pod default/a2 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_minimum_is_placed_before_the_elastic_pods_of_others() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a pods=8 min=2 gpus=1 on n1 n1 n1 n1
        gang b pods=4 gpus=1
    "), @r"
    b runs on n1 x4
    a pending: Resources were not found for pod default/a-4 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_member_that_failed_is_replaced() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        gang a pods=4 gpus=1 on n1 n1 n1
    "), @"a runs on n1");
}

#[test]
fn when_one_member_is_pipelined_all_are() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job leaving gpus=1 releasing on n2
        gang a pods=2 gpus=2
        job small gpus=1
    "), @r"
    a waits for n1, n2
    a pending: Pipelined to n1, n2: waiting for terminating pods to release capacity
    small pending: Resources were not found for pod default/small due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn capacity_of_stuck_pods_is_not_pipelined() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job stuck gpus=1 releasing for=3m on n1
        job a gpus=1
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn a_pod_is_pipelined_onto_releasing_capacity() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job leaving gpus=1 releasing for=1m on n1
        job a gpus=1
    "), @r"
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn pipelined_capacity_is_used_once() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job leaving gpus=1 releasing on n1
        job a gpus=1
        job b gpus=1
    "), @r"
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn idle_capacity_next_to_a_pipelined_pod_stays_allocated() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job leaving gpus=1 releasing on n1
        gang a pods=1 gpus=8
        job small gpus=1
    "), @r"
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    small pending: Resources were not found for pod default/small due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn sub_groups_have_their_own_minimum() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 cpu=8
        gang a
          part master cpu=1
          part worker pods=3 gpus=1
    "), @"a runs on n2, n1 x3");
}

#[test]
fn a_gang_whose_sub_groups_do_not_all_fit_stays_pending() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job running gpus=2 on n2
        gang a
          part master cpu=1
          part worker pods=3 gpus=1
    "), @"a pending: Resources were found for 3 pods from all sub-groups while sub-group worker requires 3 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn one_of_two_sub_groups_suffices_with_min_sub_group_one() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        gang a needs=1
          part left pods=4 gpus=1
          part right pods=4 gpus=1
    "), @r"
    a runs on n1 x4
    a pending: Resources were found for 4 pods from all sub-groups while sub-group right requires 4 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn an_optional_sub_group_is_placed_whole() {
    assert_snapshot!(plan_of("
        node n1 gpus=6
        gang a needs=1
          part left pods=3 gpus=1
          part right pods=3 gpus=1
    "), @"a runs on n1 x6");
}

#[test]
fn nested_sub_groups_are_placed_together() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        gang a
          part leader gpus=1
          part racks needs=1
          part left parent=racks pods=4 gpus=1
          part right parent=racks pods=4 gpus=1
    "), @r"
    a runs on n1 x5
    a pending: Resources were found for 8 pods from all sub-groups while sub-group right requires 4 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn among_optional_sub_groups_the_first_by_name_is_placed_first() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        node n2 gpus=2
        gang a needs=1
          part small gpus=1
          part large gpus=2
    "), @"a runs on n2, n1");
}

#[test]
fn pods_of_different_shapes_are_one_gang() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=1
        gang a
          part head gpus=1
          part tail gpus=8
    "), @"a runs on n2, n1");
}

#[test]
fn a_pod_that_lost_its_node_does_not_count() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        gang a pods=3 min=3 gpus=1 on n1 gone
    "), @r"
    a pending: Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated
    a is stale
    ");
}

#[test]
fn elastic_pods_go_to_the_sub_group_with_the_lowest_ratio() {
    assert_snapshot!(plan_of("
        node n1 gpus=6
        node n2 gpus=1 label kind=left
        node n3 gpus=1 label kind=right
        queue q quota=7 limit=7
        gang a queue=q
          part left pods=5 min=4 gpus=1 needs kind=left on n1 n1 n1 n1
          part right pods=3 min=1 gpus=1 needs kind=right on n1 n1
    "), @r"
    a runs on n2
    a pending: q quota has reached the allowable limit of GPUs. Limit is 7 GPUs, currently 7 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn elastic_pods_do_not_run_before_their_pipelined_gang() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        foreign leaving gpus=3 releasing on n1
        job a pods=3 min=2 gpus=1
    "), @r"
    a waits for n1 x3
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn unschedulable_members_exist_but_do_not_count_for_the_minimum() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job a pods=3 min=3 gpus=1 unusable=1
        job b pods=3 min=2 gpus=1 unusable=1
        job c pods=3 min=3 gpus=1 unusable=3
        job d pods=2 min=2 gpus=1 unusable=2 gated=1
        gang e
          part head gpus=1
          part workers pods=3 gpus=1 unusable=2
        gang f needs=1
          part l pods=0 min=1
          part r pods=2 unusable=2
    "), @r"
    b runs on n1 x2
    a pending: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]
    c pending: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 3 of them cannot be scheduled, such as default/c-0: Missing required configmaps: [m]
    d pending: Job is not ready for scheduling. Waiting for 2 pods, currently 2 exist, 1 are gated, 2 of them cannot be scheduled, such as default/d-0: Missing required configmaps: [m]
    e pending: Job is not ready for scheduling. Waiting for 3 pods for SubGroup workers, currently 3 exist, 0 are gated. 2 of them cannot be scheduled, such as default/e-workers-0: Missing required configmaps: [m]
    f pending: Job is not ready for scheduling. Waiting for 2 pods for SubGroup r, currently 2 exist, 0 are gated. 2 of them cannot be scheduled, such as default/f-r-0: Missing required configmaps: [m]
    ");
}

#[test]
fn a_job_with_scheduling_backoff_is_tried_once() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue left quota=2
        queue right quota=2
        job a pods=2 gpus=1 queue=left left-alone
        job b pods=4 min=1 gpus=1 queue=right on n1 n1
    "), @r"
    b runs on n1 x2
    a pending: It was unschedulable on this node pool and is not tried again here, because its schedulingBackoff is 1
    ");
}

#[test]
fn no_pod_is_evicted_for_a_job_in_scheduling_backoff() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue left quota=2
        queue right quota=0
        job a gpus=2 queue=left priority=90 left-alone
        job b gpus=2 queue=right on n1
    "), @"a pending: It was unschedulable on this node pool and is not tried again here, because its schedulingBackoff is 1");
}

#[test]
fn a_job_in_scheduling_backoff_is_not_moved_and_others_are() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job a gpus=1 on n1
        job b gpus=1 left-alone on n2
        job c gpus=2
    "), @r"
    a leaves n1 for c (consolidation)
    a waits for n2
    c waits for n1
    c pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        job a gpus=1 left-alone on n1
        job b gpus=1 left-alone on n2
        job c gpus=2
    "), @"c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn an_evicted_job_in_scheduling_backoff_is_not_pipelined() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 label kind=left
        node n2 gpus=2
        queue left quota=2
        queue right quota=0
        job a gpus=2 queue=left needs kind=left
        job b gpus=2 queue=right left-alone on n1
    "), @r"
    b leaves n1 for a (reclaim)
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=4 label kind=left
        node n2 gpus=2
        queue left quota=4
        queue right quota=0
        job a gpus=4 queue=left needs kind=left
        job b gpus=2 queue=right left-alone on n1
        job c gpus=2 queue=right on n1
    "), @r"
    c leaves n1 for a (reclaim)
    c waits for n2
    b leaves n1 for a (reclaim)
    a waits for n1
    a pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_gang_whose_minimum_is_pipelined_waits_for_that() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue owner quota=3
        queue borrower quota=1
        job b pods=4 min=1 gpus=1 queue=borrower on n1 n1 n1 n1
        job gang pods=4 min=3 gpus=1 queue=owner
    "), @r"
    b leaves n1 x3 for gang (reclaim)
    gang waits for n1 x3
    gang pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_pipelined_gang_with_an_unschedulable_pod_reports_pipelined() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=2
        queue b quota=0
        job other gpus=1 queue=b on n1
        job x pods=3 min=1 gpus=1 queue=a unusable=1 on n1
    "), @r"
    x runs on n1
    other leaves n1 for x (reclaim)
    x waits for n1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}
