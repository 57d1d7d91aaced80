//! The time of one cycle of the core on synthetic clusters of several sizes. Building the snapshot
//! does not count; a cycle is one call of `schedule` with the full profile `kai`.

use std::{
    collections::BTreeSet,
    hint::black_box,
    time::{Duration, Instant},
};

use schedlab_audit::Rules;
use schedlab_scheduler_core::{Decision, Profile, Snapshot, profile::Action, schedule};
use schedlab_testkit::{audit_plan, synthetic};

use crate::table::{Row, Table, duration_text, median};

/// Clusters of one kind that differ in the number of nodes.
struct ClusterFamily {
    name: &'static str,
    cluster: fn(u32) -> Snapshot,
    /// A number of nodes, and the upper bound in milliseconds for a cycle on so many nodes.
    bound: (u32, u64),
    /// KAI v0.17.0's own benchmark of the same clusters: nodes, and net seconds.
    kai: &'static [(u32, f64)],
}

const NODE_COUNTS: [u32; 6] = [125, 250, 500, 1000, 2000, 4000];

const FAMILIES: [ClusterFamily; 7] = [
    ClusterFamily {
        name: "a full fleet: 7.5 running and 2.5 pending pods a node, 100 queues",
        cluster: synthetic::full_fleet,
        bound: (4000, 2000),
        kai: &[],
    },
    ClusterFamily {
        name: "allocate: a pending one-GPU job for every GPU, 100 queues",
        cluster: |nodes| synthetic::pending_singles(nodes, 100),
        bound: (1000, 250),
        kai: &[],
    },
    ClusterFamily {
        name: "reclaim: a gang of half the nodes from one-GPU jobs on all",
        cluster: synthetic::large_gang_against_singles,
        bound: (1000, 500),
        kai: &[(10, 0.07), (50, 0.4), (100, 0.9), (200, 2.2), (500, 10.4), (1000, 44.9)],
    },
    ClusterFamily {
        name: "reclaim: one-GPU jobs from as many one-GPU jobs",
        cluster: synthetic::singles_against_singles,
        bound: (1000, 1000),
        kai: &[(10, 0.1), (50, 1.3), (100, 5.2), (200, 26.5), (500, 201.5)],
    },
    ClusterFamily {
        name: "reclaim: an infeasible gang of 10 x 8 GPUs",
        cluster: synthetic::infeasible_gang_against_singles,
        bound: (1000, 1000),
        kai: &[(10, 0.07), (50, 4.8), (100, 24.8), (200, 121.8), (500, 126.4), (1000, 132.0)],
    },
    ClusterFamily {
        name: "reclaim: 60 gangs, each in one rack or zone, from one-GPU jobs",
        cluster: synthetic::gangs_in_one_domain_against_singles,
        bound: (1000, 1000),
        kai: &[],
    },
    ClusterFamily {
        name: "reclaim: 60 gangs spread over racks or nodes, from one-GPU jobs",
        cluster: synthetic::gangs_in_separate_domains_against_singles,
        bound: (1000, 1000),
        kai: &[],
    },
];

/// A cycle of one or all actions on small clusters.
struct SmallCase {
    name: &'static str,
    cluster: fn(u32, u32) -> Snapshot,
    /// The only action of the cycle; `None` for all actions of the profile.
    action: Option<Action>,
    /// Nodes, jobs, and the net milliseconds of KAI v0.17.0's own benchmark of the same cluster.
    kai: &'static [(u32, u32, f64)],
}

const SMALL_CASES: [SmallCase; 3] = [
    SmallCase {
        name: "allocate alone, pending one-GPU jobs in 4 queues",
        cluster: synthetic::pending_jobs,
        action: Some(Action::Allocate),
        kai: &[(10, 50, 9.0), (50, 200, 38.0), (100, 500, 123.0)],
    },
    SmallCase {
        name: "consolidation alone, every second job runs",
        cluster: synthetic::half_running_jobs,
        action: Some(Action::Consolidate),
        kai: &[(10, 50, 30.0), (50, 200, 274.0)],
    },
    SmallCase {
        name: "a full cycle, every second job runs",
        cluster: synthetic::half_running_jobs,
        action: None,
        kai: &[(10, 50, 7.0), (50, 200, 21.0), (100, 500, 78.0)],
    },
];

/// How many times faster than KAI a cycle on a small cluster must be.
const REQUIRED_SPEEDUP: f64 = 10.0;

/// Measures the small clusters of KAI's own benchmarks.
pub(crate) fn measure_small_cases(table: &mut Table) {
    for small in SMALL_CASES.iter().filter(|small| table.is_selected(small.name)) {
        for &(nodes, jobs, kai) in small.kai {
            let actions = small.action.map(|action| vec![action]);
            let whole = Profile::kai();
            let actions = actions.unwrap_or_else(|| whole.actions.clone());
            let profile = Profile { actions, ..whole };
            let (elapsed, decisions) = time_cycle(&(small.cluster)(nodes, jobs), &profile);
            let millis = elapsed.as_secs_f64() * 1000.0;
            table.print_row(&Row {
                name: format!("{}, {nodes} nodes, {jobs} jobs", small.name),
                figure: format!("{millis:.2} ms"),
                bound: format!("{:.1} ms", kai / REQUIRED_SPEEDUP),
                others: format!("{decisions}; KAI {kai} ms: x {:.0}", kai / millis),
            });
        }
    }
}

pub(crate) fn measure_core(table: &mut Table) {
    for family in FAMILIES.iter().filter(|family| table.is_selected(family.name)) {
        let mut last: Option<(u32, Duration)> = None;
        let sizes: BTreeSet<u32> =
            NODE_COUNTS.into_iter().chain(family.kai.iter().map(|(nodes, _)| *nodes)).collect();
        for nodes in sizes {
            let cluster = (family.cluster)(nodes);
            let (elapsed, decisions) = time_cycle(&cluster, &Profile::kai());
            table.print_row(&Row {
                name: format!("{}, {nodes} nodes", family.name),
                figure: duration_text(elapsed),
                bound: if nodes == family.bound.0 {
                    format!("{} ms", family.bound.1)
                } else {
                    String::new()
                },
                others: format!("{decisions}; {}", comparison_text(family, nodes, elapsed, last)),
            });
            last = Some((nodes, elapsed));
            if elapsed > Duration::from_secs(20) {
                break;
            }
        }
    }
}

/// The time of a scheduling cycle, and a text with the number of its decisions. Panics if the plan
/// violates a rule of the audit.
fn time_cycle(cluster: &Snapshot, profile: &Profile) -> (Duration, String) {
    let once = || {
        let start = now();
        let plan = black_box(schedule(black_box(cluster), profile));
        (start.elapsed(), plan)
    };
    let (first, plan) = once();
    let violations = audit_plan(cluster, &plan, Rules::kai());
    assert!(violations.is_empty(), "the plan violates rules: {:?}", violations.first());
    let count = |is: fn(&Decision) -> bool| plan.decisions.iter().filter(|one| is(one)).count();
    let binds = count(|decision| matches!(decision, Decision::Bind { .. }));
    let evictions = count(|decision| matches!(decision, Decision::Evict { .. }));
    let decisions = format!("{binds} binds, {evictions} evictions");
    if first > Duration::from_secs(2) {
        return (first, decisions);
    }
    (median((0..5).map(|_| once().0).collect()), decisions)
}

/// Compares a cycle's time with that for the previous number of nodes, and with KAI's.
fn comparison_text(
    family: &ClusterFamily,
    nodes: u32,
    elapsed: Duration,
    last: Option<(u32, Duration)>,
) -> String {
    let mut parts = Vec::new();
    if let Some((fewer, before)) = last {
        let times = elapsed.as_secs_f64() / before.as_secs_f64();
        parts.push(format!("x {times:.1} for x {:.1}", f64::from(nodes) / f64::from(fewer)));
    }
    if let Some((_, secs)) = family.kai.iter().find(|(size, _)| *size == nodes) {
        parts.push(format!("KAI {secs} s: x {:.0}", secs / elapsed.as_secs_f64()));
    }
    parts.join("; ")
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
