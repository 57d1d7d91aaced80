//! Nodes that are there, and that the scheduler leaves out for their labels.

use insta::assert_snapshot;

use crate::{
    Profile,
    testing::{explained, plan_of, plan_with, remedies_of, remedies_with},
};

fn restricted() -> Profile {
    let mut profile = Profile::kai();
    profile.plugins.keep_to_roles();
    profile
}

const OF_ANOTHER_POOL: &str = "
    node b1 gpus=8 lacks pool=b
    node b2 gpus=8 lacks pool=b
    node b3 gpus=8 lacks pool=b
    job a gpus=1
";

#[test]
fn nodes_of_another_pool_are_counted_and_one_is_to_be_labelled() {
    assert_snapshot!(plan_of(OF_ANOTHER_POOL), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled pool=b; 3 others are left out.");
    assert_snapshot!(remedies_of(OF_ANOTHER_POOL, "a"), @r"
    PodSchedulingErrors
    put label pool=b on one of 3 nodes that are left out, such as b1
      not tried
    ");
    assert_snapshot!(explained(OF_ANOTHER_POOL, "a"), @r"
    pod group default/a waits
      0 of its pods have a node, 1 wait, 1 must run together
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled pool=b; 3 others are left out.

    remedy: put label pool=b on one of 3 nodes that are left out, such as b1
      not tried: a copy of the cluster cannot show it

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 1

    plugins, whatever the node
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a, which asks for 1 GPU
      3 nodes (b1, b2, b3): left out for want of label pool=b
    ");
}

#[test]
fn the_first_by_name_is_named_of_all_that_lack_the_same_for_the_pod() {
    assert_snapshot!(remedies_of("
        node b1 gpus=8 lacks pool=b lacks gpu-worker
        node b2 gpus=8 lacks pool=b
        job a cpu=1
    ", "a"), @"
    PodSchedulingErrors
    put label pool=b on one of 2 nodes that are left out, such as b1
      not tried
    ");
}

#[test]
fn a_label_too_many_is_to_be_taken_off() {
    let text = "
        node b1 gpus=8 lacks pool=
        gang a pods=2 gpus=1
    ";
    assert_snapshot!(plan_of(text), @"a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes without label pool; another one is left out.");
    assert_snapshot!(remedies_of(text, "a"), @r"
    PodSchedulingErrors
    take label pool off node b1, which is left out
      not tried
    ");
    assert_snapshot!(explained(text, "a"), @r"
    pod group default/a waits
      0 of its pods have a node, 2 wait, 2 must run together
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes without label pool; another one is left out.

    remedy: take label pool off node b1, which is left out
      not tried: a copy of the cluster cannot show it

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, whatever the node
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a-0, which asks for 1 GPU
      b1: left out for label pool
    ");
}

#[test]
fn the_role_that_is_named_is_that_of_the_work() {
    let text = "
        node n1 gpus=8 lacks gpu-worker lacks cpu-worker
        node n2 gpus=8 lacks gpu-worker lacks cpu-worker
        gang a pods=2 gpus=1
        job b cpu=1
    ";
    assert_snapshot!(plan_of(text), @r"
    a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are left out.
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker; 2 others are left out.
    ");
    assert_snapshot!(remedies_of(text, "a"), @r"
    PodSchedulingErrors
    put label node-role.kubernetes.io/gpu-worker on as many of 2 nodes that are left out as its pods need, such as n1
      not tried
    ");
    assert_snapshot!(remedies_of(text, "b"), @r"
    PodSchedulingErrors
    put label node-role.kubernetes.io/cpu-worker on one of 2 nodes that are left out, such as n1
      not tried
    ");
    assert_snapshot!(explained(text, "b"), @r"
    pod group default/b waits
      0 of its pods have a node, 1 wait, 1 must run together
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker; 2 others are left out.

    remedy: put label node-role.kubernetes.io/cpu-worker on one of 2 nodes that are left out, such as n1
      not tried: a copy of the cluster cannot show it

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 2

    plugins, whatever the node
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/b, which asks for 1 CPU core
      2 nodes (n1, n2): left out for want of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
    ");
}

#[test]
fn nodes_that_lack_least_are_to_be_labelled() {
    let text = "
        node n1 gpus=8 lacks pool= lacks gpu-worker lacks cpu-worker
        node n2 gpus=8 lacks pool= lacks gpu-worker lacks cpu-worker
        node n3 gpus=8 lacks pool= lacks cpu-worker
        job a gpus=1
        job b cpu=1
    ";
    assert_snapshot!(plan_of(text), @r"
    a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker and without label pool; 3 others are left out.
    b pending: Resources were not found for pod default/b due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/cpu-worker and without label pool; 3 others are left out.
    ");
    assert_snapshot!(remedies_of(text, "a"), @r"
    PodSchedulingErrors
    take label pool off node n3, which is left out
      not tried
    ");
    assert_snapshot!(remedies_of(text, "b"), @r"
    PodSchedulingErrors
    put label node-role.kubernetes.io/cpu-worker on one of 3 nodes that are left out, such as n1, and take label pool off it
      not tried
    ");
    assert_snapshot!(explained(text, "a"), @r"
    pod group default/a waits
      0 of its pods have a node, 1 wait, 1 must run together
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/a due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker and without label pool; 3 others are left out.

    remedy: take label pool off node n3, which is left out
      not tried: a copy of the cluster cannot show it

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 1

    plugins, whatever the node
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/a, which asks for 1 GPU
      2 nodes (n1, n2): left out for label pool and for want of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
      n3: left out for label pool
    ");
}

/// Work with GPUs where CPU workers alone are labelled, and the nodes with GPUs are not.
const OF_THE_OTHER_ROLE: &str = "
    node c1 gpus=0 label node-role.kubernetes.io/cpu-worker=
    node g1 gpus=8 lacks gpu-worker lacks cpu-worker
    node g2 gpus=8 lacks gpu-worker lacks cpu-worker
    job a gpus=1
";

#[test]
fn where_only_one_kind_of_worker_is_labelled_nodes_are_let_in_for_the_other() {
    assert_snapshot!(plan_with(&restricted(), OF_THE_OTHER_ROLE), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. 2 others are left out, which are not labelled node-role.kubernetes.io/gpu-worker.");
    assert_snapshot!(remedies_with(&restricted(), OF_THE_OTHER_ROLE, "a"), @r"
    PodSchedulingErrors
    put label node-role.kubernetes.io/gpu-worker on one of 2 nodes that are left out, such as g1
      not tried
    ");
}

#[test]
fn a_node_of_the_other_kind_is_labelled_where_that_is_all_it_needs() {
    assert_snapshot!(remedies_with(&restricted(), "
        node g1 gpus=8 cpu=8 label node-role.kubernetes.io/gpu-worker=
        node n1 cpu=8 lacks gpu-worker lacks cpu-worker
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    label the node node-role.kubernetes.io/cpu-worker, if it is for work without GPUs
      then it runs on g1 (Now)
    ");
}

#[test]
fn where_nodes_of_the_pool_are_full_others_are_only_listed() {
    let text = "
        node a1 gpus=2
        node b1 gpus=8 lacks pool=a
        node b2 gpus=8 lacks pool=a
        job old gpus=2 on a1
        job new gpus=1
    ";
    assert_snapshot!(plan_of(text), @"new pending: Resources were not found for pod default/new due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
    assert_snapshot!(explained(text, "new"), @r"
    pod group default/new waits
      0 of its pods have a node, 1 wait, 1 must run together
      priority 50, preemptible

    reason: PodSchedulingErrors
      Resources were not found for pod default/new due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.

    remedy: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      tried on a copy of the cluster: it runs on (new node) at once

    queues, from the workload's up
      default: GPUs: quota unlimited, limit unlimited, fair share 2, allocated 2 (of that 0 non-preemptible), requested 3

    plugins, whatever the node
      UsableQueue: passes
      Gang: passes
      QueueLimits: passes

    nodes for pod default/new, which asks for 1 GPU
      a1: NodeResourcesFit refuses: node(s) didn't have enough resources: GPUs
        free 0 of 2 GPUs
      2 nodes (b1, b2): left out for want of label pool=a
    ");
}

#[test]
fn a_gang_with_a_topology_is_told_that_there_are_no_nodes() {
    let text = "
        topology dc levels zone rack
        node n1 gpus=8 label zone=z1 label rack=r1 lacks pool=a
        gang a pods=2 gpus=1 together=dc/rack
    ";
    assert_snapshot!(plan_of(text), @"a pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; another one is left out.");
    assert_snapshot!(remedies_of(text, "a"), @r"
    PodSchedulingErrors
    put label pool=a on node n1, which is left out
      not tried
    ");
}

#[test]
fn where_a_node_of_the_pool_is_of_another_role_those_left_out_are_told_beside_it() {
    let text = "
        node n1 gpus=8 label node-role.kubernetes.io/cpu-worker
        node n2 gpus=8 lacks pool=b lacks cpu-worker
        job a gpus=1
    ";
    assert_snapshot!(plan_with(&restricted(), text), @"a pending: Resources were not found for pod default/a due to: no nodes with enough resources were found: 1 node(s) were not labelled as GPU workers. Another one is left out, which is not labelled pool=b.");
}
