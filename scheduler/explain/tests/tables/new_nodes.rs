//! Nodes that suggestions add for pending jobs.

use insta::assert_snapshot;

use crate::texts::{suggestions_of, suggestions_with};
use schedlab_scheduler_core::Profile;

#[test]
fn a_gang_with_anti_affinity_needs_a_node_per_pod() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2 label host=a
        node n2 gpus=2 label host=b
        job o pods=3 gpus=1 non-preemptible on n1 n1 n2
        gang own pods=4 gpus=1 label app=own far app=own/host
    ", "own"), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each without the pods that anti-affinity keeps it apart from
      then it runs on n2 (Now)
    ");
}

#[test]
fn a_new_node_offers_what_is_requested_in_the_requested_form() {
    let output = |job_fields: &str| {
        suggestions_of(
            &format!(
                "
                node n1 gpus=1 cpu=4 gpu-memory=8000 pods=3
                job a gpus=1 cpu=3 port=80 label app=x non-preemptible on n1
                job x {job_fields}
            "
            ),
            "x",
        )
    };
    assert_snapshot!(output("part=0.5"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("part=0.5 devices=2"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("part-memory=4000"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("gpus=1 by-claim"), @r"
    PodSchedulingErrors
    request GPUs as a resource, or add a node with a DRA driver
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("cpu=1 port=80"), @r"
    PodSchedulingErrors
    add a node with 1 CPU core on which host port 80 is free
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("cpu=1 far app=x/host"), @r"
    PodSchedulingErrors
    add a node with 1 CPU core without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("cpu=1 near app=y/host"), @r"
    PodSchedulingErrors
    start the pods that its pod affinity selects
      not tried
    ");
}

#[test]
fn a_new_node_is_sized_for_the_explained_job_only() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1
        job a gpus=1 needs kind=y
        job b gpus=3 needs kind=y
        job x gpus=2 needs kind=z
    ", "x"), @r"
    PodSchedulingErrors
    add a node that can hold one of its pods, with more GPUs, or request less per pod
      then it runs on (new node) (Now)
    ");
}

#[test]
fn one_node_is_added_per_pod_with_anti_affinity() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job x pods=4 min=4 gpus=1 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 1 GPU each without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job x pods=3 min=3 gpus=1 port=80
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each on which host port 80 is free
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_gang_whose_affinity_needs_its_own_pods_reports_so() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        gang own
          part a gpus=1 near app=x/host
          part b gpus=1 label app=x
    ", "own"), @r"
    PodSchedulingErrors
    place the pods of its own gang that its pod affinity selects first, by a higher label kai.scheduler/task-priority or a sub-group whose name sorts before its own
      not tried
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        gang own
          part a gpus=1 label app=x
          part b gpus=1 near app=x/host
    ", "own"), @"nothing");
}

#[test]
fn new_nodes_have_whole_devices_and_the_role_of_the_job() {
    // Two halves need one device, and the first job takes it.
    assert_snapshot!(suggestions_of("
        node n gpus=1
        job full gpus=1 non-preemptible on n
        job v2 gpus=1
        gang v3 pods=2 part=0.5
    ", "v3"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 4 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    let mut profile = Profile::kai();
    profile.plugins.enforce_node_roles();
    assert_snapshot!(suggestions_with(&profile, "
        node c gpus=0 label node-role.kubernetes.io/cpu-worker=
        node g gpus=2 label node-role.kubernetes.io/gpu-worker=
        gang x pods=6 gpus=1
    ", "x"), @r"
    PodSchedulingErrors
    add nodes for 4 more of its pods, 4 GPUs in total, or lower its minimum
      then it runs on g (Now)
    ");
}

#[test]
fn new_nodes_have_as_many_cores_as_existing_ones() {
    assert_snapshot!(suggestions_of("
        node n gpus=4 cpu=16
        job full pods=4 gpus=1 non-preemptible on n n n n
        job v2 gpus=1 cpu=4
        job v3 gpus=1 cpu=1
    ", "v3"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn labelling_is_suggested_for_existing_nodes() {
    assert_snapshot!(suggestions_of("
        node n gpus=1
        job other gpus=1 non-preemptible on n
        job v gpus=1 needs k=a
    ", "v"), @r"
    PodSchedulingErrors
    label a node with k=a, as its node selector requires, or relax that; other errors remain there
      then it waits: Resources were not found for pod default/v due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it, labelled k=a as its node selector requires: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n gpus=1
        job v gpus=1 needs kubernetes.io/hostname=n-7
    ", "v"), @r"
    PodSchedulingErrors
    add node n-7, which its node selector requires, or relax that
      then it runs on (new node) (Now)
    ");
}
