//! Suggestions to open closed nodes: only as many as help, and as many are simulated as suggested.

use insta::assert_snapshot;

use crate::texts::suggestions_of;
use schedlab_testkit::plan_of;

#[test]
fn closed_nodes_are_suggested_before_nodes_that_the_gang_fills() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        node n3 gpus=8 cordoned
        gang a pods=3 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    uncordon up to 2 of 2 nodes
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 taint own=x:NoSchedule
        gang a pods=5 gpus=4
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint own=x, or remove it from the node
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
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
fn nodes_filled_by_others_are_suggested_before_closed_ones() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8 cordoned
        job other gpus=8 non-preemptible on n2
        gang a pods=2 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        job other gpus=8 non-preemptible on n2
        gang a pods=2 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on n1 (Now)
    ");
}

#[test]
fn adding_nodes_is_suggested_if_the_gang_fills_all_nodes() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8
        gang a pods=3 gpus=5
    ", "a"), @r"
    PodSchedulingErrors
    add nodes with capacity for 1 more pod of its size: short of GPUs
      then it runs on (new node) (Now)
    ");
    assert_snapshot!(suggestions_of("
        node n1 gpus=8
        node n2 gpus=8 cordoned
        gang a pods=3 gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    add nodes for 2 more of its pods, 16 GPUs in total, or lower its minimum
      then it runs on n1 (Now)
    ");
}

#[test]
fn as_many_nodes_are_opened_as_suggested() {
    assert_snapshot!(suggestions_of("
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
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 taint own=x:NoSchedule
        node n2 gpus=8 taint own=x:NoSchedule
        node n3 gpus=8 taint own=x:NoSchedule
        job first gpus=8
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    tolerate taint own=x, or remove it from one of 3 nodes
      in all: tolerate taint own=x, or remove it from up to 2 of 3 nodes
      then it runs on n2 (Now)
    ");
    // One of the cordoned nodes is also full.
    assert_snapshot!(suggestions_of("
        node n1 gpus=8 cordoned
        node n2 gpus=8 cordoned
        job first gpus=8 non-preemptible on n1
        job a gpus=8
    ", "a"), @r"
    PodSchedulingErrors
    uncordon one of 2 nodes; other errors remain on 1 of them
      then it runs on n2 (Now)
    ");
}

#[test]
fn a_job_that_would_be_evicted_again_gets_a_suggestion_to_stay() {
    assert_snapshot!(suggestions_of("
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
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      in all: free capacity for 3 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_larger_quota_is_suggested_at_fair_share() {
    // A queue of higher priority gets all over-quota capacity.
    assert_snapshot!(suggestions_of("
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
    // Two pending jobs in it, and a quota of the parent queue.
    assert_snapshot!(suggestions_of("
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
    // No queue is over its share: only capacity helps.
    assert_snapshot!(suggestions_of("
        node n1 gpus=2
        queue a quota=2
        queue b quota=0
        job a1 pods=2 min=1 gpus=1 queue=a on n1 n1
        job b1 gpus=1 queue=b
    ", "b1"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_quota_that_would_not_help_is_not_suggested() {
    // The queue has no quota.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        queue a quota=-1
        queue b quota=0
        job a1 gpus=3 queue=a on n1
        job b1 gpus=1 queue=b on n1
        job a2 gpus=2 queue=a
    ", "a2"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // All nodes together would not suffice.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        queue a quota=3
        queue b quota=0
        job a1 gpus=3 queue=a on n1
        job b1 gpus=1 queue=b on n1
        job a2 gpus=2 queue=a
    ", "a2"), @r"
    PodSchedulingErrors
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}

#[test]
fn a_quota_is_suggested_only_if_victims_exist() {
    // The lenders are on another node.
    assert_snapshot!(suggestions_of("
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
    free capacity for 1 more pod of its size on the node that only lacks capacity, or add nodes that have it, labelled k=1 as its node selector requires: short of GPUs
      then it runs on (new node) (Now)
    ");
    // The lenders lend too little.
    assert_snapshot!(suggestions_of("
        node n gpus=4
        queue a quota=2
        queue b quota=0
        job a1 pods=2 gpus=1 queue=a non-preemptible on n n
        job a2 gpus=1 queue=a on n
        job b1 gpus=1 queue=b on n
        gang b2 pods=2 gpus=1 queue=b
    ", "b2"), @r"
    PodSchedulingErrors
    free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
    // The queue is below its share.
    assert_snapshot!(plan_of("
        node n gpus=2
        queue a quota=0
        queue b quota=0
        job a1 gpus=1 queue=a on n
        job a2 gpus=1 queue=a on n
        gang b1 pods=2 gpus=1 queue=b
    "), @"b1 pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It may not reclaim, because queue b would exceed its fair share.");
}

#[test]
fn a_higher_priority_is_suggested_behind_a_job_over_the_fair_share() {
    assert_snapshot!(suggestions_of("
        node n gpus=4
        queue a quota=2
        queue b quota=0
        job a1 pods=4 min=3 gpus=1 queue=a on n n n n
        gang w1 pods=3 gpus=1 queue=b
        job v4 gpus=1 queue=b
    ", "v4"), @r"
    PodSchedulingErrors
    give it a higher priority than default/w1 that keeps it preemptible
      then it runs on n (Later)
    ");
}

#[test]
fn a_larger_quota_is_suggested_only_if_nodes_would_hold_the_gang() {
    assert_snapshot!(suggestions_of("
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
free capacity for 2 more pods of its size, or add nodes that have it: short of GPUs
  then it runs on (new node) (Now)
");
}

#[test]
fn a_toleration_is_suggested_if_others_would_take_the_untainted_node() {
    assert_snapshot!(suggestions_of("
        node n1 gpus=4
        node n2 gpus=4 label kind=t taint a=b:NoSchedule taint c=d:NoSchedule
        gang first pods=2 gpus=3
        job x gpus=4 needs kind=t
    ", "x"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or remove it from the node; other errors remain there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {c: d}.
    tolerate taint c=d; if it were removed, other jobs would use the capacity first
      then it runs on n2 (Now)
    ");
    // A toleration would not suffice.
    assert_snapshot!(suggestions_of("
        node n1 gpus=4 taint a=b:NoSchedule
        job other gpus=1 non-preemptible on n1
        job first gpus=1
        job x gpus=4
    ", "x"), @r"
    PodSchedulingErrors
    tolerate taint a=b, or remove it from the node; other errors remain there
      then it waits: Resources were not found for pod default/x due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
      then it runs on (new node) (Now)
    ");
}
