//! Minimising finds a small case again in a cluster of noise.

#[path = "../examples/noisy_cases/cases.rs"]
mod cases;

use cases::{Noise, SMALL_CASES, WHOLE_NOISE, size};

/// Noise that a test of a debug build can minimise.
const LITTLE_NOISE: Noise = Noise { teams: 2, nodes: 10, pending: 20 };

#[test]
fn a_small_case_in_noise_is_found_again() {
    for case in &SMALL_CASES {
        let small = size(&case.small());
        let result = case.minimised(&case.in_noise(LITTLE_NOISE)).unwrap();
        assert!(result.is_minimal, "{}", case.name);
        let left = size(&result.case);
        assert!(left <= 2 * small, "{}: got {left} objects, by hand {small}", case.name);
    }
}

#[test]
fn the_whole_noise_keeps_the_claims() {
    for case in &SMALL_CASES {
        let noisy = case.in_noise(WHOLE_NOISE);
        let count = |array: &str| noisy.objects(array).count();
        assert!(count("pods") >= 2000 && count("nodes") >= 200 && count("queues") >= 50);
        assert_eq!(case.claims_of(&noisy).unwrap().len(), case.claims.len());
    }
}
