//! Nodes that the scheduler excludes because of their labels.

use insta::assert_snapshot;

use crate::texts::{explained, suggestions_of, suggestions_with};
use schedlab_scheduler_core::Profile;
use schedlab_testkit::{plan_of, plan_with};

fn restricted() -> Profile {
    let mut profile = Profile::kai();
    profile.plugins.enforce_node_roles();
    profile
}

const OF_ANOTHER_POOL: &str = "
    node b1 gpus=8 lacks pool=b
    node b2 gpus=8 lacks pool=b
    node b3 gpus=8 lacks pool=b
    job a gpus=1
";

#[test]
fn excluded_nodes_of_another_pool_are_counted_and_labelling_one_is_suggested() {
    assert_snapshot!(plan_of(OF_ANOTHER_POOL), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled pool=b; 3 others are excluded.");
    assert_snapshot!(suggestions_of(OF_ANOTHER_POOL, "a"), @r"
    PodSchedulingErrors
    add label pool=b to one of 3 excluded nodes, such as b1
      not tried
    ");
    assert_snapshot!(explained(OF_ANOTHER_POOL, "a"), @r"
    pod group default/a is pending
      pods: 0 with a node, 1 pending, 1 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled pool=b; 3 others are excluded.

    remedy: add label pool=b to one of 3 excluded nodes, such as b1
      not simulated: it depends on more than the snapshot

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 1

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a, which requests 1 GPU
      3 nodes (b1, b2, b3): excluded for lack of label pool=b
    ");
}

#[test]
fn the_first_of_nodes_that_lack_the_same_label_is_named() {
    assert_snapshot!(suggestions_of("
        node b1 gpus=8 lacks pool=b lacks gpu-worker
        node b2 gpus=8 lacks pool=b
        job a cpu=1
    ", "a"), @"
    PodSchedulingErrors
    add label pool=b to one of 2 excluded nodes, such as b1
      not tried
    ");
}

#[test]
fn removing_a_superfluous_label_is_suggested() {
    let text = "
        node b1 gpus=8 lacks pool=
        gang a pods=2 gpus=1
    ";
    assert_snapshot!(plan_of(text), @"a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes without label pool; another one is excluded.");
    assert_snapshot!(suggestions_of(text, "a"), @r"
    PodSchedulingErrors
    remove label pool from excluded node b1
      not tried
    ");
    assert_snapshot!(explained(text, "a"), @r"
    pod group default/a is pending
      pods: 0 with a node, 2 pending, 2 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes without label pool; another one is excluded.

    remedy: remove label pool from excluded node b1
      not simulated: it depends on more than the snapshot

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a-0, which requests 1 GPU
      b1: excluded because of label pool
    ");
}

#[test]
fn the_named_role_is_the_one_that_the_job_needs() {
    let text = "
        node n1 gpus=8 lacks gpu-worker lacks cpu-worker
        node n2 gpus=8 lacks gpu-worker lacks cpu-worker
        gang a pods=2 gpus=1
        job b cpu=1
    ";
    assert_snapshot!(plan_of(text), @r"
    a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded.
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker; 2 others are excluded.
    ");
    assert_snapshot!(suggestions_of(text, "a"), @r"
    PodSchedulingErrors
    add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n1
      not tried
    ");
    assert_snapshot!(suggestions_of(text, "b"), @r"
    PodSchedulingErrors
    add label node-role.kubernetes.io/cpu-worker to one of 2 excluded nodes, such as n1
      not tried
    ");
    assert_snapshot!(explained(text, "b"), @r"
    pod group default/b is pending
      pods: 0 with a node, 1 pending, 1 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker; 2 others are excluded.

    remedy: add label node-role.kubernetes.io/cpu-worker to one of 2 excluded nodes, such as n1
      not simulated: it depends on more than the snapshot

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/b, which requests 1 CPU core
      2 nodes (n1, n2): excluded for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
    ");
}

#[test]
fn labelling_the_nodes_that_lack_least_is_suggested() {
    let text = "
        node n1 gpus=8 lacks pool= lacks gpu-worker lacks cpu-worker
        node n2 gpus=8 lacks pool= lacks gpu-worker lacks cpu-worker
        node n3 gpus=8 lacks pool= lacks cpu-worker
        job a gpus=1
        job b cpu=1
    ";
    assert_snapshot!(plan_of(text), @r"
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker and without label pool; 3 others are excluded.
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker and without label pool; 3 others are excluded.
    ");
    assert_snapshot!(suggestions_of(text, "a"), @r"
    PodSchedulingErrors
    remove label pool from excluded node n3
      not tried
    ");
    assert_snapshot!(suggestions_of(text, "b"), @r"
    PodSchedulingErrors
    add label node-role.kubernetes.io/cpu-worker to one of 3 excluded nodes, such as n1, and remove label pool from it
      not tried
    ");
    assert_snapshot!(explained(text, "a"), @r"
    pod group default/a is pending
      pods: 0 with a node, 1 pending, 1 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker and without label pool; 3 others are excluded.

    remedy: remove label pool from excluded node n3
      not simulated: it depends on more than the snapshot

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 1

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a, which requests 1 GPU
      2 nodes (n1, n2): excluded because of label pool and for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
      n3: excluded because of label pool
    ");
}

/// A GPU job where only CPU workers are labelled and GPU nodes are not.
const OF_THE_OTHER_ROLE: &str = "
    node c1 gpus=0 label node-role.kubernetes.io/cpu-worker=
    node g1 gpus=8 lacks gpu-worker lacks cpu-worker
    node g2 gpus=8 lacks gpu-worker lacks cpu-worker
    job a gpus=1
";

#[test]
fn nodes_without_the_needed_worker_role_are_suggested_for_labelling() {
    assert_snapshot!(plan_with(&restricted(), OF_THE_OTHER_ROLE), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. 2 others are excluded: they are not labelled node-role.kubernetes.io/gpu-worker.");
    assert_snapshot!(suggestions_with(&restricted(), OF_THE_OTHER_ROLE, "a"), @r"
    PodSchedulingErrors
    add label node-role.kubernetes.io/gpu-worker to one of 2 excluded nodes, such as g1
      not tried
    ");
}

#[test]
fn a_node_that_only_lacks_the_role_is_suggested_for_labelling() {
    assert_snapshot!(suggestions_with(&restricted(), "
        node g1 gpus=8 cpu=8 label node-role.kubernetes.io/gpu-worker=
        node n1 cpu=8 lacks gpu-worker lacks cpu-worker
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node with node-role.kubernetes.io/cpu-worker if it is for workloads without GPUs
      then it runs on g1 (Now)
    ");
}

#[test]
fn excluded_nodes_are_only_listed_if_nodes_of_the_pool_are_full() {
    let text = "
        node a1 gpus=2
        node b1 gpus=8 lacks pool=a
        node b2 gpus=8 lacks pool=a
        job old gpus=2 on a1
        job new gpus=1
    ";
    assert_snapshot!(plan_of(text), @"new pending: Resources were not found for pod default/new due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
    assert_snapshot!(explained(text, "new"), @r"
    pod group default/new is pending
      pods: 0 with a node, 1 pending, 1 required to run
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/new due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.

    remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      simulated: it runs on (new node) at once

    queues, from leaf to root
      default: GPUs: quota unlimited, limit unlimited, fair share 2, allocated 2 (of that 0 non-preemptible), requested 3

    plugins, independent of nodes
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/new, which requests 1 GPU
      a1: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
        free 0 of 2 GPUs
      2 nodes (b1, b2): excluded for lack of label pool=a
    ");
}

#[test]
fn a_gang_with_a_topology_reports_that_there_are_no_nodes() {
    let text = "
        topology dc levels zone rack
        node n1 gpus=8 label zone=z1 label rack=r1 lacks pool=a
        gang a pods=2 gpus=1 together=dc/rack
    ";
    assert_snapshot!(plan_of(text), @"a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; another one is excluded.");
    assert_snapshot!(suggestions_of(text, "a"), @r"
    PodSchedulingErrors
    add label pool=a to excluded node n1
      not tried
    ");
}

#[test]
fn excluded_nodes_are_reported_next_to_a_node_of_the_wrong_role() {
    let text = "
        node n1 gpus=8 label node-role.kubernetes.io/cpu-worker
        node n2 gpus=8 lacks pool=b lacks cpu-worker
        job a gpus=1
    ";
    assert_snapshot!(plan_with(&restricted(), text), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) were not labelled as GPU workers. Another one is excluded: it is not labelled pool=b.");
}
