//! What Prometheus asks: KAI's own metrics under KAI's names, and those of the dashboard in KAI's
//! blog, all with the prefix `kai_`. They are brought up to date after each cycle that decided
//! something anew, and what time alone changes when it is asked for; nothing here touches a decision.

mod cycles;
mod queues;
mod work;

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

pub(crate) use cycles::{Stopwatch, Timings};

use crate::{config::QueueMetricLabel, mirror::Mirror, status::QueueStatus, usage::SharedUsage};

/// The metrics of one scheduler.
pub struct Metrics {
    registry: Registry,
    cycles: cycles::Cycles,
    queues: queues::Queues,
    usage_query: Histogram,
    work: Mutex<work::Work>,
    /// The history by which queues share, where it moves by time alone.
    usage: OnceLock<SharedUsage>,
}

/// A cycle that is over, as metrics see it.
pub(crate) struct Cycle<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) mirror: &'a Mirror,
    /// The name of the node pool.
    pub(crate) pool: &'a str,
    pub(crate) queues: &'a [QueueStatus],
    pub(crate) stopwatch: &'a Stopwatch,
    pub(crate) timings: Timings,
    /// How long each binding took.
    pub(crate) bindings: &'a [Duration],
}

impl Metrics {
    /// All metrics, nothing measured yet.
    pub fn new() -> Self {
        Self::with_labels_of_queues(Vec::new())
    }

    /// The same, and those about queues tell some of their labels.
    pub fn with_labels_of_queues(labels: Vec<QueueMetricLabel>) -> Self {
        let registry = Registry::new();
        let register = Register(&registry);
        let queues = queues::Queues::new(&register, labels);
        let cycles = cycles::Cycles::new(&register);
        let work = Mutex::new(work::Work::new(&register));
        let usage_query = register.latency(
            "usage_query_latency_milliseconds",
            "From asking the usage database to its answers",
        );
        Self { registry, cycles, queues, usage_query, work, usage: OnceLock::new() }
    }

    /// In Prometheus' text format, as things stand at `now`.
    pub fn text(&self, now: jiff::Timestamp) -> String {
        let now = Time(now.as_millisecond());
        self.work.lock().expect("nobody panics while holding it").estimate(now);
        if let Some(usage) = self.usage.get() {
            let usage = usage.lock();
            self.queues.tell_usage(|queue| usage.micro(queue, now));
        }
        let mut text = Vec::new();
        let written = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        written.expect("names and labels are valid, and memory takes every byte");
        String::from_utf8(text).expect("text is UTF-8")
    }

    /// From now on past usage is told from there.
    pub(crate) fn follow(&self, usage: Option<SharedUsage>) {
        if let Some(usage) = usage {
            let _ = self.usage.set(usage);
        }
    }

    /// How long the usage database took to answer, or not to.
    pub(crate) fn observe_usage_query(&self, took: Duration) {
        self.usage_query.observe(millis(took));
    }

    pub(crate) fn observe(&self, cycle: &Cycle<'_>) {
        self.cycles.observe(cycle);
        self.queues.observe(cycle);
        let mut work = self.work.lock().expect("nobody panics while holding it");
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

/// Makes metrics that are part of a registry.
struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.kept(GaugeVec::new(opts(name, help), labels))
    }

    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.kept(CounterVec::new(opts(name, help), labels))
    }

    /// In milliseconds, with KAI's buckets.
    fn latency(&self, name: &str, help: &str) -> Histogram {
        let buckets = prometheus::exponential_buckets(5.0, 2.0, 10).expect("a growing row");
        let opts = HistogramOpts::from(opts(name, help)).buckets(buckets);
        self.kept(Histogram::with_opts(opts))
    }

    fn kept<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let collector = made.expect("names and labels are valid");
        self.0.register(Box::new(collector.clone())).expect("each name is used once");
        collector
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("kai")
}

/// Amounts in the units of metrics.
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn scaled(amount: i64, per_unit: i64) -> f64 {
    amount as f64 / per_unit as f64
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The class of a pod group's work, or its priority where it names none.
fn priority_of(cycle: &Cycle<'_>, group: &schedlab_scheduler_core::model::PodGroup) -> Name {
    let key = crate::mirror::Key {
        namespace: Name::clone(&group.namespace),
        name: Name::clone(&group.name),
    };
    let class = cycle.mirror.groups.get(&key).and_then(|record| record.priority_class.clone());
    class.unwrap_or_else(|| group.priority.to_string().into())
}

#[cfg(test)]
mod tests;
