//! Preemption by priority within one queue.

use insta::assert_snapshot;

use schedlab_scheduler_core::{Decision, Profile, schedule};
use schedlab_testkit::{cycles_until_steady_of, plan_of, snapshot_of};

#[test]
fn a_higher_priority_preempts_a_lower_one_of_its_queue() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=2
        job low gpus=1 queue=a priority=50 on n1
        job lower gpus=1 queue=a priority=40 on n1
        job high gpus=1 queue=a priority=75
    "), @r"
    lower leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn an_equal_priority_waits() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        queue a quota=1
        job first gpus=1 queue=a priority=50 on n1
        job second gpus=1 queue=a priority=50
    "), @"second pending: Resources were not found for pod default/second due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn priority_does_not_reach_into_other_queues() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=1
        queue b quota=1
        job low gpus=1 queue=a priority=1 on n1
        job mine gpus=1 queue=b priority=75 on n1
        job high gpus=1 queue=b priority=75
    "), @"high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn the_preemptor_may_be_beyond_its_fair_share() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=1
        queue b quota=3
        gang low pods=2 gpus=2 queue=a priority=50 on n1 n1
        gang high pods=1 gpus=4 queue=a priority=75
    "), @r"
    low leaves n1 x2 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_non_preemptible_job_preempts_only_within_the_quota() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        job low pods=4 min=1 gpus=1 queue=a priority=50 on n1 n1 n1 n1
        gang inside pods=2 gpus=1 queue=a priority=100
        gang beyond pods=3 gpus=1 queue=a priority=125
    "), @r"
    low leaves n1 x2 for inside (preempt)
    inside waits for n1 x2
    beyond pending: Non-preemptible workload is over quota. Workload requested 3 GPUs, but a quota is 2 GPUs, while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.
    inside pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_queue_at_its_limit_preempts_within_itself_though_nodes_are_idle() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=2 limit=2
        job low gpus=1 queue=a priority=50 on n1
        job mid gpus=1 queue=a priority=60 on n1
        job high gpus=1 queue=a priority=75
    "), @r"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn elastic_pods_of_a_gang_are_evicted_first() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=4
        job elastic pods=4 min=2 gpus=1 queue=a priority=50 on n1 n1 n1 n1
        job high gpus=1 queue=a priority=75
    "), @r"
    elastic leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_last_placed_elastic_pod_is_evicted_first() {
    let mut snapshot = snapshot_of(
        "
        node n1 gpus=3
        queue a quota=3
        job elastic pods=3 min=1 gpus=1 queue=a priority=50 on n1 n1 n1
        job high gpus=1 queue=a priority=75
    ",
    );
    let third = snapshot.pods.iter_mut().find(|pod| *pod.name == *"elastic-2").unwrap();
    third.task_priority = Some(1);
    let plan = schedule(&snapshot, &Profile::kai());
    let leaving = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, .. } => Some(&*snapshot.pods[pod.0 as usize].name),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    assert_eq!(leaving.collect::<Vec<_>>(), ["elastic-1"]);
}

#[test]
fn elastic_pods_of_a_sub_group_without_minimum_are_evicted_first() {
    assert_snapshot!(plan_of("
        node n1 gpus=3
        node n2 gpus=1
        queue a quota=4
        gang elastic queue=a priority=50
          part a pods=3 min=2 gpus=1 on n1 n1 n1
          part z pods=1 min=0 gpus=1 on n2
        job high gpus=1 queue=a priority=75
    "), @r"
    elastic leaves n2 for high (preempt)
    high waits for n2
    high pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn elastic_pods_of_the_sub_group_with_the_highest_ratio_are_evicted_first() {
    assert_snapshot!(plan_of("
        node n1 gpus=5
        node n2 gpus=3
        queue a quota=8
        gang elastic queue=a priority=50
          part a pods=5 min=4 gpus=1 on n1 n1 n1 n1 n1
          part z pods=3 min=2 gpus=1 on n2 n2 n2
        job high gpus=1 queue=a priority=75
    "), @r"
    elastic leaves n2 for high (preempt)
    high waits for n2
    high pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=3
        node n2 gpus=5
        queue a quota=8
        gang elastic queue=a priority=50
          part a pods=3 min=2 gpus=1 on n1 n1 n1
          part z pods=5 min=4 gpus=1 on n2 n2 n2 n2 n2
        job high gpus=1 queue=a priority=75
    "), @r"
    elastic leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_young_gang_is_protected_by_the_min_runtime_of_its_queue_or_an_ancestor() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue lab quota=2 preempt-min-runtime=5m
        queue a parent=lab quota=2
        gang young pods=2 gpus=1 queue=a priority=50 started=1m on n1 n1
        job high gpus=1 queue=a priority=75
    "), @"high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It may evict other pods once default/young has run for 300 s, its preemptMinRuntime.");
}

#[test]
fn no_more_pods_are_evicted_than_the_preemptor_needs() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=4
        job one gpus=1 queue=a priority=50 on n1
        job two gpus=2 queue=a priority=50 on n1
        job three gpus=1 queue=a priority=50 on n1
        job high gpus=2 queue=a priority=75
    "), @r"
    two leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_preemptor_that_fits_no_node_evicts_no_pod() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=8
        job low1 gpus=4 queue=a priority=50 on n1
        job low2 gpus=4 queue=a priority=50 on n2
        job high gpus=8 queue=a priority=75
    "), @"high pending: Resources were not found for pod default/high due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn no_pod_is_evicted_from_a_node_that_rejects_the_preemptor() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 taint dedicated=other:NoSchedule
        node n2 gpus=1
        queue a quota=2
        job tolerant gpus=1 queue=a priority=10 on n1
        job low gpus=1 queue=a priority=50 on n2
        job high gpus=1 queue=a priority=75
    "), @r"
    low leaves n2 for high (preempt)
    high waits for n2
    high pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_holder_of_a_host_port_is_evicted_though_capacity_is_free() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        node n2 gpus=8
        job low gpus=1 priority=50 port=80 on n1
        job none gpus=1 priority=50 on n1
        job stays gpus=1 non-preemptible port=80 on n2
        job high gpus=1 priority=60 port=80
    "), @"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_pod_in_anti_affinity_is_evicted_though_capacity_is_free() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job low gpus=1 priority=50 label app=x on n1
        job none gpus=1 priority=50 on n1
        job high gpus=1 priority=60 far app=x/host
    "), @"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job low gpus=1 priority=50 far app=x/host on n1
        job none gpus=1 priority=50 on n1
        job high gpus=1 priority=60 label app=x
    "), @"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_holder_of_an_exclusive_claim_is_preempted() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        job low gpus=1 priority=50 volume once:data@ on n1
        job none gpus=1 priority=50 on n1
        job high gpus=1 priority=60 volume once:data@
    "), @"
    low leaves n1 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_gang_of_which_a_part_was_just_placed_is_preempted_whole() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        queue q quota=4
        gang job queue=q priority=50
        part target pods=2 gpus=1
        part other pods=2 min=1 gpus=1 on n1 n1
        job high gpus=4 queue=q priority=90
    "), @r"
    1: job leaves n1 x2 for high (preempt)
    1: high waits for n1
    2: high runs on n1
    steady after 2
    ");
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue q quota=4
        gang job queue=q priority=50
        part target pods=2 gpus=1
        part other pods=2 min=1 gpus=1 on n1 n1
        job high gpus=4 queue=q priority=90
    "), @r"
    job leaves n1 x2 for high (preempt)
    high waits for n1
    high pending: Pipelined to n1: waiting for terminating pods to release capacity
    job pending: Resources were found for 0 pods from all sub-groups while sub-group target requires 2 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}
