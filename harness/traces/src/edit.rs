//! Cuts, merges and scales traces.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use schedlab_api::random::SplitMix64;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    format::TraceFormat,
    job::{JobEnd, JobTrace, TraceJob},
    numbers::to_f64,
    stats::gpu_hours,
};

/// How far a copied job arrives from its original, in seconds.
const COPY_DISTANCE_SECS: f64 = 1800.0;

/// How many copies a job may have: a trace cannot become longer than this many times its length.
const ROUNDS_MAX: u32 = 1000;

/// Which jobs of a trace are kept.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The first arrival, in seconds from the start of the trace.
    pub from_secs: Option<f64>,
    /// The arrival from which on jobs are left out.
    pub to_secs: Option<f64>,
    /// The queues; empty: all.
    pub queues: Vec<String>,
}

impl Cut {
    /// Keeps these jobs; arrivals then count from the cut's begin.
    pub fn apply(&self, trace: &mut JobTrace) {
        let from = self.from_secs.unwrap_or_default();
        let to = self.to_secs.unwrap_or(f64::INFINITY);
        trace.jobs.retain(|job| {
            let is_in_time = (from..to).contains(&job.arrives_secs);
            is_in_time && (self.queues.is_empty() || self.queues.iter().any(|q| *q == job.queue))
        });
        trace.jobs.iter_mut().for_each(|job| job.arrives_secs -= from);
        trace.start = trace.start.and_then(|start| later(start, from));
    }
}

/// A time this many seconds later.
fn later(time: Timestamp, secs: f64) -> Option<Timestamp> {
    time.checked_add(SignedDuration::try_from_secs_f64(secs).ok()?).ok()
}

/// The jobs of several traces as one trace. If all have dates, jobs keep theirs; otherwise all
/// traces begin together. A name that is taken gets a number.
pub fn merge(traces: Vec<JobTrace>) -> JobTrace {
    let starts: Option<Vec<Timestamp>> = traces.iter().map(|trace| trace.start).collect();
    let start = starts.and_then(|starts| starts.into_iter().min());
    let mut notes = Vec::new();
    if start.is_none() && traces.iter().any(|trace| trace.start.is_some()) {
        notes.push("not all traces have dates, so all begin together".to_owned());
    }
    let mut names = HashSet::new();
    let mut jobs = Vec::new();
    for trace in traces {
        let delay = match (trace.start, start) {
            (Some(own), Some(first)) => (own - first).total(jiff::Unit::Second).unwrap_or(0.0),
            _ => 0.0,
        };
        notes.extend(trace.notes);
        jobs.extend(trace.jobs.into_iter().map(|job| {
            let name = free_name(&job.name, &mut names);
            TraceJob { name, arrives_secs: job.arrives_secs + delay, ..job }
        }));
    }
    let mut merged = JobTrace { format: TraceFormat::JsonLines, start, jobs, notes };
    merged.sort_by_arrival();
    merged
}

fn free_name(name: &SmolStr, names: &mut HashSet<SmolStr>) -> SmolStr {
    let mut free = name.clone();
    let mut number = 2_u64;
    while !names.insert(free.clone()) {
        free = format_smolstr!("{name}-{number}");
        number += 1;
    }
    free
}

/// How large a scaled trace is.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// This many times the GPU hours.
    Load(f64),
    /// This many jobs.
    Jobs(usize),
}

/// Draws jobs to leave out, or to copy, until the trace has the wanted size. Its span and its
/// pattern of arrivals stay; a copy arrives within half an hour of its original. By load, jobs
/// without a run time stay as they are: copies of services that never end would fill a fleet.
pub fn scale(trace: &mut JobTrace, scale: Scale, seed: u64) {
    let mut rng = SplitMix64::new(seed);
    // A load by GPU hours; without any, all jobs count as much.
    let hours: f64 = trace.jobs.iter().map(gpu_hours).sum();
    let by_hours = matches!(scale, Scale::Load(_)) && hours > 0.0;
    let stays = |job: &TraceJob| by_hours && job.end == JobEnd::Never;
    let (mut kept, drawn): (Vec<TraceJob>, Vec<TraceJob>) =
        std::mem::take(&mut trace.jobs).into_iter().partition(stays);
    let weight = |job: &TraceJob| if by_hours { gpu_hours(job) } else { 1.0 };
    let whole: f64 = drawn.iter().map(weight).sum();
    let target = match scale {
        Scale::Load(factor) => whole * factor,
        Scale::Jobs(jobs) => to_f64(jobs),
    };
    let mut names: HashSet<SmolStr> =
        kept.iter().chain(&drawn).map(|job| job.name.clone()).collect();
    let mut sum = 0.0;
    let rounds = if drawn.is_empty() { 0 } else { ROUNDS_MAX };
    'rounds: for round in 0..rounds {
        for index in shuffled(drawn.len(), &mut rng) {
            let job = &drawn[index];
            let next = sum + weight(job);
            // The job that crosses the target stays if that is nearer.
            if next > target && next - target >= target - sum {
                break 'rounds;
            }
            sum = next;
            kept.push(if round == 0 { job.clone() } else { copy(job, &mut names, &mut rng) });
            if sum >= target {
                break 'rounds;
            }
        }
    }
    trace.jobs = kept;
    trace.sort_by_arrival();
}

fn copy(job: &TraceJob, names: &mut HashSet<SmolStr>, rng: &mut SplitMix64) -> TraceJob {
    let share = to_f64(rng.next_u64() >> 11) / to_f64(1_u64 << 53);
    let arrives_secs = job.arrives_secs + (share * 2.0 - 1.0) * COPY_DISTANCE_SECS;
    let name = free_name(&job.name, names);
    TraceJob { name, arrives_secs: arrives_secs.max(0.0), ..job.clone() }
}

/// Indices below `count` in a drawn order.
fn shuffled(count: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order
}
