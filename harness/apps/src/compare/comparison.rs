//! The comparison of two sides: each figure of A and B, their difference, and whether it is beyond
//! chance.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_traces::SizeClass;

use super::figure::{self, FigureKey, Scope};
use super::results::{Results, Side, UnitResult};
use super::statistics::{Interval, adjusted_probabilities, mean, paired_interval};
use crate::experiment::Figures;

/// A comparison of all figures.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// Number of pairs that both sides have.
    pub(super) pairs: usize,
    pub(super) rows: Vec<ComparedFigure>,
}

/// A figure of both sides.
#[derive(Clone, Debug)]
pub(super) struct ComparedFigure {
    pub(super) key: FigureKey,
    /// The values of A by pair; `None` where the simulation has none.
    pub(super) a: Vec<Option<f64>>,
    pub(super) b: Vec<Option<f64>>,
    /// The differences of the pairs that both sides have.
    pub(super) differences: Vec<f64>,
    pub(super) interval: Interval,
    /// The probability that chance alone makes any figure differ as much.
    pub(super) probability: f64,
    /// Whether that probability is below the level.
    pub(super) is_beyond_chance: bool,
}

/// Both simulations of a pair.
pub(super) struct Pair<'a> {
    pub(super) a: &'a Figures,
    pub(super) b: &'a Figures,
}

/// The pairs that both sides have.
pub(super) fn pairs(results: &Results) -> Vec<Pair<'_>> {
    let mut by_pair: BTreeMap<usize, [Option<&Figures>; 2]> = BTreeMap::new();
    for UnitResult { unit, figures, .. } in &results.units {
        let sides = by_pair.entry(unit.pair).or_default();
        match unit.side {
            Side::A => sides[0] = Some(figures),
            Side::B => sides[1] = Some(figures),
        }
    }
    by_pair.into_values().filter_map(|[a, b]| Some(Pair { a: a?, b: b? })).collect()
}

/// Compares all figures. `level` is the chance of any false mark, such as 0.01.
pub(super) fn compare(results: &Results, level: f64) -> Comparison {
    let pairs = pairs(results);
    let mut seen = BTreeSet::new();
    let keys = pairs.iter().flat_map(|pair| {
        let mut keys = figure::keys_of(pair.a);
        keys.extend(figure::keys_of(pair.b));
        keys
    });
    let mut keys: Vec<FigureKey> = keys.filter(|key| seen.insert(key.clone())).collect();
    keys.sort_by_cached_key(|key| {
        // Sizes are in their order, queues sorted by name.
        let size = SizeClass::named(&key.of).filter(|_| key.scope == Scope::Size);
        (key.scope, size, key.of.clone(), key.figure)
    });
    let rows: Vec<ComparedFigure> =
        keys.into_iter().map(|key| compare_figure(key, &pairs)).collect();
    let paired: Vec<Vec<f64>> = rows.iter().map(ComparedFigure::paired_differences).collect();
    let mut judged = rows;
    for (row, probability) in judged.iter_mut().zip(adjusted_probabilities(&paired)) {
        row.probability = probability;
        row.is_beyond_chance = probability <= level;
    }
    Comparison { pairs: pairs.len(), rows: judged }
}

fn compare_figure(key: FigureKey, pairs: &[Pair<'_>]) -> ComparedFigure {
    let a: Vec<Option<f64>> = pairs.iter().map(|pair| figure::value(pair.a, &key)).collect();
    let b: Vec<Option<f64>> = pairs.iter().map(|pair| figure::value(pair.b, &key)).collect();
    let differences: Vec<f64> = a.iter().zip(&b).filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
    let interval = paired_interval(&differences);
    ComparedFigure { key, a, b, differences, interval, probability: 1.0, is_beyond_chance: false }
}

impl ComparedFigure {
    /// The difference of each pair, 0 where a side has no value: it does not count in the test.
    fn paired_differences(&self) -> Vec<f64> {
        let values = self.a.iter().zip(&self.b);
        values.map(|(a, b)| a.zip(*b).map_or(0.0, |(a, b)| b - a)).collect()
    }

    /// The mean of A; `None` without any value.
    pub(super) fn mean_a(&self) -> Option<f64> {
        mean_of(&self.a)
    }

    /// The mean of B; `None` without any value.
    pub(super) fn mean_b(&self) -> Option<f64> {
        mean_of(&self.b)
    }

    /// The mean difference.
    pub(super) fn difference(&self) -> f64 {
        mean(&self.differences)
    }

    /// Whether the difference is for the better.
    pub(super) fn is_better(&self) -> bool {
        (self.difference() > 0.0) == self.key.figure.is_more_better()
    }
}

fn mean_of(values: &[Option<f64>]) -> Option<f64> {
    let values: Vec<f64> = values.iter().flatten().copied().collect();
    (!values.is_empty()).then(|| mean(&values))
}
