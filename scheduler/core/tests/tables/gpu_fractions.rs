//! GPU fractions: device choice, free capacity, and charges.

use insta::assert_snapshot;

use schedlab_testkit::{cycles_until_steady_of, plan_of, spread_plan_of};

#[test]
fn fractions_share_a_device_before_a_new_one_is_used() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        job a pods=3 part=0.5
    "), @"a runs on n1/a-0 x2, n1/a-2");
}

#[test]
fn a_fraction_goes_to_the_fullest_device_on_which_it_fits() {
    assert_snapshot!(plan_of("
        node n1 gpus=3
        job half part=0.5 on n1/g1
        job most part=0.7 on n1/g2
        job a part=0.3
        job b part=0.4
    "), @r"
    a runs on n1/g2
    b runs on n1/g1
    ");
}

#[test]
fn a_node_with_a_shared_device_is_better_than_a_fuller_one() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        job full gpus=3 on n1
        job half part=0.5 on n2/g1
        job a part=0.5
    "), @"a runs on n2/g1");
}

#[test]
fn a_shared_device_is_not_a_free_one() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        job half part=0.1 on n1/g1
        job a gpus=2
        job b gpus=1
    "), @r"
    b runs on n1
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn spreading_uses_the_emptiest_device() {
    assert_snapshot!(spread_plan_of("
        node n1 gpus=2
        job half part=0.5 on n1/g1
        job a part=0.2
        job b part=0.2
    "), @r"
    a runs on n1/a
    b runs on n1/a
    ");
}

#[test]
fn a_pod_with_several_fractions_gets_as_many_devices() {
    assert_snapshot!(plan_of("
        node n1 gpus=3
        job one part=0.5 on n1/g1
        job a part=0.5 devices=2
        job b part=0.6 devices=2
    "), @r"
    a runs on n1/g1+a
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn gpu_memory_is_a_fraction_of_the_devices_of_the_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 gpu-memory=16000
        node n2 gpus=1 gpu-memory=80000
        job big part-memory=40000
        job a pods=2 part-memory=8000
        job b part-memory=8000
    "), @r"
    big runs on n2/big
    a runs on n2/big
    b runs on n2/big
    a runs on n2/big
    ");
}

#[test]
fn gpu_memory_fits_no_node_of_unknown_device_memory() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job a part-memory=8000
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPU memory.");
}

#[test]
fn gpu_memory_is_charged_by_the_device_size_of_the_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 gpu-memory=10000
        node n2 gpus=1 gpu-memory=40000
        queue q quota=0.5 limit=0.5
        job other gpus=1 on n2
        job a part-memory=8000 queue=q
    "), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs, 1 node(s) exceed a queue bound: q quota has reached the allowable limit of GPUs. Limit is 0.5 GPUs, currently 0 GPUs allocated and workload requested 0.8 GPUs.");
}

/// GPU memory that is 0.2 or 0.8 of a device.
const TWO_SIZES: &str = "
        node n1 gpus=1 gpu-memory=10000
        node n2 gpus=1 gpu-memory=40000
";

#[test]
fn gpu_memory_counts_against_the_smallest_device_for_queue_order() {
    let served = plan_of(&format!(
        "{TWO_SIZES}
        queue a quota=0.5
        queue b quota=0.5
        queue c quota=1
        job other gpus=1 queue=c on n2
        job wants-memory part-memory=8000 queue=a
        job wants-part part=0.5 queue=b
    "
    ));
    assert!(served.starts_with("wants-part runs on n1"), "0.8 would be over the quota: {served}");
}

#[test]
fn gpu_memory_counts_against_the_smallest_device_for_reclaim() {
    let plan = |quota: &str, rest: &str| {
        plan_of(&format!(
            "{TWO_SIZES}
            queue a quota={quota}
            queue b quota={rest}
            job b1 gpus=1 queue=b on n1
            job b2 gpus=1 queue=b on n2
            job wants-memory part-memory=8000 queue=a
        "
        ))
    };
    assert!(!plan("0.5", "1.5").contains("leaves n"), "0.8 is beyond the fair share");
    assert!(plan("0.8", "1").contains("leaves n"));
}

#[test]
fn quotas_count_fractions() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue q quota=1
        job a part=0.6 priority=100 queue=q on n1/g1
        job b part=0.5 priority=100 queue=q
        job c part=0.4 priority=100 queue=q
    "), @r"
    c runs on n1/g1
    b pending: Non-preemptible workload is over quota. Workload requested 0.5 GPUs, but q quota is 1 GPUs, while 0.6 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    ");
}

#[test]
fn a_fraction_is_reclaimed_with_its_device() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=1
        queue left quota=0.5
        queue right quota=0.5
        job a part=0.5 queue=left on n1/g1
        job b part=0.5 queue=left on n1/g1
        job c part=0.5 queue=right
    "), @r"
    1: b leaves n1 for c (reclaim)
    1: c waits for n1/g1
    2: c runs on n1/g1
    steady after 2
    ");
}

#[test]
fn a_whole_device_is_reclaimed_from_all_pods_that_share_it() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue left quota=1
        queue right quota=1
        job c gpus=1 queue=left on n1
        job a part=0.5 queue=left on n1/g1
        job b part=0.5 queue=left on n1/g1
        job d gpus=1 queue=right
    "), @r"
    b leaves n1 for d (reclaim)
    a leaves n1 for d (reclaim)
    d waits for n1
    d pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn fractions_move_together_on_a_node_to_free_a_device() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2
        job a part=0.5 on n1/g1
        job b part=0.5 on n1/g2
        job c gpus=1
    "), @r"
    1: b leaves n1 for c (consolidation)
    1: b waits for n1/g1
    1: c waits for n1
    2: b runs on n1/g1
    2: c runs on n1
    steady after 2
    ");
}

#[test]
fn a_pod_pipelined_onto_a_shared_device_waits_until_all_its_users_left() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        job a part=0.5 releasing on n1/g1
        job b part=0.5 on n1/g1
        job c gpus=1
        job d part=0.5
        job e part=0.5
    "), @r"
    d waits for n1/g1
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    d pending: Pipelined to n1: waiting for terminating pods to release capacity
    e pending: Resources were not found for pod default/e due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn an_unneeded_victim_stays_on_its_shared_device() {
    let plan = |other: &str, a: &str, high: &str| {
        plan_of(&format!(
            "
            node n1 gpus=1
            queue q quota=1
            job other part={other} queue=q priority=100 on n1/g1
            job b part=0.5 queue=q priority=50 on n1/g1
            job a part={a} queue=q priority=50 on n1/g1
            job high part={high} queue=q priority=75
        "
        ))
    };
    assert_snapshot!(plan("0.3", "0.2", "0.5"), @r"
    b leaves n1 for high (preempt)
    high waits for n1/g1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan("0.1", "0.4", "0.6"), @r"
    a leaves n1 for high (preempt)
    b leaves n1 for high (preempt)
    high waits for n1/g1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn an_unneeded_victim_stays_on_its_own_device() {
    let plan = |high: &str| {
        plan_of(&format!(
            "
            node n1 gpus=3
            queue q quota=3
            job b gpus=2 queue=q priority=50 on n1
            job a part=0.5 queue=q priority=50 on n1/g1
            job high gpus={high} queue=q priority=75
        "
        ))
    };
    assert_snapshot!(plan("2"), @r"
    b leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan("3"), @r"
    a leaves n1 for high (preempt)
    b leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_fraction_waits_for_a_fuller_device_and_leaves_an_idle_one_whole() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        job stays part=0.5 on n1/g1
        job leaves part=0.5 releasing on n1/g1
        job x part=0.5
    "), @r"
    x waits for n1/g1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=2
        job stays part=0.5 on n1/g1
        job leaves part=0.4 releasing on n1/g1
        gang x pods=2 part=0.5
    "), @r"
    x waits for n1/g1, n1/x-1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}
