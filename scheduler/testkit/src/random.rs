//! Random clusters as tables, so that a failure is readable, and checks of many seeds.

pub mod queues;
pub mod selectors;

use std::{num::NonZeroUsize, panic::catch_unwind, thread};

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::rounds_of;

/// The failures for this number of seeds, the first of each thread.
pub fn every_seed<S: Strategy<Value = String>>(
    count: u32,
    clusters: impl Fn() -> S + Sync,
    is_right: impl Fn(&str) -> bool + Sync,
) -> Vec<String> {
    wrong_seeds(count, clusters, |text, seed| wrong(text, seed, &is_right))
}

/// Like [`every_seed`], with a custom check that returns a failure.
pub fn wrong_seeds<S: Strategy<Value = String>>(
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
                seeds.find_map(|seed| wrong(&nth(&clusters, seed), seed))
            }
        };
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        parts
            .into_iter()
            .filter_map(|part| part.join().expect("worker threads do not panic"))
            .collect()
    })
}

/// Whether the rounds of a cluster converge without a breach or a panic.
pub fn all_right(rounds: &str) -> bool {
    ["BREACH", "NEVER STEADY", "PANIC"].iter().all(|word| !rounds.contains(word))
}

/// The cluster of a seed and its rounds, if the check fails.
fn wrong(text: &str, seed: u32, is_right: impl Fn(&str) -> bool) -> Option<String> {
    let rounds = catch_unwind(|| rounds_of(text)).unwrap_or_else(|_| "PANIC".to_owned());
    (!is_right(&rounds)).then(|| format!("seed {seed}:\n{text}\n{rounds}"))
}

/// The cluster of a seed; equal in every run.
fn nth(clusters: &impl Strategy<Value = String>, seed: u32) -> String {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    clusters.new_tree(&mut runner).expect("the strategy filters nothing").current()
}
