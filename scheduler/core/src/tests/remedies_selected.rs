//! Room for pods that select nodes is where they select them.

use insta::assert_snapshot;

use crate::testing::remedies_of;

#[test]
fn a_node_that_is_added_has_the_labels_that_are_selected() {
    let told = |asks: &str| {
        let cluster = "
            node a gpus=4 label type=h100
            node b gpus=4
            job other gpus=4 non-preemptible on a
        ";
        remedies_of(&format!("{cluster}\njob x gpus=1 {asks}"), "x")
    };
    assert_snapshot!(told("needs type=h100"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full, or add nodes that have it, labelled type=h100 as its node selector asks: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("needs type=h100 wants type=h100"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full, or add nodes that have it, labelled as its node selector and affinity ask: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn labels_that_all_nodes_have_are_told_too() {
    assert_snapshot!(remedies_of("
        node a gpus=2 label type=h100
        node b gpus=2 label type=h100
        job other pods=2 gpus=2 non-preemptible on a b
        job x gpus=1 needs type=h100
    ", "x"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on one of 2 nodes that are only too full, or add nodes that have it, labelled type=h100 as its node selector asks: short of GPUs
      then it runs on (new node) (Now)
    ");
    // Its own pods have all of the nodes.
    assert_snapshot!(remedies_of("
        node a gpus=8 label type=h100
        node b gpus=8 label type=h100
        gang x pods=3 gpus=5 needs type=h100
    ", "x"), @r"
    PodSchedulingErrors
    add nodes with room for 1 more pod of its size, labelled type=h100 as its node selector asks: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn no_new_node_is_one_that_is_selected_by_its_name() {
    let told = |asks: &str| {
        let cluster = "
            node a gpus=4 label kubernetes.io/hostname=a
            node b gpus=4 label kubernetes.io/hostname=b
            job other gpus=4 non-preemptible on a
        ";
        remedies_of(&format!("{cluster}\njob x gpus=1 {asks}"), "x")
    };
    assert_snapshot!(told("needs kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full: short of GPUs
      then it runs on a (Now)
    ");
    assert_snapshot!(told("named a"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full: short of GPUs
      then it runs on a (Now)
    ");
    assert_snapshot!(told("pods=2 min=2 wants kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    make room for 2 more pods of its size on the node that is only too full: short of GPUs
      then it runs on a (Now)
    ");
}

#[test]
fn room_for_who_has_a_volume_on_one_node_is_there() {
    let told = |volume: &str, other: &str| {
        let full = "
            node a gpus=4 label kubernetes.io/hostname=a
            job other gpus=4 non-preemptible on a
        ";
        remedies_of(&format!("{full}\n{other}\njob x gpus=1 volume {volume}"), "x")
    };
    let other = "node b gpus=4 label kubernetes.io/hostname=b";
    let bound = "data@kubernetes.io/hostname=a";
    assert_snapshot!(told(bound, ""), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full: short of GPUs
      then it runs on a (Now)
    ");
    // It is bound when the pod gets a node, which may be of this name only.
    let open = "data?v1@kubernetes.io/hostname=a";
    assert_eq!(told(open, ""), told(bound, ""));
    for volume in [bound, open] {
        assert_eq!(told(volume, other), told(volume, ""));
    }
    // One can be made anywhere.
    assert_snapshot!(told("data?v1@kubernetes.io/hostname=a,made@", ""), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // None can be made, and a node of another zone finds none.
    assert_snapshot!(remedies_of("
        node a gpus=4 label zone=a
        node b gpus=4 label zone=b
        job other gpus=4 non-preemptible on a
        job x gpus=1 volume data?v1@zone=a
    ", "x"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full: short of GPUs
      then it runs on a (Now)
    ");
}

#[test]
fn nodes_that_are_added_do_not_help_who_is_bound_to_the_name_of_one_that_is_too_small() {
    // The second is large enough, and has another name.
    let told = |asks: &str| {
        let nodes = "
            node a gpus=4 label kubernetes.io/hostname=a
            node b gpus=8 label kubernetes.io/hostname=b
        ";
        remedies_of(&format!("{nodes}\njob x {asks}"), "x")
    };
    let one = told("gpus=6 needs kubernetes.io/hostname=a");
    assert_snapshot!(one, @r"
    PodSchedulingErrors
    let its pods run on other nodes than those to whose names they are bound, which are too small even when empty, or ask for less
      not tried
    ");
    for asks in [
        "gpus=6 named a",
        "gpus=6 volume data@kubernetes.io/hostname=a",
        "pods=2 min=2 gpus=6 wants kubernetes.io/hostname=a",
    ] {
        assert_eq!(told(asks), one, "{asks}");
    }
    let gang = told("pods=2 min=2 gpus=3 needs kubernetes.io/hostname=a");
    assert_snapshot!(gang, @r"
    PodSchedulingErrors
    let its pods run on other nodes than those to whose names they are bound, which are too small even when empty, or ask for less, or let fewer pods suffice
      not tried
    ");
    assert_eq!(told("pods=2 min=2 gpus=3 named a"), gang);
    // It is not there.
    assert_snapshot!(told("gpus=6 named c"), @r"
    PodSchedulingErrors
    add a node of a name that its node selector and affinity ask for, or ask for less
      then it runs on c (Now)
    ");
    assert_snapshot!(told("gpus=6 needs kubernetes.io/hostname=c"), @r"
    PodSchedulingErrors
    add node c, which its node selector asks for, or ask for less
      then it runs on (new node) (Now)
    ");
}

#[test]
fn nodes_that_are_added_for_pods_that_have_to_be_apart_are_those_that_are_selected() {
    let told = |asks: &str| {
        let nodes = "
            node a gpus=4 label type=h100 label zone=a label kubernetes.io/hostname=a
            node b gpus=4 label type=h100 label zone=b label kubernetes.io/hostname=b
            node c gpus=4
        ";
        remedies_of(&format!("{nodes}\ngang x pods=4 gpus=1 label app=x {asks}"), "x")
    };
    assert_snapshot!(told("far app=x/kubernetes.io/hostname needs type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each without the pods that anti-affinity keeps it from, labelled type=h100 as its node selector asks
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("far app=x/zone needs type=h100 wants type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it from, labelled as its node selector and affinity ask
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("port=80 needs type=h100"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each on which host port 80 is free, labelled type=h100 as its node selector asks
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("port=80 wants kubernetes.io/hostname=a"), @r"
    PodSchedulingErrors
    let its pods run on other nodes than those to whose names they are bound, or end the pods there that they cannot be beside
      not tried
    ");
    assert_snapshot!(remedies_of("
        node a gpus=4 label kubernetes.io/hostname=a
        node b gpus=4 label kubernetes.io/hostname=b
        job y gpus=1 port=80 non-preemptible on a
        job x gpus=1 port=80 needs kubernetes.io/hostname=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods run on other nodes than those to whose names they are bound, or end the pods there that they cannot be beside
      not tried
    ");
}

#[test]
fn room_for_pods_that_have_to_be_apart_is_where_none_of_them_is() {
    let told = |full: &str| {
        let nodes = "
            node n1 gpus=4 label zone=a
            node n2 gpus=4 label zone=b
            node n3 gpus=4 label zone=c
            node n4 gpus=4 label zone=c
        ";
        let others = format!("job o pods=4 min=1 gpus=4 non-preemptible on {full}");
        remedies_of(
            &format!("{nodes}\n{others}\ngang x pods=3 gpus=1 label app=x far app=x/zone"),
            "x",
        )
    };
    assert_snapshot!(told("n3 n4"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size in zone c, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(told("n2 n3 n4"), @r"
    PodSchedulingErrors
    make room for 2 more pods of its size in zone b or c, each in one of its own, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    // All places are alike for it.
    assert_snapshot!(told("n1 n2 n3 n4"), @r"
    PodSchedulingErrors
    make room for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}
