//! What a seed changes: another week like that of the trace.

use std::collections::BTreeMap;
use std::str::FromStr;

use schedlab_api::random::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::inputs::{TraceJob, to_f64};

/// What a seed changes in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variation {
    /// Each arrival keeps its queue and, up to half an hour, its time; size, run time, GPU models
    /// and priority class are those of a job drawn from the same queue.
    Jobs,
    /// The days of the trace are drawn with replacement.
    Days,
    /// Arrivals move by up to half an hour; jobs keep everything else.
    Arrivals,
}

impl Variation {
    const ALL: [(&str, Self); 3] =
        [("jobs", Self::Jobs), ("days", Self::Days), ("arrivals", Self::Arrivals)];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for Variation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, variation)| *variation)
            .ok_or_else(|| format!("got {name:?}, expected jobs, days or arrivals"))
    }
}

/// Arrivals move by at most this many seconds.
const JITTER_SECS: f64 = 1800.0;
/// Arrivals move by at most this part of the trace.
const JITTER_PART: f64 = 1.0 / 48.0;
const DAY_SECS: f64 = 86_400.0;

/// The number of days in which jobs arrive.
pub(super) fn days(jobs: &[TraceJob]) -> usize {
    jobs.iter().map(|job| day_of(job.arrives_secs) + 1).max().unwrap_or_default()
}

/// The last arrival, in seconds.
pub(super) fn last_arrival(jobs: &[TraceJob]) -> f64 {
    jobs.iter().map(|job| job.arrives_secs).fold(0.0, f64::max)
}

/// The jobs of the trace, varied with this seed, in the order of their arrival.
pub(super) fn varied_jobs(jobs: &[TraceJob], variation: Variation, seed: u64) -> Vec<TraceJob> {
    let mut rng = SplitMix64::new(seed);
    let mut varied = match variation {
        Variation::Jobs => drawn_jobs(jobs, &mut rng),
        Variation::Days => drawn_days(jobs, &mut rng),
        Variation::Arrivals => moved(jobs.to_vec(), &mut rng),
    };
    varied.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
    varied
}

fn drawn_jobs(jobs: &[TraceJob], rng: &mut SplitMix64) -> Vec<TraceJob> {
    let mut by_queue: BTreeMap<&str, Vec<&TraceJob>> = BTreeMap::new();
    for job in jobs {
        by_queue.entry(&job.queue).or_default().push(job);
    }
    let drawn = |job: &TraceJob| {
        let similar = &by_queue[&*job.queue];
        TraceJob {
            line: job.line,
            name: job.name.clone(),
            arrives_secs: job.arrives_secs,
            ..similar[rng.below(similar.len())].clone()
        }
    };
    let drawn = jobs.iter().map(drawn).collect();
    moved(drawn, rng)
}

fn drawn_days(jobs: &[TraceJob], rng: &mut SplitMix64) -> Vec<TraceJob> {
    let days = days(jobs);
    let mut by_day: Vec<Vec<&TraceJob>> = vec![Vec::new(); days];
    for job in jobs {
        by_day[day_of(job.arrives_secs)].push(job);
    }
    let mut varied = Vec::new();
    for slot in 0..days {
        let day = rng.below(days);
        let shift = DAY_SECS * (to_f64(slot) - to_f64(day));
        varied.extend(by_day[day].iter().map(|job| TraceJob {
            name: format!("{}-day{slot}", job.name).into(),
            arrives_secs: job.arrives_secs + shift,
            ..(*job).clone()
        }));
    }
    varied
}

fn moved(mut jobs: Vec<TraceJob>, rng: &mut SplitMix64) -> Vec<TraceJob> {
    let most = JITTER_SECS.min(JITTER_PART * last_arrival(&jobs));
    for job in &mut jobs {
        let uniform = to_f64(rng.remainder(1 << 32)) / to_f64(1_u64 << 32);
        job.arrives_secs = (job.arrives_secs + most * (2.0 * uniform - 1.0)).max(0.0);
    }
    jobs
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "arrivals are from 0 to a hundred years"
)]
fn day_of(secs: f64) -> usize {
    (secs / DAY_SECS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Vec<TraceJob> {
        let job = |at: u64| TraceJob {
            name: format!("j{at}").into(),
            pods: 1,
            gpus: at,
            queue: if at.is_multiple_of(2) { "even" } else { "odd" }.into(),
            arrives_secs: to_f64(at) * 10_000.0,
            ..TraceJob::default()
        };
        (1..=60).map(job).collect()
    }

    #[test]
    fn equal_seeds_give_equal_jobs_and_other_seeds_others() {
        for variation in [Variation::Jobs, Variation::Days, Variation::Arrivals] {
            let varied = |seed| varied_jobs(&trace(), variation, seed);
            assert_eq!(varied(1), varied(1), "{variation:?}");
            assert_ne!(varied(1), varied(2), "{variation:?}");
        }
    }

    #[test]
    fn drawn_jobs_keep_the_queue_and_the_time_of_each_arrival() {
        let jobs = trace();
        let mut varied = varied_jobs(&jobs, Variation::Jobs, 4);
        varied.sort_by_key(|job| job.line);
        for varied in &varied {
            let job = jobs.iter().find(|job| job.name == varied.name).unwrap();
            assert_eq!(job.queue, varied.queue);
            assert_eq!(job.gpus % 2, varied.gpus % 2, "drawn from the same queue");
            assert!((job.arrives_secs - varied.arrives_secs).abs() <= JITTER_SECS);
        }
    }

    #[test]
    fn drawn_days_fill_the_same_number_of_days() {
        let varied = varied_jobs(&trace(), Variation::Days, 4);
        assert!(varied.iter().all(|job| day_of(job.arrives_secs) < 7));
        let names: std::collections::BTreeSet<&str> =
            varied.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names.len(), varied.len(), "names are unique");
    }
}
