//! Shards of a run: which scenario belongs to which part. Every part computes the same assignment
//! from the same selection and times.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CaseOutcome, Report};

/// Part `index` of `count` parts of the cases, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The shard with this index, from 1; `None` unless `1 ≤ index ≤ count`.
    pub fn new(index: usize, count: usize) -> Option<Self> {
        (1..=count).contains(&index).then_some(Self { index, count })
    }

    /// The index of this shard, from 1.
    pub fn index(self) -> usize {
        self.index
    }

    /// The number of shards of the run.
    pub fn count(self) -> usize {
        self.count
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').map(|(m, n)| (m.trim().parse(), n.trim().parse()));
        let shard = match parts {
            Some((Ok(index), Ok(count))) => Self::new(index, count),
            Some((Err(_), _) | (_, Err(_))) | None => None,
        };
        shard.ok_or_else(|| format!("got `{text}`, expected M/N with 1 ≤ M ≤ N, such as 1/4"))
    }
}

/// Wall times of cases in an earlier run, in seconds by the id of the case: the file `times.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseTimes(BTreeMap<String, f64>);

impl CaseTimes {
    /// The times of the cases of a run. A skipped case takes no time; one that was not started has
    /// no time.
    pub fn of_report(report: &Report) -> Self {
        let ran = report.cases.iter().filter(|case| case.outcome != CaseOutcome::NotRun);
        Self(ran.map(|case| (case.id.clone(), case.wall.as_secs_f64())).collect())
    }

    /// Reads the text of a file `times.json`.
    ///
    /// # Errors
    /// The text is not a JSON object of seconds by case id.
    pub fn parse(text: &str) -> Result<Self, String> {
        let times: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match times.0.iter().find(|(_, secs)| Duration::try_from_secs_f64(**secs).is_err()) {
            Some((id, secs)) => Err(format!("{id}: got {secs}, expected seconds from 0")),
            None => Ok(times),
        }
    }

    /// The times as the text of a file `times.json`.
    ///
    /// # Errors
    /// A time cannot be represented in JSON.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The time of a case, if it ran.
    pub fn time_of(&self, id: &str) -> Option<Duration> {
        self.0.get(id).and_then(|secs| Duration::try_from_secs_f64(*secs).ok())
    }
}

/// The index of the shard, from 1, of each case. With times, the shards take about the same time; a
/// case without a time counts as the mean of the others. Without any known time, the shard of a
/// case depends on its id alone.
pub fn assign_shards(ids: &[String], count: usize, times: Option<&CaseTimes>) -> Vec<usize> {
    let known: Vec<Option<Duration>> =
        ids.iter().map(|id| times.and_then(|times| times.time_of(id))).collect();
    let some: Vec<Duration> = known.iter().copied().flatten().collect();
    let Ok(number @ 1..) = u32::try_from(some.len()) else {
        return ids.iter().map(|id| hash_shard(id, count)).collect();
    };
    let mean = some.iter().sum::<Duration>() / number;
    let weights: Vec<Duration> = known.into_iter().map(|time| time.unwrap_or(mean)).collect();
    balanced_shards(&weights, count)
}

/// Assigns the longest case first, each to the shard with the least time so far.
fn balanced_shards(weights: &[Duration], count: usize) -> Vec<usize> {
    let mut longest_first: Vec<usize> = (0..weights.len()).collect();
    longest_first.sort_by_key(|position| std::cmp::Reverse(weights[*position]));
    // Time, then number of cases, so that cases without a measurable time are spread, too.
    let mut loads = vec![(Duration::ZERO, 0_usize); count];
    let mut shard_of = vec![1; weights.len()];
    for position in longest_first {
        let shortest = (0..count).min_by_key(|shard| (loads[*shard], *shard)).unwrap_or(0);
        let (time, cases) = &mut loads[shortest];
        *time += weights[position];
        *cases += 1;
        shard_of[position] = shortest + 1;
    }
    shard_of
}

fn hash_shard(id: &str, count: usize) -> usize {
    let part = fnv1a_hash(id) % count as u64;
    1 + usize::try_from(part).unwrap_or(0)
}

/// A hash of a text that is the same on all machines and in all versions.
fn fnv1a_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("features/f.feature: case {number}")).collect()
    }

    #[test]
    fn a_shard_is_an_index_up_to_the_count() {
        assert_eq!("1/4".parse(), Ok(Shard { index: 1, count: 4 }));
        for wrong in ["0/3", "4/3", "1", "a/2", "1/0"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("1 ≤ M ≤ N"), "{wrong}");
        }
    }

    #[test]
    fn without_times_the_shard_of_a_case_does_not_depend_on_other_cases() {
        let all = assign_shards(&ids(40), 4, None);
        assert_eq!(all[..20], assign_shards(&ids(20), 4, None));
        assert_eq!((1..=4).filter(|shard| all.contains(shard)).count(), 4);
        let unrelated = CaseTimes::parse(r#"{"other": 1.0}"#).unwrap();
        assert_eq!(assign_shards(&ids(40), 4, Some(&unrelated)), all);
    }

    #[test]
    fn with_times_the_slowest_shard_takes_little_more_than_the_fastest() {
        let ids = ids(100);
        // A few long cases and many short ones, one of them without a time.
        let secs = |position: usize| {
            let position = u32::try_from(position).unwrap();
            if position.is_multiple_of(10) { 8.0 } else { 0.1 + f64::from(position) / 100.0 }
        };
        let times = CaseTimes(
            ids.iter().enumerate().skip(1).map(|(at, id)| (id.clone(), secs(at))).collect(),
        );
        let shard_of = assign_shards(&ids, 4, Some(&times));
        let mut loads = [0.0; 4];
        for (at, shard) in shard_of.iter().enumerate() {
            loads[shard - 1] += secs(at);
        }
        let most = loads.iter().copied().fold(0.0, f64::max);
        let least = loads.iter().copied().fold(f64::MAX, f64::min);
        assert!(most <= 1.3 * least, "{loads:?}");
        assert_eq!(shard_of, assign_shards(&ids, 4, Some(&times)));
    }

    #[test]
    fn cases_without_a_measurable_time_are_spread_over_the_shards() {
        let ids = ids(8);
        let times = CaseTimes(ids.iter().map(|id| (id.clone(), 0.0)).collect());
        let mut shards = assign_shards(&ids, 4, Some(&times));
        shards.sort_unstable();
        assert_eq!(shards, [1, 1, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_negative_time_is_rejected() {
        assert_eq!(
            CaseTimes::parse(r#"{"a": -1}"#).unwrap_err(),
            "a: got -1, expected seconds from 0"
        );
    }
}
