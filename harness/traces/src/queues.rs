//! Queues for the jobs of a trace that has none in a file.

use std::collections::BTreeMap;

use crate::{
    fleet::{TraceNode, TraceQueue},
    job::JobTrace,
    numbers::to_f64,
    stats::gpu_hours,
};

/// A queue for each queue that jobs name. The GPUs of the fleet are their quotas, by GPU hours;
/// without a fleet, queues have no quota and equal weights.
pub fn queues_of(trace: &JobTrace, fleet: Option<&[TraceNode]>) -> Vec<TraceQueue> {
    let mut hours = BTreeMap::<&str, f64>::new();
    for job in trace.jobs.iter().filter(|job| !job.queue.is_empty()) {
        *hours.entry(job.queue.as_str()).or_default() += gpu_hours(job);
    }
    let all: f64 = hours.values().sum();
    let gpus: u64 = fleet.unwrap_or_default().iter().map(|node| node.gpus).sum();
    let queue = |(name, hours): (&str, f64)| TraceQueue {
        line: 0,
        name: name.to_owned(),
        parent: String::new(),
        quota: if all > 0.0 { (to_f64(gpus) * hours / all * 10.0).floor() / 10.0 } else { 0.0 },
        weight: 1.0,
        limit: -1.0,
        priority: 100,
    };
    hours.into_iter().map(queue).collect()
}
