//! Mixed random clusters: devices of two sizes, fractions by portion and by memory, several devices
//! per pod, gangs with optional sub-groups, affinity and anti-affinity. Each cluster converges
//! without a breach.
#![expect(clippy::print_stdout, reason = "prints the tried seeds")]

use std::fmt::Write as _;

use proptest::{collection::vec, option, prelude::*};

use schedlab_testkit::random::{failing_clusters, is_steady_without_breach};

/// Default and maximum number of clusters.
const CLUSTERS: std::ops::RangeInclusive<u32> = 500..=5000;

#[test]
fn clusters_of_mixed_kinds_keep_the_rules_and_come_to_rest() {
    let count = ProptestConfig::default().cases.clamp(*CLUSTERS.start(), *CLUSTERS.end());
    let wrong = failing_clusters(count, cluster, is_steady_without_breach);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{count} mixed clusters, seeds 0 to {}: every rule kept, all at rest", count - 1);
}

/// Number of GPUs of a node, and whether they have large memory.
type NodeLine = (u32, bool);

#[derive(Clone, Debug)]
struct QueueLine {
    quota: &'static str,
    limit: Option<&'static str>,
    weight: &'static str,
}

#[derive(Clone, Debug)]
struct JobLine {
    queue: usize,
    priority: u32,
    kind: Kind,
    /// How its pods are placed relative to each other.
    kept: &'static str,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Equal pods: the minimum, and elastic pods.
    Job { pods: u32, surplus: u32, request: &'static str },
    /// Sub-groups by number of pods, and how many of them suffice.
    Gang { needs: u32, parts: Vec<(u32, &'static str)> },
}

fn cluster() -> impl Strategy<Value = String> {
    let node = (prop_oneof![Just(2_u32), Just(4), Just(8)], any::<bool>());
    let quota = prop_oneof![Just("-1"), Just("0"), Just("1"), Just("2"), Just("4"), Just("0.5")];
    let limit = option::weighted(0.4, prop_oneof![Just("4"), Just("8"), Just("3.5")]);
    let weight = prop_oneof![Just("0"), Just("1"), Just("2"), Just("0.3")];
    let queue = (quota, limit, weight);
    let queue = queue.prop_map(|(quota, limit, weight)| QueueLine { quota, limit, weight });
    (vec(node, 2..6), vec(queue, 5), vec(job(), 4..14))
        .prop_map(|(nodes, queues, jobs)| table(&nodes, &queues, &jobs))
}

fn request() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("gpus=1"),
        2 => Just("gpus=2"),
        1 => Just("gpus=4"),
        2 => Just("part=0.5"),
        1 => Just("part=0.3"),
        1 => Just("part=0.37 devices=2"),
        2 => Just("part-memory=10000"),
        1 => Just("part-memory=30000"),
    ]
}

fn job() -> impl Strategy<Value = JobLine> {
    let alike = (1..4_u32, 0..3_u32, request());
    let alike = alike.prop_map(|(pods, surplus, request)| Kind::Job { pods, surplus, request });
    let parts = (1..3_u32, vec((1..3_u32, request()), 2..4));
    let parts = parts.prop_map(|(needs, parts)| Kind::Gang { needs, parts });
    let kept = prop_oneof![
        8 => Just(""),
        1 => Just(" together=t/rack"),
        1 => Just(" close=t/rack"),
        1 => Just(" far app=x/kubernetes.io/hostname label app=x"),
        1 => Just(" far app=x/rack label app=x"),
        1 => Just(" near app=x/kubernetes.io/hostname label app=x"),
    ];
    let kind = prop_oneof![3 => alike, 1 => parts];
    let priority = prop_oneof![4 => Just(50_u32), 1 => Just(75), 1 => Just(100)];
    (0..4_usize, priority, kind, kept).prop_map(|(queue, priority, kind, kept)| JobLine {
        queue,
        priority,
        kind,
        kept,
    })
}

fn table(nodes: &[NodeLine], queues: &[QueueLine], jobs: &[JobLine]) -> String {
    let mut text = "topology t levels rack\n".to_owned();
    for (at, (gpus, large)) in nodes.iter().enumerate() {
        let (memory, rack) = (if *large { 81920 } else { 40960 }, at / 2);
        let _ = writeln!(text, "node n{at} gpus={gpus} gpu-memory={memory} label rack=r{rack}");
    }
    let names = ["left", "right", "left-a", "left-b", "right-a"];
    for (name, QueueLine { quota, limit, weight }) in names.iter().zip(queues) {
        let parent = name.split_once('-').map(|(parent, _)| format!(" parent={parent}"));
        let limit = limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
        let parent = parent.unwrap_or_default();
        let _ = writeln!(text, "queue {name}{parent} quota={quota} weight={weight}{limit}");
    }
    for (at, JobLine { queue, priority, kind, kept }) in jobs.iter().enumerate() {
        let queue = names[2 + queue % 3];
        let of = format!("j{at:02} queue={queue} priority={priority}");
        match kind {
            Kind::Job { pods, surplus, request } => {
                let all = pods + surplus;
                let _ = writeln!(text, "job {of} pods={all} min={pods} {request}{kept}");
            }
            Kind::Gang { needs, parts } => {
                let _ = writeln!(text, "gang {of} needs={needs}");
                for (part, (pods, request)) in parts.iter().enumerate() {
                    let _ = writeln!(text, "part s{part} pods={pods} {request}{kept}");
                }
            }
        }
    }
    text
}
