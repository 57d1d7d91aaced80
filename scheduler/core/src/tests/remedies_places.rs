//! Remedies where it matters to pods where others are: how many nodes are added, how large and in which
//! places. Each is applied, as in `remedies.rs`.

use insta::assert_snapshot;

use crate::testing::remedies_of;

#[test]
fn nodes_that_are_added_for_a_gang_apart_are_large_enough_each() {
    // All nodes together are too small for it.
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=4
        gang x pods=2 gpus=8 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 8 GPUs without the pods that anti-affinity keeps it from
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        gang x pods=4 gpus=2 label app=x far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 2 GPUs each without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job o gpus=8 non-preemptible on n2
        gang x pods=3 gpus=8 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 8 GPUs each, each in a zone of its own without the pods that anti-affinity keeps it from
      then it runs on n1 (Now)
    ");
    // Its parts are not alike.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        gang x
          part l gpus=1 cpu=4 label app=x far app=x/zone
          part r gpus=2 cpu=1 label app=x far app=x/zone
          part s gpus=3 cpu=1 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 3 GPUs and 1 CPU core each, each in a zone of its own without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    // One place more is open once it is tolerated, and two are missing.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=2 label zone=b
        node n3 gpus=8 label zone=c taint k=v:NoSchedule
        gang x pods=3 gpus=4 label app=x far app=x/zone
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 4 GPUs each, each in a zone of its own without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn where_others_keep_a_pod_from_a_place_another_one_is_told_and_how_large_it_has_to_be() {
    // Nodes of the other zone are too small; then they are only too full.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=2 label zone=b
        job y gpus=1 label app=y non-preemptible on n1
        job x gpus=4 far app=y/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in a zone without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job o gpus=8 non-preemptible on n2
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=4 label app=x
    ", "x"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size in zone b, or add nodes that have it there or in a new zone: short of GPUs
      then it runs on (new node) (Now)
    ");
    // No node is large enough, wherever it is.
    assert_snapshot!(remedies_of("
        node n1 gpus=2 label zone=a
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=4 label app=x
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in a zone without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
    // One that is closed has only to be opened.
    assert_snapshot!(remedies_of("
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
    // A host on which they are does not get better by room.
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        job y gpus=1 label app=y non-preemptible on n1
        job o gpus=8 non-preemptible on n2
        job x gpus=4 far app=y/host
    ", "x"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn others_who_wait_take_what_is_added_first() {
    assert_snapshot!(remedies_of("
        node n1 gpus=1 label zone=a
        node n2 gpus=1 label zone=b
        job r pods=2 gpus=1 label app=x non-preemptible on n1 n2
        job y gpus=1
        job x gpus=1 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 1 GPU in another zone, as minDomains 3 of its topology spread over zone asks
      in all: add a node with 2 GPUs in another zone, as minDomains 3 of its topology spread over zone asks
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_spread_over_more_domains_than_there_are_needs_others() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job r pods=2 gpus=1 label app=x on n1 n2
        job x gpus=4 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 3 of its topology spread over zone asks, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=6 gpus=1 label app=x spread app=x/zone/1:3
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 3 of its topology spread over zone asks, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=6 gpus=1 label app=x spread app=x/zone/1:4
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 3 GPUs each, each in another zone, as minDomains 4 of its topology spread over zone asks, or lower that to 2
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        gang x pods=3 gpus=1 label app=x spread app=x/host/1:2
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs, as minDomains 2 of its topology spread over kubernetes.io/hostname asks, or lower that to 1
      then it runs on (new node) (Now)
    ");
    // It selects no others.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=3 gpus=1 label app=x spread app=x/zone/1:2 needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    lower minDomains of its topology spread over zone to 1: it selects no other
      then it runs on n1 (Now)
    ");
    // A lower minimum would not do: all nodes together are too small.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 label zone=a
        gang x pods=3 gpus=2 label app=x spread app=x/zone/1:2
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 4 GPUs in another zone, as minDomains 2 of its topology spread over zone asks
      then it runs on n1 (Now)
    ");
}

#[test]
fn a_spread_needs_room_in_the_domains_that_it_wants() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        gang x pods=4 gpus=2 label app=x spread app=x/zone/1
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 6 GPUs in zone b, as its topology spread over zone asks, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
    // No skew would make room for all of it.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        node n3 gpus=1 label zone=c
        gang x pods=6 gpus=2 label app=x spread app=x/zone/1
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 10 GPUs in each of zone b and c, as its topology spread over zone asks
      then it runs on n1 (Now)
    ");
    // Nor is there room on a node for which a skew is not all that matters.
    let split =
        "label node-role.kubernetes.io/mig-enabled=true label nvidia.com/mig.strategy=mixed";
    assert_snapshot!(remedies_of(&format!("
        node n1 gpus=8 label zone=a
        node n2 gpus=1 label zone=b
        node n3 gpus=8 label zone=b {split}
        gang x pods=6 gpus=2 label app=x spread app=x/zone/1
    "), "x"), @"
    PodSchedulingErrors
    add a node with 10 GPUs in zone b, as its topology spread over zone asks
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=1
        gang x pods=4 gpus=2 label app=x spread app=x/host/1
    ", "x"), @r"
    PodSchedulingErrors
    add 3 nodes with 2 GPUs each, as its topology spread over kubernetes.io/hostname asks, or allow a larger maxSkew
      then it runs on (new node) (Now)
    ");
    // It selects no other zone, and shares no host.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 label zone=a
        node n2 gpus=1 label zone=b
        job r gpus=1 label app=x non-preemptible on n1
        job x gpus=2 label app=x spread app=x/zone/1 far app=x/host wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs in zone b, as its topology spread over zone asks, labelled as its node selector and affinity ask
      then it runs on (new node) (Now)
    ");
    // Its pods have to be apart as well.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x pods=4 gpus=1 label app=x spread app=x/zone/1 far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 1 GPU each, each in a zone of its own without the pods that anti-affinity keeps it from
      then it runs on (new node) (Now)
    ");
}

#[test]
fn pods_apart_that_select_too_few_places_never_run_together_there() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=a
        node n3 gpus=8 label zone=b
        gang x pods=2 gpus=1 label app=x far app=x/zone needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    let 1 of its pods suffice, or let them run elsewhere than in zone a, which is all that they select, as anti-affinity keeps each in a zone of its own
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=4 label zone=a
        node n2 gpus=4 label zone=b
        gang x pods=4 gpus=2 label app=x far app=x/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    let 2 of its pods suffice, or let them run elsewhere than in zone a or b, which is all that they select, as anti-affinity keeps each in a zone of its own
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        gang x
          part l gpus=1 label app=x far app=x/zone needs zone=a
          part r gpus=2 label app=x far app=x/zone needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods run elsewhere than in zone a, which is all that they select, as anti-affinity keeps each in a zone of its own
      then it runs on n1 (Now)
    ");
    // There are enough places; a node is not there yet.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 label zone=a
        gang x pods=2 gpus=2 label app=x far app=x/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 2 GPUs in a zone without the pods that anti-affinity keeps it from, labelled as its node selector and affinity ask
      then it runs on (new node) (Now)
    ");
    // Others have all of them.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        node n3 gpus=8 label zone=c
        job y pods=2 gpus=1 label app=y non-preemptible on n1 n2
        gang x pods=2 gpus=2 far app=y/zone wants zone=a wants zone=b
    ", "x"), @r"
    PodSchedulingErrors
    let its pods run elsewhere than in zone a or b, which is all that they select, or end the pods there that anti-affinity keeps them from
      then it runs on n3 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job y gpus=1 far app=x/zone non-preemptible on n1
        job x gpus=2 label app=x needs zone=a
    ", "x"), @r"
    PodSchedulingErrors
    let its pods run elsewhere than in zone a, which is all that they select, or end the pods there that anti-affinity keeps them from
      then it runs on n2 (Now)
    ");
}

#[test]
fn a_node_that_is_added_is_near_the_pods_that_affinity_asks_for() {
    assert_snapshot!(remedies_of("
        node n1 gpus=2 label zone=b
        node n2 gpus=2 label zone=a
        job l gpus=2 label app=l non-preemptible on n2
        gang x pods=2 gpus=4 near app=l/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 8 GPUs in zone a, where the pods are that its pod affinity asks for
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=2 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=1 label app=l non-preemptible on n1
        gang x pods=2 gpus=2 label app=x near app=l/zone far app=x/host
    ", "x"), @r"
    PodSchedulingErrors
    add 2 nodes with 2 GPUs each in zone a, where the pods are that its pod affinity asks for
      then it runs on (new node) (Now)
    ");
    // Its own pods have what was free there.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=1 label app=l non-preemptible on n1
        gang x pods=3 gpus=3 near app=l/zone
    ", "x"), @r"
    PodSchedulingErrors
    add a node with 3 GPUs in zone a, where the pods are that its pod affinity asks for
      then it runs on (new node) (Now)
    ");
    // No node is added beside them on a host, or where it selects none.
    assert_snapshot!(remedies_of("
        node n1 gpus=2
        node n2 gpus=8
        job l gpus=2 label app=l non-preemptible on n1
        job x gpus=4 near app=l/host
    ", "x"), @r"
    PodSchedulingErrors
    start pods that its pod affinity asks for where there is room for it, too: 4 GPUs
      not tried
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        job l gpus=2 label app=l non-preemptible on n1
        job y gpus=2 port=80 non-preemptible on n1
        job x gpus=4 port=80 near app=l/host
    ", "x"), @r"
    PodSchedulingErrors
    end the pods that it cannot be beside where those are that its pod affinity asks for, or start such on other nodes
      not tried
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 label zone=a
        node n2 gpus=8 label zone=b
        job l gpus=2 label app=l non-preemptible on n1
        job x gpus=4 near app=l/zone needs zone=b
    ", "x"), @r"
    PodSchedulingErrors
    start the pods that its pod affinity asks for
      not tried
    ");
}
