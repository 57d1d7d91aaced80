//! Prometheus metrics: KAI's own under KAI's names, and those of the dashboard in KAI's blog, all
//! with the prefix `kai_`. They are updated after each cycle with a new decision; time-dependent
//! values are updated when they are scraped. Nothing here affects decisions.

mod cycles;
mod queues;
mod workloads;

use std::{
    fmt,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use prometheus::{
    CounterVec, Encoder as _, GaugeVec, Histogram, HistogramOpts, Opts, Registry, TextEncoder,
    core::Collector,
};
use schedlab_scheduler_core::{
    Plan, Snapshot,
    model::{Name, Time},
};

pub(crate) use cycles::Stopwatch;

use crate::{
    cache::ClusterCache,
    config::QueueMetricLabel,
    logging::millis,
    progress::{CycleTimings, QueueSummary},
    usage::SharedUsage,
};

/// The metrics of one scheduler.
pub struct Metrics {
    registry: Registry,
    cycles: cycles::CycleMetrics,
    queues: queues::QueueMetrics,
    usage_query: Histogram,
    workloads: Mutex<workloads::WorkloadMetrics>,
    /// The usage history, for metrics that change with time alone.
    usage_history: OnceLock<SharedUsage>,
}

/// A finished cycle as input of the metrics.
pub(crate) struct CycleObservation<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) cache: &'a ClusterCache,
    /// Name of the node pool.
    pub(crate) pool: &'a str,
    pub(crate) queues: &'a [QueueSummary],
    pub(crate) stopwatch: &'a Stopwatch,
    pub(crate) timings: CycleTimings,
    /// Latency of each binding of the cycle.
    pub(crate) bindings: &'a [Duration],
}

impl Metrics {
    /// Registers all metrics.
    pub fn new() -> Self {
        Self::with_queue_labels(Vec::new())
    }

    /// Like [`Self::new`], with queue labels on the queue controller's metrics.
    pub fn with_queue_labels(labels: Vec<QueueMetricLabel>) -> Self {
        let registry = Registry::new();
        let register = Registrar(&registry);
        let queues = queues::QueueMetrics::new(&register, labels);
        let cycles = cycles::CycleMetrics::new(&register);
        let workloads = Mutex::new(workloads::WorkloadMetrics::new(&register));
        let usage_query = register.latency_histogram(
            "usage_query_latency_milliseconds",
            "Latency of queries to the usage database",
        );
        Self { registry, cycles, queues, usage_query, workloads, usage_history: OnceLock::new() }
    }

    /// All metrics in Prometheus' text format, with time-dependent values as of `now`.
    pub fn text(&self, now: jiff::Timestamp) -> String {
        let now = Time(now.as_millisecond());
        self.workloads
            .lock()
            .expect("no thread panics while holding the lock")
            .set_wait_estimates(now);
        if let Some(usage) = self.usage_history.get() {
            let usage = usage.lock();
            self.queues.set_usage(|queue| usage.usage_micro(queue, now));
        }
        let mut text = Vec::new();
        let written = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        written.expect("names and labels are valid, and memory takes every byte");
        String::from_utf8(text).expect("text is UTF-8")
    }

    /// Sets the source of time-dependent usage values.
    pub(crate) fn set_usage_history(&self, usage: Option<SharedUsage>) {
        if let Some(usage) = usage {
            let _ = self.usage_history.set(usage);
        }
    }

    /// Records the latency of a query to the usage database, failed or not.
    pub(crate) fn observe_usage_query(&self, took: Duration) {
        self.usage_query.observe(millis(took));
    }

    pub(crate) fn observe(&self, cycle: &CycleObservation<'_>) {
        self.cycles.observe(cycle);
        self.queues.observe(cycle);
        let mut work = self.workloads.lock().expect("no thread panics while holding the lock");
        work.observe(cycle);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Creates metrics in a registry.
struct Registrar<'a>(&'a Registry);

impl Registrar<'_> {
    fn register_gauge(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(metric_opts(name, help), labels))
    }

    fn register_counter(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.register(CounterVec::new(metric_opts(name, help), labels))
    }

    /// Registers a histogram of latencies in milliseconds, with KAI's buckets.
    fn latency_histogram(&self, name: &str, help: &str) -> Histogram {
        let buckets = prometheus::exponential_buckets(5.0, 2.0, 10).expect("increasing buckets");
        let opts = HistogramOpts::from(metric_opts(name, help)).buckets(buckets);
        self.register(Histogram::with_opts(opts))
    }

    fn register<C: Collector + Clone + 'static>(&self, collector: prometheus::Result<C>) -> C {
        let collector = collector.expect("names and labels are valid");
        self.0.register(Box::new(collector.clone())).expect("each name is used once");
        collector
    }
}

fn metric_opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("kai")
}

/// Converts an amount to the unit of a metric.
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn to_metric_unit(amount: i64, per_unit: i64) -> f64 {
    amount as f64 / per_unit as f64
}

/// Value of label `priority`: the priority class of a pod group, or else its priority.
fn priority_label(
    cycle: &CycleObservation<'_>,
    group: &schedlab_scheduler_core::model::PodGroup,
) -> Name {
    let key = crate::records::ObjectKey {
        namespace: Name::clone(&group.namespace),
        name: Name::clone(&group.name),
    };
    let class = cycle.cache.groups.get(&key).and_then(|record| record.priority_class.clone());
    class.unwrap_or_else(|| group.priority.to_string().into())
}

#[cfg(test)]
mod tests;
