//! What must hold of every cluster: each cycle keeps the rules, and a closed system comes to
//! rest. Clusters are tables, so a failure is a table too.

use std::fmt::Write;

use proptest::{collection::vec, option, prelude::*};

use crate::testing::rounds_of;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cycle_keeps_the_rules_and_a_closed_system_comes_to_rest(text in cluster()) {
        let rounds = rounds_of(&text);
        prop_assert!(!rounds.contains("BREACH"), "{text}\n{rounds}");
        prop_assert!(!rounds.contains("NEVER STEADY"), "{text}\n{rounds}");
    }
}

#[derive(Clone, Debug)]
struct JobLine {
    queue: usize,
    priority: u32,
    pods: u32,
    surplus: u32,
    gpus: u32,
    fixed: bool,
    /// Where it starts, as far as there is room.
    starts_on: Option<usize>,
}

/// Up to four nodes, two departments of two teams each, and up to a dozen jobs of which some
/// run.
fn cluster() -> impl Strategy<Value = String> {
    let node = prop_oneof![Just(2_u32), Just(4), Just(8)];
    let quota = prop_oneof![Just(0_u32), 1..6_u32];
    let weight = 0..4_u32;
    (vec(node, 1..5), vec((quota, weight, option::weighted(0.2, 2..8_u32)), 6), vec(job(), 1..12))
        .prop_map(|(nodes, queues, jobs)| table(&nodes, &queues, &jobs))
}

fn job() -> impl Strategy<Value = JobLine> {
    let shape = (1..5_u32, 0..3_u32, 1..5_u32);
    let priority = prop_oneof![Just(40_u32), Just(50), Just(75)];
    (0..4_usize, priority, shape, prop::bool::weighted(0.1), option::of(0..4_usize)).prop_map(
        |(queue, priority, (pods, surplus, gpus), fixed, starts_on)| JobLine {
            queue,
            priority,
            pods,
            surplus,
            gpus,
            fixed,
            starts_on,
        },
    )
}

fn table(nodes: &[u32], queues: &[(u32, u32, Option<u32>)], jobs: &[JobLine]) -> String {
    let mut text = String::new();
    for (at, gpus) in nodes.iter().enumerate() {
        let _ = writeln!(text, "node n{at} gpus={gpus}");
    }
    let names = ["left", "right", "left-a", "left-b", "right-a", "right-b"];
    for (name, (quota, weight, limit)) in names.iter().zip(queues) {
        let parent = name.split_once('-').map(|(parent, _)| format!(" parent={parent}"));
        let limit = limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
        let parent = parent.unwrap_or_default();
        let _ = writeln!(text, "queue {name}{parent} quota={quota} weight={weight}{limit}");
    }
    let mut free = nodes.to_vec();
    for (at, job) in jobs.iter().enumerate() {
        let queue = names[2 + job.queue];
        let fixed = if job.fixed { " non-preemptible" } else { "" };
        let (pods, min, gpus) = (job.pods + job.surplus, job.pods, job.gpus);
        let _ = write!(
            text,
            "job j{at:02} pods={pods} min={min} gpus={gpus} queue={queue} priority={}{fixed}",
            job.priority
        );
        for node in starting_nodes(job, &mut free) {
            let _ = write!(text, "{node}");
        }
        text.push('\n');
    }
    text
}

/// ` on n1 n1`, when all of the job fits on the node where it starts.
fn starting_nodes(job: &JobLine, free: &mut [u32]) -> Vec<String> {
    let (pods, nodes) = (job.pods + job.surplus, free.len());
    let Some(node) = job.starts_on.map(|node| node % nodes) else { return Vec::new() };
    if free[node] < pods * job.gpus {
        return Vec::new();
    }
    free[node] -= pods * job.gpus;
    let places = (0..pods).map(|_| format!(" n{node}"));
    std::iter::once(" on".to_owned()).chain(places).collect()
}
