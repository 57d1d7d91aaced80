//! Pod slots for the reservation pods of shared GPUs.

use insta::assert_snapshot;

use crate::texts::suggestions_with;
use schedlab_scheduler_core::Profile;
use schedlab_testkit::{plan_of, plan_with};

fn with_reservations(text: &str) -> String {
    let mut profile = Profile::kai();
    profile.plugins.count_reservation_pods();
    plan_with(&profile, text)
}

#[test]
fn the_first_pod_on_a_shared_gpu_needs_a_slot_for_a_reservation_pod() {
    let full = "
        node n1 gpus=2 pods=1
        job a part=0.5
    ";
    assert_snapshot!(plan_of(full), @"a runs on n1/a");
    assert_snapshot!(with_reservations(full), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: pods.");
    assert_snapshot!(with_reservations("
        node n1 gpus=2 pods=2
        job a part=0.5
    "), @"a runs on n1/a");
}

#[test]
fn a_node_may_lack_a_slot_for_a_reservation_pod() {
    let mut profile = Profile::kai();
    profile.plugins.count_reservation_pods();
    let small = "
        node n1 gpus=2 pods=1
        job a part=0.5
    ";
    assert_snapshot!(suggestions_with(&profile, small, "a"), @"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more pods, or request less per pod
      then it runs on (new node) (Now)
    ");
    let full = "
        node n1 gpus=2 pods=2
        job o cpu=1 non-preemptible on n1
        job a part=0.5
    ";
    assert_snapshot!(suggestions_with(&profile, full, "a"), @"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of pods
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_pod_on_an_already_shared_gpu_needs_no_reservation_pod() {
    assert_snapshot!(with_reservations("
        node n1 gpus=2 pods=3
        job a part=0.5
        job b part=0.5
        job c part=0.5
    "), @r"
    a runs on n1/a
    b runs on n1/a
    c pending: Resources were not found for pod default/c due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: pods.
    ");
}

#[test]
fn the_slot_of_a_reservation_pod_is_not_given_to_other_pods() {
    assert_snapshot!(with_reservations("
        node n1 gpus=2 pods=2
        job a part=0.5
        job b cpu=1
    "), @r"
    a runs on n1/a
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: pods.
    ");
    assert_snapshot!(with_reservations("
        node n1 gpus=2 pods=3
        job a part=0.5 on n1/g1
        foreign reservation on n1/g1
        job b cpu=1
    "), @"b runs on n1");
}

#[test]
fn each_of_several_new_devices_needs_one() {
    assert_snapshot!(with_reservations("
        node n1 gpus=2 pods=2
        node n2 gpus=2 pods=3
        job a part=0.5 devices=2
    "), @"a runs on n2/a+a-1");
}

#[test]
fn a_pod_on_a_new_gpu_needs_its_reservation_slot_at_once() {
    // It could share g1 only once another pod has left.
    let with_room_for = |pods: u32| {
        with_reservations(&format!(
            "
            node n1 gpus=2 pods={pods}
            foreign reservation on n1/g1
            job a part=0.5 on n1/g1
            job leaving part=0.5 releasing on n1/g1
            job x part=0.5
        "
        ))
    };
    // It prefers the fuller GPU, of which a fraction is being released.
    assert_snapshot!(with_room_for(5), @r"
    x waits for n1/g1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(with_room_for(4), @r"
    x waits for n1/g1
    x pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}
