//! The report of a simulation, as JSON and as a table.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{
    driver::SimulationResult,
    metrics::{JobMetrics, to_f64},
    trace::Trace,
};
use schedlab_conformance::text::counted_noun;

/// The report of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of nodes of the fleet.
    pub nodes: usize,
    /// Number of GPUs of the fleet.
    pub gpus: u64,
    /// Number of jobs that arrived.
    pub jobs: usize,
    /// Jobs that requested GPU fractions and got whole GPUs, because profile `kube` has no
    /// fractions.
    pub shares_rounded_up: usize,
    /// Virtual time from the first job to the end, in seconds.
    pub virtual_secs: f64,
    /// GPUs used by running pods ÷ all GPUs, in percent, averaged over time. This and the other
    /// percentages are `None` without GPUs or when less than a second passed.
    pub utilisation_percent: Option<f64>,
    /// GPUs bound to pods ÷ all GPUs, in percent, averaged over time.
    pub allocation_percent: Option<f64>,
    /// Highest allocation (GPUs bound to pods ÷ all GPUs) at any time, in percent.
    pub allocation_peak_percent: Option<f64>,
    /// Allocation at the end, in percent: the packing figure of FGD (Fragmentation Gradient
    /// Descent).
    pub allocation_end_percent: Option<f64>,
    /// Free GPUs on partly used nodes ÷ all free GPUs, in percent, averaged over time: a whole-node
    /// job cannot use them.
    pub fragmentation_percent: Option<f64>,
    /// Number of pods evicted by the scheduler.
    pub evictions: u64,
    /// Audit rules that the scheduler broke, one message each.
    pub breaches: Vec<String>,
    /// Waiting times by job size in GPUs.
    pub waiting_by_gpus: Vec<WaitingTimes>,
    /// Waiting times by queue.
    pub waiting_by_queue: Vec<WaitingTimes>,
    /// Why jobs never started, the most frequent reason first.
    pub never_started: Vec<NeverStartedReason>,
}

/// A reason why jobs never started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeverStartedReason {
    /// The scheduler's last message about their pods.
    pub reason: String,
    /// Number of jobs with this reason.
    pub jobs: usize,
    /// Name of the first job in the trace with this reason.
    pub first: String,
}

/// Waiting times of a group of jobs, from arrival until all pods were bound, in seconds; `None`
/// when no job of the group ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitingTimes {
    /// Name of the group of jobs: its size or its queue.
    pub of: String,
    /// Number of jobs of the group.
    pub jobs: usize,
    /// Number of jobs that never started.
    pub never_started: usize,
    /// Median waiting time.
    pub median_secs: Option<f64>,
    /// 90th percentile of the waiting times.
    pub p90_secs: Option<f64>,
    /// 99th percentile of the waiting times.
    pub p99_secs: Option<f64>,
    /// Maximum waiting time.
    pub max_secs: Option<f64>,
    /// Number of evicted pods of the group's jobs.
    pub evictions: u64,
}

/// Reason shown for jobs about which the scheduler reported no message.
const NO_REASON_GIVEN: &str = "the scheduler reported no reason before they were removed";
/// Maximum number of reasons in the text table; the JSON report has all.
const REASONS_SHOWN: usize = 10;

/// Groups of jobs by size: the group's name, and its upper bound in thousandths of a GPU.
const JOB_SIZES: [(&str, u64); 8] = [
    ("no GPU", 0),
    ("part of a GPU", 999),
    ("1 GPU", 1000),
    ("2 GPUs", 2000),
    ("3-4 GPUs", 4000),
    ("5-8 GPUs", 8000),
    ("9-64 GPUs", 64_000),
    ("more", u64::MAX),
];

pub(super) fn build_report(trace: &Trace, result: &SimulationResult) -> Report {
    let fleet = &result.metrics.fleet;
    let all = to_f64(fleet.milli) / 1000.0;
    // Without finite jobs the simulation ends when the last pod arrived, possibly after no time at
    // all.
    let over_time = |part: f64, whole: f64| percentage(part, whole).filter(|_| fleet.secs >= 1.0);
    let free_secs = fleet.secs * all - fleet.taken_secs;
    let metrics = trace.jobs.iter().zip(result.metrics.jobs());
    let size = |milli: u64| JOB_SIZES.iter().position(|(_, most)| milli <= *most).unwrap_or(0);
    let by_size = metrics.clone().map(|(job, metrics)| (size(job.total_gpu_milli()), metrics));
    let by_queue = metrics.map(|(job, metrics)| (job.queue.as_str(), metrics));
    Report {
        nodes: trace.nodes.len(),
        gpus: fleet.milli / 1000,
        jobs: trace.jobs.len(),
        shares_rounded_up: result.shares_rounded_up,
        virtual_secs: fleet.secs,
        utilisation_percent: over_time(fleet.busy_secs, fleet.secs * all),
        allocation_percent: over_time(fleet.taken_secs, fleet.secs * all),
        allocation_peak_percent: percentage(to_f64(fleet.taken_peak_milli) / 1000.0, all),
        allocation_end_percent: percentage(to_f64(fleet.taken_milli) / 1000.0, all),
        fragmentation_percent: over_time(fleet.stranded_secs, free_secs),
        evictions: result.metrics.jobs().iter().map(|job| job.evictions).sum(),
        breaches: result.breaches.iter().map(ToString::to_string).collect(),
        waiting_by_gpus: waiting_times_by_group(by_size, |size| JOB_SIZES[*size].0.to_owned()),
        waiting_by_queue: waiting_times_by_group(by_queue, |queue| (*queue).to_owned()),
        never_started: never_started_reasons(trace, result),
    }
}

fn never_started_reasons(trace: &Trace, result: &SimulationResult) -> Vec<NeverStartedReason> {
    let mut reasons: BTreeMap<&str, NeverStartedReason> = BTreeMap::new();
    let never =
        trace.jobs.iter().zip(result.metrics.jobs()).filter(|(_, job)| job.waits.is_empty());
    for (job, metrics) in never {
        let reason =
            if metrics.last_reason.is_empty() { NO_REASON_GIVEN } else { &metrics.last_reason };
        let fresh = || NeverStartedReason {
            reason: reason.to_owned(),
            jobs: 0,
            first: job.name.to_string(),
        };
        reasons.entry(reason).or_insert_with(fresh).jobs += 1;
    }
    let mut reasons: Vec<NeverStartedReason> = reasons.into_values().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.jobs));
    reasons
}

fn waiting_times_by_group<'a, K: Ord>(
    metrics: impl Iterator<Item = (K, &'a JobMetrics)>,
    name: impl Fn(&K) -> String,
) -> Vec<WaitingTimes> {
    let mut groups: BTreeMap<K, Vec<&JobMetrics>> = BTreeMap::new();
    for (key, metrics) in metrics {
        groups.entry(key).or_default().push(metrics);
    }
    groups.iter().map(|(key, jobs)| waiting_times(name(key), jobs)).collect()
}

fn waiting_times(group_name: String, jobs: &[&JobMetrics]) -> WaitingTimes {
    let mut waits: Vec<f64> = jobs.iter().flat_map(|job| &job.waits).copied().collect();
    waits.sort_by(f64::total_cmp);
    // Nearest-rank percentile.
    let rank = |percent: usize| {
        let at = (waits.len() * percent).div_ceil(100).saturating_sub(1);
        waits.get(at).copied()
    };
    WaitingTimes {
        of: group_name,
        jobs: jobs.len(),
        never_started: jobs.iter().filter(|job| job.waits.is_empty()).count(),
        median_secs: rank(50),
        p90_secs: rank(90),
        p99_secs: rank(99),
        max_secs: rank(100),
        evictions: jobs.iter().map(|job| job.evictions).sum(),
    }
}

fn percentage(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole * 10_000.0).round() / 100.0)
}

impl Report {
    /// The report as a table.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let days = self.virtual_secs / 86_400.0;
        let _ = writeln!(
            text,
            "{} with {}; {} in {days:.2} days",
            counted_noun(self.nodes, "node"),
            counted_noun(usize::try_from(self.gpus).unwrap_or(usize::MAX), "GPU"),
            counted_noun(self.jobs, "job")
        );
        for (name, value, unit) in [
            ("utilisation", self.utilisation_percent, "% of all GPUs used, over time"),
            ("allocation", self.allocation_percent, "% of all GPUs bound to pods, over time"),
            ("  at its peak", self.allocation_peak_percent, "%"),
            ("  at the end", self.allocation_end_percent, "%"),
            ("fragmentation", self.fragmentation_percent, "% of free GPUs on nodes in use"),
        ] {
            let value = value.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let _ = writeln!(text, "{name:<14} {value:>7} {unit}");
        }
        let _ = writeln!(text, "{:<14} {:>7} pods", "evictions", self.evictions);
        let _ = writeln!(text, "{:<14} {:>7} of the rules", "breaches", self.breaches.len());
        let heads = ["waiting", "jobs", "never", "median", "p90", "p99", "max", "evicted"];
        let [of, jobs, never, median, p90, p99, max, evicted] = heads;
        let _ = writeln!(
            text,
            "\n{of:<24} {jobs:>7} {never:>6} {median:>9} {p90:>9} {p99:>9} {max:>9} {evicted:>8}"
        );
        for row in self.waiting_by_gpus.iter().chain(&self.waiting_by_queue) {
            let times =
                [row.median_secs, row.p90_secs, row.p99_secs, row.max_secs].map(duration_text);
            let [median, p90, p99, max] = times;
            let WaitingTimes { of, jobs, never_started, evictions, .. } = row;
            let _ = writeln!(
                text,
                "{of:<24} {jobs:>7} {never_started:>6} {median:>9} {p90:>9} {p99:>9} {max:>9} \
                 {evictions:>8}"
            );
        }
        self.write_never_started(&mut text);
        text
    }

    fn write_never_started(&self, text: &mut String) {
        if self.never_started.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nnever started: number of jobs, the first of them, and why");
        for NeverStartedReason { reason, jobs, first } in
            self.never_started.iter().take(REASONS_SHOWN)
        {
            let _ = writeln!(text, "{jobs:>7} {first}: {reason}");
        }
        let rest = self.never_started.iter().skip(REASONS_SHOWN);
        let rest = rest.fold((0, 0), |(reasons, jobs), reason| (reasons + 1, jobs + reason.jobs));
        if let (reasons @ 1.., jobs) = rest {
            let _ = writeln!(text, "{jobs:>7} more for {reasons} other reasons (all with --json)");
        }
    }
}

fn duration_text(secs: Option<f64>) -> String {
    let Some(secs) = secs else { return "-".to_owned() };
    match secs {
        secs if secs < 120.0 => format!("{secs:.1}s"),
        secs if secs < 7200.0 => format!("{:.1}m", secs / 60.0),
        secs if secs < 172_800.0 => format!("{:.1}h", secs / 3600.0),
        secs => format!("{:.1}d", secs / 86_400.0),
    }
}
