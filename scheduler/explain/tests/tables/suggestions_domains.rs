//! Suggestions for pods with affinity, anti-affinity or spread constraints: number, size and
//! domains of added nodes. Each is applied, as in `suggestions.rs`.

use insta::assert_snapshot;

use crate::texts::suggestions_of;

#[test]
fn each_node_added_for_an_anti_affine_gang_is_large_enough() {
    // All nodes together are too small for the gang.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=4
        gang x pods=2 gpus=8 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 8 GPUs without the pods that anti-affinity keeps it apart from
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        gang x pods=4 gpus=2 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 2 GPUs each without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job o gpus=8 non-preemptible on n2
        gang x pods=3 gpus=8 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 8 GPUs each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on n1 (Now)
    ");
    // Its sub-groups differ.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        gang x
          part l gpus=1 cpu=4 label app=x far app=x/zone
          part r gpus=2 cpu=1 label app=x far app=x/zone
          part s gpus=3 cpu=1 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 3 GPUs and 1 CPU core each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    // One more domain is available with a toleration, and two are missing.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=2 label zone=b
        node n3 gpus=8 label zone=c taint k=v:NoSchedule
        gang x pods=3 gpus=4 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 4 GPUs each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn another_domain_of_the_required_size_is_suggested() {
    // Nodes of the other zone are too small; below, they are only full.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=2 label zone=b
        job y gpus=1 label app=y non-preemptible on n1
        job x gpus=4 far app=y/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in a zone without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job o gpus=8 non-preemptible on n2
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=4 label app=x
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size in zone b, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    // No node of any zone is large enough.
    assert_snapshot!(suggestions_of("
        node n1 gpus=2 label zone=a
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=4 label app=x
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in a zone without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
    // A closed node only has to be opened.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n3 gpus=8 label zone=a
        node n2 gpus=8 label zone=b cordoned
        job y gpus=1 label app=y non-preemptible on n1
        job x gpus=4 far app=y/zone
    ", "x"), @r"
    PodSchedulingErrors
    uncordon the node
      then it runs on n2 (Now)
    ");
    // More capacity on a host of excluded pods does not help.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        job y gpus=1 label app=y non-preemptible on n1
        job o gpus=8 non-preemptible on n2
        job x gpus=4 far app=y/host
    ", "x"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn other_pending_jobs_take_added_nodes_first() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=1 label zone=b
        job r pods=2 gpus=1 label app=x non-preemptible on n1 n2
        job y gpus=1
        job x gpus=1 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in another zone, as minDomains 3 of its topology spread over zone requires
      in all: add a node with 2 GPUs in another zone, as minDomains 3 of its topology spread over zone requires
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_spread_with_too_few_domains_needs_more() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job r pods=2 gpus=1 label app=x on n1 n2
        job x gpus=4 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 3 of its topology spread over zone requires, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=6 gpus=1 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 3 of its topology spread over zone requires, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=6 gpus=1 label app=x spread app=x/zone/1:4
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 3 GPUs each, each in another zone, as minDomains 4 of its topology spread over zone requires, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        gang x pods=3 gpus=1 label app=x spread app=x/host/1:2
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs, as minDomains 2 of its topology spread over kubernetes.io/hostname requires, or lower that to 1
      then it runs on (new node) (Now)
    ");
    // The pod selects no other domains.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=3 gpus=1 label app=x spread app=x/zone/1:2 needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    lower minDomains of its topology spread over zone to 1: it selects no other values
      then it runs on n1 (Now)
    ");
    // A lower minimum would not suffice: all nodes together are too small.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 label zone=a
        gang x pods=3 gpus=2 label app=x spread app=x/zone/1:2
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 2 of its topology spread over zone requires
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_spread_needs_capacity_in_the_selected_domains() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        gang x pods=4 gpus=2 label app=x spread app=x/zone/1
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 6 GPUs in zone b, as its topology spread over zone requires, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
    // No skew would let the whole gang fit.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        node n3 gpus=1 label zone=c
        gang x pods=6 gpus=2 label app=x spread app=x/zone/1
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 10 GPUs in each of zone b and c, as its topology spread over zone requires
      then it runs on n1 (Now)
    ");
    // Nor does a node have capacity that a larger skew would make available.
    let split =
        "label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed";
    assert_snapshot!(suggestions_of(&format!("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        node n3 gpus=8 label zone=b {split}
        gang x pods=6 gpus=2 label app=x spread app=x/zone/1
    "), "x"), @"
    PodSchedulingErrors
    add a node with 10 GPUs in zone b, as its topology spread over zone requires
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=1
        gang x pods=4 gpus=2 label app=x spread app=x/host/1
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 2 GPUs each, as its topology spread over kubernetes.io/hostname requires, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
    // It selects no other zone, and its pods exclude each other per host.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 label zone=a
        node n2 gpus=1 label zone=b
        job r gpus=1 label app=x non-preemptible on n1
        job x gpus=2 label app=x spread app=x/zone/1 far app=x/host wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs in zone b, as its topology spread over zone requires, labelled as its node selector and affinity require
      then it runs on (new node) (Now)
    ");
    // Its pods also exclude each other.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=4 gpus=1 label app=x spread app=x/zone/1 far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it apart from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn anti_affine_pods_that_select_too_few_domains_never_all_run() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=a
        node n3 gpus=8 label zone=b
        gang x pods=2 gpus=1 label app=x far app=x/zone needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    lower its minimum to 1, or let its pods select other values of zone than a, since anti-affinity requires a zone of its own for each
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 label zone=a
        node n2 gpus=4 label zone=b
        gang x pods=4 gpus=2 label app=x far app=x/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    lower its minimum to 2, or let its pods select other values of zone than a or b, since anti-affinity requires a zone of its own for each
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x
          part l gpus=1 label app=x far app=x/zone needs zone=a
          part r gpus=2 label app=x far app=x/zone needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods select other values of zone than a, since anti-affinity requires a zone of its own for each
      then it runs on n1 (Now)
    ");
    // There are enough domains; a node is missing.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 label zone=a
        gang x pods=2 gpus=2 label app=x far app=x/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs in a zone without the pods that anti-affinity keeps it apart from, labelled as its node selector and affinity require
      then it runs on (new node) (Now)
    ");
    // Other pods use all of them.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        node n3 gpus=8 label zone=c
        job y pods=2 gpus=1 label app=y non-preemptible on n1 n2
        gang x pods=2 gpus=2 far app=y/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    let its pods select other values of zone than a or b, or delete the pods there that anti-affinity keeps them apart from
      then it runs on n3 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=2 label app=x needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods select other values of zone than a, or delete the pods there that anti-affinity keeps them apart from
      then it runs on n2 (Now)
    ");
}

#[test]
fn an_added_node_is_in_the_domain_that_affinity_requires() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=2 label zone=b
        node n2 gpus=2 label zone=a
        job l gpus=2 label app=l non-preemptible on n2
        gang x pods=2 gpus=4 near app=l/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 8 GPUs in zone a, where the pods run that its pod affinity selects
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=2 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=1 label app=l non-preemptible on n1
        gang x pods=2 gpus=2 label app=x near app=l/zone far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 2 GPUs each in zone a, where the pods run that its pod affinity selects
      then it runs on (new node) (Now)
    ");
    // Its own pods use the free capacity there.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=1 label app=l non-preemptible on n1
        gang x pods=3 gpus=3 near app=l/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 3 GPUs in zone a, where the pods run that its pod affinity selects
      then it runs on (new node) (Now)
    ");
    // No node is added for affinity to a host, or if the pod selects none.
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        node n2 gpus=8
        job l gpus=2 label app=l non-preemptible on n1
        job x gpus=4 near app=l/host
    ", "x"), @r"
    PodSchedulingErrors
    start pods that its pod affinity selects where it fits as well: 4 GPUs
      not tried
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        job l gpus=2 label app=l non-preemptible on n1
        job y gpus=2 port=80 non-preemptible on n1
        job x gpus=4 port=80 near app=l/host
    ", "x"), @r"
    PodSchedulingErrors
    delete the pods that it cannot run next to where the pods run that its pod affinity selects, or start such pods on other nodes
      not tried
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=2 label app=l non-preemptible on n1
        job x gpus=4 near app=l/zone needs zone=b
    ", "x"), @r"
    PodSchedulingErrors
    start the pods that its pod affinity selects
      not tried
    ");
}
