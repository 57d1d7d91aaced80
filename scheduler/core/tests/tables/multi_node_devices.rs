//! Claims on multi-node devices.

use insta::assert_snapshot;

use schedlab_testkit::{kube_plan_of, plan_of};

#[test]
fn each_device_is_given_once_across_nodes() {
    let cluster = "
        node n1 gpus=1
        node n2 gpus=1
        node n3 gpus=1
        job a gpus=1 wide x?d1@,d2@
        job b gpus=1 wide y?d1@,d2@
        job c gpus=1 wide z?d1@,d2@
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 cannot allocate all claims, 2 node(s) didn't have enough resources: GPUs.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: 0/3 nodes are available: 1 cannot allocate all claims, 2 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.
    ");
}

#[test]
fn a_claim_on_devices_of_a_node_and_of_several_needs_both_on_one_node() {
    let cluster = "
        node n1 gpus=2 by-claim label zone=a
        node n2 gpus=2 by-claim label zone=b
        job a wide x:2?d1@zone=b
        job b wide y:1?d1@zone=b,d2@zone=a
        job c wide z:1?d1@,d2@
        job d wide v:2?d3@
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n2
    b runs on n1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 cannot allocate all claims, 1 node(s) didn't have enough resources: GPUs.
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n2
    b runs on n1
    c, d pending: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn pods_that_share_a_claim_on_both_kinds_run_on_its_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 by-claim cpu=1
        node n2 gpus=1 by-claim cpu=1
        job a cpu=1 wide x:1?d1@
        job b cpu=1 wide x:1?d1@
    "), @"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: CPU cores, 1 node(s) don't have the devices of claim x.
    ");
}

#[test]
fn a_gang_waits_for_the_devices_of_all_its_pods() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        node n2 gpus=1
        gang a
          part left gpus=1 wide x?d1@
          part right gpus=1 wide y?d1@
        gang b
          part left gpus=1 wide v?d1@,d2@
          part right gpus=1 wide w?d1@
    "), @"
    b runs on n1, n2
    a pending: Resources were found for 1 pods from all sub-groups while sub-group right requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 cannot allocate all claims, 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn a_pod_goes_to_a_node_that_reaches_a_free_or_its_allocated_device() {
    let cluster = "
        node n1 cpu=8 label zone=a
        node n2 cpu=8 label zone=b
        job a cpu=1 wide x?d1@zone=b
        job b cpu=1 wide y@zone=b
        job c cpu=1 wide z@
        job d cpu=1 wide v?d2@zone=a wide w@zone=b
        job e cpu=1 wide u*2?d1@zone=b,d3@zone=b
        job f cpu=1 wide t?
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n2
    b runs on n2
    c runs on n2
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 1 cannot allocate all claims, 1 resourceclaim not available on the node.
    e pending: Resources were not found for pod default/e due to: no nodes with enough resources were found: 2 cannot allocate all claims.
    f pending: Resources were not found for pod default/f due to: no nodes with enough resources were found: 2 cannot allocate all claims.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n2
    b runs on n2
    c runs on n1
    d pending: 0/2 nodes are available: 1 cannot allocate all claims, 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    e, f pending: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn pods_that_share_a_claim_get_one_device_that_all_their_nodes_reach() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=1 label zone=a
        node n3 gpus=1 label zone=b
        gang a pods=2 gpus=1 wide x?d1@zone=a,d2@zone=b
        job b gpus=1 wide y?d1@zone=a,d2@zone=b
    "), @"
    a runs on n1, n2
    b runs on n3
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=1 label zone=b
        gang a pods=2 gpus=1 wide x?d1@zone=a,d2@zone=b
        gang b pods=2 gpus=1 wide y?d1@zone=a,d3@
    "), @"
    b runs on n1, n2
    a pending: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 cannot allocate all claims, 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn no_pod_is_evicted_for_a_multi_node_device() {
    let cluster = "
        node n1 cpu=8
        job a cpu=1 priority=50 wide x@ on n1
        job b cpu=1 priority=100 wide y?
    ";
    assert_snapshot!(plan_of(cluster), @"b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 cannot allocate all claims.");
    assert_snapshot!(kube_plan_of(cluster), @"b pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
}

#[test]
fn counters_of_multi_node_devices_are_consumed_once_across_nodes() {
    let cluster = "
        node n1 cpu=1
        node n2 cpu=1
        node n3 cpu=1
        device d1:part#mem=3 for all counters mem=5
        device d2:part#mem=2 for all
        device d3:part#mem=1 for all
        job a cpu=1 select x=part
        job b cpu=1 select y=part
        job c cpu=1 select z=part
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 cannot allocate all claims, 2 node(s) didn't have enough resources: CPU cores.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: 0/3 nodes are available: 1 cannot allocate all claims, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.
    ");
}

#[test]
fn counters_that_devices_of_several_nodes_consume_are_consumed_once() {
    let cluster = "
        node n1 device d1:part#mem=2 counters mem=3
        node n2 device d2:part#mem=2 counters mem=3
        job a cpu=1 select x=part
        job b cpu=1 select y=part
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 2 node(s) had no free devices that satisfy claim y.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b pending: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
    ");
}

#[test]
fn a_multi_node_device_is_shared_across_nodes_up_to_its_capacity() {
    let cluster = "
        node n1 cpu=1
        node n2 cpu=1
        node n3 cpu=1
        device d1:small/30,big/60%100 for all
        job a cpu=1 select x=big
        job b cpu=1 select y=small
        job c cpu=1 select z=small
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 cannot allocate all claims, 2 node(s) didn't have enough resources: CPU cores.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: 0/3 nodes are available: 1 cannot allocate all claims, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.
    ");
}

#[test]
fn a_claim_gets_the_first_available_of_devices_of_one_node_and_of_several() {
    let cluster = "
        node n1 cpu=2 label zone=a device l1:local
        node n2 cpu=2 label zone=b
        device d1:net for zone=b
        job a cpu=1 select x=local|net
        job b cpu=1 select y=local|net
        job c cpu=1 select z=local|net
        job d cpu=1 select v=local+net
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 2 cannot allocate all claims.
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 2 cannot allocate all claims.
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b runs on n2
    c, d pending: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn constraints_and_all_mode_include_multi_node_devices() {
    let cluster = "
        node n1 cpu=2 label zone=a device l1:net@model=a device l2:net@model=b
        node n2 cpu=2 label zone=b
        device d1:net@model=a for zone=a
        device d2:net@model=b for zone=b
        job a cpu=1 select x=net*2~model
        job b cpu=1 select y=net*all
    ";
    assert_snapshot!(plan_of(cluster), @"
    a runs on n1
    b runs on n2
    ");
    assert_snapshot!(kube_plan_of(cluster), @"
    a runs on n1
    b runs on n2
    ");
}
