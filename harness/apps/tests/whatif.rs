//! The answer of `whatif` equals what happens: on seeded random clusters, a change is asked about and
//! then made, and the scheduler starts and evicts the pods that the answer names.
//!
//! `SCHEDLAB_SEEDS=7..9` selects other seeds than the default 200.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "prints how much was compared")]

#[path = "whatif/live_cluster.rs"]
mod live_cluster;
#[path = "whatif/random_cluster.rs"]
mod random_cluster;

use std::ops::Range;

use schedlab_apps::whatif::{Options, what_if};

use live_cluster::{LiveCluster, Outcome};
use random_cluster::RandomCluster;

const SEEDS: Range<u64> = 0..200;

#[test]
fn the_answer_equals_what_happens_when_the_change_is_made() {
    let seeds = match std::env::var("SCHEDLAB_SEEDS") {
        Ok(text) => {
            let (from, to) = text.split_once("..").unwrap();
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => SEEDS,
    };
    let count = seeds.end - seeds.start;
    let mut total = Outcome::default();
    let mut differences = Vec::new();
    for seed in seeds {
        let (text, happened, expected) = compare(seed);
        if happened != expected {
            differences.push(format!(
                "seed {seed}: {text}\n  answer {expected:?}\n  happened {happened:?}"
            ));
        }
        total.started.extend(happened.started);
        total.evicted.extend(happened.evicted);
    }
    let (starts, evictions) = (total.started.len(), total.evicted.len());
    println!("{count} clusters, {starts} starts, {evictions} evictions compared");
    assert!(differences.is_empty(), "{} differ\n{}", differences.len(), differences.join("\n"));
    assert!(starts > 0 && evictions > 0, "the seeds must give starts and evictions");
}

/// The change in words, what happened after it, and what the answer says.
fn compare(seed: u64) -> (String, Outcome, Outcome) {
    let mut cluster = RandomCluster::new(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let live = runtime.block_on(LiveCluster::start(seed, cluster.objects()));
    let case = runtime.block_on(live.capture());
    let changes = cluster.changes(&case);
    let answer = what_if(&case, &changes, &Options::default())
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let happened = runtime.block_on(live.make(&changes));
    (answer.changes.join(", "), happened, Outcome::of_answer(&answer))
}
