//! Limits on preemption: the number per cycle, and the minimum priority difference.

use insta::assert_snapshot;

use crate::texts::{group_of, suggestions_with};
use schedlab_explain::explain;
use schedlab_scheduler_core::{Profile, profile::VictimSearch};
use schedlab_testkit::{plan_with, snapshot_of};

const THREE_OUTRANK_THREE: &str = "
    node n1 gpus=3
    queue a quota=3
    job low1 gpus=1 queue=a priority=50 on n1
    job low2 gpus=1 queue=a priority=50 on n1
    job low3 gpus=1 queue=a priority=50 on n1
    job high1 gpus=1 queue=a priority=75
    job high2 gpus=1 queue=a priority=75
    job high3 gpus=1 queue=a priority=75
";

#[test]
fn the_profile_bounds_the_preemptors_per_cycle() {
    let bounded = |most| Profile { preemptions_max: most, ..Profile::kai() };
    assert_snapshot!(plan_with(&bounded(None), THREE_OUTRANK_THREE), @r"
    low3 leaves n1 for high1 (preempt)
    high1 waits for n1
    low2 leaves n1 for high2 (preempt)
    high2 waits for n1
    low1 leaves n1 for high3 (preempt)
    high3 waits for n1
    high1, high2, high3 pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_with(&bounded(Some(2)), THREE_OUTRANK_THREE), @r"
    low3 leaves n1 for high1 (preempt)
    high1 waits for n1
    low2 leaves n1 for high2 (preempt)
    high2 waits for n1
    high1, high2 pending: Pipelined to n1: waiting for terminating pods to release capacity
    high3 pending: Resources were not found for pod default/high3 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 2 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    ");
    assert_snapshot!(plan_with(&bounded(Some(0)), THREE_OUTRANK_THREE), @r"
    high1 pending: Resources were not found for pod default/high1 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 0 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    high2 pending: Resources were not found for pod default/high2 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 0 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    high3 pending: Resources were not found for pod default/high3 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 0 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    ");
}

#[test]
fn reclaim_and_preempt_share_the_bound() {
    let profile = Profile { preemptions_max: Some(1), ..Profile::kai() };
    assert_snapshot!(plan_with(&profile, "
        node n1 gpus=4
        queue owner quota=2
        queue other quota=2
        job borrowed gpus=1 queue=other priority=50 on n1
        job low gpus=1 queue=other priority=40 on n1
        job lower gpus=1 queue=other priority=30 on n1
        job lowest gpus=1 queue=other priority=20 on n1
        job own gpus=1 queue=owner
        job high gpus=1 queue=other priority=75
    "), @r"
    lowest leaves n1 for own (reclaim)
    own waits for n1
    high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 1 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    own pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_gang_takes_all_that_it_needs_as_one_preemption() {
    let profile = Profile { preemptions_max: Some(1), ..Profile::kai() };
    assert_snapshot!(plan_with(&profile, "
        node n1 gpus=2
        queue a quota=2
        job low1 gpus=1 queue=a priority=50 on n1
        job low2 gpus=1 queue=a priority=50 on n1
        gang high pods=2 gpus=1 queue=a priority=75
    "), @r"
    low2 leaves n1 for high (preempt)
    low1 leaves n1 for high (preempt)
    high waits for n1 x2
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_priority_must_be_higher_by_the_difference() {
    let least = |difference| Profile { priority_difference_min: difference, ..Profile::kai() };
    let cluster = "
        node n1 gpus=2
        queue a quota=2
        job near gpus=1 queue=a priority=60 on n1
        job far gpus=1 queue=a priority=50 on n1
        gang high pods=1 gpus=1 queue=a priority=75
    ";
    assert_snapshot!(plan_with(&least(25), cluster), @r"
    far leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_with(&least(26), cluster), @"high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
    assert_snapshot!(plan_with(&least(-5), cluster), @r"
    far leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_job_over_the_preemption_limit_gets_that_reason() {
    let output = |most, group: &str| {
        let profile = Profile { preemptions_max: Some(most), ..Profile::kai() };
        suggestions_with(&profile, THREE_OUTRANK_THREE, group)
    };
    assert_snapshot!(output(2, "high3"), @r"
    PodSchedulingErrors
    wait for another cycle, or raise preemptionPolicy.maxPreemptionsPerCycle above 2
      not tried
    ");
    assert_snapshot!(output(0, "high1"), @r"
    PodSchedulingErrors
    raise preemptionPolicy.maxPreemptionsPerCycle above 0
      not tried
    ");
}

#[test]
fn the_preemption_limit_is_the_reason_only_if_victims_exist() {
    let profile = Profile { preemptions_max: Some(1), ..Profile::kai() };
    assert_snapshot!(plan_with(&profile, "
        node n1 gpus=2
        node n2 gpus=2
        queue a quota=4
        job low1 gpus=2 queue=a priority=50 on n1
        job mid1 gpus=2 queue=a priority=60 on n2
        job high1 gpus=2 queue=a priority=75
        job high2 gpus=2 queue=a priority=75
        job mid2 gpus=2 queue=a priority=60
        gang high3 pods=2 gpus=2 queue=a priority=70
    "), @r"
    low1 leaves n1 for high1 (preempt)
    high1 waits for n1
    high1 pending: Pipelined to n1: waiting for terminating pods to release capacity
    high2 pending: Resources were not found for pod default/high2 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs. It could evict other pods, but the limit of 1 preempting workloads per cycle is reached (preemptionPolicy.maxPreemptionsPerCycle).
    high3 pending: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    mid2 pending: Resources were not found for pod default/mid2 due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn an_explanation_goes_on_with_the_searches_of_its_own_group_once_the_limit_is_reached() {
    let snapshot = snapshot_of(THREE_OUTRANK_THREE);
    let last = group_of(&snapshot, "high3");
    let explained = |victim_search| {
        let profile = Profile { victim_search, ..Profile::kai() };
        let explanation = explain(&snapshot, &profile, last);
        (explanation.reason.map(|reason| reason.code()), explanation.search_stopped_at)
    };
    let pending = Some("Pipelined");
    assert_eq!(explained(VictimSearch::Unlimited), (pending, None));
    assert_eq!(explained(VictimSearch::AtMost(100)), (pending, None));
    assert_eq!(explained(VictimSearch::AtMost(1)), (pending, Some(1)));
    assert_eq!(explained(VictimSearch::Nothing), (Some("PodSchedulingErrors"), None));
}
