//! The figures over time of one side, as means over its seeds.

use std::collections::BTreeMap;

use crate::experiment::Series;
use crate::inputs::to_f64;

/// Means over the seeds of one side, by interval.
#[derive(Clone, Debug, Default)]
pub(super) struct SideSeries {
    /// Ends of the intervals, in hours since the first arrival.
    pub(super) hours: Vec<f64>,
    pub(super) used_gpus: Vec<f64>,
    pub(super) pending_gpus: Vec<f64>,
    pub(super) fragmentation_percent: Vec<f64>,
    by_queue: BTreeMap<String, Vec<f64>>,
}

impl SideSeries {
    /// The means of these series, up to the end of the shortest one.
    pub(super) fn mean_of<'a>(series: impl Iterator<Item = &'a Series>) -> Self {
        let series: Vec<&Series> = series.collect();
        let length = series.iter().map(|one| one.points.len()).min().unwrap_or_default();
        let points = |of: fn(&crate::experiment::SeriesPoint) -> f64| {
            means(length, series.iter().map(|one| one.points.iter().map(of).collect()))
        };
        let mut by_queue: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
        for queue in series.iter().flat_map(|one| &one.queues) {
            by_queue.entry(queue.queue.clone()).or_default().push(queue.used_gpus.clone());
        }
        Self {
            hours: points(|point| point.at_secs / 3600.0),
            used_gpus: points(|point| point.used_gpus),
            pending_gpus: points(|point| point.pending_gpus),
            fragmentation_percent: points(|point| point.fragmentation_percent),
            by_queue: by_queue
                .into_iter()
                .map(|(queue, used)| (queue, means(length, used.into_iter())))
                .collect(),
        }
    }

    /// The GPUs that a queue used; 0 if the side has no such queue.
    pub(super) fn queue_used(&self, queue: &str) -> Vec<f64> {
        self.by_queue.get(queue).cloned().unwrap_or_else(|| vec![0.0; self.hours.len()])
    }

    /// The queues that used most, the largest first.
    pub(super) fn largest_queues(sides: &[&Self], most: usize) -> Vec<String> {
        let mut used: BTreeMap<&str, f64> = BTreeMap::new();
        for (queue, values) in sides.iter().flat_map(|side| &side.by_queue) {
            *used.entry(queue).or_default() += values.iter().sum::<f64>();
        }
        let mut queues: Vec<(&str, f64)> = used.into_iter().collect();
        queues.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        queues.into_iter().take(most).map(|(queue, _)| queue.to_owned()).collect()
    }
}

fn means(length: usize, rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let rows: Vec<Vec<f64>> = rows.collect();
    let count = to_f64(rows.len().max(1));
    let sum = |at: usize| rows.iter().filter_map(|row| row.get(at)).sum::<f64>();
    (0..length).map(|at| sum(at) / count).collect()
}
