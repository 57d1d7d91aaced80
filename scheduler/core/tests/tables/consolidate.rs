//! Consolidation moves running pods to free contiguous capacity.

use std::fmt::Write;

use insta::assert_snapshot;

use schedlab_scheduler_core::{
    CycleObserver, Profile,
    framework::Session,
    profile::{Action, Placement},
    schedule_observed,
};
use schedlab_testkit::{plan_of, plan_with, snapshot_of, spread_plan_of};

#[test]
fn a_fragmented_fleet_is_packed_for_a_job_that_needs_a_whole_node() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        job left gpus=2 on n1
        job right gpus=2 on n2
        job whole gpus=4
    "), @r"
    right leaves n2 for whole (consolidation)
    right waits for n1
    whole waits for n2
    whole pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_gang_moves_only_as_many_pods_as_needed() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        gang pair pods=2 gpus=2 on n1 n2
        job whole gpus=4
    "), @r"
    pair leaves n2 for whole (consolidation)
    pair waits for n1
    whole waits for n2
    whole pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
}

#[test]
fn consolidation_is_off_under_the_spread_strategy() {
    assert_snapshot!(spread_plan_of("
        node n1 gpus=4
        node n2 gpus=4
        job left gpus=2 on n1
        job right gpus=2 on n2
        job whole gpus=4
    "), @"whole pending: Resources were not found for pod default/whole due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn no_pod_moves_that_no_other_node_takes() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        job left gpus=3 on n1
        job right gpus=3 on n2
        job whole gpus=4
    "), @"whole pending: Resources were not found for pod default/whole due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn non_preemptible_jobs_neither_move_nor_cause_moves() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        job left gpus=2 non-preemptible on n1
        job right gpus=2 on n2
        job whole gpus=4 non-preemptible
    "), @"whole pending: Resources were not found for pod default/whole due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn a_queue_over_its_limit_moves_no_pod() {
    assert_snapshot!(plan_of("
        node n1 gpus=4
        node n2 gpus=4
        queue q quota=4 limit=6
        job left gpus=2 queue=q on n1
        job right gpus=2 queue=q on n2
        job whole gpus=4 queue=q
    "), @"whole pending: q quota has reached the allowable limit of GPUs. Limit is 6 GPUs, currently 4 GPUs allocated and workload requested 4 GPUs");
}

#[test]
fn sixteen_jobs_move_for_one() {
    let plan = plan_of(&scattered(16));
    assert_eq!(plan.matches(" leaves n2 for whole (consolidation)").count(), 16);
}

#[test]
fn seventeen_jobs_do_not_move_for_one() {
    let plan = plan_of(&scattered(17));
    assert_eq!(plan.matches(" leaves ").count(), 0);
}

/// A job that needs a whole node on which `jobs` other jobs run.
fn scattered(jobs: usize) -> String {
    let mut text = format!("node n1 gpus={0}\nnode n2 gpus={0}\n", jobs + 1);
    text.push_str("job fixed gpus=1 non-preemptible on n1\n");
    for job in 0..jobs {
        let _ = writeln!(text, "job small{job:02} gpus=1 on n2");
    }
    let _ = writeln!(text, "job whole gpus={}", jobs + 1);
    text
}

#[test]
fn consolidation_is_off_if_either_strategy_is_spread() {
    let spread = Placement::Spread;
    let cluster = "
        node n1 gpus=2
        node n2 gpus=2
        job a gpus=1 on n1
        job b gpus=1 on n2
        job full gpus=2
    ";
    let by_gpus = Profile { gpu_placement: spread, ..Profile::kai() };
    let by_cpu = Profile { cpu_placement: spread, ..Profile::kai() };
    assert_snapshot!(plan_with(&Profile::kai(), cluster), @r"
    b leaves n2 for full (consolidation)
    b waits for n1
    full waits for n2
    full pending: Pipelined to n2: waiting for terminating pods to release capacity
    ");
    assert_snapshot!(plan_with(&by_gpus, cluster), @"full pending: Resources were not found for pod default/full due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
    assert_snapshot!(plan_with(&by_cpu, cluster), @"full pending: Resources were not found for pod default/full due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.");
}

#[test]
fn the_queue_depth_bounds_the_jobs_that_consolidation_tries() {
    let looking_at = |depth| {
        let queue_depth = [(Action::Consolidate, depth)].into();
        let profile = Profile { queue_depth, ..Profile::kai() };
        plan_with(
            &profile,
            "
            node n1 gpus=2
            node n2 gpus=2
            job a gpus=1 on n1
            job b gpus=1 on n2
            job hopeless gpus=2 needs kind=x
            job full gpus=2
        ",
        )
    };
    assert_snapshot!(looking_at(1), @r"
    full pending: Resources were not found for pod default/full due to: no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.
    hopeless pending: Resources were not found for pod default/hopeless due to: no nodes with enough resources were found: 2 node(s) didn't match Pod's node affinity/selector.
    ");
    assert_snapshot!(looking_at(2), @r"
    b leaves n2 for full (consolidation)
    b waits for n1
    full waits for n2
    full pending: Pipelined to n2: waiting for terminating pods to release capacity
    hopeless pending: Resources were not found for pod default/hopeless due to: no nodes with enough resources were found: 2 node(s) didn't match Pod's node affinity/selector.
    ");
}

/// Counts the victim sets that a cycle simulated.
#[derive(Default)]
struct SimulationCounter(usize);

impl CycleObserver for SimulationCounter {
    fn on_action_start(&mut self, _: Action, _: &Session<'_>) {}

    fn on_action_end(&mut self, _: Action, session: &Session<'_>) {
        self.0 = session.scenario_counts().simulated;
    }
}

fn simulations(cluster: &str) -> usize {
    let mut counter = SimulationCounter::default();
    schedule_observed(&snapshot_of(cluster), &Profile::kai(), &mut counter);
    counter.0
}

#[test]
fn a_job_that_nothing_can_make_room_for_is_searched_for_once_whatever_the_queue() {
    let nodes = "
        queue a quota=12
        queue b quota=0
        queue c quota=0 limit=1
        node n1 gpus=5
        node n2 gpus=5
        node n3 gpus=5
        job j1 gpus=2 queue=a on n1
        job j2 gpus=3 queue=a on n1
        job j3 gpus=1 queue=a non-preemptible on n2
        job j4 gpus=4 queue=a non-preemptible on n3
    ";
    // Two places for two GPUs are left on n2, and one for three, but not both.
    let one = simulations(&format!("{nodes}job w1 gpus=5 queue=a\n"));
    assert!(one > 0);
    let several = format!("{nodes}job w1 gpus=5 queue=a\njob w2 gpus=5 queue=b\n");
    assert_eq!(simulations(&several), one);
    // The limit of its queue keeps the first job pending, which says nothing about the second.
    let limited = format!("{nodes}job w1 gpus=5 queue=c\njob w2 gpus=5 queue=b\n");
    assert_eq!(simulations(&limited), one);
}

#[test]
fn a_pod_as_large_as_the_job_does_not_move_for_it() {
    let full = "
        node n1 gpus=4
        node n2 gpus=4
        node n3 gpus=8
        job j1 gpus=4 on n1
        job j2 gpus=4 on n2
        job fixed gpus=3 non-preemptible on n3
    ";
    assert_eq!(simulations(&format!("{full}gang w pods=2 gpus=4\n")), 0);
    // It may move where the job may not run.
    assert_snapshot!(plan_of("
        node n1 gpus=4 label kind=x
        node n2 gpus=4
        job first gpus=4 needs kind=x
        job small gpus=4 on n1
    "), @r"
    small leaves n1 for first (consolidation)
    small waits for n2
    first waits for n1
    first pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn a_victim_set_is_not_simulated_if_counts_show_that_a_pod_of_it_has_no_place() {
    let small = "
        node n1 gpus=4
        node n2 gpus=4
        node n3 gpus=4
        job a1 gpus=3 on n1
        job b1 gpus=3 on n2
        job c1 gpus=2 on n3
    ";
    assert_eq!(simulations(&format!("{small}job w gpus=4\n")), 0);
    assert!(simulations(&format!("{small}node n4 gpus=2\njob w gpus=4\n")) > 0);
}
