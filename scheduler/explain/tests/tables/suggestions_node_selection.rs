//! Suggested capacity for pods with node selection is on nodes that they select.

use insta::assert_snapshot;

use crate::texts::suggestions_of;

#[test]
fn an_added_node_has_the_selected_labels() {
    let output = |job_fields: &str| {
        let cluster = "
            node a gpus=4 label type=h100
            node b gpus=4
            job other gpus=4 non-preemptible on a
        ";
        suggestions_of(&format!("{cluster}\njob x gpus=1 {job_fields}"), "x")
    };
    assert_snapshot!(output("needs type=h100"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it, labelled type=h100 as its node selector requires: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("needs type=h100 wants type=h100"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it, labelled as its node selector and affinity require: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn selected_labels_that_all_nodes_have_are_named_too() {
    assert_snapshot!(suggestions_of("
        node a gpus=2 label type=h100
        node b gpus=2 label type=h100
        job other pods=2 gpus=2 non-preemptible on a b
        job x gpus=1 needs type=h100
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on one of 2 nodes that only lack capacity, or add nodes that have it, labelled type=h100 as its node selector requires: short of GPUs
      then it runs on (new node) (Now)
    ");
    // Its own pods use all the nodes.
    assert_snapshot!(suggestions_of("
        node a gpus=8 label type=h100
        node b gpus=8 label type=h100
        gang x pods=3 gpus=5 needs type=h100
    ", "x"), @r"
    PodSchedulingErrors
    add nodes with capacity for 1 more pod of its size, labelled type=h100 as its node selector requires: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn no_new_node_matches_a_selection_by_name() {
    let output = |job_fields: &str| {
        let cluster = "
            node a gpus=4 label kubernetes.io/hostname=a
            node b gpus=4 label kubernetes.io/hostname=b
            job other gpus=4 non-preemptible on a
        ";
        suggestions_of(&format!("{cluster}\njob x gpus=1 {job_fields}"), "x")
    };
    assert_snapshot!(output("needs kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on a (Now)
    ");
    assert_snapshot!(output("named a"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on a (Now)
    ");
    assert_snapshot!(output("pods=2 min=2 wants kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size on the node that only lacks capacity: short of GPUs
      then it runs on a (Now)
    ");
}

#[test]
fn capacity_for_a_pod_with_a_local_volume_is_on_its_node() {
    let output = |volume: &str, other: &str| {
        let full = "
            node a gpus=4 label kubernetes.io/hostname=a
            job other gpus=4 non-preemptible on a
        ";
        suggestions_of(&format!("{full}\n{other}\njob x gpus=1 volume {volume}"), "x")
    };
    let other = "node b gpus=4 label kubernetes.io/hostname=b";
    let bound = "data@kubernetes.io/hostname=a";
    assert_snapshot!(output(bound, ""), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on a (Now)
    ");
    // The claim is bound when the pod gets a node, which must have this name.
    let open = "data?v1@kubernetes.io/hostname=a";
    assert_eq!(output(open, ""), output(bound, ""));
    for volume in [bound, open] {
        assert_eq!(output(volume, other), output(volume, ""));
    }
    // A volume can be provisioned anywhere.
    assert_snapshot!(output("data?v1@kubernetes.io/hostname=a,made@", ""), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // None can be provisioned, and a node of another zone reaches none.
    assert_snapshot!(suggestions_of("
        node a gpus=4 label zone=a
        node b gpus=4 label zone=b
        job other gpus=4 non-preemptible on a
        job x gpus=1 volume data?v1@zone=a
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity: short of GPUs
      then it runs on a (Now)
    ");
}

#[test]
fn added_nodes_do_not_help_a_pod_pinned_to_a_small_node() {
    // The second node is large enough, but has another name.
    let output = |job_fields: &str| {
        let nodes = "
            node a gpus=4 label kubernetes.io/hostname=a
            node b gpus=8 label kubernetes.io/hostname=b
        ";
        suggestions_of(&format!("{nodes}\njob x {job_fields}"), "x")
    };
    let one = output("gpus=6 needs kubernetes.io/hostname=a");
    assert_snapshot!(one, @r"
    PodSchedulingErrors
    let its pods select other nodes than the ones they name, which are too small even when empty, or request less
      not tried
    ");
    for job_fields in [
        "gpus=6 named a",
        "gpus=6 volume data@kubernetes.io/hostname=a",
        "pods=2 min=2 gpus=6 wants kubernetes.io/hostname=a",
    ] {
        assert_eq!(output(job_fields), one, "{job_fields}");
    }
    let gang = output("pods=2 min=2 gpus=3 needs kubernetes.io/hostname=a");
    assert_snapshot!(gang, @r"
    PodSchedulingErrors
    let its pods select other nodes than the ones they name, which are too small even when empty, or request less, or lower its minimum
      not tried
    ");
    assert_eq!(output("pods=2 min=2 gpus=3 named a"), gang);
    // The node does not exist.
    assert_snapshot!(output("gpus=6 named c"), @r"
    PodSchedulingErrors
    add a node with a name that its node selector and affinity require, or relax that
      then it runs on c (Now)
    ");
    assert_snapshot!(output("gpus=6 needs kubernetes.io/hostname=c"), @r"
    PodSchedulingErrors
    add node c, which its node selector requires, or relax that
      then it runs on (new node) (Now)
    ");
}

#[test]
fn nodes_added_for_anti_affine_pods_match_their_selector() {
    let output = |job_fields: &str| {
        let nodes = "
            node a gpus=4 label type=h100 label zone=a label kubernetes.io/hostname=a
            node b gpus=4 label type=h100 label zone=b label kubernetes.io/hostname=b
            node c gpus=4
        ";
        suggestions_of(&format!("{nodes}\ngang x pods=4 gpus=1 label app=x {job_fields}"), "x")
    };
    assert_snapshot!(output("far app=x/kubernetes.io/hostname needs type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each without the pods that anti-affinity keeps it apart from, labelled type=h100 as its node selector requires
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("far app=x/zone needs type=h100 wants type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from, labelled as its node selector and affinity require
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("port=80 needs type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each on which host port 80 is free, labelled type=h100 as its node selector requires
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("port=80 wants kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    let its pods select other nodes than the ones they name, or delete the pods there that they cannot run next to
      not tried
    ");
    assert_snapshot!(suggestions_of("
        node a gpus=4 label kubernetes.io/hostname=a
        node b gpus=4 label kubernetes.io/hostname=b
        job y gpus=1 port=80 non-preemptible on a
        job x gpus=1 port=80 needs kubernetes.io/hostname=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods select other nodes than the ones they name, or delete the pods there that they cannot run next to
      not tried
    ");
}

#[test]
fn capacity_for_anti_affine_pods_is_on_unused_nodes() {
    let output = |full: &str| {
        let nodes = "
            node n1 gpus=4 label zone=a
            node n2 gpus=4 label zone=b
            node n3 gpus=4 label zone=c
            node n4 gpus=4 label zone=c
        ";
        let others = format!("job o pods=4 min=1 gpus=4 non-preemptible on {full}");
        suggestions_of(
            &format!("{nodes}\n{others}\ngang x pods=3 gpus=1 label app=x far app=x/zone"),
            "x",
        )
    };
    assert_snapshot!(output("n3 n4"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size in zone c, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(output("n2 n3 n4"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size in zone b or c, each in one of its own, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    // All domains are equal for it.
    assert_snapshot!(output("n1 n2 n3 n4"), @r"
    PodSchedulingErrors
    free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}
