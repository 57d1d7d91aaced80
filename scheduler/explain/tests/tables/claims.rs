//! Device claims under profile `kai`.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_testkit::{cycles_until_steady_of, plan_of};

#[test]
fn a_claim_takes_its_devices_once_for_all_its_users() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 by-claim
        job a pods=3 claim x:2
        job b gpus=1 by-claim
    "), @r"
    a runs on n1 x3
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn pods_that_share_a_claim_run_on_its_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 by-claim cpu=2
        node n2 gpus=1 by-claim cpu=2
        job a claim x:1 cpu=1 on n2
        job b claim x:1 cpu=1
        job c claim x:1 cpu=1
    "), @r#"
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, 1 node(s) don't have the devices of claim x.
    "#);
}

#[test]
fn a_claim_is_released_when_all_its_users_leave() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        queue left quota=0
        queue right quota=2
        job a pods=2 claim x:2@left queue=left on n1 n1
        job b gpus=2 by-claim queue=right
    "), @r"
    1: a leaves n1 x2 for b (reclaim)
    1: b waits for n1
    2: b runs on n1
    steady after 2
    ");
}

#[test]
fn a_claim_in_use_is_not_allocated_on_another_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 by-claim cpu=1
        node n2 gpus=1 by-claim cpu=2
        job a claim x:1 cpu=1 releasing on n1
        job b claim x:1 cpu=2
    "), @r"
    b waits for n2
    b pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_only_user_of_a_claim_may_move_with_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        node n2 gpus=4 by-claim
        job left claim x:2/n1 on n1
        job right claim y:2/n2 on n2
        job whole gpus=4 by-claim
    "), @r"
    right leaves n2 for whole (consolidation)
    right waits for n1
    whole waits for n2
    whole pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_pod_that_shares_a_claim_with_a_staying_pod_does_not_move() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        node n2 gpus=4 by-claim
        job left claim x:2/n1 on n1
        job stays claim x:2/n1 non-preemptible on n1
        job right claim y:2/n2 on n2
        job anchor claim y:2/n2 non-preemptible on n2
        job whole gpus=4 by-claim
    "), @"whole pending: Resources were not found for pod default/whole due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn an_allocated_claim_is_used_on_its_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 by-claim cpu=1
        node n2 gpus=4 by-claim cpu=4
        job a claim x:1/n1 cpu=1
        job b claim y:1/n1 cpu=2
    "), @r"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, CPU cores, 1 node(s) don't have the devices of claim y.
    ");
}

#[test]
fn devices_of_a_claim_that_no_pod_has_are_taken() {
    assert_snapshot!(plan_of("
        node n1 gpus=3 by-claim held x:2
        job a pods=2 gpus=1 by-claim
    "), @r"
    a runs on n1
    a pending: Resources were not found for pod default/a-1 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_claim_that_no_pod_has_takes_nothing_more_when_one_uses_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 by-claim held x:2
        node n2 gpus=4 by-claim
        job a pods=2 claim x:2/n1
    "), @"a runs on n1 x2");
}

#[test]
fn devices_of_an_unused_claim_are_pipelined_without_evictions() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 by-claim given-back x:1
        node n2 gpus=1 by-claim
        queue left quota=0
        queue right quota=1
        job a gpus=1 by-claim queue=left on n2
        job b gpus=1 by-claim queue=right
    "), @r"
    b waits for n1
    b pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn gpus_are_given_to_claims_or_by_a_device_plugin() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2 by-claim
        job a gpus=2
        job b gpus=2 by-claim
        job c gpus=2
        job d claim x:1
        job e part=0.5
    "), @r"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) offer GPUs to resource claims only.
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) publish no GPUs for resource claims.
    e pending: Resources were not found for pod default/e due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) offer GPUs to resource claims only.
    ");
}

#[test]
fn a_claim_on_unpublished_gpus_names_their_device_class() {
    assert_snapshot!(suggestions_of("
        node n1 cpu=8
        job x gpus=1 by-claim class gpu.x
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more devices of class gpu.x, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        gang x pods=2 gpus=1 by-claim class gpu.x
    ", "x"), @r"
    PodSchedulingErrors
    request GPUs as a resource, or add a node with a DRA driver that publishes devices of class gpu.x
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_free_gpu_for_claims_is_no_capacity_for_other_pods() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=2 by-claim
        queue borrower quota=0
        queue owner quota=4
        job b pods=4 min=1 gpus=1 queue=borrower on n1 n1 n1 n1
        job c claim x:1@owner queue=owner
        job o pods=2 gpus=1 queue=owner
    "), @r"
    1: c runs on n2
    1: b leaves n1 for o (reclaim)
    1: o waits for n1
    2: o runs on n1
    2: b leaves n1 for o (reclaim)
    2: o waits for n1
    3: o runs on n1
    steady after 3
    ");
}

#[test]
fn a_claim_on_gpus_belongs_to_a_queue() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q
        queue r
        job a claim x:1@q queue=q
        job b claim y:1@r queue=q
        job c claim z:1@ queue=q
    "), @r"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) rejected: DRA claim y is a shared GPU claim with wrong queue label (expected queue: q, claim queue label: r).
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) rejected: DRA claim z is a shared GPU claim but does not have a queue label (kai.scheduler/queue).
    ");
}

#[test]
fn claims_count_for_quotas() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q quota=1
        job a claim x:2@q queue=q priority=100
    "), @"a pending: Non-preemptible workload is over quota. Workload requested 2 GPUs, but q quota is 1 GPUs, while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.");
}

#[test]
fn a_pod_with_a_missing_volume_stays_pending_and_moves_no_pod() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        queue left quota=0
        queue right quota=1
        job a gpus=1 queue=left on n1
        job b gpus=1 missing-volume=data queue=right
    "), @r#"b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) rejected: persistentvolumeclaim "data" not found."#);
}

#[test]
fn a_claim_on_all_devices_gets_a_node_without_used_devices() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        node n2 gpus=2 by-claim
        node n3 gpus=0 by-claim
        node n4 gpus=3
        job a gpus=1 by-claim on n1
        job b claim x:all
        job c claim y:all
        job d gpus=1 by-claim
    "), @r"
    b runs on n2
    d runs on n1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) publish no GPUs for resource claims, 3 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_claim_on_all_devices_takes_them_once_for_all_its_users() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 by-claim
        job a pods=2 claim x:all
        job b gpus=1 by-claim
    "), @r"
    a runs on n1 x2
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_claim_on_all_devices_counts_as_many_as_the_node_has() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 by-claim label pool=small
        node n2 gpus=4 by-claim label pool=large
        queue q quota=0 limit=3
        job a claim x:all@q queue=q
        job b claim y:all@q queue=q needs pool=small
        job c gpus=1 by-claim queue=q
        job d gpus=1 by-claim queue=q
    "), @r"
    b runs on n1
    c runs on n2
    a pending: q quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 0 GPUs allocated and workload requested 4 GPUs
    d pending: q quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 3 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn all_devices_of_a_node_are_reclaimed_from_all_their_users() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        node n2 gpus=3 by-claim
        queue left quota=0
        queue right quota=2
        job a gpus=1 by-claim queue=left on n1
        job b gpus=1 by-claim queue=left on n1
        job c pods=3 min=1 gpus=1 by-claim queue=left on n2 n2 n2
        job d claim x:all@right queue=right needs kubernetes.io/hostname=n1
    "), @r"
    1: b leaves n1 for d (reclaim)
    1: a leaves n1 for d (reclaim)
    1: d waits for n1
    2: d runs on n1
    steady after 2
    ");
}

#[test]
fn a_queue_is_charged_once_for_a_claim_that_its_pods_share() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q quota=2 limit=2
        job a claim x:2@q queue=q
        job b pods=2 claim x:2@q queue=q
        job c gpus=1 by-claim queue=q
    "), @r"
    a runs on n1
    b runs on n1 x2
    c pending: q quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 2 GPUs allocated and workload requested 1 GPUs
    ");
}

#[test]
fn a_queue_is_charged_for_a_claim_until_its_last_user_leaves() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q quota=2 limit=2
        job a claim x:2@q releasing queue=q on n1
        job b claim x:2@q queue=q on n1
        job c gpus=1 by-claim queue=q
    "), @"c pending: q quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 2 GPUs allocated and workload requested 1 GPUs");
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q quota=2 limit=2
        job a claim x:2@q releasing queue=q on n1
        job c gpus=1 by-claim queue=q
    "), @"c runs on n1");
}

#[test]
fn a_shared_claim_counts_once_for_the_non_preemptible_quota() {
    assert_snapshot!(plan_of("
        node n1 gpus=4 by-claim
        queue q quota=2
        job a claim x:2@q queue=q priority=100 on n1
        job b pods=2 claim x:2@q queue=q priority=100
        job c claim y:1@q queue=q on n1
        job d claim y:1@q queue=q priority=100
    "), @r"
    b runs on n1 x2
    d pending: Non-preemptible workload is over quota. Workload requested 1 GPUs, but q quota is 2 GPUs, while 2 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    ");
}

#[test]
fn pending_pods_that_share_a_claim_request_it_once() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        node n2 gpus=2 by-claim
        queue left quota=0
        queue right quota=0
        job a gpus=1 by-claim queue=left on n1
        job b gpus=1 by-claim queue=left on n1
        job c gpus=1 by-claim queue=left on n2
        job d pods=4 claim x:1@right queue=right on n2 n2 n2 n2
        job e pods=2 claim y:1@right queue=right
    "), @r"
    1: c leaves n2 for e (reclaim)
    1: e waits for n2
    2: e runs on n2 x2
    steady after 2
    ");
}

#[test]
fn a_shared_claim_that_fills_a_limit_is_reclaimed() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        queue top quota=2 limit=1
        queue left parent=top quota=0
        queue right parent=top quota=1
        job a claim x:1@left queue=left on n1
        job b claim x:1@left queue=left on n1
        job c gpus=1 by-claim queue=right
    "), @r"
    1: b leaves n1 for c (reclaim)
    1: a leaves n1 for c (reclaim)
    1: c waits for n1
    2: c runs on n1
    steady after 2
    ");
}

#[test]
fn capacity_is_reclaimed_for_a_gang_that_shares_a_claim() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        queue left quota=0
        queue right quota=2
        job a pods=2 min=1 gpus=1 by-claim queue=left on n1 n1
        job b pods=4 min=4 claim x:2@right queue=right
    "), @r"
    1: a leaves n1 x2 for b (reclaim)
    1: b waits for n1 x4
    2: b runs on n1 x4
    steady after 2
    ");
}

#[test]
fn a_gang_that_shares_a_claim_represents_its_queue() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2 by-claim
        node n2 gpus=2
        queue top quota=5 limit=3
        queue left parent=top weight=1
        queue right parent=top weight=3
        job a pods=4 min=4 claim x:2@left queue=left priority=75
        job b pods=2 min=2 gpus=1 queue=right
        job c pods=4 min=4 part=0.2 queue=left priority=40
    "), @r"
    1: b runs on n2 x2
    steady after 1
    ");
}

#[test]
fn a_device_is_taken_from_all_its_possible_users() {
    let claim_of_a_big_one = |of_low: &str| {
        plan_of(&format!(
            "
            node n1 gpus=2 by-claim extended big=1
            job low priority=50 {of_low} on n1
            job high priority=75 claim y:1 claim z:big*1
            "
        ))
    };
    assert_snapshot!(claim_of_a_big_one("claim x:1"), @"high runs on n1");
    assert_snapshot!(claim_of_a_big_one("claim x:1+big*1/n1"), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(claim_of_a_big_one("claim x:1+big*1/n2"), @"high runs on n1");
}
