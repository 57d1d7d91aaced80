//! The figures of an experiment as plain data: of the fleet, of all jobs, of each job size, of each
//! queue, and over time.

use std::collections::BTreeMap;

use schedlab_traces::SizeClass;
use serde::{Deserialize, Serialize};

use super::{
    metrics::{JobMetrics, Metrics, QueueUsage},
    series::Series,
};
use crate::inputs::{Trace, TraceJob, to_f64};

/// The figures of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Number of nodes of the fleet.
    pub nodes: usize,
    /// Number of GPUs of the fleet.
    pub gpus: u64,
    /// Number of jobs of the trace.
    pub jobs: usize,
    /// Virtual time from the first arrival to the end, in seconds.
    pub virtual_secs: f64,
    /// The part of that time for which figures over time hold, in seconds.
    pub window_secs: f64,
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
    /// All jobs that arrived.
    pub all: GroupFigures,
    /// Jobs by size in GPUs, the smallest first.
    pub by_size: Vec<GroupFigures>,
    /// Jobs by queue.
    pub by_queue: Vec<GroupFigures>,
    /// Why jobs never started, the most frequent reason first.
    pub never_started: Vec<NeverStartedReason>,
    /// Figures over time, if they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// The figures of a group of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupFigures {
    /// Name of the group: a size, or a queue.
    pub name: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Number of jobs that never started.
    pub never_started: usize,
    /// GPU hours that running pods used within the window.
    pub gpu_hours: f64,
    /// Quota of the queue in GPUs; `None` for other groups and an unlimited quota.
    pub quota_gpus: Option<f64>,
    /// GPUs within the quota that the queue had ÷ GPUs within the quota that its pods requested,
    /// in percent, over the window; `None` without a quota, or if the queue requested nothing.
    pub quota_kept_percent: Option<f64>,
    /// Waiting times from arrival until all pods were bound, for each attempt to run a job.
    pub wait: WaitFigures,
    /// Longest wait in seconds, also of jobs that still waited at the end.
    pub longest_wait_secs: Option<f64>,
    /// Number of pods evicted by the scheduler.
    pub evictions: u64,
    /// GPU hours of evicted pods: work that was done again.
    pub lost_gpu_hours: f64,
}

/// Waiting times in seconds; `None` when no job of the group ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitFigures {
    /// Median.
    pub median_secs: Option<f64>,
    /// 90th percentile.
    pub p90_secs: Option<f64>,
    /// 99th percentile.
    pub p99_secs: Option<f64>,
    /// Maximum.
    pub max_secs: Option<f64>,
}

/// A reason why jobs never started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeverStartedReason {
    /// The scheduler's last message about their pods.
    pub reason: String,
    /// Number of jobs with this reason.
    pub jobs: usize,
    /// Name of the first job in the trace with this reason.
    pub first: String,
}

/// Reason shown for jobs about which the scheduler reported no message.
const NO_REASON_GIVEN: &str = "the scheduler reported no reason before they were removed";

pub(super) fn build_figures(trace: &Trace, metrics: &Metrics) -> Figures {
    let usage = metrics.usage();
    let fleet = &usage.fleet;
    let all = to_f64(fleet.milli) / 1000.0;
    // Without finite jobs the simulation ends when the last pod arrived, possibly after no time at
    // all.
    let over_time = |part: f64, whole: f64| percentage(part, whole).filter(|_| fleet.secs >= 1.0);
    let free_secs = fleet.secs * all - fleet.taken_secs;
    let jobs = trace.jobs.iter().zip(metrics.jobs()).filter(|(_, metrics)| metrics.has_arrived);
    let arrived: Vec<&JobMetrics> = jobs.clone().map(|(_, metrics)| metrics).collect();
    let by_size = grouped(jobs.clone().map(|(job, metrics)| (SizeClass::of(job), metrics)));
    let by_queue = grouped(arrived.iter().map(|job| {
        let name = usage.queues[job.queue].name.as_str();
        ((name, job.queue), *job)
    }));
    Figures {
        nodes: trace.nodes.len(),
        gpus: fleet.milli / 1000,
        jobs: trace.jobs.len(),
        virtual_secs: usage.secs,
        window_secs: fleet.secs,
        utilisation_percent: over_time(fleet.busy_secs, fleet.secs * all),
        allocation_percent: over_time(fleet.taken_secs, fleet.secs * all),
        allocation_peak_percent: percentage(to_f64(fleet.taken_peak_milli) / 1000.0, all),
        allocation_end_percent: percentage(to_f64(fleet.taken_milli) / 1000.0, all),
        fragmentation_percent: over_time(fleet.stranded_secs, free_secs),
        all: group_figures("all jobs", &arrived),
        by_size: by_size.iter().map(|(size, jobs)| group_figures(size.name(), jobs)).collect(),
        by_queue: by_queue
            .iter()
            .map(|((_, queue), jobs)| queue_figures(&usage.queues[*queue], jobs))
            .collect(),
        never_started: never_started_reasons(jobs),
        series: usage.series().cloned(),
    }
}

fn grouped<'a, K: Ord>(
    jobs: impl Iterator<Item = (K, &'a JobMetrics)>,
) -> BTreeMap<K, Vec<&'a JobMetrics>> {
    let mut groups: BTreeMap<K, Vec<&JobMetrics>> = BTreeMap::new();
    for (key, metrics) in jobs {
        groups.entry(key).or_default().push(metrics);
    }
    groups
}

fn queue_figures(queue: &QueueUsage, jobs: &[&JobMetrics]) -> GroupFigures {
    GroupFigures {
        quota_gpus: queue.quota,
        quota_kept_percent: percentage(queue.kept_secs, queue.promised_secs),
        ..group_figures(&queue.name, jobs)
    }
}

fn group_figures(name: &str, jobs: &[&JobMetrics]) -> GroupFigures {
    let mut waits: Vec<f64> = jobs.iter().flat_map(|job| &job.waits).copied().collect();
    waits.sort_by(f64::total_cmp);
    // Nearest-rank percentile.
    let rank = |percent: usize| {
        let at = (waits.len() * percent).div_ceil(100).saturating_sub(1);
        waits.get(at).copied()
    };
    let hours =
        |secs: fn(&JobMetrics) -> f64| jobs.iter().map(|job| secs(job)).sum::<f64>() / 3600.0;
    let still_waiting = jobs.iter().filter_map(|job| job.still_waits_secs);
    GroupFigures {
        name: name.to_owned(),
        jobs: jobs.len(),
        never_started: jobs.iter().filter(|job| job.waits.is_empty()).count(),
        gpu_hours: hours(|job| job.gpu_secs),
        quota_gpus: None,
        quota_kept_percent: None,
        wait: WaitFigures {
            median_secs: rank(50),
            p90_secs: rank(90),
            p99_secs: rank(99),
            max_secs: rank(100),
        },
        longest_wait_secs: still_waiting.chain(rank(100)).max_by(f64::total_cmp),
        evictions: jobs.iter().map(|job| job.evictions).sum(),
        lost_gpu_hours: hours(|job| job.lost_gpu_secs),
    }
}

fn never_started_reasons<'a>(
    jobs: impl Iterator<Item = (&'a TraceJob, &'a JobMetrics)>,
) -> Vec<NeverStartedReason> {
    let mut reasons: BTreeMap<&str, NeverStartedReason> = BTreeMap::new();
    for (job, metrics) in jobs.filter(|(_, job)| job.waits.is_empty()) {
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

fn percentage(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole * 10_000.0).round() / 100.0)
}
