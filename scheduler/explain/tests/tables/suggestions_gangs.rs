//! Suggestions for gangs that lack members: more pods, removed gates, or fixed pods.

use insta::assert_snapshot;

use crate::texts::{explained, suggestions_of};

#[test]
fn missing_members_are_created() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=2 min=4 gpus=1
    ", "a"), @r"
    NotReady
    create 2 more pods, or lower the pod group's minMember by 2
      then it runs on n1 (Now)
    ");
}

#[test]
fn missing_members_of_a_sub_group_are_created() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang a
          part head gpus=1
          part workers pods=2 min=3 gpus=1
    ", "a"), @r"
    NotReady
    create 1 more pod of sub-group workers, or lower its minMember by 1
      then it runs on n1 (Now)
    ");
}

#[test]
fn the_minimum_of_the_only_sub_group_is_lowered_in_its_field() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang a
          part workers pods=1 min=2 gpus=1
    ", "a"), @r"
    NotReady
    create 1 more pod of sub-group workers, or lower its minMember by 1
      then it runs on n1 (Now)
    ");
}

#[test]
fn new_members_are_copies_and_belong_to_the_deficient_sub_group() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=2 min=4 gpus=1 on n1
    ", "a"), @r"
    NotReady
    create 2 more pods, or lower the pod group's minMember by 2
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang a
          part head gpus=1
          part workers pods=0 min=2 gpus=1
    ", "a"), @r"
    NotReady
    create 2 more pods of sub-group workers, or lower its minMember by 2
      then it runs on n1 (Now)
    ");
}

#[test]
fn gates_are_opened() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=3 min=3 gpus=1 gated=2
    ", "a"), @r"
    NotReady
    remove the scheduling gates of 2 pods
      then it runs on n1 (Now)
    ");
}

#[test]
fn unschedulable_members_are_fixed() {
    assert_snapshot!(explained("
        node n1 gpus=8
        job a pods=3 min=3 gpus=1 unusable=1
    ", "a"), @r"
    pod group default/a is pending
      pods: 0 with a node, 3 pending, 3 required to run
      priority 50, preemptible

    reason: NotReady
      Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]

    remedy: fix pod default/a-0: create ConfigMap m
      not simulated: it depends on more than the snapshot

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, independent of nodes
      UsableQueue: passes
      Gang: rejects: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=5 min=4 gpus=1 unusable=3
    ", "a"), @r"
    NotReady
    fix 2 pods, such as default/a-0: create ConfigMap m
      not tried
    ");
}

#[test]
fn members_are_fixed_only_if_opening_gates_does_not_suffice() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=4 min=3 gpus=1 unusable=1 gated=1
    ", "a"), @r"
    NotReady
    remove the scheduling gates of 1 pod
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job a pods=2 min=3 gpus=1 unusable=1 gated=1
    ", "a"), @r"
    NotReady
    create 1 more pod, or lower the pod group's minMember by 1
      then it waits: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]
    fix pod default/a-0: create ConfigMap m
      not tried
    ");
}
