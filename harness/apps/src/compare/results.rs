//! The results of the simulations of a comparison, as they are written by a shard and merged.

use std::collections::BTreeMap;

use schedlab_conformance::report::Shard;
use serde::{Deserialize, Serialize};

use super::vary::Variation;
use crate::experiment::Figures;

/// What all shards of a comparison have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsHeader {
    /// Version of schedlab.
    pub schedlab: String,
    /// Digest of the files.
    pub inputs_digest: String,
    /// Side A, as it was named.
    pub a: String,
    /// Side B.
    pub b: String,
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// Whether B has the same seeds as A.
    pub is_paired: bool,
    /// What a seed changes.
    pub vary: Variation,
    /// End of figures over time, in seconds; `None`: with the last job.
    pub window_secs: Option<f64>,
    /// Interval of the series, in seconds.
    pub series_secs: f64,
    /// Waits are multiples of this many seconds, because a side ran in scaled real time; `None`: they
    /// are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_secs: Option<f64>,
    /// Quotas and other facts that surprise, one sentence each.
    pub notes: Vec<String>,
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The variant to compare with.
    A,
    /// The variant that is judged.
    B,
}

/// A simulation of a comparison: a seed and a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unit {
    /// Number of the pair, from 0.
    pub pair: usize,
    /// The side.
    pub side: Side,
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitResult {
    /// The simulation.
    #[serde(flatten)]
    pub unit: Unit,
    /// Its seed.
    pub seed: u64,
    /// Its figures.
    pub figures: Figures,
}

/// Results of a comparison, or of a shard of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What the comparison is.
    pub header: ResultsHeader,
    /// The simulations, by pair and side.
    pub units: Vec<UnitResult>,
}

/// Why results cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no file.
    #[error("got no results, expected those of all shards")]
    Empty,
    /// Results are of different comparisons.
    #[error("{file}: got {field} {found}, expected {expected} as in {first}")]
    Differs {
        /// The file.
        file: String,
        /// What differs.
        field: &'static str,
        /// The value in the file.
        found: String,
        /// The value in the first file.
        expected: String,
        /// The first file.
        first: String,
    },
    /// A simulation has two results.
    #[error("{file}: got seed {seed} of {side} again, expected each simulation once")]
    Twice {
        /// The file.
        file: String,
        /// The seed.
        seed: u64,
        /// The side.
        side: &'static str,
    },
    /// Simulations have no result.
    #[error("got results of {found} of {expected} simulations: a shard is missing")]
    Missing {
        /// Number of results.
        found: usize,
        /// Number of simulations.
        expected: usize,
    },
}

impl Side {
    /// Its letter.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

impl ResultsHeader {
    /// The simulations of a shard, or all.
    pub fn units(&self, shard: Option<Shard>) -> Vec<Unit> {
        let both = |pair| [Side::A, Side::B].map(|side| Unit { pair, side });
        let all = (0..self.seeds).flat_map(both).enumerate();
        let is_selected =
            |at: usize| shard.is_none_or(|shard| at % shard.count() == shard.index() - 1);
        all.filter(|(at, _)| is_selected(*at)).map(|(_, unit)| unit).collect()
    }

    /// The seed of a simulation.
    pub fn seed(&self, unit: Unit) -> u64 {
        let other = match unit.side {
            Side::B if !self.is_paired => self.seeds,
            Side::A | Side::B => 0,
        };
        self.first_seed.wrapping_add(u64::try_from(unit.pair + other).unwrap_or_default())
    }

    /// The first field in which this header differs from another one.
    fn difference(&self, first: &Self) -> Option<DifferentField> {
        self.fields().into_iter().zip(first.fields()).find_map(|(found, expected)| {
            (found.value != expected.value).then_some(DifferentField {
                field: found.name,
                found: found.value,
                expected: expected.value,
            })
        })
    }

    /// What shards have in common, as the options name it.
    fn fields(&self) -> [HeaderField; 11] {
        let field = |name, value| HeaderField { name, value };
        [
            field("schedlab", self.schedlab.clone()),
            field("--a", self.a.clone()),
            field("--b", self.b.clone()),
            field("--seed", self.first_seed.to_string()),
            field("--seeds", self.seeds.to_string()),
            field("--unpaired", (!self.is_paired).to_string()),
            field("--vary", self.vary.name().to_owned()),
            field("--until", format!("{:?}", self.window_secs)),
            field("--series", format!("{:?}", self.series_secs)),
            field("--speed", format!("{:?}", self.resolution_secs)),
            // Last: another file often has another name, too, which says more than a digest.
            field("content of the input files", self.inputs_digest.clone()),
        ]
    }
}

/// A field of a header as text.
struct HeaderField {
    name: &'static str,
    value: String,
}

/// A field in which two headers differ.
struct DifferentField {
    field: &'static str,
    found: String,
    expected: String,
}

/// Results with the name of their file.
#[derive(Clone, Debug)]
pub struct NamedResults {
    /// The name.
    pub file: String,
    /// The results.
    pub results: Results,
}

/// Merges the results of all shards of a comparison.
///
/// # Errors
/// The results are of different comparisons, a simulation is there twice, or one is missing.
pub fn merge_results(shards: Vec<NamedResults>) -> Result<Results, MergeError> {
    let Some(first) = shards.first() else { return Err(MergeError::Empty) };
    let (header, first) = (first.results.header.clone(), first.file.clone());
    let mut units = BTreeMap::new();
    for NamedResults { file, results } in shards {
        let difference = results.header.difference(&header);
        if let Some(DifferentField { field, found, expected }) = difference {
            return Err(MergeError::Differs { file, field, found, expected, first });
        }
        for unit in results.units {
            let (seed, side) = (unit.seed, unit.unit.side.name());
            if units.insert(unit.unit, unit).is_some() {
                return Err(MergeError::Twice { file, seed, side });
            }
        }
    }
    let (found, expected) = (units.len(), 2 * header.seeds);
    if found != expected {
        return Err(MergeError::Missing { found, expected });
    }
    Ok(Results { header, units: units.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> ResultsHeader {
        ResultsHeader {
            schedlab: "1".to_owned(),
            inputs_digest: "sha256:1".to_owned(),
            a: "as given".to_owned(),
            b: "kube".to_owned(),
            first_seed: 1,
            seeds: 3,
            is_paired: true,
            vary: Variation::Jobs,
            window_secs: None,
            series_secs: 1800.0,
            resolution_secs: None,
            notes: Vec::new(),
        }
    }

    fn shard(index: usize, count: usize) -> NamedResults {
        let header = header();
        let result = |unit| UnitResult {
            unit,
            seed: header.seed(unit),
            figures: Figures { virtual_secs: 0.1, ..Figures::default() },
        };
        let units = header.units(Shard::new(index, count)).into_iter().map(result).collect();
        NamedResults { file: format!("{index}.json"), results: Results { header, units } }
    }

    #[test]
    fn merged_shards_are_the_whole() {
        let whole = merge_results(vec![shard(1, 1)]).unwrap();
        let merged = merge_results(vec![shard(3, 4), shard(1, 4), shard(4, 4), shard(2, 4)]);
        assert_eq!(merged.unwrap(), whole);
    }

    #[test]
    fn shards_that_do_not_fit_are_rejected() {
        let error = |shards| merge_results(shards).unwrap_err().to_string();
        assert_eq!(
            error(vec![shard(1, 2)]),
            "got results of 3 of 6 simulations: a shard is missing"
        );
        assert_eq!(
            error(vec![shard(1, 2), shard(1, 2)]),
            "1.json: got seed 1 of A again, expected each simulation once"
        );
        let mut other = shard(2, 2);
        other.results.header.inputs_digest = "sha256:2".to_owned();
        assert_eq!(
            error(vec![shard(1, 2), other.clone()]),
            "2.json: got content of the input files sha256:2, expected sha256:1 as in 1.json"
        );
        other.results.header.b = "kai".to_owned();
        assert_eq!(
            error(vec![shard(1, 2), other]),
            "2.json: got --b kai, expected kube as in 1.json"
        );
    }
}
