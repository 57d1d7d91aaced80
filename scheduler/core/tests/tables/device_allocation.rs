//! Claims whose devices must be searched: alternatives and constraints.

use insta::assert_snapshot;

use schedlab_testkit::{kube_plan_of, plan_of};

#[test]
fn the_claims_of_a_pod_are_allocated_together() {
    assert_snapshot!(plan_of("
        node n1 device d0:any,big device d1:any
        job a select easy=big|any select picky=big
        job b template big|any template big
    "), @"
    a runs on n1
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) had no free devices that satisfy claims b.0, b.1 together.
    ");
}

#[test]
fn pods_of_a_node_get_devices_beside_each_other() {
    assert_snapshot!(plan_of("
        node n1 device d0:any,big device d1:any
        node n2 device d0:any
        job a template big|any
        job b template big
        job c template any|big
        job d template any|big
    "), @"
    a runs on n1
    b runs on n1
    c runs on n2
    d pending: Resources were not found for pod default/d due to: no nodes with enough resources were found: 2 node(s) had no free devices that satisfy claim d.0.
    ");
}

#[test]
fn a_gang_is_allocated_whole_or_not_at_all() {
    assert_snapshot!(plan_of("
        node n1 device d0:g@zone=a device d1:g@zone=a device d2:g@zone=a device d3:g@zone=b
        gang a pods=2 gpus=0 template g*2~zone
        gang b pods=2 gpus=0 template g*2~zone|g
    "), @"
    b runs on n1 x2
    a pending: Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) had no free devices that satisfy claim a-1.0.
    ");
}

#[test]
fn a_pod_of_a_gang_leaves_the_only_device_of_another_to_it_on_any_node() {
    assert_snapshot!(plan_of("
        node n1 device d0:any,big
        node n2 device d0:any
        gang a
        part easy template big|any gpus=0
        part picky template big gpus=0
    "), @"a runs on n1, n2");
}

#[test]
fn devices_of_running_pods_are_free_once_these_have_left() {
    let cluster = |zone: &str| {
        format!(
            "
            node n1 gpus=3 device d0:g@zone=a!v.0 device d1:g@zone={zone}!w.0 device d2:g@zone=c
            queue own quota=2
            queue other quota=0
            job v gpus=1 template g queue=other on n1
            job w gpus=1 template g queue=other on n1
            job x gpus=2 template g*2~zone queue=own
        "
        )
    };
    assert_snapshot!(plan_of(&cluster("a")), @"
    w leaves n1 for x (reclaim)
    v leaves n1 for x (reclaim)
    x waits for n1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of(&cluster("b")), @"x pending: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
    assert_snapshot!(plan_of(&cluster("c")), @"
    w leaves n1 for x (reclaim)
    x waits for n1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_pod_waits_for_the_devices_of_pods_that_are_leaving() {
    assert_snapshot!(plan_of("
        node n1 gpus=2 device d0:g,big!v.0 device d1:g
        job v gpus=1 template g releasing on n1
        job x gpus=1 template big|big
        job y gpus=1 template big|g
    "), @"
    x waits for n1
    y runs on n1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn kube_scheduler_evicts_no_pods_for_devices() {
    assert_snapshot!(kube_plan_of("
        node n1 device d0:any,big device d1:any device d2:any,big!v.0
        job v template big priority=1 on n1
        job a template big|any template big priority=5
        job b template big|any template any priority=9
    "), @"
    b runs on n1
    a pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
    ");
}
