//! Random clusters as tables, so that a failure is readable, and checks of many seeds.

pub mod queues;
pub mod selectors;

use std::{num::NonZeroUsize, panic::catch_unwind, thread};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::cycles_until_steady_of;

/// Runs `count` random clusters until they are steady. Returns the clusters for which `is_right`
/// rejects the result, at most one per thread.
pub fn failing_clusters<S: Strategy<Value = String>>(
    count: u32,
    clusters: impl Fn() -> S + Sync,
    is_right: impl Fn(&str) -> bool + Sync,
) -> Vec<String> {
    failures_of_seeds(count, clusters, |text, seed| failure_of_cluster(text, seed, &is_right))
}

/// Like [`failing_clusters`], with a custom check, which returns a description of the failure.
pub fn failures_of_seeds<S: Strategy<Value = String>>(
    count: u32,
    clusters: impl Fn() -> S + Sync,
    wrong: impl Fn(&str, u32) -> Option<String> + Sync,
) -> Vec<String> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (clusters, wrong) = (&clusters, &wrong);
    thread::scope(|scope| {
        let part = |first: usize| {
            move || {
                let clusters = clusters();
                let mut seeds = (0..count).skip(first).step_by(threads);
                seeds.find_map(|seed| wrong(&cluster_of_seed(&clusters, seed), seed))
            }
        };
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        parts
            .into_iter()
            .filter_map(|part| part.join().expect("worker threads do not panic"))
            .collect()
    })
}

/// Whether the cycles of a cluster become steady without a breach or a panic.
pub fn is_steady_without_breach(rounds: &str) -> bool {
    ["BREACH", "NEVER STEADY", "PANIC"].iter().all(|word| !rounds.contains(word))
}

/// The text of the cluster and its cycles, if the check rejects these.
fn failure_of_cluster(text: &str, seed: u32, is_right: impl Fn(&str) -> bool) -> Option<String> {
    let rounds =
        catch_unwind(|| cycles_until_steady_of(text)).unwrap_or_else(|_| "PANIC".to_owned());
    (!is_right(&rounds)).then(|| format!("seed {seed}:\n{text}\n{rounds}"))
}

/// The random cluster of a seed; the same in every run.
fn cluster_of_seed(clusters: &impl Strategy<Value = String>, seed: u32) -> String {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    clusters.new_tree(&mut runner).expect("the strategy filters nothing").current()
}
