//! Remedies of those that have to be in one place of a level, where more than room is asked of it. Each
//! is applied, as in `remedies.rs`.

use insta::assert_snapshot;

use crate::testing::{plan_of, remedies_of};

/// Why `x` waits, and its remedies, in two racks of two nodes each.
fn told(others: &str) -> String {
    let cluster = format!(
        "
        topology t levels zone rack kubernetes.io/hostname
        node n1 gpus=8 label zone=z label rack=r1
        node n2 gpus=8 label zone=z label rack=r1
        node n3 gpus=8 label zone=z label rack=r2
        node n4 gpus=8 label zone=z label rack=r2
        {others}
        "
    );
    format!("{}\n{}", plan_of(&cluster), remedies_of(&cluster, "x"))
}

#[test]
fn pods_that_keep_each_other_from_the_place_that_all_need_are_told_so() {
    assert_snapshot!(told("
        gang x pods=2 gpus=1 label app=x far app=x/host together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t asks for one place for x-0 and x-1, and anti-affinity over kubernetes.io/hostname keeps them apart
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
    assert_snapshot!(told("
        gang x pods=2 gpus=1 label app=x far app=x/rack together=t/rack
    "), @r"
    x pending: requiredTopologyLevel rack of topology t asks for one place for x-0 and x-1, and anti-affinity over rack keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t, or require zone instead
      then it runs on n3 (Now)
    ");
    assert_snapshot!(told("
        gang x pods=2 gpus=1 port=80 together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t asks for one place for x-0 and x-1, and a node has the host port of both only once
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
}

#[test]
fn parts_of_a_gang_and_those_that_run_keep_each_other_from_a_place_too() {
    assert_snapshot!(told("
        gang x together=t/rack
          part l gpus=1
          part r pods=2 gpus=1 label app=x far app=x/rack together=t/kubernetes.io/hostname
    "), @r"
    x pending: requiredTopologyLevel rack of topology t asks for one place for x-r-0 and x-r-1, and anti-affinity over rack keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t
      then it waits: requiredTopologyLevel kubernetes.io/hostname of topology t asks for one place for x-r-0 and x-r-1, and anti-affinity over rack keeps them apart
    only prefer kubernetes.io/hostname of topology t, or require zone instead
      then it runs on n3 (Now)
    ");
    assert_snapshot!(told("
        job r pods=4 gpus=8 non-preemptible on n1 n2 n3 n4
        gang x pods=2 gpus=1 label app=x far app=x/zone together=t/rack
    "), @r"
    x pending: requiredTopologyLevel rack of topology t asks for one place for x-0 and x-1, and anti-affinity over zone keeps them apart
    PodSchedulingErrors
    only prefer rack of topology t
      then it waits: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 4 node(s) didn't have enough resources: GPUs.
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("
        job x pods=2 min=1 gpus=1 label app=x far app=x/host together=t/kubernetes.io/hostname on n1
    "), @r"
    x pending: requiredTopologyLevel kubernetes.io/hostname of topology t asks for one place for x-0 and x-1, and anti-affinity over kubernetes.io/hostname keeps them apart
    PodSchedulingErrors
    only prefer kubernetes.io/hostname of topology t, or require rack instead
      then it runs on n2 (Now)
    ");
    assert_snapshot!(told("
        gang x pods=2 gpus=1 label app=x far app=x/host together=t/rack
    "), @r"
    x runs on n1, n2
    nothing
    ");
}
