//! Properties of random clusters: no cycle has a breach, and a closed system converges.
#![expect(clippy::print_stdout, reason = "prints the tried seeds")]

use proptest::prelude::*;

use schedlab_testkit::random::{all_right, every_seed, queues};

/// Default number of clusters; `PROPTEST_CASES=20000` overrides it.
const CLUSTERS: u32 = 1000;

#[test]
fn every_cycle_keeps_the_rules_and_a_closed_system_comes_to_rest() {
    let count = ProptestConfig::default().cases.max(CLUSTERS);
    let wrong = every_seed(count, queues::cluster, all_right);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{count} clusters, seeds 0 to {}: every rule kept, all at rest", count - 1);
}
