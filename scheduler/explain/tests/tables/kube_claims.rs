//! Device claims under profile `kube`.

use insta::assert_snapshot;

use crate::texts::kube_suggestions_of;
use schedlab_testkit::kube_plan_of;

#[test]
fn a_pod_goes_to_a_node_with_free_devices_for_its_claims() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=64
        node n2 cpu=8 extended nic=2
        job a claim x:nic*2 cpu=1
        job b claim y:nic*1 cpu=1
        job c claim z:nic*3 cpu=1
    "), @r"
    a runs on n2
    b, c pending: 0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn devices_count_in_addition_to_node_resources() {
    assert_snapshot!(kube_plan_of("
        node n1 gpus=1 extended nic=1
        job a gpus=1 claim x:nic*1
        job b gpus=1 claim y:nic*1
    "), @r"
    a runs on n1
    b pending: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
    ");
}

#[test]
fn a_pod_that_shares_a_claim_goes_to_its_node_and_takes_no_more_devices() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=2 extended nic=1
        node n2 cpu=64 extended nic=1
        job a claim x:nic*1 cpu=1 on n1
        job b claim x:nic*1 cpu=1
        job c claim x:nic*1 cpu=1
    "), @r"
    b runs on n1
    c pending: 0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn no_pod_is_evicted_for_devices() {
    assert_snapshot!(kube_plan_of("
        node n1 extended nic=1
        job low claim x:nic*1 priority=10 on n1
        job high claim y:nic*1 priority=100
    "), @"high pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
}

#[test]
fn no_pod_is_evicted_for_capacity_if_devices_would_still_be_missing() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=1 extended nic=1
        job low claim x:nic*1 cpu=1 priority=10 on n1
        job high claim y:nic*1 cpu=1 priority=100
    "), @"high pending: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.");
}

#[test]
fn devices_for_a_nominated_pod_are_kept() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=1 extended nic=1
        job low cpu=1 priority=10 on n1
        job high claim x:nic*1 cpu=1 priority=100
        job mid claim y:nic*1 priority=50
    "), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: 0/1 nodes are available: 1 Insufficient cpu.
    mid pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
    ");
}

#[test]
fn devices_are_free_when_their_claim_is_deallocated() {
    assert_snapshot!(kube_plan_of("
        node n1 extended nic=1
        job old claim x:nic*1 releasing on n1
        job new claim y:nic*1
    "), @"new pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(kube_plan_of("
        node n1 extended nic=1 given-back x:nic*1
        job new claim y:nic*1
    "), @"new pending: 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.");
    assert_snapshot!(kube_plan_of("
        node n1 extended nic=1
        job old claim x:nic*1 releasing on n1
        job new claim x:nic*1
    "), @"new runs on n1");
}

#[test]
fn an_unused_claim_that_blocks_a_pod_is_deallocated() {
    assert_snapshot!(kube_plan_of("
        node n1 cpu=1 extended nic=1 held x:nic*1
        node n2 extended nic=1
        job a claim x:nic*1/n1 cpu=2
    "), @"a pending: 0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.");
    assert_snapshot!(kube_plan_of("
        node n1 cpu=1 extended nic=1
        node n2 extended nic=1
        job user claim x:nic*1/n1 on n1
        job a claim x:nic*1/n1 cpu=2
    "), @"a pending: 0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.");
}

#[test]
fn suggestions_for_claims_are_reported() {
    assert_snapshot!(kube_suggestions_of("
        node n1 extended nic=1
        job a claim x:nic*1 on n1
        job b claim y:nic*1
    ", "b"), @r"
    Unschedulable
    delete pods whose claims have the devices that it requests
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(kube_suggestions_of("
        node n1 extended nic=1
        job b claim y:nic*2
    ", "b"), @r"
    Unschedulable
    claim fewer nic, or add a node that publishes as many
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(kube_suggestions_of("
        node n1 cpu=1 extended nic=1
        node n2 extended nic=1
        job a claim x:nic*1/n1 cpu=1 on n1
        job b claim x:nic*1/n1 cpu=2
    ", "b"), @r"
    Unschedulable
    free capacity where claim x is allocated, or delete the pods that use it
      not tried
    ");
}
