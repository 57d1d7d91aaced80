//! Times one cycle on generated clusters: `cycle [NODES…]`. The wall times are for people to read;
//! tests assert the decisions.
#![expect(clippy::print_stdout, reason = "prints its measurements")]
#![expect(clippy::disallowed_methods, reason = "measures from outside the core")]

use std::time::Instant;

use schedlab_scheduler_core::{Decision, Profile, Snapshot, schedule};
use schedlab_testkit::synthetic;

type BenchmarkCase = (&'static str, fn(u32) -> Snapshot);

const CASES: [BenchmarkCase; 7] = [
    ("7.5N running, 2.5N pending", synthetic::full_fleet),
    ("8N pending singles in 100 queues", |nodes| synthetic::pending_singles(nodes, 100)),
    ("N/2 x 8 gang against 8N singles", synthetic::large_gang_against_singles),
    ("8N singles against 8N singles", synthetic::singles_against_singles),
    ("60 gangs, each in a rack or zone", synthetic::gangs_in_one_domain_against_singles),
    ("60 gangs, exclusive by rack or host", synthetic::gangs_in_separate_domains_against_singles),
    ("infeasible 10 x 8 gang", synthetic::infeasible_gang_against_singles),
];

fn main() {
    let mut sizes: Vec<u32> =
        std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![125, 250, 500, 1000, 2000, 4000];
    }
    println!(
        "{:<34} {:>6} {:>9} {:>7} {:>7} {:>9}",
        "case", "nodes", "ms", "binds", "evicts", "pipelined"
    );
    for (name, build) in CASES {
        for &nodes in &sizes {
            measure_cycle(name, nodes, &build(nodes));
        }
    }
}

fn measure_cycle(name: &str, nodes: u32, snapshot: &Snapshot) {
    let profile = Profile::kai();
    let mut times: Vec<f64> = Vec::new();
    let mut counts = [0; 3];
    for _ in 0..3 {
        let start = Instant::now();
        let plan = schedule(snapshot, &profile);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        counts = [0; 3];
        for decision in &plan.decisions {
            counts[match decision {
                Decision::Bind { .. } => 0,
                Decision::Evict { .. } => 1,
                Decision::Pipeline { .. } => 2,
            }] += 1;
        }
    }
    times.sort_by(f64::total_cmp);
    let [binds, evicts, pipelined] = counts;
    println!("{name:<34} {nodes:>6} {:>9.1} {binds:>7} {evicts:>7} {pipelined:>9}", times[1]);
}
