//! Who reads a remedy is told when others of the queue would take their part of it first.

use insta::assert_snapshot;

use crate::{Profile, Reason, model::PodGroupId, schedule, testing::snapshot_of};

/// Everybody who waits, and what is told to be done.
fn told(text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kai());
    let line = |(id, reason): (&PodGroupId, &Reason)| {
        let group = &snapshot.pod_groups[id.0 as usize];
        format!("{}: {}", group.name, reason.remedy().told(plan.behind.contains(id)))
    };
    plan.waiting.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_of_each_queue_is_behind_nobody() {
    assert_snapshot!(told("
        node n gpus=2
        queue a quota=2
        queue b quota=0
        job a1 gpus=2 queue=a on n
        job a2 gpus=1 queue=a priority=40
        job a3 gpus=1 queue=a
        job b1 gpus=1 queue=b
        job a4 gpus=1 queue=a
    "), @r"
    a2: make room for 1 more pod of its size, or add nodes that have it: short of GPUs; others of its queue are served before it
    a3: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
    a4: make room for 1 more pod of its size, or add nodes that have it: short of GPUs; others of its queue are served before it
    b1: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
    ");
}

#[test]
fn who_waits_for_no_more_of_anything_keeps_nobody_behind() {
    assert_snapshot!(told("
        node n gpus=1
        queue a quota=1
        job a1 gpus=1 queue=a on n
        gang a2 pods=1 min=2 gpus=1 queue=a priority=60
        job a3 gpus=1 queue=a
    "), @r"
    a2: create 1 more pod, or lower the pod group's minMember by 1
    a3: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
    ");
}

#[test]
fn bounds_of_queues_and_shares_are_for_those_before_first() {
    assert_snapshot!(told("
        node n gpus=4
        queue a quota=0 priority=200
        queue b quota=0
        queue c quota=0 limit=0
        job a1 gpus=2 queue=a on n
        job a2 gpus=2 queue=a on n
        job b1 gpus=1 queue=b
        job b2 gpus=1 queue=b
        job c1 gpus=1 queue=c
        job c2 gpus=1 queue=c
        job b3 gpus=1 queue=b non-preemptible
    "), @r"
    b1: raise the quota of queue b to 1 GPU more than it uses
    b2: raise the quota of queue b to 1 GPU more than it uses; others of its queue are served before it
    b3: raise the quota of queue b by 1 GPU to 1 GPU; others of its queue are served before it
    c1: raise the limit of queue c by 1 GPU to 1 GPU
    c2: raise the limit of queue c by 1 GPU to 1 GPU; others of its queue are served before it
    ");
}

#[test]
fn what_nobody_takes_away_is_told_alone() {
    assert_snapshot!(told("
        node n gpus=2
        queue a quota=2
        job a1 gpus=2 queue=a on n
        job a2 gpus=1 queue=a
        job a3 gpus=4 queue=a
        job a4 gpus=1 queue=a needs kind=none
        gang a5 pods=1 min=2 gpus=1 queue=a
    "), @r"
    a2: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
    a3: add a node that can hold one of its pods, which has more GPUs, or ask for less a pod
    a4: label a node kind=none, as its node selector asks, or ask for less; more than that keeps it from there
    a5: create 1 more pod, or lower the pod group's minMember by 1
    ");
}
