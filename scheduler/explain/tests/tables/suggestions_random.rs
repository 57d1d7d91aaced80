//! Suggestions are sufficient on random clusters: a job that is suggested to run does, after an
//! independent applier followed the text.
#![expect(clippy::print_stdout, reason = "prints the tried seeds")]

use std::{
    fmt::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use proptest::{collection::vec, prelude::*};

use crate::texts::ineffective_suggestions;
use schedlab_testkit::random::{failures_of_seeds, queues, selectors};

/// One cluster of each kind per this number of `PROPTEST_CASES` (256): a search for suggestions
/// runs many cycles.
const CLUSTERS_PER_CASE: u32 = 32;

#[test]
fn applied_suggestions_let_the_job_run_with_small_and_large_nodes() {
    all_hold("queues", queues::random_cluster_with_queues);
    all_hold("selectors", selectors::random_cluster_with_selectors);
    all_hold("places", cluster);
}

fn all_hold<S: Strategy<Value = String>>(kind: &str, clusters: impl Fn() -> S + Sync) {
    let count = (ProptestConfig::default().cases / CLUSTERS_PER_CASE).max(1);
    let tried = AtomicUsize::new(0);
    let wrong = failures_of_seeds(count, clusters, |text, seed| {
        let (wrong, all) = ineffective_suggestions(text);
        tried.fetch_add(all, Ordering::Relaxed);
        (!wrong.is_empty()).then(|| format!("seed {seed}:\n{text}\n{}", wrong.join("\n")))
    });
    assert!(wrong.is_empty(), "{kind}\n{}", wrong.join("\n"));
    let tried = tried.into_inner();
    assert!(tried > 0, "no suggestion was applied in {count} clusters of kind {kind}");
    println!("{count} clusters of {kind}, seeds 0 to {}: {tried} remedies hold", count - 1);
}

#[derive(Clone, Debug)]
struct Job {
    pods: u32,
    gpus: u32,
    cpu: u32,
    queue: u32,
    priority: u32,
    fixed: bool,
    starts_on: Option<usize>,
    place: &'static str,
}

fn job() -> impl Strategy<Value = Job> {
    let place = prop_oneof![
        4 => Just(""),
        4 => Just("together=t/rack"),
        1 => Just("together=t/zone"),
        1 => Just("together=t/kubernetes.io/hostname"),
        1 => Just("close=t/rack"),
        1 => Just("together=t/zone close=t/rack"),
    ];
    let gpus = prop_oneof![Just(1_u32), Just(2), Just(4), Just(8)];
    let priority = prop_oneof![Just(40_u32), Just(50), Just(60)];
    let starts_on = prop::option::weighted(0.4, 0..6_usize);
    (1..5_u32, gpus, 0..5_u32, 0..3_u32, priority, any::<bool>(), starts_on, place).prop_map(
        |(pods, gpus, cpu, queue, priority, fixed, starts_on, place)| Job {
            pods,
            gpus,
            cpu,
            queue,
            priority,
            fixed,
            starts_on,
            place,
        },
    )
}

/// Up to six nodes in two racks of each of two zones, two queues below a parent and one next to it,
/// and up to ten gangs, some with a required level.
fn cluster() -> impl Strategy<Value = String> {
    let node = (prop_oneof![Just(2_u32), Just(4), Just(8)], 0..4_u32, 0..12_u32);
    let bounds = (0..13_u32, prop::option::weighted(0.4, 4..20_u32));
    (vec(node, 2..7), vec(bounds, 4), vec(job(), 2..10)).prop_map(|(nodes, queues, jobs)| {
        let mut text = "topology t levels zone rack kubernetes.io/hostname\n".to_owned();
        for (at, (gpus, rack, kind)) in nodes.iter().enumerate() {
            let closed = ["cordoned", "not-ready", "taint k=v:NoSchedule"];
            let closed = closed.get(*kind as usize).unwrap_or(&"");
            let zone = rack / 2;
            let _ = writeln!(
                text,
                "node n{at} gpus={gpus} label zone=z{zone} label rack=r{rack} {closed}"
            );
        }
        for (name, (quota, limit)) in ["top", "a", "b", "c"].iter().zip(&queues) {
            let parent = if ["a", "b"].contains(name) { " parent=top" } else { "" };
            let limit = limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
            let _ = writeln!(text, "queue {name}{parent} quota={quota}{limit}");
        }
        let mut free: Vec<u32> = nodes.iter().map(|(gpus, ..)| *gpus).collect();
        for (at, job) in jobs.iter().enumerate() {
            job.write(&mut text, at, &mut free);
        }
        text
    })
}

impl Job {
    fn write(&self, text: &mut String, at: usize, free: &mut [u32]) {
        let Self { pods, gpus, cpu, queue, priority, fixed, starts_on, place } = self;
        let queue = ["a", "b", "c"][*queue as usize];
        let fixed = if *fixed { "non-preemptible" } else { "" };
        let _ = write!(
            text,
            "gang j{at} pods={pods} gpus={gpus} cpu={cpu} queue={queue} priority={priority} {fixed} {place}"
        );
        let nodes = free.len();
        if let Some(node) =
            starts_on.map(|node| node % nodes).filter(|node| free[*node] >= pods * gpus)
        {
            free[node] -= pods * gpus;
            let _ = write!(text, " on{}", format!(" n{node}").repeat(*pods as usize));
        }
        text.push('\n');
    }
}
