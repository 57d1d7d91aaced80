//! Figures over time as means over several simulations, which differ in their seeds.

use std::collections::BTreeMap;

use super::series::{QueueSeries, Series, SeriesPoint};
use crate::inputs::to_f64;

/// Means over simulations, by interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesMeans {
    /// Ends of the intervals, in seconds since the first arrival.
    pub(crate) ends_secs: Vec<f64>,
    /// GPUs used by running pods.
    pub(crate) used_gpus: Vec<f64>,
    /// GPUs that pending pods request.
    pub(crate) pending_gpus: Vec<f64>,
    /// Free GPUs on partly used nodes ÷ all free GPUs, in percent.
    pub(crate) fragmentation_percent: Vec<f64>,
    by_queue: BTreeMap<String, QueueMeans>,
}

/// The means of a queue.
#[derive(Clone, Debug, Default)]
struct QueueMeans {
    used_gpus: Vec<f64>,
    pending_gpus: Vec<f64>,
}

/// What a queue has or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAmount {
    /// GPUs used by running pods.
    Used,
    /// GPUs that pending pods request.
    Pending,
}

impl QueueMeans {
    fn amount(&self, amount: QueueAmount) -> &[f64] {
        match amount {
            QueueAmount::Used => &self.used_gpus,
            QueueAmount::Pending => &self.pending_gpus,
        }
    }
}

impl SeriesMeans {
    /// The means of these series, up to the end of the shortest one.
    pub(crate) fn of<'a>(series: impl Iterator<Item = &'a Series>) -> Self {
        let series: Vec<&Series> = series.collect();
        let length = series.iter().map(|one| one.points.len()).min().unwrap_or_default();
        let points = |of: fn(&SeriesPoint) -> f64| {
            means(length, series.iter().map(|one| one.points.iter().map(of).collect()))
        };
        let mut by_queue: BTreeMap<String, Vec<&QueueSeries>> = BTreeMap::new();
        for queue in series.iter().flat_map(|one| &one.queues) {
            by_queue.entry(queue.queue.clone()).or_default().push(queue);
        }
        let queue_means = |queues: &[&QueueSeries]| QueueMeans {
            used_gpus: means(length, queues.iter().map(|queue| queue.used_gpus.clone())),
            pending_gpus: means(length, queues.iter().map(|queue| queue.pending_gpus.clone())),
        };
        Self {
            ends_secs: points(|point| point.at_secs),
            used_gpus: points(|point| point.used_gpus),
            pending_gpus: points(|point| point.pending_gpus),
            fragmentation_percent: points(|point| point.fragmentation_percent),
            by_queue: by_queue
                .iter()
                .map(|(queue, series)| (queue.clone(), queue_means(series)))
                .collect(),
        }
    }

    /// An amount of a queue by interval; 0 if the simulations have no such queue.
    pub(crate) fn queue(&self, queue: &str, amount: QueueAmount) -> Vec<f64> {
        let means = self.by_queue.get(queue);
        means.map_or_else(|| vec![0.0; self.ends_secs.len()], |means| means.amount(amount).to_vec())
    }

    /// The queues with the largest shares of all used and of all waiting GPUs, the largest first.
    pub(crate) fn largest_queues(sides: &[&Self], most: usize) -> Vec<String> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for amount in [QueueAmount::Used, QueueAmount::Pending] {
            let queues = sides.iter().flat_map(|side| &side.by_queue);
            let of_queue =
                queues.map(|(queue, means)| (queue, means.amount(amount).iter().sum::<f64>()));
            let of_queue: Vec<(&String, f64)> = of_queue.collect();
            let all: f64 = of_queue.iter().map(|(_, sum)| sum).sum();
            for (queue, sum) in of_queue {
                *sums.entry(queue).or_default() += sum / all.max(f64::MIN_POSITIVE);
            }
        }
        let mut queues: Vec<(&str, f64)> = sums.into_iter().collect();
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
