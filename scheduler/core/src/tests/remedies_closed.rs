//! Remedies where nodes are closed: opening them is told as far as it helps, and tried on as many
//! as are told.

use insta::assert_snapshot;

use crate::testing::{plan_of, remedies_of};

#[test]
fn a_gang_hears_of_closed_nodes_before_those_that_its_own_pods_fill() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        node n3 gpus=8 cordoned
        gang a pods=3 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    uncordon up to 2 of 2 nodes
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 taint own=x:NoSchedule
        gang a pods=5 gpus=4
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint own=x, or take it off the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 not-ready
        gang a pods=3 gpus=2 far app=a/host label app=a
    ", "a"), @r"
    PodSchedulingErrors
    bring the node back to Ready
      then it runs on n1 (Now)
    ");
}

#[test]
fn nodes_that_others_fill_come_before_closed_ones() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 cordoned
        job other gpus=8 non-preemptible on n2
        gang a pods=2 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        job other gpus=8 non-preemptible on n2
        gang a pods=2 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn where_its_own_pods_fill_all_nodes_some_are_to_be_added() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8
        gang a pods=3 gpus=5
    ", "a"), @r"
    PodSchedulingErrors
    add nodes with room for 1 more pod of its size: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        gang a pods=3 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    add nodes that hold 2 more of its pods, 16 GPUs in all, or let fewer pods suffice
      then it runs on n1 (Now)
    ");
}

#[test]
fn as_many_nodes_are_opened_as_are_told() {
    assert_snapshot!(remedies_of("
        node n1 gpus=8 cordoned
        node n2 gpus=8 cordoned
        job first gpus=8
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    uncordon one of 2 nodes
      in all: uncordon up to 2 of 2 nodes
      then it runs on n2 (Now)
    ");
    assert_snapshot!(remedies_of("
        node n1 gpus=8 taint own=x:NoSchedule
        node n2 gpus=8 taint own=x:NoSchedule
        node n3 gpus=8 taint own=x:NoSchedule
        job first gpus=8
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint own=x, or take it off one of 3 nodes
      in all: tolerate taint own=x, or take it off up to 2 of 3 nodes
      then it runs on n2 (Now)
    ");
    // Of the nodes that are cordoned one is full as well.
    assert_snapshot!(remedies_of("
        node n1 gpus=8 cordoned
        node n2 gpus=8 cordoned
        job first gpus=8 non-preemptible on n1
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    uncordon one of 2 nodes; more than that keeps it from 1 of them
      then it runs on n2 (Now)
    ");
}

#[test]
fn who_would_leave_again_for_others_is_told_what_it_takes_to_stay() {
    assert_snapshot!(remedies_of("
        node n1 gpus=2
        queue a quota=2
        queue b quota=0
        queue c quota=1
        job other gpus=1 queue=c non-preemptible on n1
        job b1 gpus=1 queue=b on n1
        gang a1 pods=2 gpus=1 queue=a
        job w gpus=1 queue=b
    ", "w"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: make room for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn whose_queue_has_its_share_is_told_to_deserve_more() {
    // A queue of a higher priority gets all that is over.
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        queue a quota=0 priority=200
        queue b quota=0
        job a1 gpus=2 queue=a on n1
        job a2 gpus=2 queue=a on n1
        job a3 gpus=2 queue=a
        job a4 gpus=2 queue=a
        job b1 gpus=1 queue=b
    ", "b1"), @r"
    PodSchedulingErrors
    raise the quota of queue b to 1 GPU more than it uses
      then it runs on n1 (Later)
    ");
    // Two that wait in it, and a quota above it.
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        queue a quota=0
        queue d quota=1
        queue e parent=d quota=1
        queue f parent=d quota=0
        job a1 pods=3 min=1 gpus=1 queue=a on n1 n1 n1
        job e1 gpus=1 queue=e on n1
        job f1 gpus=1 queue=f
        job f2 gpus=1 queue=f
    ", "f2"), @r"
    PodSchedulingErrors
    raise the quota of queue d to 1 GPU more than it uses
      then it runs on n1 (Later)
    ");
    // Nobody has more than deserved: room is all that helps.
    assert_snapshot!(remedies_of("
        node n1 gpus=2
        queue a quota=2
        queue b quota=0
        job a1 pods=2 min=1 gpus=1 queue=a on n1 n1
        job b1 gpus=1 queue=b
    ", "b1"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_quota_that_would_not_help_is_not_to_be_raised() {
    // It has none.
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        queue a quota=-1
        queue b quota=0
        job a1 gpus=3 queue=a on n1
        job b1 gpus=1 queue=b on n1
        job a2 gpus=2 queue=a
    ", "a2"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // All nodes together would not do.
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        queue a quota=3
        queue b quota=0
        job a1 gpus=3 queue=a on n1
        job b1 gpus=1 queue=b on n1
        job a2 gpus=2 queue=a
    ", "a2"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_quota_is_to_be_raised_only_where_somebody_would_leave() {
    // Those who lend are on another node.
    assert_snapshot!(remedies_of("
        node n gpus=2 label k=1
        node m gpus=4
        queue a quota=2
        queue b quota=0
        queue x quota=0
        job a1 pods=2 gpus=1 queue=a non-preemptible on n n
        job b1 pods=2 min=1 gpus=1 queue=b on m m
        job x1 pods=2 min=1 gpus=1 queue=x on m m
        job b2 gpus=1 queue=b needs k=1
    ", "b2"), @r"
    PodSchedulingErrors
    make room for 1 more pod of its size on the node that is only too full, or add nodes that have it, labelled k=1 as its node selector asks: short of GPUs
      then it runs on (new node) (Now)
    ");
    // They lend too little.
    assert_snapshot!(remedies_of("
        node n gpus=4
        queue a quota=2
        queue b quota=0
        job a1 pods=2 gpus=1 queue=a non-preemptible on n n
        job a2 gpus=1 queue=a on n
        job b1 gpus=1 queue=b on n
        gang b2 pods=2 gpus=1 queue=b
    ", "b2"), @r"
    PodSchedulingErrors
    make room for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // It has less than its share so far.
    assert_snapshot!(plan_of("
        node n gpus=2
        queue a quota=0
        queue b quota=0
        job a1 gpus=1 queue=a on n
        job a2 gpus=1 queue=a on n
        gang b1 pods=2 gpus=1 queue=b
    "), @"b1 pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. Nobody leaves for it, as queue b would have more than its fair share.");
}

#[test]
fn who_stands_behind_one_that_would_take_more_than_the_share_is_told_to_go_first() {
    assert_snapshot!(remedies_of("
        node n gpus=4
        queue a quota=2
        queue b quota=0
        job a1 pods=4 min=3 gpus=1 queue=a on n n n n
        gang w1 pods=3 gpus=1 queue=b
        job v4 gpus=1 queue=b
    ", "v4"), @r"
    PodSchedulingErrors
    give it a higher priority than default/w1, with which it stays preemptible
      then it runs on n (Later)
    ");
}

#[test]
fn a_gang_is_told_to_deserve_more_only_where_nodes_would_hold_all_of_it() {
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        node n2 gpus=4
        node n3 gpus=4
        queue a quota=0
        queue o quota=4
        queue b quota=0 weight=0
        job a1 pods=2 gpus=2 min=1 queue=a on n1 n1
        job a2 gpus=2 queue=a on n2
        job a3 gpus=2 queue=a on n3
        job o1 gpus=2 queue=o on n2
        job o2 gpus=2 queue=o on n3
        gang b1 pods=2 gpus=4 queue=b
    ", "b1"), @r"
PodSchedulingErrors
make room for 2 more pods of its size, or add nodes that have it: short of GPUs
  then it runs on (new node) (Now)
");
}

#[test]
fn a_taint_is_to_be_tolerated_where_others_would_have_the_node_without_it() {
    assert_snapshot!(remedies_of("
        node n1 gpus=4
        node n2 gpus=4 label kind=t taint a=b:NoSchedule taint c=d:NoSchedule
        gang first pods=2 gpus=3
        job x gpus=4 needs kind=t
    ", "x"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or take it off the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {c: d}.
    tolerate taint c=d; were it taken off, others would have the room first
      then it runs on n2 (Now)
    ");
    // It would not suffice.
    assert_snapshot!(remedies_of("
        node n1 gpus=4 taint a=b:NoSchedule
        job other gpus=1 non-preemptible on n1
        job first gpus=1
        job x gpus=4
    ", "x"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or take it off the node; more than that keeps it from there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    make room for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}
