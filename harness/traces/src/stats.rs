//! What a trace asks for: jobs by size class, queue and GPU model, run times, arrivals by hour and
//! weekday, and the load on a fleet.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    calendar::{Calendar, WEEKDAYS, week_hour},
    fleet::TraceNode,
    job::{JobTrace, TraceJob},
    numbers::{to_count, to_f64},
    size_class::SizeClass,
};

/// Figures of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceStats {
    /// Number of jobs.
    pub jobs: usize,
    /// Number of pods of all jobs.
    pub pods: u64,
    /// When arrivals are 0, in RFC 3339 format; missing if the trace has no dates.
    pub start: Option<String>,
    /// Seconds from the first arrival to the last one.
    pub span_secs: f64,
    /// Jobs whose run time the trace does not know.
    pub without_run_time: usize,
    /// GPU hours of the jobs whose run time is known.
    pub gpu_hours: f64,
    /// GPUs that the jobs would use on average if none waited: GPU hours by the hours of the span.
    pub gpus_on_average: Option<f64>,
    /// The load on a fleet, if one was given.
    pub load: Option<FleetLoad>,
    /// Jobs by size.
    pub by_size: Vec<GroupStats>,
    /// Jobs by queue.
    pub by_queue: Vec<GroupStats>,
    /// Jobs by the first GPU model that they accept.
    pub by_model: Vec<GroupStats>,
    /// Arrivals by hour of the day, in UTC; without dates, by hour from the start.
    pub arrivals_by_hour: Vec<u64>,
    /// Arrivals by weekday from Monday on; without dates, by day from the start.
    pub arrivals_by_weekday: Vec<u64>,
    /// Most arrivals in one clock hour.
    pub arrivals_in_busiest_hour: u64,
}

/// The load of a trace on a fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetLoad {
    /// GPUs of the fleet.
    pub gpus: u64,
    /// GPUs on average by GPUs of the fleet, in percent; missing if the trace has no span.
    pub percent: Option<f64>,
    /// Jobs that request more GPUs than the fleet has.
    pub jobs_too_large: usize,
}

/// Figures of a group of jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupStats {
    /// Name of the group: a size, a queue or a model.
    pub of: String,
    /// Number of jobs.
    pub jobs: usize,
    /// GPU hours of the jobs whose run time is known.
    pub gpu_hours: f64,
    /// Median run time; missing if no run time is known, as the next ones.
    pub run_median_secs: Option<f64>,
    /// 90th percentile of the run times.
    pub run_p90_secs: Option<f64>,
    /// 99th percentile of the run times.
    pub run_p99_secs: Option<f64>,
    /// Longest run time.
    pub run_max_secs: Option<f64>,
}

#[derive(Default)]
struct Group {
    jobs: usize,
    gpu_hours: f64,
    runs: Vec<f64>,
}

impl Group {
    fn add(&mut self, job: &TraceJob) {
        self.jobs += 1;
        self.gpu_hours += gpu_hours(job);
        self.runs.extend(job.run_secs());
    }

    fn stats(mut self, of: &str) -> GroupStats {
        self.runs.sort_by(f64::total_cmp);
        let at = |share| percentile(&self.runs, share);
        GroupStats {
            of: of.to_owned(),
            jobs: self.jobs,
            gpu_hours: self.gpu_hours,
            run_median_secs: at(0.5),
            run_p90_secs: at(0.9),
            run_p99_secs: at(0.99),
            run_max_secs: at(1.0),
        }
    }
}

/// GPU hours of a job; 0 if its run time is not known.
pub(crate) fn gpu_hours(job: &TraceJob) -> f64 {
    to_f64(job.total_gpu_milli()) / 1000.0 * job.run_secs().unwrap_or_default() / 3600.0
}

/// The value below which this share of the sorted values lies.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = to_count((to_f64(sorted.len()) * share).ceil()).saturating_sub(1);
    sorted.get(usize::try_from(rank).ok()?.min(last)).copied()
}

/// Seconds from the first arrival to the last one.
pub(crate) fn span_secs(jobs: &[TraceJob]) -> f64 {
    let arrivals = jobs.iter().map(|job| job.arrives_secs);
    let first = arrivals.clone().min_by(f64::total_cmp);
    let last = arrivals.max_by(f64::total_cmp);
    first.zip(last).map_or(0.0, |(first, last)| last - first)
}

impl TraceStats {
    /// The figures of a trace, with the load on a fleet.
    pub fn new(trace: &JobTrace, fleet: Option<&[TraceNode]>) -> Self {
        let jobs = &trace.jobs;
        let calendar = Calendar::new(trace.start);
        let mut by_hour = vec![0; 24];
        let mut by_weekday = vec![0; 7];
        let mut by_clock_hour = BTreeMap::<u64, u64>::new();
        for job in jobs {
            let number = calendar.hour_number(job.arrives_secs);
            let at = week_hour(number);
            by_hour[at.hour] += 1;
            by_weekday[at.weekday] += 1;
            *by_clock_hour.entry(number).or_default() += 1;
        }
        let span_secs = span_secs(jobs);
        // The sum of no numbers is -0.0.
        let gpu_hours = 0.0 + jobs.iter().map(gpu_hours).sum::<f64>();
        let on_average = (span_secs >= 1.0).then(|| gpu_hours / (span_secs / 3600.0));
        Self {
            jobs: jobs.len(),
            pods: jobs.iter().map(|job| job.pods).sum(),
            start: trace.start.map(|start| start.to_string()),
            span_secs,
            without_run_time: jobs.iter().filter(|job| job.run_secs().is_none()).count(),
            gpu_hours,
            gpus_on_average: on_average,
            load: fleet.map(|nodes| fleet_load(jobs, nodes, on_average)),
            by_size: groups(jobs, SizeClass::of, SizeClass::name),
            by_queue: groups(jobs, |job| job.queue.as_str(), or_dash),
            by_model: groups(
                jobs,
                |job| job.models.first().map_or("", |model| model.as_str()),
                or_dash,
            ),
            arrivals_by_hour: by_hour,
            arrivals_by_weekday: by_weekday,
            arrivals_in_busiest_hour: by_clock_hour.into_values().max().unwrap_or_default(),
        }
    }

    /// The figures as text.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let _ = self.write_table(&mut out);
        out
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let since = self.start.as_ref().map_or_else(String::new, |start| format!(" from {start}"));
        let days = self.span_secs / 86_400.0;
        writeln!(out, "{} jobs with {} pods in {days:.2} days{since}", self.jobs, self.pods)?;
        writeln!(out, "GPU hours      {:12.1}", self.gpu_hours)?;
        if let Some(gpus) = self.gpus_on_average {
            writeln!(out, "GPUs in use    {gpus:12.1} on average, if no job waited")?;
        }
        if let Some(load) = &self.load {
            let percent = load.percent.map_or_else(|| "-".to_owned(), |at| format!("{at:.1}"));
            writeln!(out, "load           {percent:>12} % of {} GPUs", load.gpus)?;
            if load.jobs_too_large > 0 {
                let count = load.jobs_too_large;
                writeln!(out, "too large      {count:12} jobs request more GPUs than there are")?;
            }
        }
        if self.without_run_time > 0 {
            writeln!(out, "no run time    {:12} of the jobs", self.without_run_time)?;
        }
        self.write_arrivals(out)?;
        for (title, groups) in
            [("size", &self.by_size), ("queue", &self.by_queue), ("GPU model", &self.by_model)]
        {
            if groups.len() > 1 || groups.iter().any(|group| group.of != NO_NAME) {
                write_groups(out, title, groups)?;
            }
        }
        Ok(())
    }

    fn write_arrivals(&self, out: &mut String) -> std::fmt::Result {
        let hours = (self.span_secs / 3600.0).max(1.0);
        let mean = to_f64(self.jobs) / hours;
        let most = self.arrivals_in_busiest_hour;
        writeln!(out, "arrivals       {mean:12.1} an hour, at most {most}")?;
        let zone = if self.start.is_some() { "UTC" } else { "from the start" };
        let last = "23 h";
        writeln!(out, "  by hour      0 h {} {last} ({zone})", bars(&self.arrivals_by_hour))?;
        let [first, .., last] = WEEKDAYS;
        writeln!(out, "  by weekday   {first} {} {last}", bars(&self.arrivals_by_weekday))
    }
}

/// The name of the group of jobs without a queue or a model.
const NO_NAME: &str = "(none)";
/// Rows of a table; the JSON has all groups.
const ROWS_MAX: usize = 40;

fn or_dash(name: &str) -> &str {
    if name.is_empty() { NO_NAME } else { name }
}

/// The figures of jobs by a key, in the order of the key.
fn groups<'j, K: Ord + Copy + 'j, N: AsRef<str>>(
    jobs: &'j [TraceJob],
    key: impl Fn(&'j TraceJob) -> K,
    name: impl Fn(K) -> N,
) -> Vec<GroupStats> {
    let mut groups = BTreeMap::<K, Group>::new();
    for job in jobs {
        groups.entry(key(job)).or_default().add(job);
    }
    groups.into_iter().map(|(key, group)| group.stats(name(key).as_ref())).collect()
}

fn fleet_load(jobs: &[TraceJob], nodes: &[TraceNode], on_average: Option<f64>) -> FleetLoad {
    let gpus: u64 = nodes.iter().map(|node| node.gpus).sum();
    let is_too_large = |job: &&TraceJob| job.total_gpu_milli() > gpus * 1000;
    FleetLoad {
        gpus,
        percent: on_average.filter(|_| gpus > 0).map(|used| 100.0 * used / to_f64(gpus)),
        jobs_too_large: jobs.iter().filter(is_too_large).count(),
    }
}

fn write_groups(out: &mut String, title: &str, groups: &[GroupStats]) -> std::fmt::Result {
    writeln!(out)?;
    writeln!(
        out,
        "{title:<24} {:>9} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "jobs", "GPU hours", "run p50", "p90", "p99", "max"
    )?;
    for group in groups.iter().take(ROWS_MAX) {
        let GroupStats { of, jobs, gpu_hours, .. } = group;
        let [p50, p90, p99, max] =
            [group.run_median_secs, group.run_p90_secs, group.run_p99_secs, group.run_max_secs]
                .map(duration_text);
        writeln!(out, "{of:<24} {jobs:>9} {gpu_hours:>12.1} {p50:>9} {p90:>9} {p99:>9} {max:>9}")?;
    }
    if groups.len() > ROWS_MAX {
        writeln!(out, "{} more (all with --json)", groups.len() - ROWS_MAX)?;
    }
    Ok(())
}

/// A duration for a table: in seconds, minutes, hours or days.
fn duration_text(secs: Option<f64>) -> String {
    match secs {
        None => "-".to_owned(),
        Some(secs) if secs < 600.0 => format!("{secs:.1}s"),
        Some(secs) if secs < 36_000.0 => format!("{:.1}m", secs / 60.0),
        Some(secs) if secs < 864_000.0 => format!("{:.1}h", secs / 3600.0),
        Some(secs) => format!("{:.1}d", secs / 86_400.0),
    }
}

/// Counts as bars of one character each, the largest one full.
fn bars(counts: &[u64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    let bar = |count: &u64| {
        let at = usize::try_from((count * 8).div_ceil(most)).unwrap_or_default();
        BARS.get(at).copied().unwrap_or('█')
    };
    counts.iter().map(bar).collect()
}
