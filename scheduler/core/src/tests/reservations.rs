//! Room for the reservation pods of GPUs that pods share.

use insta::assert_snapshot;

use crate::{
    Profile,
    testing::{plan_of, plan_with, remedies_with},
};

fn with_reservations(text: &str) -> String {
    let mut profile = Profile::kai();
    profile.plugins.leave_room_for_reservations();
    plan_with(&profile, text)
}

#[test]
fn the_first_pod_on_a_gpu_needs_room_for_a_reservation_pod_too() {
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
fn a_node_is_full_of_pods_or_too_small_for_a_reservation_pod_besides() {
    let mut profile = Profile::kai();
    profile.plugins.leave_room_for_reservations();
    let small = "
        node n1 gpus=2 pods=1
        job a part=0.5
    ";
    assert_snapshot!(remedies_with(&profile, small, "a"), @"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more pods, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    let full = "
        node n1 gpus=2 pods=2
        job o cpu=1 non-preemptible on n1
        job a part=0.5
    ";
    assert_snapshot!(remedies_with(&profile, full, "a"), @"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of pods
      then it runs on (new node) (Now)
    ");
}

#[test]
fn who_joins_others_on_a_gpu_needs_no_other_reservation_pod() {
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
fn what_is_kept_for_a_reservation_pod_goes_to_nobody_else() {
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
fn who_gets_a_new_gpu_at_once_needs_room_for_its_reservation_pod_at_once() {
    // It would share g1 only when another has left.
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
    assert_snapshot!(with_room_for(5), @"x runs on n1/x");
    assert_snapshot!(with_room_for(4), @r"
    x waits for n1/x
    x pending: Room was promised on n1 and is being released by pods that are leaving
    ");
}
