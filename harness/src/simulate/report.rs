//! What a simulation found, as JSON and as a table.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{
    play::Played,
    tally::{JobTally, figure},
    trace::Trace,
};

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Nodes of the fleet.
    pub nodes: usize,
    /// Its GPUs.
    pub gpus: u64,
    /// Jobs that came.
    pub jobs: usize,
    /// Jobs that asked for shares of GPUs and got whole ones: profile `kube` knows no shares.
    pub shares_rounded_up: usize,
    /// Virtual time from the first job to the end.
    pub virtual_secs: f64,
    /// GPUs that running pods really use, ÷ all, in percent, over time. None of these figures is
    /// there where there is nothing that it is a part of: no GPUs, or not a second that passed.
    pub utilisation_percent: Option<f64>,
    /// GPUs bound to pods ÷ all, in percent, over time.
    pub allocation_percent: Option<f64>,
    /// The same at its highest.
    pub allocation_peak_percent: Option<f64>,
    /// The same at the end: FGD's figure of packing.
    pub allocation_end_percent: Option<f64>,
    /// Of the GPUs that were free, those on nodes of which something was taken, in percent, over
    /// time: no job of whole nodes can have them.
    pub fragmentation_percent: Option<f64>,
    /// Pods evicted by the scheduler.
    pub evictions: u64,
    /// Breaches of the scheduler's rules.
    pub breaches: Vec<String>,
    /// Waiting by the size of jobs, in GPUs.
    pub waiting_by_gpus: Vec<Waiting>,
    /// Waiting by queue.
    pub waiting_by_queue: Vec<Waiting>,
    /// Why jobs never started, the most frequent reason first.
    pub never_started: Vec<Reason>,
}

/// Why some jobs never started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What the scheduler told their pods last.
    pub reason: String,
    /// How many jobs.
    pub jobs: usize,
    /// The first of them in the trace.
    pub first: String,
}

/// How long jobs of one kind waited from coming to running whole, in seconds; nothing where none
/// of them ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// Which jobs.
    pub of: String,
    /// How many.
    pub jobs: usize,
    /// How many never started.
    pub never_started: usize,
    /// Half waited no longer than this.
    pub median_secs: Option<f64>,
    /// Nine in ten.
    pub p90_secs: Option<f64>,
    /// Ninety-nine in a hundred.
    pub p99_secs: Option<f64>,
    /// The longest.
    pub max_secs: Option<f64>,
    /// Pods of them that were evicted.
    pub evictions: u64,
}

/// What is said of jobs to which the scheduler said nothing.
const UNTOLD: &str = "the scheduler gave no reason before they left";
/// The table shows so many reasons; JSON has all.
const REASONS_SHOWN: usize = 10;

/// By thousandths of GPUs.
const SIZES: [(&str, u64); 8] = [
    ("no GPU", 0),
    ("part of a GPU", 999),
    ("1 GPU", 1000),
    ("2 GPUs", 2000),
    ("3-4 GPUs", 4000),
    ("5-8 GPUs", 8000),
    ("9-64 GPUs", 64_000),
    ("more", u64::MAX),
];

pub(super) fn report(trace: &Trace, played: &Played) -> Report {
    let fleet = &played.tally.fleet;
    let all = figure(fleet.milli) / 1000.0;
    // Work that stays for ever is seen until the last pod came: that may take no time at all.
    let over_time = |part: f64, whole: f64| percent(part, whole).filter(|_| fleet.secs >= 1.0);
    let free_secs = fleet.secs * all - fleet.taken_secs;
    let tallies = trace.jobs.iter().zip(played.tally.jobs());
    let size = |milli: u64| SIZES.iter().position(|(_, most)| milli <= *most).unwrap_or(0);
    let by_size = tallies.clone().map(|(job, tally)| (size(job.gpu_milli_in_all()), tally));
    let by_queue = tallies.map(|(job, tally)| (job.queue.as_str(), tally));
    Report {
        nodes: trace.nodes.len(),
        gpus: fleet.milli / 1000,
        jobs: trace.jobs.len(),
        shares_rounded_up: played.shares_rounded_up,
        virtual_secs: fleet.secs,
        utilisation_percent: over_time(fleet.busy_secs, fleet.secs * all),
        allocation_percent: over_time(fleet.taken_secs, fleet.secs * all),
        allocation_peak_percent: percent(figure(fleet.taken_peak_milli) / 1000.0, all),
        allocation_end_percent: percent(figure(fleet.taken_milli) / 1000.0, all),
        fragmentation_percent: over_time(fleet.stranded_secs, free_secs),
        evictions: played.tally.jobs().iter().map(|job| job.evictions).sum(),
        breaches: played.breaches.iter().map(ToString::to_string).collect(),
        waiting_by_gpus: grouped(by_size, |size| SIZES[*size].0.to_owned()),
        waiting_by_queue: grouped(by_queue, |queue| (*queue).to_owned()),
        never_started: reasons(trace, played),
    }
}

fn reasons(trace: &Trace, played: &Played) -> Vec<Reason> {
    let mut reasons: BTreeMap<&str, Reason> = BTreeMap::new();
    let never = trace.jobs.iter().zip(played.tally.jobs()).filter(|(_, job)| job.waits.is_empty());
    for (job, tally) in never {
        let told = if tally.told.is_empty() { UNTOLD } else { &tally.told };
        let fresh = || Reason { reason: told.to_owned(), jobs: 0, first: job.name.clone() };
        reasons.entry(told).or_insert_with(fresh).jobs += 1;
    }
    let mut reasons: Vec<Reason> = reasons.into_values().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.jobs));
    reasons
}

fn grouped<'a, K: Ord>(
    tallies: impl Iterator<Item = (K, &'a JobTally)>,
    name: impl Fn(&K) -> String,
) -> Vec<Waiting> {
    let mut groups: BTreeMap<K, Vec<&JobTally>> = BTreeMap::new();
    for (key, tally) in tallies {
        groups.entry(key).or_default().push(tally);
    }
    groups.iter().map(|(key, jobs)| waiting(name(key), jobs)).collect()
}

fn waiting(of: String, jobs: &[&JobTally]) -> Waiting {
    let mut waits: Vec<f64> = jobs.iter().flat_map(|job| &job.waits).copied().collect();
    waits.sort_by(f64::total_cmp);
    // Nearest rank: the smallest wait that so many percent do not exceed.
    let rank = |percent: usize| {
        let at = (waits.len() * percent).div_ceil(100).saturating_sub(1);
        waits.get(at).copied()
    };
    Waiting {
        of,
        jobs: jobs.len(),
        never_started: jobs.iter().filter(|job| job.waits.is_empty()).count(),
        median_secs: rank(50),
        p90_secs: rank(90),
        p99_secs: rank(99),
        max_secs: rank(100),
        evictions: jobs.iter().map(|job| job.evictions).sum(),
    }
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole * 10_000.0).round() / 100.0)
}

impl Report {
    /// The report as people read it.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let days = self.virtual_secs / 86_400.0;
        let _ = writeln!(
            text,
            "{} nodes with {} GPUs; {} jobs in {days:.2} days",
            self.nodes, self.gpus, self.jobs
        );
        for (name, value, unit) in [
            ("utilisation", self.utilisation_percent, "% of all GPUs really used, over time"),
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
            let times = [row.median_secs, row.p90_secs, row.p99_secs, row.max_secs].map(length);
            let [median, p90, p99, max] = times;
            let Waiting { of, jobs, never_started, evictions, .. } = row;
            let _ = writeln!(
                text,
                "{of:<24} {jobs:>7} {never_started:>6} {median:>9} {p90:>9} {p99:>9} {max:>9} \
                 {evictions:>8}"
            );
        }
        self.never(&mut text);
        text
    }

    fn never(&self, text: &mut String) {
        if self.never_started.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nnever started: jobs, the first of them, and why");
        for Reason { reason, jobs, first } in self.never_started.iter().take(REASONS_SHOWN) {
            let _ = writeln!(text, "{jobs:>7} {first}: {reason}");
        }
        let rest = self.never_started.iter().skip(REASONS_SHOWN);
        let rest = rest.fold((0, 0), |(reasons, jobs), reason| (reasons + 1, jobs + reason.jobs));
        if let (reasons @ 1.., jobs) = rest {
            let _ = writeln!(text, "{jobs:>7} more for {reasons} other reasons (all with --json)");
        }
    }
}

fn length(secs: Option<f64>) -> String {
    let Some(secs) = secs else { return "-".to_owned() };
    match secs {
        secs if secs < 120.0 => format!("{secs:.1}s"),
        secs if secs < 7200.0 => format!("{:.1}m", secs / 60.0),
        secs if secs < 172_800.0 => format!("{:.1}h", secs / 3600.0),
        secs => format!("{:.1}d", secs / 86_400.0),
    }
}
