//! A plan without changes holds until an event or its own requeue time: the scheduler may sleep, or
//! repeat the plan, until then.

use std::fmt::Write;

use proptest::{collection::vec, prelude::*};

use schedlab_scheduler_core::{Decision, Plan, Profile, Snapshot, model::Time, schedule};
use schedlab_testkit::snapshot_of;

const DAY_MILLIS: i64 = 86_400_000;

fn plan_after(snapshot: &Snapshot, millis: i64) -> Plan {
    let later = Snapshot { now: Time(snapshot.now.0 + millis), ..snapshot.clone() };
    schedule(&later, &Profile::kai())
}

/// The requeue time of the plan of this cluster, in milliseconds.
fn looks_again_after(text: &str) -> Option<u64> {
    plan_after(&snapshot_of(text), 0).requeue_after_millis
}

#[test]
fn a_pipelined_job_is_requeued_when_release_takes_too_long() {
    assert_eq!(
        looks_again_after(
            "
            node n1 gpus=1
            queue a quota=1
            job leaving gpus=1 queue=a releasing for=30s on n1
            gang owner pods=1 gpus=1 queue=a
            "
        ),
        Some(90_001)
    );
}

#[test]
fn a_cluster_without_pending_jobs_is_not_requeued() {
    assert_eq!(
        looks_again_after(
            "
            node n1 gpus=2
            queue a quota=1 reclaim-min-runtime=10m
            job leaving gpus=1 queue=a releasing for=30s on n1
            job young gpus=1 queue=a started=1m on n1
            "
        ),
        None
    );
}

#[test]
fn an_evicted_job_is_no_longer_protected() {
    let protected_for = |on: &str| {
        looks_again_after(&format!(
            "
            node n1 gpus=1
            node n2 gpus=1
            queue a quota=2 reclaim-min-runtime=10m
            foreign x gpus=1 on n2
            foreign y gpus=1 {}
            job ran gpus=1 queue=a started=1m {on}
            gang waits pods=1 gpus=1 queue=a
            ",
            if on.is_empty() { "on n1" } else { "" }
        ))
    };
    assert_eq!(protected_for("on n1"), Some(540_000));
    assert_eq!(protected_for(""), None);
}

#[test]
fn an_unprotected_victim_is_no_reason_to_wait() {
    let plan = plan_after(
        &snapshot_of(
            "
            node n0 gpus=4
            node n1 gpus=3
            queue lab quota=0 preempt-min-runtime=10s reclaim-min-runtime=10s
            queue one parent=lab quota=0 preempt-min-runtime=10s reclaim-min-runtime=10s
            queue two parent=lab quota=0 preempt-min-runtime=10s reclaim-min-runtime=20m
            job j0 pods=2 min=1 gpus=1 queue=two priority=50 started=1m on n0 n0
            job j1 pods=2 min=1 gpus=1 queue=two priority=40 started=1m on n0 n0
            job j2 pods=3 min=1 gpus=1 queue=two priority=50 started=10m stale=20s on n1 n1 n1
            job j3 pods=1 min=1 gpus=2 queue=one priority=40 started=1m
            job j4 pods=1 min=1 gpus=1 queue=one priority=40 age=1m delay=90s
            ",
        ),
        0,
    );
    let output: Vec<String> = plan.waiting.values().map(ToString::to_string).collect();
    assert!(!output.iter().any(|output| output.contains("MinRuntime")), "{output:?}");
}

/// Two teams with time-based rules, and jobs of every age.
fn cluster() -> impl Strategy<Value = String> {
    let times = prop_oneof![Just("10s"), Just("90s"), Just("5m"), Just("20m")];
    let queue = (0..4_u32, times.clone(), times.clone());
    let extra = prop_oneof![
        4 => Just("started=1m"),
        2 => Just("started=4m delay=5m"),
        2 => Just("age=1m delay=90s"),
        1 => Just("age=10m evicted=1m delay=5m"),
        1 => Just("started=10m stale=20s"),
        1 => Just("started=10m stale=2m grace=5m"),
        2 => Just("releasing for=30s"),
        1 => Just("releasing for=3m"),
    ];
    let job = (0..3_usize, 1..4_u32, 1..4_u32, 1..3_u32, 0..4_u32, extra);
    (vec(1..5_u32, 1..4), vec(queue, 3), vec(job, 1..9)).prop_map(|(nodes, queues, jobs)| {
        let mut text = String::new();
        for (at, gpus) in nodes.iter().enumerate() {
            let _ = writeln!(text, "node n{at} gpus={gpus}");
        }
        for (name, (quota, preempt, reclaim)) in ["lab", "one", "two"].iter().zip(queues) {
            let parent = if *name == "lab" { "" } else { "parent=lab" };
            let _ = writeln!(
                text,
                "queue {name} {parent} quota={quota} preempt-min-runtime={preempt} \
                 reclaim-min-runtime={reclaim}"
            );
        }
        let mut free = nodes;
        for (at, (queue, pods, min, gpus, priority, extra)) in jobs.into_iter().enumerate() {
            let queue = ["one", "two", "two"][queue];
            let (min, priority) = (min.min(pods), 40 + 10 * priority);
            let nodes_for_pods = nodes_for_pods(&mut free, pods, gpus);
            let _ = writeln!(
                text,
                "job j{at} pods={pods} min={min} gpus={gpus} queue={queue} priority={priority} \
                 {extra} on{nodes_for_pods}"
            );
        }
        text
    })
}

/// ` n0 n1`: the nodes of as many pods as fit.
fn nodes_for_pods(free: &mut [u32], pods: u32, gpus: u32) -> String {
    let mut nodes_for_pods = String::new();
    for _ in 0..pods {
        if let Some(node) = free.iter().position(|free| *free >= gpus) {
            free[node] -= gpus;
            let _ = write!(nodes_for_pods, " n{node}");
        }
    }
    nodes_for_pods
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_plan_that_changes_nothing_holds_until_the_moment_it_names(text in cluster()) {
        let snapshot = snapshot_of(&text);
        let plan = plan_after(&snapshot, 0);
        let promises = |decision: &Decision| matches!(decision, Decision::Pipeline { .. });
        if !plan.decisions.iter().all(promises) {
            return Ok(());
        }
        let until = plan.requeue_after_millis.and_then(|millis| i64::try_from(millis).ok());
        let last = until.map_or(DAY_MILLIS, |millis| millis - 1);
        for millis in [1, last / 2, last].into_iter().filter(|millis| *millis <= last) {
            let later = plan_after(&snapshot, millis);
            let later = Plan { requeue_after_millis: plan.requeue_after_millis, ..later };
            prop_assert_eq!(&later, &plan, "{} ms later, of\n{}", millis, text);
        }
    }
}
