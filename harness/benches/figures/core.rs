//! One cycle of the core on synthetic clusters, and how it grows with them. Snapshots are made
//! outside the clock; a cycle is one call of `schedule` with the full profile `kai`.

use std::{
    collections::BTreeSet,
    hint::black_box,
    time::{Duration, Instant},
};

use schedlab_scheduler_core::{
    Decision, Profile, Snapshot,
    audit::{Rules, audit_plan},
    profile::Action,
    schedule, synthetic,
};

use crate::table::{Row, Table, median, time};

/// A family of clusters that grows with the number of nodes.
struct Family {
    name: &'static str,
    cluster: fn(u32) -> Snapshot,
    /// What so many nodes may take.
    bound: (u32, u64),
    /// KAI v0.17.0's own benchmark of the same, net seconds by nodes.
    kai: &'static [(u32, f64)],
}

const SIZES: [u32; 6] = [125, 250, 500, 1000, 2000, 4000];

const FAMILIES: [Family; 7] = [
    Family {
        name: "a full fleet: 7.5 running and 2.5 pending pods a node, 100 queues",
        cluster: synthetic::full_fleet,
        bound: (4000, 2000),
        kai: &[],
    },
    Family {
        name: "allocate: a pending one-GPU job for every GPU, 100 queues",
        cluster: |nodes| synthetic::pending_singles(nodes, 100),
        bound: (1000, 250),
        kai: &[],
    },
    Family {
        name: "reclaim: a gang of half the nodes from one-GPU jobs on all",
        cluster: synthetic::large_gang_against_singles,
        bound: (1000, 500),
        kai: &[(10, 0.07), (50, 0.4), (100, 0.9), (200, 2.2), (500, 10.4), (1000, 44.9)],
    },
    Family {
        name: "reclaim: one-GPU jobs from as many one-GPU jobs",
        cluster: synthetic::singles_against_singles,
        bound: (1000, 1000),
        kai: &[(10, 0.1), (50, 1.3), (100, 5.2), (200, 26.5), (500, 201.5)],
    },
    Family {
        name: "reclaim: a hopeless gang of 10 x 8 GPUs",
        cluster: synthetic::infeasible_gang_against_singles,
        bound: (1000, 1000),
        kai: &[(10, 0.07), (50, 4.8), (100, 24.8), (200, 121.8), (500, 126.4), (1000, 132.0)],
    },
    Family {
        name: "reclaim: 60 gangs, each in one rack or zone, from one-GPU jobs",
        cluster: synthetic::gangs_in_one_domain_against_singles,
        bound: (1000, 1000),
        kai: &[],
    },
    Family {
        name: "reclaim: 60 gangs apart by rack or node, from one-GPU jobs",
        cluster: synthetic::gangs_in_separate_domains_against_singles,
        bound: (1000, 1000),
        kai: &[],
    },
];

/// A cycle of some actions on a small cluster.
struct Small {
    name: &'static str,
    cluster: fn(u32, u32) -> Snapshot,
    /// `None`: all of them.
    action: Option<Action>,
    /// Nodes, jobs, and KAI v0.17.0's own benchmark of the same in net milliseconds.
    kai: &'static [(u32, u32, f64)],
}

const SMALL: [Small; 3] = [
    Small {
        name: "allocate alone, pending one-GPU jobs in 4 queues",
        cluster: synthetic::pending_jobs,
        action: Some(Action::Allocate),
        kai: &[(10, 50, 9.0), (50, 200, 38.0), (100, 500, 123.0)],
    },
    Small {
        name: "consolidation alone, every second job runs",
        cluster: synthetic::half_running_jobs,
        action: Some(Action::Consolidate),
        kai: &[(10, 50, 30.0), (50, 200, 274.0)],
    },
    Small {
        name: "a full cycle, every second job runs",
        cluster: synthetic::half_running_jobs,
        action: None,
        kai: &[(10, 50, 7.0), (50, 200, 21.0), (100, 500, 78.0)],
    },
];

/// Where KAI takes less than 100 ms.
const TIMES: f64 = 10.0;

/// KAI's benchmarks of single actions, each as many times as fast as KAI.
pub(crate) fn measure_small(table: &mut Table) {
    for small in SMALL.iter().filter(|small| table.wants(small.name)) {
        for &(nodes, jobs, kai) in small.kai {
            let actions = small.action.map(|action| vec![action]);
            let whole = Profile::kai();
            let actions = actions.unwrap_or_else(|| whole.actions.clone());
            let profile = Profile { actions, ..whole };
            let (took, decisions) = cycle(&(small.cluster)(nodes, jobs), &profile);
            let millis = took.as_secs_f64() * 1000.0;
            table.row(&Row {
                name: format!("{}, {nodes} nodes, {jobs} jobs", small.name),
                figure: format!("{millis:.2} ms"),
                bound: format!("{:.1} ms", kai / TIMES),
                others: format!("{decisions}; KAI {kai} ms: x {:.0}", kai / millis),
            });
        }
    }
}

pub(crate) fn measure(table: &mut Table) {
    for family in FAMILIES.iter().filter(|family| table.wants(family.name)) {
        let mut last: Option<(u32, Duration)> = None;
        let sizes: BTreeSet<u32> =
            SIZES.into_iter().chain(family.kai.iter().map(|(nodes, _)| *nodes)).collect();
        for nodes in sizes {
            let cluster = (family.cluster)(nodes);
            let (took, decisions) = cycle(&cluster, &Profile::kai());
            table.row(&Row {
                name: format!("{}, {nodes} nodes", family.name),
                figure: time(took),
                bound: if nodes == family.bound.0 {
                    format!("{} ms", family.bound.1)
                } else {
                    String::new()
                },
                others: format!("{decisions}; {}", compared(family, nodes, took, last)),
            });
            last = Some((nodes, took));
            if took > Duration::from_secs(20) {
                break;
            }
        }
    }
}

/// How long a cycle takes, and what it decides. A plan that breaks a rule is no figure.
fn cycle(cluster: &Snapshot, profile: &Profile) -> (Duration, String) {
    let once = || {
        let start = now();
        let plan = black_box(schedule(black_box(cluster), profile));
        (start.elapsed(), plan)
    };
    let (first, plan) = once();
    let breaches = audit_plan(cluster, &plan, Rules::kai());
    assert!(breaches.is_empty(), "the plan breaks rules: {:?}", breaches.first());
    let count = |is: fn(&Decision) -> bool| plan.decisions.iter().filter(|one| is(one)).count();
    let binds = count(|decision| matches!(decision, Decision::Bind { .. }));
    let evictions = count(|decision| matches!(decision, Decision::Evict { .. }));
    let decisions = format!("{binds} binds, {evictions} evictions");
    if first > Duration::from_secs(2) {
        return (first, decisions);
    }
    (median((0..5).map(|_| once().0).collect()), decisions)
}

fn compared(family: &Family, nodes: u32, took: Duration, last: Option<(u32, Duration)>) -> String {
    let mut said = Vec::new();
    if let Some((fewer, before)) = last {
        let times = took.as_secs_f64() / before.as_secs_f64();
        said.push(format!("x {times:.1} for x {:.1}", f64::from(nodes) / f64::from(fewer)));
    }
    if let Some((_, secs)) = family.kai.iter().find(|(size, _)| *size == nodes) {
        said.push(format!("KAI {secs} s: x {:.0}", secs / took.as_secs_f64()));
    }
    said.join("; ")
}

#[expect(clippy::disallowed_methods, reason = "this is where wall time is measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
