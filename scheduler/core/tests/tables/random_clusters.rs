//! Properties of random clusters: no cycle has a breach, and a closed system converges.
#![expect(clippy::print_stdout, reason = "prints the tried seeds")]

use proptest::prelude::*;

use schedlab_testkit::random::{failing_clusters, is_steady_without_breach, queues};

/// Default number of clusters; `PROPTEST_CASES=20000` overrides it.
const CLUSTERS: u32 = 1000;

#[test]
fn every_cycle_keeps_the_rules_and_a_closed_system_comes_to_rest() {
    let count = ProptestConfig::default().cases.max(CLUSTERS);
    let wrong =
        failing_clusters(count, queues::random_cluster_with_queues, is_steady_without_breach);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{count} clusters, seeds 0 to {}: every rule kept, all at rest", count - 1);
}
