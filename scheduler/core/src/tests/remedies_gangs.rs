//! What cures that a gang misses members: more of them, open gates, or mended pods.

use insta::assert_snapshot;

use crate::testing::{explained, remedies_of};

#[test]
fn members_that_are_missing_are_created() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=2 min=4 gpus=1
    ", "a"), @r"
    NotReady
    create 2 more pods, or lower the pod group's minMember by 2
      then it runs on n1 (Now)
    ");
}

#[test]
fn members_of_a_part_that_are_missing_are_created() {
    assert_snapshot!(remedies_of("
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
fn the_minimum_of_the_only_part_is_lowered_where_it_stands() {
    assert_snapshot!(remedies_of("
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
fn new_members_are_like_those_that_run_and_belong_to_the_part_that_misses_them() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=2 min=4 gpus=1 on n1
    ", "a"), @r"
    NotReady
    create 2 more pods, or lower the pod group's minMember by 2
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
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
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=3 min=3 gpus=1 gated=2
    ", "a"), @r"
    NotReady
    remove the scheduling gates of 2 pods
      then it runs on n1 (Now)
    ");
}

#[test]
fn members_that_cannot_be_scheduled_are_mended() {
    assert_snapshot!(explained("
        node n1 gpus=8
        job a pods=3 min=3 gpus=1 unusable=1
    ", "a"), @r"
    pod group default/a waits
      0 of its pods have a node, 3 wait, 3 must run together
      priority 50, preemptible

    reason: NotReady
      Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]

    remedy: mend pod default/a-0: create ConfigMap m
      not tried: a copy of the cluster cannot show it

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, whatever the node
      UsableQueue: passes
      Gang: refuses: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=5 min=4 gpus=1 unusable=3
    ", "a"), @r"
    NotReady
    mend 2 pods, such as default/a-0: create ConfigMap m
      not tried
    ");
}

#[test]
fn members_are_mended_only_where_opening_gates_does_not_suffice() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=4 min=3 gpus=1 unusable=1 gated=1
    ", "a"), @r"
    NotReady
    remove the scheduling gates of 1 pod
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job a pods=2 min=3 gpus=1 unusable=1 gated=1
    ", "a"), @r"
    NotReady
    create 1 more pod, or lower the pod group's minMember by 1
      then it waits: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated, 1 of them cannot be scheduled: default/a-0: Missing required configmaps: [m]
    mend pod default/a-0: create ConfigMap m
      not tried
    ");
}
