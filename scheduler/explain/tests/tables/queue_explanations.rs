//! Explanations of queues: the fair share step by step, borrowing and starved queues, and victims.

use insta::assert_snapshot;

use crate::texts::queue_explained;

#[test]
fn a_fair_share_is_derived_from_the_root_and_borrowers_are_listed() {
    assert_snapshot!(queue_explained("
        node n1 gpus=8
        node n2 gpus=8
        queue lab quota=16
        queue prod parent=lab quota=8
        queue research parent=lab quota=8
        job a pods=12 min=10 gpus=1 queue=prod on n1 n1 n1 n1 n1 n1 n1 n1 n2 n2 n2 n2
        job b pods=4 min=4 gpus=1 queue=research on n2 n2 n2 n2
        job c pods=3 min=3 gpus=1 queue=research
    ", "research"), @r"
    queue research, child of lab
      GPUs: quota 8, limit unlimited, fair share 7, allocated 4 (of that 0 non-preemptible), requested 7

    fair share of GPUs, step by step
      the cluster has 16 GPUs for lab
        lab requests 19 (quota 16, limit unlimited) and gets 16 of its quota
        0 GPUs left over
        fair shares: lab 16
      lab has 16 GPUs for prod, research
        prod requests 12 (quota 8, limit unlimited) and gets 8 of its quota
        research requests 7 (quota 8, limit unlimited) and gets 7 of its quota
        1 GPU left over
        priority 100, round 1: of 1, prod (weight 1) wants 4 and gets 1
        fair shares: prod 9, research 7

    all queues
      prod borrows 4 GPUs (use over quota)
      research is starved of 3 GPUs (requested within its fair share)

    with 1 GPU more requested, these pods could be reclaimed, in this order
      default/a of queue prod: 1 pod, above the minimum of an elastic job, 2 such entries in a row
      default/a of queue prod: 10 pods, the job's minimum

    if others reclaim, these pods are evicted first
      default/b of queue research: 4 pods, the job's minimum

    the next cycle evicts
      12 pods of default/a for default/c (reclaim)
    ");
}

#[test]
fn over_quota_capacity_is_divided_by_priority_weight_and_rounding() {
    assert_snapshot!(queue_explained("
        node n1 gpus=7
        queue a quota=1 weight=1
        queue b quota=0 weight=2
        queue c quota=0 weight=1 priority=200 limit=2
        job x pods=9 min=1 gpus=1 queue=a
        job y pods=9 min=1 gpus=1 queue=b
        job z pods=9 min=1 gpus=1 queue=c
    ", "b"), @r"
    queue b
      GPUs: quota 0, limit unlimited, fair share 3, allocated 0 (of that 0 non-preemptible), requested 9

    fair share of GPUs, step by step
      the cluster has 7 GPUs for a, b, c
        a requests 9 (quota 1, limit unlimited) and gets 1 of its quota
        b requests 9 (quota 0, limit unlimited) and gets 0 of its quota
        c requests 9 (quota 0, limit 2) and gets 0 of its quota
        6 GPUs left over
        priority 200, round 1: of 6, c (weight 1) wants 2 and gets 2
        priority 100, round 1: of 4, a (weight 1) wants 8 and gets 1
        priority 100, round 1: of 4, b (weight 2) wants 9 and gets 2
        rounding gives 1 more to b
        fair shares: a 2, b 3, c 2

    all queues
      a is starved of 2 GPUs (requested within its fair share)
      b is starved of 3 GPUs (requested within its fair share)
      c is starved of 2 GPUs (requested within its fair share)

    with 1 GPU more requested, these pods could be reclaimed, in this order
      none

    if others reclaim, these pods are evicted first
      none
    ");
}

#[test]
fn quotas_beyond_the_cluster_are_reported() {
    assert_snapshot!(queue_explained("
        node n1 gpus=4
        queue a quota=4
        queue b quota=4
        job x pods=4 min=1 gpus=1 queue=a on n1 n1 n1 n1
        job y pods=2 min=1 gpus=1 queue=b
    ", "a"), @r"
    queue a
      GPUs: quota 4, limit unlimited, fair share 4, allocated 4 (of that 0 non-preemptible), requested 4

    fair share of GPUs, step by step
      the cluster has 4 GPUs for a, b
        a requests 4 (quota 4, limit unlimited) and gets 4 of its quota
        b requests 2 (quota 4, limit unlimited) and gets 2 of its quota
        the quotas exceed the total: nothing is left over
        fair shares: a 4, b 2

    all queues
      b is starved of 2 GPUs (requested within its fair share)

    with 1 GPU more requested, these pods could be reclaimed, in this order
      none

    if others reclaim, these pods are evicted first
      default/x of queue a: 1 pod, above the minimum of an elastic job, 3 such entries in a row
      default/x of queue a: 1 pod, the job's minimum
    ");
}

/// The victims if the queue requested more.
fn could_leave(text: &str, queue: &str) -> String {
    let output = queue_explained(text, queue);
    let section = output.split("\n\n").find(|section| section.starts_with("with 1 "));
    section.expect("every queue has this section").to_owned()
}

#[test]
fn an_extra_pod_counts_in_the_share_of_an_idle_queue() {
    let cluster = |node: &str, job: &str| {
        format!(
            "
            node n1 {node}
            queue a weight=1 cpu-quota=0
            queue b weight=1 cpu-quota=0
            queue c
            job x pods=2 min=1 {job} queue=a on n1 n1
        "
        )
    };
    assert_snapshot!(could_leave(&cluster("gpus=2", "gpus=1"), "b"), @r"
    with 1 GPU more requested, these pods could be reclaimed, in this order
      default/x of queue a: 1 pod, above the minimum of an elastic job
      default/x of queue a: 1 pod, the job's minimum
    ");
    assert_snapshot!(could_leave(&cluster("cpu=2", "cpu=1"), "b"), @r"
    with 1 CPU core more requested, these pods could be reclaimed, in this order
      default/x of queue a: 1 pod, above the minimum of an elastic job
      default/x of queue a: 1 pod, the job's minimum
    ");
    assert_snapshot!(could_leave(&cluster("gpus=4", "gpus=1"), "b"), @r"
    with 1 GPU more requested, these pods could be reclaimed, in this order
      none
    ");
}

#[test]
fn no_victim_is_listed_within_its_quota() {
    let cluster = |mine: &str, theirs: &str| {
        format!(
            "
            node n1 gpus=8
            queue a quota=4
            queue b quota=0
            queue c quota=6
            job x pods=6 min=6 gpus=1 queue=c on n1 n1 n1 n1 n1 n1
            {mine}
            {theirs}
        "
        )
    };
    assert_snapshot!(could_leave(&cluster("job own gpus=2 queue=a on n1", ""), "a"), @r"
    with 1 GPU more requested, these pods could be reclaimed, in this order
      none
    ");
    assert_snapshot!(could_leave(&cluster("", "job y gpus=2 queue=b on n1"), "a"), @r"
    with 1 GPU more requested, these pods could be reclaimed, in this order
      default/y of queue b: 1 pod, the job's minimum
    ");
}

#[test]
fn a_queue_may_be_shown_as_borrowing_and_starved() {
    let output = queue_explained(
        "
        node n1 gpus=4
        node n2 gpus=4
        node n3 gpus=4
        queue a quota=2
        queue b quota=2
        job runs gpus=4 queue=a on n1
        job wide gpus=6 queue=a
    ",
        "a",
    );
    let stand = output.lines().filter(|line| line.starts_with("  a "));
    assert_snapshot!(stand.collect::<Vec<_>>().join("\n"), @r"
    a borrows 2 GPUs (use over quota)
    a is starved of 6 GPUs (requested within its fair share)
    ");
}
