//! Suggestions mention earlier jobs of the queue that would take part of what is provided.

use insta::assert_snapshot;

use schedlab_scheduler_core::{Profile, Reason, model::PodGroupId, schedule};
use schedlab_testkit::snapshot_of;

/// All pending jobs with their suggestions.
fn output(text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kai());
    let line = |(id, reason): (&PodGroupId, &Reason)| {
        let group = &snapshot.pod_groups[id.0 as usize];
        format!(
            "{}: {}",
            group.name,
            reason.suggestion().text_with_queue_order(plan.blocked_by_head_of_line.contains(id))
        )
    };
    plan.waiting.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_job_of_each_queue_is_not_blocked() {
    assert_snapshot!(output("
        node n gpus=2
        queue a quota=2
        queue b quota=0
        job a1 gpus=2 queue=a on n
        job a2 gpus=1 queue=a priority=40
        job a3 gpus=1 queue=a
        job b1 gpus=1 queue=b
        job a4 gpus=1 queue=a
    "), @r"
    a2: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs; other jobs of its queue come first
    a3: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
    a4: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs; other jobs of its queue come first
    b1: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
    ");
}

#[test]
fn a_job_that_does_not_wait_for_capacity_blocks_no_other() {
    assert_snapshot!(output("
        node n gpus=1
        queue a quota=1
        job a1 gpus=1 queue=a on n
        gang a2 pods=1 min=2 gpus=1 queue=a priority=60
        job a3 gpus=1 queue=a
    "), @r"
    a2: create 1 more pod, or lower the pod group's minMember by 1
    a3: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
    ");
}

#[test]
fn raised_bounds_and_shares_go_to_earlier_jobs_first() {
    assert_snapshot!(output("
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
    b2: raise the quota of queue b to 1 GPU more than it uses; other jobs of its queue come first
    b3: raise the quota of queue b by 1 GPU to 1 GPU; other jobs of its queue come first
    c1: raise the limit of queue c by 1 GPU to 1 GPU
    c2: raise the limit of queue c by 1 GPU to 1 GPU; other jobs of its queue come first
    ");
}

#[test]
fn a_suggestion_that_no_other_job_consumes_is_shown_alone() {
    assert_snapshot!(output("
        node n gpus=2
        queue a quota=2
        job a1 gpus=2 queue=a on n
        job a2 gpus=1 queue=a
        job a3 gpus=4 queue=a
        job a4 gpus=1 queue=a needs kind=none
        gang a5 pods=1 min=2 gpus=1 queue=a
    "), @r"
    a2: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
    a3: add a node that can hold one of its pods, with more GPUs, or request less per pod
    a4: label a node with kind=none, as its node selector requires, or relax that; other errors remain there
    a5: create 1 more pod, or lower the pod group's minMember by 1
    ");
}
