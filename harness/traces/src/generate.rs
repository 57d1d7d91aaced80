//! A trace like another one: arrivals have its pattern over hours and weekdays, jobs have its sizes
//! and queues, and run times are those of the size class and queue. The same seed gives the same
//! trace.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schedlab_api::random::SplitMix64;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    calendar::{Calendar, WeekHour, week_hour},
    format::TraceFormat,
    job::{JobEnd, JobTrace, TraceJob},
    numbers::{to_count, to_f64},
    size_class::SizeClass,
};

/// Below this number of run times of a size class and queue, those of the size class are used.
const RUNS_MIN: usize = 20;
/// Below this number of hours with the same weekday, all days of its kind are used.
const HOURS_MIN: usize = 3;
const DAY_SECS: i64 = 86_400;

/// What is known of a trace to draw one like it.
#[derive(Debug)]
pub struct TraceModel<'t> {
    jobs: &'t [TraceJob],
    start: Option<Timestamp>,
    /// Hours of the trace that it covers from begin to end, with their arrivals.
    hours: Vec<ObservedHour>,
    /// Sorted run times by size class and queue.
    runs: BTreeMap<RunsKey<'t>, Vec<f64>>,
    /// Sorted run times by size class.
    runs_of_size: BTreeMap<SizeClass, Vec<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunsKey<'t> {
    size: SizeClass,
    queue: &'t str,
}

/// An hour of the trace.
#[derive(Debug)]
struct ObservedHour {
    at: WeekHour,
    /// Arrivals, in seconds from the begin of the hour.
    arrivals: Vec<f64>,
}

/// Why no trace can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The trace has no job.
    #[error("got a trace without jobs, expected at least one")]
    NoJobs,
}

impl<'t> TraceModel<'t> {
    /// Learns the pattern of a trace.
    ///
    /// # Errors
    /// The trace has no job.
    pub fn fit(trace: &'t JobTrace) -> Result<Self, GenerateError> {
        if trace.jobs.is_empty() {
            return Err(GenerateError::NoJobs);
        }
        let mut runs = BTreeMap::<RunsKey<'_>, Vec<f64>>::new();
        let mut runs_of_size = BTreeMap::<SizeClass, Vec<f64>>::new();
        for job in &trace.jobs {
            let size = SizeClass::of(job);
            let Some(secs) = job.run_secs() else { continue };
            runs.entry(RunsKey { size, queue: &job.queue }).or_default().push(secs);
            runs_of_size.entry(size).or_default().push(secs);
        }
        for sorted in runs.values_mut().chain(runs_of_size.values_mut()) {
            sorted.sort_by(f64::total_cmp);
        }
        let hours = observed_hours(trace);
        Ok(Self { jobs: &trace.jobs, start: trace.start, hours, runs, runs_of_size })
    }

    /// Draws a trace of this many days, which begins at midnight of the day on which the original
    /// begins.
    pub fn generate(&self, days: u64, seed: u64) -> JobTrace {
        let mut rng = SplitMix64::new(seed);
        let start = self.start.and_then(|start| {
            Timestamp::from_second(start.as_second().div_euclid(DAY_SECS) * DAY_SECS).ok()
        });
        let calendar = Calendar::new(start);
        let first = calendar.hour_number(0.0);
        let candidates = self.candidates();
        let mut jobs = Vec::new();
        for number in first..first + days * 24 {
            let at = week_hour(number);
            let of_this_hour = &candidates[at.weekday * 24 + at.hour];
            let like = of_this_hour[rng.below(of_this_hour.len())];
            let begin = calendar.hour_begin(number);
            for offset in &self.hours[like].arrivals {
                // Arrivals of one moment stay together; the hour's order is drawn anew otherwise.
                let jitter = (unit(&mut rng) - 0.5) * 60.0;
                let arrives = begin + (offset + jitter).clamp(0.0, 3599.999);
                let number = jobs.len() + 1;
                jobs.push(self.draw_job(arrives, format_smolstr!("job-{number}"), &mut rng));
            }
        }
        let format = TraceFormat::JsonLines;
        let mut trace = JobTrace { format, start, jobs, notes: Vec::new() };
        trace.sort_by_arrival();
        trace
    }

    /// For each hour of the week, the observed hours that it may be like.
    fn candidates(&self) -> Vec<Vec<usize>> {
        let matching = |fits: &dyn Fn(WeekHour) -> bool| -> Vec<usize> {
            let numbered = self.hours.iter().enumerate();
            numbered.filter(|(_, hour)| fits(hour.at)).map(|(index, _)| index).collect()
        };
        let is_weekend = |weekday: usize| weekday >= 5;
        let of_hour = |at: WeekHour| {
            let same_day = matching(&|other| other == at);
            if same_day.len() >= HOURS_MIN {
                return same_day;
            }
            let same_kind = matching(&|other| {
                other.hour == at.hour && is_weekend(other.weekday) == is_weekend(at.weekday)
            });
            if same_kind.len() >= HOURS_MIN {
                return same_kind;
            }
            let same_hour = matching(&|other| other.hour == at.hour);
            let known =
                [same_day, same_kind, same_hour].into_iter().find(|hours| !hours.is_empty());
            known.unwrap_or_else(|| (0..self.hours.len()).collect())
        };
        (0..168).map(|hour| of_hour(WeekHour { weekday: hour / 24, hour: hour % 24 })).collect()
    }

    fn draw_job(&self, arrives_secs: f64, name: SmolStr, rng: &mut SplitMix64) -> TraceJob {
        let like = &self.jobs[rng.below(self.jobs.len())];
        let end = match like.end {
            JobEnd::RunsSecs(secs) => JobEnd::RunsSecs(self.draw_run(like, rng).unwrap_or(secs)),
            JobEnd::LeavesAfterSecs(_) | JobEnd::Never => like.end,
        };
        TraceJob { line: 0, name, arrives_secs, end, ..like.clone() }
    }

    /// A run time between two neighbours of the sorted run times.
    fn draw_run(&self, like: &TraceJob, rng: &mut SplitMix64) -> Option<f64> {
        let size = SizeClass::of(like);
        let own = self.runs.get(&RunsKey { size, queue: &like.queue });
        let own = own.filter(|runs| runs.len() >= RUNS_MIN);
        let sorted = own.or_else(|| self.runs_of_size.get(&size))?;
        let position = unit(rng) * to_f64(sorted.len() - 1);
        let below = usize::try_from(to_count(position.floor())).ok()?;
        let (low, high) = (*sorted.get(below)?, *sorted.get(below + 1).or(sorted.get(below))?);
        Some(low + (high - low) * position.fract())
    }
}

/// A number from 0 to 1.
fn unit(rng: &mut SplitMix64) -> f64 {
    to_f64(rng.next_u64() >> 11) / to_f64(1_u64 << 53)
}

/// The hours that a trace covers from begin to end; all of its hours if it is too short for one.
fn observed_hours(trace: &JobTrace) -> Vec<ObservedHour> {
    let calendar = Calendar::new(trace.start);
    let mut arrivals = BTreeMap::<u64, Vec<f64>>::new();
    for job in &trace.jobs {
        let number = calendar.hour_number(job.arrives_secs);
        let offset = job.arrives_secs - calendar.hour_begin(number);
        arrivals.entry(number).or_default().push(offset);
    }
    let first = arrivals.keys().next().copied().unwrap_or_default();
    let last = arrivals.keys().next_back().copied().unwrap_or_default();
    // The first and the last hour may be cut.
    let whole = if last > first + 2 { first + 1..last } else { first..last + 1 };
    whole
        .map(|number| ObservedHour {
            at: week_hour(number),
            arrivals: arrivals.remove(&number).unwrap_or_default(),
        })
        .collect()
}
