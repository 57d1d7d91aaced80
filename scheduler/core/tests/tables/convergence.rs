//! A closed system converges: reclaimed capacity is not reclaimed back. Each table is a loop that
//! some scheduler ran into.

use insta::assert_snapshot;

use schedlab_testkit::cycles_until_steady_of;

#[test]
fn reclaimed_capacity_stays_reclaimed() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        queue a quota=2
        queue b quota=2
        job borrowed pods=4 min=1 gpus=1 queue=a on n1 n1 n1 n1
        gang owner pods=2 gpus=1 queue=b
    "), @r"
    1: borrowed leaves n1 x2 for owner (reclaim)
    1: owner waits for n1 x2
    2: owner runs on n1 x2
    steady after 2
    ");
}

#[test]
fn volcano_4947_the_smaller_queue_does_not_reclaim_the_share_of_the_larger() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=4
        queue q1 quota=3
        queue q2 quota=5
        gang one pods=1 gpus=4 queue=q1 on n1
        gang filler pods=1 gpus=4 queue=q1 on n2
        gang two pods=1 gpus=4 queue=q2
    "), @r"
    1: filler leaves n2 for two (reclaim)
    1: two waits for n2
    2: two runs on n2
    steady after 2
    ");
}

#[test]
fn volcano_3729_an_odd_unit_is_not_fought_over() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=11
        queue a quota=5
        queue b quota=5
        job a pods=8 min=1 gpus=1 queue=a on n1 n1 n1 n1 n1 n1
        job b pods=8 min=1 gpus=1 queue=b on n1 n1 n1 n1 n1
    "), @"steady after 0");
}

#[test]
fn volcano_3869_two_elastic_jobs_share_and_rest() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=6
        queue a
        queue b
        job a pods=6 min=1 gpus=1 queue=a on n1 n1 n1 n1 n1 n1
        job b pods=6 min=1 gpus=1 queue=b
    "), @r"
    1: a leaves n1 for b (reclaim)
    1: b waits for n1
    2: b runs on n1
    2: a leaves n1 for b (reclaim)
    2: b waits for n1
    3: b runs on n1
    3: a leaves n1 for b (reclaim)
    3: b waits for n1
    4: b runs on n1
    steady after 4
    ");
}

#[test]
fn a_larger_unplaceable_job_ahead_prevents_oscillation() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        queue a quota=2 weight=2
        queue b quota=2 weight=2
        job a1 gpus=2 queue=a on n1
        job a2 gpus=1 queue=a on n1
        job b1 gpus=1 queue=b on n1
        job b2 gpus=3 queue=b
        job b3 gpus=1 queue=b
        job a3 gpus=1 queue=a
    "), @"steady after 0");
}

#[test]
fn kueue_3779_departments_with_unequal_teams_come_to_rest() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=8
        queue left quota=4
        queue right quota=4
        queue left-a parent=left
        queue left-b parent=left
        queue right-a parent=right
        job la pods=8 min=1 gpus=1 queue=left-a on n1 n1 n1 n1 n1 n1 n1 n1
        job lb pods=4 min=1 gpus=1 queue=left-b
        job ra pods=6 min=1 gpus=1 queue=right-a
    "), @r"
    1: la leaves n1 for ra (reclaim)
    1: ra waits for n1
    1: la leaves n1 x2 for ra (reclaim)
    1: la leaves n1 x2 for lb (reclaim)
    1: lb waits for n1
    2: ra runs on n1 x3
    2: lb runs on n1
    2: ra runs on n1
    2: la leaves n1 for lb (reclaim)
    2: lb waits for n1
    3: lb runs on n1
    steady after 3
    ");
}

#[test]
fn kueue_6947_an_infeasible_head_neither_evicts_nor_blocks() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=8
        job low gpus=2 queue=a priority=50 on n1
        job huge gpus=8 queue=a priority=90
        job small gpus=2 queue=a priority=40
    "), @r"
    1: small runs on n1
    steady after 1
    ");
}

#[test]
fn two_gangs_of_which_only_one_fits_do_not_deadlock() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=4
        queue b quota=4
        gang one pods=6 gpus=1 queue=a
        gang two pods=6 gpus=1 queue=b
    "), @r"
    1: one runs on n1 x4, n2 x2
    steady after 1
    ");
}

#[test]
fn a_preempted_job_does_not_preempt_back() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=2
        queue a quota=2
        gang low pods=2 gpus=1 queue=a priority=50 on n1 n1
        gang high pods=2 gpus=1 queue=a priority=75
    "), @r"
    1: low leaves n1 x2 for high (preempt)
    1: high waits for n1 x2
    2: high runs on n1 x2
    steady after 2
    ");
}

#[test]
fn consolidation_is_done_once() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=4
        job left gpus=2 on n1
        job right gpus=2 on n2
        job whole gpus=4
    "), @r"
    1: right leaves n2 for whole (consolidation)
    1: right waits for n1
    1: whole waits for n2
    2: right runs on n1
    2: whole runs on n2
    steady after 2
    ");
}

#[test]
fn a_victim_of_one_action_does_not_precede_the_preemptor_of_the_next() {
    assert_snapshot!(cycles_until_steady_of("
        node n0 gpus=8
        node n1 gpus=8
        node n2 gpus=4 by-claim
        queue left quota=4
        queue left-a parent=left
        queue left-b
        queue right-a
        queue right-b
        job j00 pods=5 min=3 gpus=3 queue=right-b
        job j01 part=0.1 queue=left-a
        job j03 pods=2 gpus=1 queue=right-a
        job j05 pods=4 min=4 part=0.3 queue=right-b
        job j06 pods=4 min=4 gpus=1 queue=left-b
        job j07 gpus=2 queue=right-a non-preemptible
    "), @r"
    1: j01 runs on n0/j01
    1: j03 runs on n0 x2
    1: j00 runs on n0, n1 x2
    1: j05 runs on n0/j01 x3, n0/j05-3
    2: j05 leaves n0 for j00 (consolidation)
    2: j05 waits for n1/j05-3
    2: j03 leaves n0 for j00 (consolidation)
    2: j03 waits for n1
    2: j00 waits for n0
    3: j03 runs on n1
    3: j05 runs on n1/j05-3
    3: j00 runs on n0
    steady after 3
    ");
}

#[test]
fn a_scenario_whose_victims_could_stay_is_no_solution() {
    assert_snapshot!(cycles_until_steady_of("
        node n0 gpus=8
        node n1 gpus=8
        node n2 gpus=8
        queue left-a quota=5 weight=2
        queue left-b
        queue right-a
        job j00 pods=4 min=3 gpus=4 queue=left-b
        job j01 pods=5 min=3 gpus=2 queue=left-a
        job j02 pods=3 gpus=3 queue=left-a priority=75
        job j05 pods=2 min=2 gpus=4 queue=right-a
        job j06 pods=4 gpus=1 queue=right-a
        job j07 pods=2 gpus=1 queue=left-b
    "), @r"
    1: j02 runs on n0 x2, n1
    1: j01 runs on n0, n1 x2, n2 x2
    1: j06 runs on n1, n2 x3
    1: j07 runs on n2
    2: j01 leaves n2 x2 for j07 (reclaim)
    2: j01 waits for n0
    2: j01 leaves n0 for j07 (reclaim)
    2: j01 waits for n2
    2: j01 leaves n1 for j07 (reclaim)
    2: j01 waits for n2
    2: j01 leaves n1 for j07 (reclaim)
    2: j01 waits for n0
    2: j02 leaves n0 for j07 (reclaim)
    2: j02 waits for n1
    2: j07 waits for n0
    3: j02 runs on n1
    3: j01 runs on n2 x2, n0 x2
    3: j07 runs on n0
    steady after 3
    ");
}

#[test]
fn no_pod_is_evicted_for_a_pod_whose_affinity_selects_it() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=1 label host=n1
        queue a quota=2
        queue b quota=0
        job partner gpus=1 label app=x queue=b on n1
        job fan gpus=1 near app=x/host queue=a
    "), @"steady after 0");
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=1 label host=n1
        node n2 gpus=1 label host=n2
        job fan gpus=1 near app=x/host
        job partner gpus=1 label app=x on n1
    "), @"steady after 0");
}

#[test]
fn no_pod_is_moved_to_a_node_that_another_would_take() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        node n2 gpus=4
        job s part=0.7 on n1/g1
        job p gpus=2 on n2
        job w1 part=0.3 devices=2
        job w2 gpus=2
        gang v pods=4 gpus=1 on n1 n2 n1 n1
    "), @r"
    1: v leaves n1 for w1 (consolidation)
    1: v waits for n2
    1: w1 waits for n1/g1+w1
    2: w1 runs on n1/g1+w1
    2: v runs on n2
    steady after 2
    ");
}

#[test]
fn moved_pods_are_requeued_in_the_units_of_gang_placement() {
    assert_snapshot!(cycles_until_steady_of("
        topology dc levels host
        node n1 gpus=2 label host=n1
        node n2 gpus=4 label host=n2
        node n3 gpus=2 label host=n3
        queue a quota=8
        queue b quota=0
        job f gpus=1 queue=a non-preemptible on n1
        job g gpus=1 queue=a non-preemptible on n3
        job h gpus=1 queue=a non-preemptible on n2
        gang v needs=1 queue=a
          part left gpus=1 on n2
          part right pods=2 min=1 gpus=1 close=dc/host on n3 n1
        job w gpus=1 queue=b needs host=n1
    "), @"steady after 0");
}

#[test]
fn a_job_that_lost_pods_preempts_none_in_that_cycle() {
    let rounds = cycles_until_steady_of(
        "
        topology dc levels zone rack
        node n0 gpus=2 label zone=z0 label rack=r0
        node n1 gpus=2 label zone=z0 label rack=r0
        node n2 gpus=2 label zone=z0 label rack=r1
        node n3 gpus=2 label zone=z0 label rack=r1
        node n4 gpus=4 label zone=z1 label rack=r2
        node n5 gpus=2 label zone=z1 label rack=r2
        node n6 gpus=4 label zone=z1 label rack=r3
        queue q0 quota=8
        queue q1 quota=4
        job j00 pods=2 min=1 gpus=2 priority=75 queue=q1 together=dc/rack on n0
        job j01 pods=3 min=1 gpus=1 priority=50 queue=q1 on n6 n6 n6
        gang j02 pods=4 gpus=1 priority=75 queue=q0 on n2 n2 n3 n3
        job j04 pods=3 min=1 gpus=1 priority=75 queue=q0 together=dc/rack on n1 n1
        gang j05 priority=75 queue=q0
          part s0 gpus=2
          part s1 pods=2 gpus=2
          part s2 pods=2 gpus=2
        job j06 pods=6 min=1 gpus=1 priority=75 queue=q1 on n4 n4 n4 n4 n5 n5
    ",
    );
    assert_snapshot!(rounds, @r"
    1: j00 leaves n0 for j04 (reclaim)
    1: j04 waits for n0
    2: j04 runs on n0
    2: j01 leaves n6 for j00 (consolidation)
    2: j01 waits for n0
    2: j00 waits for n6
    2: j01 leaves n6 x2 for j00 (preempt)
    2: j00 waits for n6
    3: j00 runs on n6 x2
    3: j01 runs on n0
    steady after 3
    ");
}
