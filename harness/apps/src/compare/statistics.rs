//! Which differences between paired runs are beyond chance.
//!
//! The test is a sign-flip test with step-down maxima (Westfall and Young): if a change has no
//! effect, the sign of the difference of each pair is random, for all figures of a pair at once. The
//! largest statistic over all figures is therefore compared with its own distribution over all
//! signs, which keeps the chance of one false mark among all figures below the level, however many
//! figures there are and however they depend on each other.

use schedlab_api::random::SplitMix64;

use crate::inputs::to_f64;

/// Number of bootstrap samples of an interval.
const BOOTSTRAP_SAMPLES: usize = 2000;
/// With more pairs than this, signs are drawn instead of enumerated.
const ENUMERATED_PAIRS_MAX: usize = 12;
/// Number of drawn sign patterns.
const DRAWN_PATTERNS: usize = 8192;

/// An interval of a mean difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The mean of some numbers; 0 of none.
pub(super) fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / to_f64(numbers.len()) }
}

/// The interval in which the mean of these differences is with 95 %: a bootstrap of the pairs,
/// widened for small numbers of pairs as Student's distribution is.
pub(super) fn paired_interval(differences: &[f64]) -> Interval {
    let centre = mean(differences);
    if differences.len() < 2 {
        return Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
    }
    let mut rng = SplitMix64::new(1);
    let mut sample = || {
        let drawn = (0..differences.len()).map(|_| differences[rng.below(differences.len())]);
        drawn.sum::<f64>() / to_f64(differences.len())
    };
    let mut means: Vec<f64> = (0..BOOTSTRAP_SAMPLES).map(|_| sample()).collect();
    means.sort_by(f64::total_cmp);
    let tail = BOOTSTRAP_SAMPLES / 40;
    let widening = small_sample_factor(differences.len());
    Interval {
        low: centre + widening * (means[tail] - centre),
        high: centre + widening * (means[BOOTSTRAP_SAMPLES - 1 - tail] - centre),
    }
}

/// How much wider than a bootstrap interval an interval from this number of pairs has to be.
fn small_sample_factor(pairs: usize) -> f64 {
    /// Quantiles at 97.5 % of Student's distribution with 1, 2, … degrees of freedom.
    const STUDENT: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    const NORMAL: f64 = 1.960;
    let freedom = to_f64(pairs - 1);
    let student = STUDENT.get(pairs - 2).copied().unwrap_or(NORMAL + 2.5 / freedom);
    (to_f64(pairs) / freedom).sqrt() * student / NORMAL
}

/// The smallest adjusted probability that this number of pairs can give.
pub(super) fn smallest_probability(pairs: usize) -> f64 {
    0.5_f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX) - 1)
}

/// For each row of paired differences the probability that chance alone gives a statistic as large
/// in any row, adjusted for the number of rows. Rows have one difference a pair.
pub(super) fn adjusted_probabilities(rows: &[Vec<f64>]) -> Vec<f64> {
    let pairs = rows.first().map_or(0, Vec::len);
    let scales: Vec<f64> =
        rows.iter().map(|row| row.iter().map(|d| d * d).sum::<f64>().sqrt()).collect();
    let statistic = |row: usize, signs: &[f64]| {
        if scales[row] == 0.0 {
            return 0.0;
        }
        let sum: f64 = rows[row].iter().zip(signs).map(|(d, sign)| d * sign).sum();
        sum.abs() / scales[row]
    };
    let observed: Vec<f64> = (0..rows.len()).map(|row| statistic(row, &vec![1.0; pairs])).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| observed[*a].total_cmp(&observed[*b]));
    let patterns = sign_patterns(pairs);
    let mut counts = vec![0_usize; rows.len()];
    for signs in &patterns {
        let mut largest = 0.0_f64;
        for row in &order {
            largest = largest.max(statistic(*row, signs));
            // Equal sums in another order differ in their last digits.
            counts[*row] += usize::from(largest >= observed[*row] - 1e-9);
        }
    }
    let mut adjusted = vec![1.0; rows.len()];
    let mut at_least = 0.0_f64;
    for row in order.iter().rev() {
        at_least = at_least.max(to_f64(counts[*row]) / to_f64(patterns.len()));
        adjusted[*row] = if scales[*row] == 0.0 { 1.0 } else { at_least };
    }
    adjusted
}

/// All sign patterns of a few pairs, or drawn ones of many; the first has no flipped sign.
fn sign_patterns(pairs: usize) -> Vec<Vec<f64>> {
    let pattern = |bits: u64| {
        (0..pairs).map(|at| if (bits >> (at % 64)) & 1 == 1 { -1.0 } else { 1.0 }).collect()
    };
    if pairs <= ENUMERATED_PAIRS_MAX {
        return (0..1_u64 << pairs).map(pattern).collect();
    }
    let mut rng = SplitMix64::new(2);
    let mut drawn = || (0..pairs).map(|_| if rng.below(2) == 1 { -1.0 } else { 1.0 }).collect();
    std::iter::once(pattern(0)).chain((1..DRAWN_PATTERNS).map(|_| drawn())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers with a heavy right tail, as waiting times have.
    fn heavy_tailed(rng: &mut SplitMix64) -> f64 {
        let uniform = to_f64(rng.remainder(1 << 20) + 1) / to_f64(1_u64 << 20);
        uniform.powi(-1).min(1000.0)
    }

    #[test]
    fn chance_marks_a_row_of_hundreds_in_one_experiment_of_a_hundred() {
        let mut rng = SplitMix64::new(11);
        let mut marked = 0;
        for _ in 0..200 {
            let mut row =
                || (0..10).map(|_| heavy_tailed(&mut rng) - heavy_tailed(&mut rng)).collect();
            let rows: Vec<Vec<f64>> = (0..40).map(|_| row()).collect();
            let smallest = adjusted_probabilities(&rows).into_iter().fold(1.0, f64::min);
            marked += usize::from(smallest <= 0.05);
        }
        assert!((3..=18).contains(&marked), "{marked} of 200, expected about 10");
    }

    #[test]
    fn a_clear_effect_is_marked_among_many_rows_without_one() {
        let mut rng = SplitMix64::new(5);
        let mut noise = || heavy_tailed(&mut rng) - heavy_tailed(&mut rng);
        let mut rows: Vec<Vec<f64>> =
            (0..200).map(|_| (0..10).map(|_| noise()).collect()).collect();
        rows.push(vec![5.0, 6.0, 4.0, 5.5, 6.5, 5.0, 4.5, 5.2, 5.9, 6.1]);
        let adjusted = adjusted_probabilities(&rows);
        assert!(adjusted[200] <= 0.01, "{}", adjusted[200]);
        assert!(adjusted[..200].iter().all(|p| *p > 0.01));
    }

    #[test]
    fn rows_without_a_difference_are_never_marked() {
        assert_eq!(adjusted_probabilities(&[vec![0.0; 10], vec![0.0; 10]]), [1.0, 1.0]);
    }

    #[test]
    fn the_interval_covers_the_mean_in_nineteen_of_twenty_samples() {
        let mut rng = SplitMix64::new(3);
        let mut uniform = || to_f64(rng.remainder(1000)) / 1000.0;
        let mut covered = 0;
        for _ in 0..1000 {
            let sample: Vec<f64> = (0..10).map(|_| uniform() + uniform() + uniform()).collect();
            let Interval { low, high } = paired_interval(&sample);
            covered += usize::from((low..=high).contains(&1.4985));
        }
        assert!((930..=975).contains(&covered), "{covered} of 1000");
    }
}
