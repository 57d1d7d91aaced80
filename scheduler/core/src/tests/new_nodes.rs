//! Nodes that are added for who waits.

use insta::assert_snapshot;

use crate::{
    Profile,
    testing::{remedies_of, remedies_with},
};

#[test]
fn a_gang_whose_pods_are_apart_needs_a_node_for_each() {
    assert_snapshot!(remedies_of("
        node n1 gpus=2 label host=a
        node n2 gpus=2 label host=b
        job o pods=3 gpus=1 non-preemptible on n1 n1 n2
        gang own pods=4 gpus=1 label app=own far app=own/host
    ", "own"), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each without the pods that anti-affinity keeps it from
      then it runs on n2 (Now)
    ");
}

#[test]
fn a_new_node_has_what_is_asked_for_in_the_way_in_which_it_is() {
    let told = |asks: &str| {
        remedies_of(
            &format!(
                "
                node n1 gpus=1 cpu=4 gpu-memory=8000 pods=3
                job a gpus=1 cpu=3 port=80 label app=x non-preemptible on n1
                job x {asks}
            "
            ),
            "x",
        )
    };
    assert_snapshot!(told("part=0.5"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("part=0.5 devices=2"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("part-memory=4000"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("gpus=1 by-claim"), @r"
    PodSchedulingErrors
    ask for GPUs as a resource, or add a node with a driver for claims
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("cpu=1 port=80"), @r"
    PodSchedulingErrors
    add a node with 1 CPU core on which host port 80 is free
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("cpu=1 far app=x/host"), @r"
    PodSchedulingErrors
    add a node with 1 CPU core without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("cpu=1 near app=y/host"), @r"
    PodSchedulingErrors
    start the pods that its pod affinity asks for
      not tried
    ");
}

#[test]
fn a_new_node_is_for_those_who_ask_not_for_others_who_wait() {
    assert_snapshot!(remedies_of("
        node n1 gpus=1
        job a gpus=1 needs kind=y
        job b gpus=3 needs kind=y
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn as_many_nodes_are_added_as_pods_keep_apart() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job x pods=4 min=4 gpus=1 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job x pods=3 min=3 gpus=1 port=80
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each on which host port 80 is free
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_gang_that_waits_for_its_own_later_pods_is_told_so() {
    assert_snapshot!(remedies_of("
        node n1 gpus=2
        gang own
          part a gpus=1 near app=x/host
          part b gpus=1 label app=x
    ", "own"), @r"
    PodSchedulingErrors
    let the pods of its own gang that its pod affinity asks for come first, by a higher label kai.scheduler/task-priority or a sub-group whose name comes before its own
      not tried
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=2
        gang own
          part a gpus=1 label app=x
          part b gpus=1 near app=x/host
    ", "own"), @"nothing");
}

#[test]
fn nodes_are_added_with_whole_devices_and_for_the_work_that_waits() {
    // Two halves are one device, and who comes first takes it.
    assert_snapshot!(remedies_of("
        node n gpus=1
        job full gpus=1 non-preemptible on n
        job v2 gpus=1
        gang v3 pods=2 part=0.5
    ", "v3"), @r"
    PodSchedulingErrors
    make room for 2 more pods of its size, or add nodes that have it: short of GPUs
      in all: make room for 4 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    let mut profile = Profile::kai();
    profile.plugins.keep_to_roles();
    assert_snapshot!(remedies_with(&profile, "
        node c gpus=0 label node-role.kubernetes.io/cpu-worker=
        node g gpus=2 label node-role.kubernetes.io/gpu-worker=
        gang x pods=6 gpus=1
    ", "x"), @r"
    PodSchedulingErrors
    add nodes that hold 4 more of its pods, 4 GPUs in all, or let fewer pods suffice
      then it runs on g (Now)
    ");
}

#[test]
fn nodes_are_added_with_the_cores_of_the_others() {
    assert_snapshot!(remedies_of("
        node n gpus=4 cpu=16
        job full pods=4 gpus=1 non-preemptible on n n n n
        job v2 gpus=1 cpu=4
        job v3 gpus=1 cpu=1
    ", "v3"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: make room for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_node_that_is_labelled_is_one_that_is_there() {
    assert_snapshot!(remedies_of("
        node n gpus=1
        job other gpus=1 non-preemptible on n
        job v gpus=1 needs k=a
    ", "v"), @r"
    PodSchedulingErrors
    label a node k=a, as its node selector asks, or ask for less; more than that keeps it from there
      then it waits: Resources were not found for pod default/v due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    make room for 1 more pod of its size on the node that is only too full, or add nodes that have it, labelled k=a as its node selector asks: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n gpus=1
        job v gpus=1 needs kubernetes.io/hostname=n-7
    ", "v"), @r"
    PodSchedulingErrors
    add node n-7, which its node selector asks for, or ask for less
      then it runs on (new node) (Now)
    ");
}
