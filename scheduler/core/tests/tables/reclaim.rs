//! Reclaim across queues: victims and amounts.

use insta::assert_snapshot;

use schedlab_scheduler_core::{
    Profile,
    profile::{Action, ResolveMethod, VictimSearch},
};
use schedlab_testkit::{cycles_until_steady_of, eviction_messages_of, plan_of, plan_with};

#[test]
fn an_owner_reclaims_capacity_that_a_sibling_borrowed() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job borrowed1 gpus=1 queue=a on n1
        job borrowed2 gpus=1 queue=a on n1
        job borrowed3 gpus=1 queue=a on n1
        job borrowed4 gpus=1 queue=a on n1
        job owner pods=2 min=2 gpus=1 queue=b
    "), @r"
    borrowed4 leaves n1 for owner (reclaim)
    borrowed3 leaves n1 for owner (reclaim)
    owner waits for n1 x2
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_youngest_job_of_the_lowest_priority_is_evicted() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job old gpus=1 queue=a priority=50 on n1
        job important gpus=1 queue=a priority=75 on n1
        job young gpus=1 queue=a priority=50 on n1
        job newest gpus=1 queue=a priority=75 on n1
        job owner gpus=1 queue=b
    "), @r"
    young leaves n1 for owner (reclaim)
    owner waits for n1
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_gang_is_evicted_whole_though_less_is_needed() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        gang borrowed pods=4 gpus=1 queue=a on n1 n1 n1 n1
        job owner gpus=1 queue=b
    "), @r"
    borrowed leaves n1 x4 for owner (reclaim)
    owner waits for n1
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn elastic_pods_are_evicted_before_any_gang() {
    assert_snapshot!(plan_of("
        node n1 gpus=6
        queue a quota=2
        queue b quota=2
        job elastic pods=4 min=2 gpus=1 queue=a on n1 n1 n1 n1
        gang young pods=2 gpus=1 queue=a on n1 n1
        job owner pods=2 min=2 gpus=1 queue=b
    "), @r"
    elastic leaves n1 x2 for owner (reclaim)
    owner waits for n1 x2
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn no_queue_within_its_fair_share_loses_pods() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        gang mine pods=2 gpus=1 queue=a on n1 n1
        gang theirs pods=2 gpus=1 queue=b on n1 n1
        job more gpus=1 queue=b
    "), @"more pending: Resources were not found for pod default/more due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn non_preemptible_jobs_are_not_reclaimed() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        queue a quota=2
        queue b quota=2
        job fixed pods=2 min=1 gpus=1 queue=a non-preemptible on n1 n1
        job owner gpus=1 queue=b
    "), @"owner pending: Resources were not found for pod default/owner due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn a_reclaimer_waits_for_releasing_capacity_and_evicts_no_more() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job leaving pods=2 min=1 gpus=1 queue=a releasing on n1 n1
        job borrowed pods=2 min=1 gpus=1 queue=a on n1 n1
        gang owner pods=2 gpus=1 queue=b
    "), @r"
    owner waits for n1 x2
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn capacity_of_long_terminating_pods_is_not_awaited() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job stuck gpus=1 queue=a releasing for=3m on n1
        job borrowed pods=3 min=1 gpus=1 queue=a on n1 n1 n1
        gang owner pods=1 gpus=1 queue=b
    "), @r"
    borrowed leaves n1 for owner (reclaim)
    owner waits for n1
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn victims_stand_on_the_fewest_nodes_that_suffice() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        node n3 gpus=2
        queue a quota=0
        queue b quota=6
        job a1 gpus=1 queue=a on n1
        job a2 gpus=1 queue=a on n2
        job a3 gpus=1 queue=a on n3
        job a4 gpus=1 queue=a on n1
        job a5 gpus=1 queue=a on n2
        job a6 gpus=1 queue=a on n3
        gang owner pods=1 gpus=2 queue=b
    "), @r"
    a6 leaves n3 for owner (reclaim)
    a3 leaves n3 for owner (reclaim)
    owner waits for n3
    owner pending: Pipelined to n3: waiting for terminating pods to release capacity
    ");
}

/// Queue `a` uses exactly its quota.
const A2_CAN_MOVE: &str = "
    node n1 gpus=3
    node n2 gpus=2
    queue a quota=3
    queue b quota=2
    job a1 gpus=2 queue=a on n1
    job a2 gpus=1 queue=a on n2
    job owner gpus=2 queue=b non-preemptible
";

#[test]
fn without_consolidating_reclaim_a_moved_pod_counts_as_a_victim() {
    let of = |consolidating_reclaim| {
        let actions = vec![Action::Reclaim];
        let profile = Profile {
            actions,
            allow_consolidating_reclaim: consolidating_reclaim,
            ..Profile::kai()
        };
        plan_with(&profile, A2_CAN_MOVE).contains("a2 leaves n2 for owner (reclaim)")
    };
    assert!(of(true));
    assert!(!of(false), "a queue within its quota loses nothing");
}

#[test]
fn a_victim_that_fits_another_node_is_moved() {
    assert_snapshot!(plan_of(A2_CAN_MOVE), @r"
    a2 leaves n2 for owner (reclaim)
    a2 waits for n1
    owner waits for n2
    owner pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_department_takes_back_from_the_other_one_not_from_its_own_team() {
    assert_snapshot!(plan_of("
        node n1 gpus=8
        queue left quota=4
        queue right quota=4
        queue left-a parent=left quota=2
        queue left-b parent=left quota=2
        queue right-a parent=right quota=4
        job la pods=2 min=1 gpus=1 queue=left-a on n1 n1
        job ra pods=6 min=1 gpus=1 queue=right-a on n1 n1 n1 n1 n1 n1
        gang lb pods=2 gpus=1 queue=left-b
    "), @r"
    ra leaves n1 x2 for lb (reclaim)
    lb waits for n1 x2
    lb pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn osmo_scenario_one_low_priority_work_gives_way_to_a_guarantee() {
    assert_snapshot!(plan_of("
        node n1 gpus=100
        queue pool-a quota=30 weight=1 limit=70
        queue pool-b quota=50 weight=3
        job a-normal gpus=30 queue=pool-a priority=100 on n1
        job a-low-one gpus=34 queue=pool-a priority=50 on n1
        job a-low pods=6 min=1 gpus=1 queue=pool-a priority=50 on n1 n1 n1 n1 n1 n1
        job b-normal gpus=30 queue=pool-b priority=100 on n1
        gang b-more pods=4 gpus=1 queue=pool-b priority=100
    "), @r"
    a-low leaves n1 x4 for b-more (reclaim)
    b-more waits for n1 x4
    b-more pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn osmo_scenario_two_low_priority_work_beyond_the_share_waits() {
    assert_snapshot!(plan_of("
        node n1 gpus=100
        queue pool-a quota=30 weight=1 limit=70
        queue pool-b quota=50 weight=3
        job a-normal gpus=25 queue=pool-a priority=100 on n1
        gang a-low pods=1 gpus=40 queue=pool-a priority=50 on n1
        job b-normal gpus=35 queue=pool-b priority=100 on n1
        gang a-more pods=5 gpus=1 queue=pool-a priority=50
    "), @"a-more pending: Resources were found for 0 pods while 5 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn osmo_scenario_three_a_guarantee_evicts_its_own_low_priority_work() {
    assert_snapshot!(plan_of("
        node n1 gpus=100
        queue pool-a quota=30 weight=1 limit=70
        queue pool-b quota=50 weight=3
        job a-normal gpus=25 queue=pool-a priority=100 on n1
        job a-low pods=8 min=1 gpus=5 queue=pool-a priority=50 on n1 n1 n1 n1 n1 n1 n1 n1
        job b-normal gpus=35 queue=pool-b priority=100 on n1
        gang a-more pods=5 gpus=1 queue=pool-a priority=100
    "), @r"
    a-low leaves n1 for a-more (preempt)
    a-more waits for n1 x5
    a-more pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_young_gang_is_protected_by_its_minimum_run_time() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=0 reclaim-min-runtime=5m
        queue b quota=4
        gang young pods=2 gpus=1 queue=a started=4m on n1 n1
        gang older pods=2 gpus=1 queue=a started=6m on n1 n1
        gang owner pods=4 gpus=1 queue=b
    "), @"owner pending: Resources were found for 0 pods while 4 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It may evict other pods once default/young has run for 300 s, its reclaimMinRuntime.");
}

#[test]
fn no_gang_is_protected_without_the_min_runtime_plugin() {
    let cluster = "
        node n1 gpus=2
        queue a quota=0 reclaim-min-runtime=5m preempt-min-runtime=5m
        queue b quota=1
        job young gpus=1 queue=a started=4m on n1
        job other gpus=1 queue=a started=4m priority=50 on n1
        job owner gpus=1 queue=b
        job higher gpus=1 queue=a priority=75
    ";
    let evicts = |min_runtimes, for_whom: &str| {
        let output =
            plan_with(&Profile { protects_min_runtime: min_runtimes, ..Profile::kai() }, cluster);
        output.contains(&format!("for {for_whom} ("))
    };
    assert!(!evicts(true, "owner") && evicts(false, "owner"));
    assert!(!evicts(true, "higher") && evicts(false, "higher"));
}

#[test]
fn a_min_runtime_does_not_protect_elastic_pods() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue a quota=0 reclaim-min-runtime=5m
        queue b quota=4
        job young pods=4 min=2 gpus=1 queue=a started=1m on n1 n1 n1 n1
        gang owner pods=2 gpus=1 queue=b
    "), @r"
    young leaves n1 x2 for owner (reclaim)
    owner waits for n1 x2
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn across_departments_the_department_min_runtime_applies() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        queue lab quota=4
        queue left parent=lab quota=4
        queue right parent=lab quota=0 reclaim-min-runtime=1m
        queue left-a parent=left quota=4
        queue right-a parent=right quota=0 reclaim-min-runtime=60m
        gang victim pods=4 gpus=1 queue=right-a started=5m on n1 n1 n1 n1
        gang owner pods=1 gpus=1 queue=left-a
    "), @r"
    victim leaves n1 x4 for owner (reclaim)
    owner waits for n1
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_queue_method_takes_the_min_runtime_of_the_leaf_queue() {
    let plan = |method, leaf: &str| {
        let profile = Profile { reclaim_resolve_method: method, ..Profile::kai() };
        plan_with(
            &profile,
            &format!(
                "
            node n1 gpus=4
            queue left quota=4
            queue right quota=0 reclaim-min-runtime=10m
            queue left-a parent=left quota=4
            queue right-a parent=right quota=0 {leaf}
            gang victim pods=4 gpus=1 queue=right-a started=5m on n1 n1 n1 n1
            gang owner pods=1 gpus=1 queue=left-a
        "
            ),
        )
    };
    let leaves = |method, leaf: &str| plan(method, leaf).contains("victim leaves");
    let short = "reclaim-min-runtime=1m";
    assert!(!leaves(ResolveMethod::Lca, short) && leaves(ResolveMethod::Queue, short));
    assert!(!leaves(ResolveMethod::Queue, ""), "the leaf sets no value, its parent does");
    assert!(!leaves(ResolveMethod::Queue, "reclaim-min-runtime=60m"));
}

#[test]
fn a_job_evicts_no_pod_before_its_preemption_delay_is_over() {
    assert_snapshot!(plan_of("
        node n1 gpus=1
        queue a quota=0
        queue b quota=1
        job victim gpus=1 queue=a on n1
        job owner gpus=1 queue=b delay=30s
    "), @"owner pending: Resources were not found for pod default/owner due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It may evict other pods 30 s after its creation.");
}

#[test]
fn a_preemption_delay_is_reported_only_if_victims_exist() {
    let waits = |victims: &str, owner: &str| {
        plan_of(&format!(
            "
            node n1 gpus=2
            queue a quota=0
            queue b quota=2
            {victims}
            job owner queue=b {owner}
        "
        ))
    };
    let output =
        |victims: &str, owner: &str| waits(victims, owner).contains("It may evict other pods");
    let delay = "gpus=2 delay=600s age=10s";
    assert!(output("job v gpus=2 queue=a on n1", delay));
    assert!(!output("job v gpus=2 queue=a non-preemptible on n1", delay));
    assert!(!output("job v gpus=2 queue=b on n1", delay), "equal to it");
    assert!(!output("job v gpus=2 queue=a on n1", "gpus=3 delay=600s age=10s"));
    let half = "job v gpus=1 queue=a on n1\njob w gpus=1 queue=a non-preemptible on n1";
    assert!(!output(half, delay));
    let evicted = waits("job v gpus=2 queue=a on n1", "gpus=2 delay=600s age=60m evicted=30s");
    assert!(evicted.contains("600 s after its last eviction"), "{evicted}");
}

#[test]
fn victim_events_name_the_preemptor_and_the_usage_of_both_queues() {
    assert_snapshot!(eviction_messages_of("
        node n1 gpus=4
        queue a quota=1
        queue b quota=3
        job a1 gpus=1.5 queue=a on n1
        job a2 gpus=2 queue=a on n1
        job b1 gpus=2 queue=b
    "), @r"
    Pod default/a2 was preempted by workload default/b1.
    a uses <GPU: 3.5, CPU: 0 (cores), memory: 0 (GB)> with a quota of <GPU: 1, CPU: Unlimited (cores), memory: Unlimited (GB)>, fair-share of <GPU: 2, CPU: 0 (cores), memory: 0 (GB)> and queue priority of <100>.
    b uses <GPU: 0, CPU: 0 (cores), memory: 0 (GB)> with a quota of <GPU: 3, CPU: Unlimited (cores), memory: Unlimited (GB)>, fair-share of <GPU: 2, CPU: 0 (cores), memory: 0 (GB)> and queue priority of <100>.
    ");
}

#[test]
fn a_job_larger_than_the_cluster_does_not_block_its_queue() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=8
        node n2 gpus=1
        queue borrower quota=0
        queue owner quota=8
        queue other quota=0
        job b pods=8 min=1 gpus=1 queue=borrower on n1 n1 n1 n1 n1 n1 n1 n1
        job c gpus=1 queue=owner on n2
        job z pods=40 min=40 gpus=1 queue=owner
        job o pods=4 min=4 gpus=1 queue=owner
        job t pods=4 min=4 gpus=1 queue=other
    "), @r"
    1: b leaves n1 x4 for o (reclaim)
    1: o waits for n1 x4
    2: o runs on n1 x4
    steady after 2
    ");
}

#[test]
fn a_queue_that_would_exceed_its_fair_share_does_not_reclaim() {
    assert_snapshot!(plan_of("
        node n1 gpus=6
        queue a quota=2
        queue b quota=2
        queue c quota=2
        job x pods=6 min=1 gpus=1 queue=a on n1 n1 n1 n1 n1 n1
        gang y pods=3 gpus=1 queue=b
        job z pods=2 gpus=1 queue=c needs kind=none
    "), @r"
    y pending: Resources were found for 0 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. It may not reclaim, because queue b would exceed its fair share.
    z pending: Resources were not found for pod default/z-0 due to: no nodes with enough resources were found: 1 node(s) didn't match Pod's node affinity/selector.
    ");
}

#[test]
fn a_smaller_gang_is_tried_after_a_larger_one_found_too_few_victims() {
    assert_snapshot!(plan_of("
        node n1 gpus=2
        node n2 gpus=2
        foreign x gpus=2 on n2
        queue left quota=0
        queue right quota=4
        job a gpus=1 queue=left on n1
        job b gpus=1 queue=left on n1
        gang large pods=3 gpus=1 queue=right
        gang small pods=2 gpus=1 queue=right
        gang least pods=1 gpus=1 queue=right
    "), @r"
    b leaves n1 for small (reclaim)
    a leaves n1 for small (reclaim)
    small waits for n1 x2
    large pending: Resources were found for 0 pods while 3 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    least pending: Resources were not found for pod default/least due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    small pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn the_queue_that_uses_more_of_its_share_loses_pods_first() {
    assert_snapshot!(plan_of("
        node n gpus=4
        queue much quota=1 weight=0
        queue some quota=0
        queue owner quota=1
        job three gpus=3 queue=much on n
        job one gpus=1 queue=some on n
        job w gpus=1 queue=owner
    "), @r"
    three leaves n for w (reclaim)
    w waits for n
    w pending: Pipelined to n: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_limit_of_simulations_ends_the_search_for_victims() {
    let evictions = |victim_search| {
        let profile = Profile { victim_search, ..Profile::kai() };
        let plan = plan_with(
            &profile,
            "
            node n1 gpus=4
            queue a quota=2
            queue b quota=2
            job borrowed1 gpus=1 queue=a on n1
            job borrowed2 gpus=1 queue=a on n1
            job borrowed3 gpus=1 queue=a on n1
            job borrowed4 gpus=1 queue=a on n1
            job owner1 gpus=1 queue=b
            job owner2 gpus=1 queue=b
        ",
        );
        plan.lines().filter(|line| line.contains(" leaves ")).count()
    };
    let searches = [
        VictimSearch::Nothing,
        VictimSearch::AtMost(0),
        VictimSearch::AtMost(1),
        VictimSearch::Unlimited,
    ];
    assert_eq!(searches.map(evictions), [0, 0, 1, 2]);
}
