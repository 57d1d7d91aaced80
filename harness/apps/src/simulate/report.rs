//! The report of a simulation, as JSON and as a table.

use std::fmt::Write as _;

use serde::Serialize;

use crate::experiment::{
    Finding, GroupFigures, NeverStartedReason, Outcome, RealTime, Series, duration_text, findings,
};
use crate::palette::Palette;
use schedlab_conformance::report::Colors;
use schedlab_conformance::text::counted_noun;

/// The report of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of nodes of the fleet.
    pub nodes: usize,
    /// Number of GPUs of the fleet.
    pub gpus: u64,
    /// Number of jobs of the trace.
    pub jobs: usize,
    /// Number of jobs that arrived; fewer only if the simulation was stopped. All other figures are
    /// about these.
    pub arrived: usize,
    /// Whether the simulation was stopped before the last job ended.
    pub is_partial: bool,
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
    /// GPU hours that running pods used.
    pub gpu_hours: f64,
    /// Number of pods evicted by the scheduler.
    pub evictions: u64,
    /// GPU hours of evicted pods: work that was done again.
    pub lost_gpu_hours: f64,
    /// What scaled real time makes of the times; missing in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTime>,
    /// Audit rules that the scheduler broke, one message each.
    pub breaches: Vec<String>,
    /// What stands out.
    pub findings: Vec<Finding>,
    /// Waiting times and GPU hours by job size in GPUs.
    pub waiting_by_gpus: Vec<GroupReport>,
    /// Waiting times and GPU hours by queue.
    pub waiting_by_queue: Vec<GroupReport>,
    /// Why jobs never started, the most frequent reason first.
    pub never_started: Vec<NeverStartedReason>,
    /// Figures over time, if `--series` requests them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// The figures of a group of jobs. Waiting times are from arrival until all pods were bound, in
/// seconds; `None` when no job of the group ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupReport {
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
    /// Longest wait, also of jobs that still waited at the end.
    pub longest_wait_secs: Option<f64>,
    /// GPU hours that running pods used.
    pub gpu_hours: f64,
    /// Quota of the queue in GPUs; `None` for sizes and an unlimited quota.
    pub quota_gpus: Option<f64>,
    /// GPUs within the quota that the queue had ÷ those that its pods requested, in percent.
    pub quota_kept_percent: Option<f64>,
    /// Number of evicted pods of the group's jobs.
    pub evictions: u64,
    /// GPU hours of evicted pods.
    pub lost_gpu_hours: f64,
}

/// Maximum number of reasons in the text table; the JSON report has all.
const REASONS_SHOWN: usize = 10;

impl Report {
    /// The report on an experiment.
    pub(super) fn new(
        outcome: Outcome,
        shares_rounded_up: usize,
        real_time: Option<RealTime>,
    ) -> Self {
        let Outcome { figures, breaches, is_partial } = outcome;
        let groups = |groups: &[GroupFigures]| groups.iter().map(GroupReport::new).collect();
        Self {
            nodes: figures.nodes,
            gpus: figures.gpus,
            jobs: figures.jobs,
            arrived: figures.all.jobs,
            is_partial,
            shares_rounded_up,
            virtual_secs: figures.virtual_secs,
            utilisation_percent: figures.utilisation_percent,
            allocation_percent: figures.allocation_percent,
            allocation_peak_percent: figures.allocation_peak_percent,
            allocation_end_percent: figures.allocation_end_percent,
            fragmentation_percent: figures.fragmentation_percent,
            gpu_hours: figures.all.gpu_hours,
            evictions: figures.all.evictions,
            lost_gpu_hours: figures.all.lost_gpu_hours,
            real_time,
            breaches,
            findings: findings(&figures),
            waiting_by_gpus: groups(&figures.by_size),
            waiting_by_queue: groups(&figures.by_queue),
            never_started: figures.never_started,
            series: figures.series,
        }
    }

    /// The report as a table.
    pub fn to_table(&self, colors: Colors) -> String {
        let mut text = String::new();
        let days = self.virtual_secs / 86_400.0;
        let jobs = counted_noun(self.jobs, "job");
        let (jobs, partial) = if self.is_partial {
            (format!("{} of {jobs}", self.arrived), ", stopped there")
        } else {
            (jobs, "")
        };
        let _ = writeln!(
            text,
            "{} with {}; {jobs} in {days:.2} days{partial}",
            counted_noun(self.nodes, "node"),
            counted_noun(usize::try_from(self.gpus).unwrap_or(usize::MAX), "GPU"),
        );
        if let Some(real_time) = &self.real_time {
            let _ = writeln!(text, "{}", real_time.warning);
        }
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
        let lost = self.lost_gpu_hours;
        let lost = if lost > 0.0 { format!(", {lost:.1} GPU hours lost") } else { String::new() };
        let _ = writeln!(text, "{:<14} {:>7} pods{lost}", "evictions", self.evictions);
        let breaches = format!("{:<14} {:>7} of the rules", "breaches", self.breaches.len());
        let palette = Palette::new(colors);
        let breaches_style = if self.breaches.is_empty() { &palette.plain } else { &palette.bad };
        let _ = writeln!(text, "{}", breaches_style.apply_to(breaches));
        self.write_groups(&mut text, &palette);
        self.write_findings(&mut text, &palette);
        self.write_never_started(&mut text);
        text
    }

    fn write_groups(&self, text: &mut String, palette: &Palette) {
        let heads =
            ["waiting", "jobs", "never", "median", "p90", "p99", "max", "evicted", "GPU hours"];
        let [of, jobs, never, median, p90, p99, max, evicted, hours] = heads;
        let head = format!(
            "{of:<24} {jobs:>7} {never:>6} {median:>9} {p90:>9} {p99:>9} {max:>9} {evicted:>8} \
             {hours:>10} {:>6}",
            "quota"
        );
        let _ = writeln!(text, "\n{}", palette.bold.apply_to(head));
        for row in self.waiting_by_gpus.iter().chain(&self.waiting_by_queue) {
            let times = [row.median_secs, row.p90_secs, row.p99_secs, row.max_secs]
                .map(|secs| secs.map_or("-".to_owned(), duration_text));
            let [median, p90, p99, max] = times;
            let GroupReport { of, jobs, never_started, evictions, gpu_hours, .. } = row;
            let kept = row.quota_kept_percent.map_or(String::new(), |kept| format!("{kept:.0} %"));
            let line = format!(
                "{of:<24} {jobs:>7} {never_started:>6} {median:>9} {p90:>9} {p99:>9} {max:>9} \
                 {evictions:>8} {gpu_hours:>10.1} {kept:>6}"
            );
            let stands_out = self.findings.iter().any(|finding| finding.queue == row.of);
            let style = if stands_out { &palette.warn } else { &palette.plain };
            let _ = writeln!(text, "{}", style.apply_to(line.trim_end()));
        }
    }

    fn write_findings(&self, text: &mut String, palette: &Palette) {
        if self.findings.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{}", palette.bold.apply_to("what stands out"));
        for finding in &self.findings {
            let _ = writeln!(text, "  {}", palette.warn.apply_to(&finding.text));
        }
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

impl GroupReport {
    fn new(group: &GroupFigures) -> Self {
        Self {
            of: group.name.clone(),
            jobs: group.jobs,
            never_started: group.never_started,
            median_secs: group.wait.median_secs,
            p90_secs: group.wait.p90_secs,
            p99_secs: group.wait.p99_secs,
            max_secs: group.wait.max_secs,
            longest_wait_secs: group.longest_wait_secs,
            gpu_hours: group.gpu_hours,
            quota_gpus: group.quota_gpus,
            quota_kept_percent: group.quota_kept_percent,
            evictions: group.evictions,
            lost_gpu_hours: group.lost_gpu_hours,
        }
    }
}
