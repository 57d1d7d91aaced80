//! Pending jobs that compete for the capacity that is freed for another job.

use std::fmt::Write as _;

use insta::assert_snapshot;

use schedlab_testkit::{cycles_until_steady_of, plan_of};

#[test]
fn a_gang_that_frees_more_than_needed_is_evicted_though_another_job_is_pending() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        queue a quota=0 weight=0
        queue b quota=4
        gang borrowed pods=4 gpus=1 queue=a on n1 n1 n1 n1
        job first gpus=1 queue=b
        job second gpus=1 queue=b
    "), @r"
    1: borrowed leaves n1 x4 for first (reclaim)
    1: first waits for n1
    2: first runs on n1
    2: second runs on n1
    steady after 2
    ");
}

#[test]
fn an_owner_reclaims_though_a_queue_without_share_also_gains() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=4
        queue a quota=0
        queue b quota=4
        queue c quota=0 weight=0
        gang borrowed pods=4 gpus=1 queue=a on n1 n1 n1 n1
        job owner gpus=1 queue=b
        job undeserving gpus=1 queue=c
    "), @r"
    1: borrowed leaves n1 x4 for owner (reclaim)
    1: owner waits for n1
    2: owner runs on n1
    2: undeserving runs on n1
    steady after 2
    ");
}

#[test]
fn a_job_that_anti_affinity_blocks_does_not_represent_equal_requests() {
    assert_snapshot!(plan_of("
        node n1 gpus=1 label zone=a
        queue a quota=0 weight=0
        queue b quota=1
        queue c quota=0
        job borrowed gpus=1 queue=a on n1
        job keeper cpu=1 queue=c non-preemptible far app=x/zone on n1
        job kept-away gpus=1 queue=b label app=x
        job owner gpus=1 queue=b
    "), @r"
    borrowed leaves n1 for owner (reclaim)
    owner waits for n1
    kept-away pending: Resources were not found for pod default/kept-away due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    owner pending: Pipelined to n1: waiting for terminating pods to release capacity
    ");
}

#[test]
fn an_owner_gets_its_quota_though_jobs_that_cannot_reclaim_come_first() {
    let mut cluster = "
        node n1 gpus=8
        node n2 gpus=8
        node n3 gpus=8
        queue d0 quota=16
        queue d0q0 parent=d0 quota=9
        queue d0q1 parent=d0 quota=2 weight=0
        queue d1 quota=4
        queue d1q0 parent=d1 quota=4
        queue d1q1 parent=d1 quota=0
        "
    .to_owned();
    let running = [("d1q1", 7), ("d0q0", 10), ("d0q1", 7)];
    let queues = running.into_iter().flat_map(|(queue, jobs)| std::iter::repeat_n(queue, jobs));
    for (at, queue) in queues.enumerate() {
        writeln!(cluster, "job j{at:02} gpus=1 queue={queue} on n{}", 1 + at % 3)
            .expect("writing to a string succeeds");
    }
    cluster.push_str("job waits gpus=1 queue=d0q1\n");
    for at in 0..6 {
        writeln!(cluster, "job owner{at} gpus=1 queue=d1q0").expect("writing to a string succeeds");
    }
    let rounds = cycles_until_steady_of(&cluster);
    let run = rounds.lines().filter(|line| line.contains("owner") && line.contains(" runs on"));
    assert!(run.count() >= 4, "{rounds}");
    assert!(rounds.contains("steady"), "{rounds}");
}

#[test]
fn an_owner_reclaims_whichever_queue_gets_the_remainder() {
    let plan = |priority: i32| {
        plan_of(&format!(
            "
            node n1 gpus=2
            queue left quota=0
            queue other quota=0 priority={priority}
            queue right quota=1
            job big gpus=2 queue=left on n1
            job small gpus=1 queue=other
            job own gpus=1 queue=right
        "
        ))
    };
    assert_snapshot!(plan(50), @r"
    big leaves n1 for own (reclaim)
    own waits for n1
    own pending: Pipelined to n1: waiting for terminating pods to release capacity
    small pending: Resources were not found for pod default/small due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
    assert_snapshot!(plan(150), @r"
    big leaves n1 for own (reclaim)
    own waits for n1
    own pending: Pipelined to n1: waiting for terminating pods to release capacity
    small pending: Resources were not found for pod default/small due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
    ");
}

#[test]
fn victim_event_names_the_jobs_that_take_its_room() {
    assert_snapshot!(cycles_until_steady_of("
        node n1 gpus=8
        queue q quota=8
        job low pods=8 min=1 gpus=1 queue=q priority=40 on n1 n1 n1 n1 n1 n1 n1 n1
        job top pods=5 min=1 gpus=1 queue=q priority=90
        job mid pods=2 min=1 gpus=1 queue=q priority=75
    "), @r"
    1: low leaves n1 for top (preempt)
    1: top waits for n1
    1: low leaves n1 x4 for top (preempt)
    1: low leaves n1 for mid (preempt)
    1: mid waits for n1
    2: top runs on n1 x5
    2: mid runs on n1
    2: low leaves n1 for mid (preempt)
    2: mid waits for n1
    3: mid runs on n1
    steady after 3
    ");
}
