//! What stands in a pod's way, node by node, decides which remedy is told: one after which a node
//! takes the pod. Each is applied, as in `remedies.rs`.

use insta::assert_snapshot;

use crate::testing::{kube_remedies_of, remedies_of};

/// Four nodes for GPUs, one without any, and one that is kept for others.
const FLEET: &str = "
    node c1 cpu=64
    node g1 gpus=8 cpu=64 gpu-memory=81500
    node g2 gpus=8 cpu=64 gpu-memory=81500
    node g3 gpus=8 cpu=64 gpu-memory=81500
    node g4 gpus=8 cpu=64 gpu-memory=81500
    node k1 gpus=8 cpu=64 gpu-memory=81500 taint gpu=yes:NoSchedule
";

fn in_fleet(asks: &str) -> String {
    remedies_of(&format!("{FLEET}\njob x {asks}"), "x")
}

#[test]
fn a_node_that_is_closed_to_the_pod_and_too_small_for_it_is_not_opened() {
    assert_snapshot!(in_fleet("gpus=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("part=0.5 devices=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("cpu=500"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more CPU cores, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("extended nvidia.com/mig-1g.5gb=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more nvidia.com/mig-1g.5gb, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        node n2 gpus=4 cordoned
        node n3 gpus=4 not-ready
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_node_that_is_closed_and_full_is_opened_first_and_then_emptied() {
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        node n2 gpus=8 cordoned
        job r gpus=8 non-preemptible on n2
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn of_nodes_that_would_do_the_full_ones_are_emptied_and_the_closed_ones_opened() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        node n3 gpus=8 cordoned
        job r gpus=8 non-preemptible on n1
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn only_the_node_to_which_a_pod_is_pinned_counts() {
    let pinned = |node: &str, others: &str| {
        remedies_of(
            &format!(
                "
                node g1 gpus=8
                node g2 gpus=8
                node g3 gpus=8 {node}
                {others}
                job x gpus=1 port=80 needs kubernetes.io/hostname=g3
            "
            ),
            "x",
        )
    };
    assert_snapshot!(pinned("cordoned", ""), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on g3 (Now)
    ");
    assert_snapshot!(pinned("taint gpu=yes:NoSchedule", ""), @r"
    PodSchedulingErrors
    tolerate taint gpu=yes, or take it off the node
      then it runs on g3 (Now)
    ");
    assert_snapshot!(pinned("", "job r gpus=1 port=80 non-preemptible on g3"), @r"
    PodSchedulingErrors
    let its pods run on other nodes than those to whose names they are bound, or end the pods there that they cannot be beside
      not tried
    ");
    assert_snapshot!(pinned("", "job r gpus=8 non-preemptible on g3"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full: short of GPUs
      then it runs on g3 (Now)
    ");
}

#[test]
fn a_node_that_is_not_labelled_and_too_small_is_not_labelled() {
    assert_snapshot!(remedies_of("
        node n1 gpus=1
        node n2 gpus=8
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    label a node kind=z, as its node selector asks, or ask for less
      then it runs on n2 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=1
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn opening_a_node_takes_off_the_taint_that_came_with_the_cordon() {
    assert_snapshot!(remedies_of("
        node n1 gpus=4 cordoned taint node.kubernetes.io/unschedulable=:NoSchedule
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_node_that_is_ready_again_has_lost_the_taints_that_said_it_was_not() {
    assert_snapshot!(remedies_of("
        node n1 gpus=4 not-ready taint node.kubernetes.io/not-ready=:NoExecute
        node n2 gpus=4 not-ready taint node.kubernetes.io/unreachable=:NoExecute
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    bring one of 2 nodes back to Ready
      then it runs on n1 (Now)
    ");
}

#[test]
fn taints_that_tell_the_state_of_a_node_are_not_to_be_tolerated() {
    assert_snapshot!(kube_remedies_of("
        node n1 cpu=4 not-ready taint node.kubernetes.io/not-ready=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    Unschedulable
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
    assert_snapshot!(kube_remedies_of("
        node n1 cpu=4 not-ready taint node.kubernetes.io/unreachable=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    Unschedulable
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 cpu=4 taint node.kubernetes.io/unschedulable=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn who_would_fit_nowhere_whoever_leaves_does_not_wait_to_get_older() {
    assert_snapshot!(in_fleet("gpus=20 delay=600s age=10s"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 cordoned
        job r gpus=8 on n1
        job x gpus=8 delay=600s age=10s
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_new_node_is_labelled_as_required_affinity_asks() {
    let told = |asks: &str| remedies_of(&format!("\nnode n1 gpus=8\njob x gpus=1 {asks}"), "x");
    assert_snapshot!(told("wants foo=bar"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity ask, or ask for less
      then it runs on n1 (Now)
    ");
    assert_snapshot!(told("needs kind=z wants kind=y wants foo=bar"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity ask, or ask for less
      then it runs on n1 (Now)
    ");
    assert_snapshot!(told("named n7"), @r"
    PodSchedulingErrors
    add a node of a name that its node selector and affinity ask for, or ask for less
      then it runs on n7 (Now)
    ");
    assert_snapshot!(told("needs kind=z wants kind=y"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity ask, or ask for less
      not tried
    ");
}

#[test]
fn a_remedy_is_told_once() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job x pods=3 min=3 gpus=1 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_new_node_gives_what_nodes_of_the_fleet_give_and_is_for_each_shape() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        node n2 gpus=8
        job x gpus=9
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        gang x
          part head gpus=1 needs kind=a
          part work gpus=9 needs kind=b
    ", "x"), @r"
    PodSchedulingErrors
    label a node kind=a, as its node selector asks, or ask for less
      then it waits: The workload cannot run on this cluster as it is: 2 pods that must run together ask for 10 GPUs, and all nodes on which they may run offer 8 GPUs.
    add nodes that hold 1 more of its pods, 9 GPUs in all
      then it runs on n1 (Now)
    ");
}

#[test]
fn parts_of_devices_that_are_too_small_ask_for_larger_devices() {
    assert_snapshot!(in_fleet("part-memory=90000"), @r"
    PodSchedulingErrors
    ask for at most 81500 MiB of GPU memory, which is what the largest device has, or add a node with larger devices
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("part-memory=90000 cpu=500"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more CPU cores, or ask for less a pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 gpu-memory=40000
        node n2 gpus=8 gpu-memory=40000
        node n3 gpus=8 gpu-memory=81500 cordoned
        job r pods=8 min=8 gpus=1 non-preemptible on n1 n1 n1 n1 n1 n1 n1 n1
        job x part-memory=90000
    ", "x"), @r"
    PodSchedulingErrors
    ask for at most 81500 MiB of GPU memory, which is what the largest device has, or add a node with larger devices
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job x part-memory=90000
    ", "x"), @r"
    PodSchedulingErrors
    label nodes with nvidia.com/gpu.memory, the memory of each of their devices in MiB, or ask for a fraction of a GPU
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_group_is_told_where_its_queue_is_named() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        queue q
        job x gpus=1 queue=
    ", "x"), @r"
    QueueDoesNotExist
    name a queue in the pod group's spec.queue; label kai.scheduler/queue of a workload is for pod groups that are yet to be made
      not tried
    ");
}

#[test]
fn only_nodes_from_which_its_volume_can_be_used_count() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a cordoned
        node n2 gpus=8 label zone=b
        node n3 gpus=8 label zone=b
        job x gpus=1 volume data@zone=a
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_claim_that_can_be_had_nowhere_comes_before_what_nodes_have_against_the_pod() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 cordoned
        node n2 gpus=8
        job x gpus=9 missing-volume=data
    ", "x"), @r"
    PodSchedulingErrors
    create the volume claim data
      not tried
    ");
}

#[test]
fn nodes_of_another_kind_are_nearer_than_those_that_are_too_small() {
    assert_snapshot!(remedies_of("
        node c1
        node c2
        node m1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        job x gpus=1
    ", "x"), @r"
    PodSchedulingErrors
    ask for MIG instances, or add a node that gives whole GPUs
      not tried
    ");
    assert_snapshot!(remedies_of("
        node g1 gpus=8
        node m1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        job x gpus=9
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn of_what_stands_in_the_way_on_the_nearest_nodes_the_commonest_goes_first() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 taint a=b:NoSchedule
        node n2 gpus=8 cordoned
        node n3 gpus=8 taint node.kubernetes.io/unschedulable=:NoSchedule
        job x gpus=1
    ", "x"), @r"
    PodSchedulingErrors
    uncordon one of 2 nodes
      then it runs on n2 (Now)
    ");
}

#[test]
fn what_else_keeps_it_from_a_node_that_is_to_be_opened_is_not_passed_over() {
    // A second taint, a taint on a cordoned node, a cordoned node that is full.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 taint a=b:NoSchedule taint c=d:NoSchedule
        node n2 gpus=4 taint a=b:NoSchedule taint c=d:NoExecute
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or take it off one of 2 nodes; more than that keeps it from there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {a: b}, 1 node(s) had untolerated taint {c: d}.
    tolerate taint c=d, or take it off the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=4 cordoned taint a=b:NoSchedule
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    uncordon the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {a: b}.
    tolerate taint a=b, or take it off the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=4 cordoned
        job x gpus=4 on n1
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    uncordon the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // The node of which there is less to mend comes first; state and its taint are one.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 taint a=b:NoSchedule taint c=d:NoSchedule
        node n2 gpus=4 taint a=b:NoSchedule taint c=d:NoSchedule
        node n3 gpus=4 cordoned taint node.kubernetes.io/unschedulable=:NoSchedule
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n3 (Now)
    ");
}
