//! The ranking of fit errors decides which suggestion is made: one after which a node accepts the
//! pod. Each suggestion is applied, as in `suggestions.rs`.

use insta::assert_snapshot;

use crate::texts::{kube_suggestions_of, suggestions_of};

/// Four GPU nodes, one node without GPUs, and one tainted node.
const FLEET: &str = "
    node c1 cpu=64
    node g1 gpus=8 cpu=64 gpu-memory=81500
    node g2 gpus=8 cpu=64 gpu-memory=81500
    node g3 gpus=8 cpu=64 gpu-memory=81500
    node g4 gpus=8 cpu=64 gpu-memory=81500
    node k1 gpus=8 cpu=64 gpu-memory=81500 taint gpu=yes:NoSchedule
";

fn in_fleet(job_fields: &str) -> String {
    suggestions_of(&format!("{FLEET}\njob x {job_fields}"), "x")
}

#[test]
fn a_node_that_is_closed_to_the_pod_and_too_small_for_it_is_not_opened() {
    assert_snapshot!(in_fleet("gpus=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("part=0.5 devices=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("cpu=500"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more CPU cores, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("extended nvidia.com/mig-1g.5gb=9"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more nvidia.com/mig-1g.5gb, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=4 cordoned
        node n3 gpus=4 not-ready
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_closed_and_full_node_is_opened_first_and_then_freed() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=8 cordoned
        job r gpus=8 non-preemptible on n2
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node; other errors remain there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn among_suitable_nodes_full_ones_are_freed_and_closed_ones_opened() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        node n3 gpus=8 cordoned
        job r gpus=8 non-preemptible on n1
        job x gpus=8
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn only_the_node_to_which_a_pod_is_pinned_counts() {
    let pinned = |node: &str, others: &str| {
        suggestions_of(
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
    tolerate taint gpu=yes, or remove it from the node
      then it runs on g3 (Now)
    ");
    assert_snapshot!(pinned("", "job r gpus=1 port=80 non-preemptible on g3"), @r"
    PodSchedulingErrors
    let its pods select other nodes than the ones they name, or delete the pods there that they cannot run next to
      not tried
    ");
    assert_snapshot!(pinned("", "job r gpus=8 non-preemptible on g3"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on g3 (Now)
    ");
}

#[test]
fn a_node_that_is_not_labelled_and_too_small_is_not_labelled() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        node n2 gpus=8
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    label a node with kind=z, as its node selector requires, or relax that
      then it runs on n2 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn opening_a_node_takes_off_the_taint_that_came_with_the_cordon() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 cordoned taint node.kubernetes.io/unschedulable=:NoSchedule
        job a gpus=1
    ", "a"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_ready_node_has_no_not_ready_taints() {
    assert_snapshot!(suggestions_of("
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
fn tolerating_a_node_condition_taint_is_not_suggested() {
    assert_snapshot!(kube_suggestions_of("
        node n1 cpu=4 not-ready taint node.kubernetes.io/not-ready=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    Unschedulable
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
    assert_snapshot!(kube_suggestions_of("
        node n1 cpu=4 not-ready taint node.kubernetes.io/unreachable=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    Unschedulable
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 cpu=4 taint node.kubernetes.io/unschedulable=:NoSchedule
        job a cpu=1
    ", "a"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_pod_that_fits_no_empty_node_does_not_wait_for_its_preemption_delay() {
    assert_snapshot!(in_fleet("gpus=20 delay=600s age=10s"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 cordoned
        job r gpus=8 on n1
        job x gpus=8 delay=600s age=10s
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node; other errors remain there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_new_node_has_the_labels_of_the_required_affinity() {
    let output = |job_fields: &str| {
        suggestions_of(&format!("\nnode n1 gpus=8\njob x gpus=1 {job_fields}"), "x")
    };
    assert_snapshot!(output("wants foo=bar"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity require, or relax that
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("needs kind=z wants kind=y wants foo=bar"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity require, or relax that
      then it runs on n1 (Now)
    ");
    assert_snapshot!(output("named n7"), @r"
    PodSchedulingErrors
    add a node with a name that its node selector and affinity require, or relax that
      then it runs on n7 (Now)
    ");
    assert_snapshot!(output("needs kind=z wants kind=y"), @r"
    PodSchedulingErrors
    label a node as its node selector and affinity require, or relax that
      not tried
    ");
}

#[test]
fn a_suggestion_is_printed_once() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job x pods=3 min=3 gpus=1 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn new_nodes_offer_what_existing_ones_do_for_each_pod_shape() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        node n2 gpus=8
        job x gpus=9
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang x
          part head gpus=1 needs kind=a
          part work gpus=9 needs kind=b
    ", "x"), @r"
    PodSchedulingErrors
    label a node with kind=a, as its node selector requires, or relax that
      then it waits: The workload cannot run on this cluster as it is: 2 pods that must run together request 10 GPUs, and all nodes on which they may run offer 8 GPUs.
    add nodes for 1 more of its pods, 9 GPUs in total
      then it runs on n1 (Now)
    ");
}

#[test]
fn gpu_memory_larger_than_any_device_suggests_larger_devices() {
    assert_snapshot!(in_fleet("part-memory=90000"), @r"
    PodSchedulingErrors
    request at most 81500 MiB of GPU memory, the size of the largest GPU, or add a node with larger GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(in_fleet("part-memory=90000 cpu=500"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more CPU cores, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 gpu-memory=40000
        node n2 gpus=8 gpu-memory=40000
        node n3 gpus=8 gpu-memory=81500 cordoned
        job r pods=8 min=8 gpus=1 non-preemptible on n1 n1 n1 n1 n1 n1 n1 n1
        job x part-memory=90000
    ", "x"), @r"
    PodSchedulingErrors
    request at most 81500 MiB of GPU memory, the size of the largest GPU, or add a node with larger GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job x part-memory=90000
    ", "x"), @r"
    PodSchedulingErrors
    label nodes with nvidia.com/gpu.memory, the memory of each of their GPUs in MiB, or request a fraction of a GPU
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_group_without_a_queue_gets_the_field_that_names_it() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        queue q
        job x gpus=1 queue=
    ", "x"), @r"
    QueueDoesNotExist
    set the pod group's spec.queue; label kai.scheduler/queue of a workload only applies to pod groups that are created later
      not tried
    ");
}

#[test]
fn only_nodes_from_which_its_volume_can_be_used_count() {
    assert_snapshot!(suggestions_of("
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
fn an_unsatisfiable_claim_ranks_before_node_fit_errors() {
    assert_snapshot!(suggestions_of("
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
fn nodes_of_another_kind_rank_nearer_than_nodes_that_are_too_small() {
    assert_snapshot!(suggestions_of("
        node c1
        node c2
        node m1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        job x gpus=1
    ", "x"), @r"
    PodSchedulingErrors
    request MIG instances, or add a node that offers whole GPUs
      not tried
    ");
    assert_snapshot!(suggestions_of("
        node g1 gpus=8
        node m1 gpus=8 label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed
        job x gpus=9
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn the_most_common_fit_error_of_the_nearest_nodes_ranks_first() {
    assert_snapshot!(suggestions_of("
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
fn further_fit_errors_of_a_node_to_open_are_considered() {
    // A second taint, a taint on a cordoned node, and a cordoned node that is full.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 taint a=b:NoSchedule taint c=d:NoSchedule
        node n2 gpus=4 taint a=b:NoSchedule taint c=d:NoExecute
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or remove it from one of 2 nodes; other errors remain there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {a: b}, 1 node(s) had untolerated taint {c: d}.
    tolerate taint c=d, or remove it from the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 cordoned taint a=b:NoSchedule
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    uncordon the node; other errors remain there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) had untolerated taint {a: b}.
    tolerate taint a=b, or remove it from the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 cordoned
        job x gpus=4 on n1
        job w gpus=1
    ", "w"), @r"
    PodSchedulingErrors
    uncordon the node; other errors remain there
      then it waits: Resources were not found for pod default/w due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // The node with fewer errors to fix comes first; a node condition and its taint count as one.
    assert_snapshot!(suggestions_of("
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
