//! Metrics of queues: quota, fair share, allocation and historical usage.

use std::{collections::BTreeMap, sync::Mutex};

use prometheus::GaugeVec;
use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource},
};

use super::{CycleObservation, Registrar, to_metric_unit};
use crate::{config::QueueMetricLabel, progress::QueueSummary};

const NAME_LABELS: &[&str] = &["queue_name", "queue_metadata_name", "queue_display_name"];
const DASHBOARD_LABELS: &[&str] = &["queue_name", "team"];
const GB: i64 = 1_000_000_000;

pub(super) struct QueueMetrics {
    info: GaugeVec,
    /// Gauges of the fair share: GPU, CPU, memory.
    fair_share: [GaugeVec; 3],
    quota: [GaugeVec; 3],
    allocated: [GaugeVec; 3],
    usage: [GaugeVec; 3],
    quota_usage_percent: GaugeVec,
    fair_share_usage: GaugeVec,
    /// The values of [`NAME_LABELS`] of each queue of the last cycle.
    names: Mutex<BTreeMap<Name, [Name; 3]>>,
    /// Queue labels exported in `info`, `quota` and `allocated`.
    labels: Vec<QueueMetricLabel>,
}

/// Internal units per exported unit of GPU, CPU and memory.
struct UnitScales([i64; 3]);

const SCHEDULER_UNITS: UnitScales = UnitScales([1000, 1000, GB]);
const CONTROLLER_UNITS: UnitScales = UnitScales([1000, 1000, 1]);
const USAGE_UNITS: UnitScales = UnitScales([1_000_000; 3]);

impl QueueMetrics {
    pub(super) fn new(register: &Registrar<'_>, labels: Vec<QueueMetricLabel>) -> Self {
        let shared = |name: &str, help: &str| register.register_gauge(name, help, NAME_LABELS);
        let more = labels.iter().map(|label| &*label.metric_label);
        let all: Vec<&str> = NAME_LABELS.iter().copied().chain(more).collect();
        let gauge = |name: &str, help: &str| register.register_gauge(name, help, &all);
        let fair_share = "Fair share of the queue";
        let quota = "Quota of the queue; -1: unlimited";
        let allocated = "Resources allocated to pods of the queue that have a node";
        let usage = "Fraction of the cluster that the queue used over the window of its history";
        Self {
            info: gauge("queue_info", "1 for each queue"),
            fair_share: [
                shared("queue_fair_share_gpu", fair_share),
                shared("queue_fair_share_cpu_cores", fair_share),
                shared("queue_fair_share_memory_gb", fair_share),
            ],
            quota: [
                gauge("queue_deserved_gpus", quota),
                gauge("queue_quota_cpu_cores", quota),
                gauge("queue_quota_memory_bytes", quota),
            ],
            allocated: [
                gauge("queue_allocated_gpus", allocated),
                gauge("queue_allocated_cpu_cores", allocated),
                gauge("queue_allocated_memory_bytes", allocated),
            ],
            usage: [
                shared("queue_gpu_usage", usage),
                shared("queue_cpu_usage", usage),
                shared("queue_memory_usage", usage),
            ],
            quota_usage_percent: register.register_gauge(
                "quota_usage_percent",
                "Allocated GPUs as a percentage of the quota; absent without a quota",
                DASHBOARD_LABELS,
            ),
            fair_share_usage: register.register_gauge(
                "fairshare_quota_usage",
                "Allocated GPUs as a fraction of the fair share; absent without a fair share",
                DASHBOARD_LABELS,
            ),
            names: Mutex::default(),
            labels,
        }
    }

    pub(super) fn observe(&self, cycle: &CycleObservation<'_>) {
        // Held to the end, as a concurrent scrape would export usage under the old names.
        let mut names = self.names.lock().expect("no thread panics while holding the lock");
        self.reset_gauges();
        let mut known = BTreeMap::new();
        for (status, queue) in cycle.queues.iter().zip(&cycle.snapshot.queues) {
            let record = cycle.cache.queues.get(&status.name);
            let display = record.map(|record| Name::clone(&record.display_name));
            let display = display.unwrap_or_default();
            let shown = if display.is_empty() { &status.name } else { &display };
            // Label `queue_name` is the display name in metrics of KAI's scheduler, and the object
            // name in those of its queue controller; queries for historical usage use the latter.
            let of_scheduler: [&str; 3] = [shown, &status.name, &display];
            let of_controller: [&str; 3] = [&status.name, &status.name, &display];
            let more = self.labels.iter().map(|label| {
                let known = record.and_then(|record| record.labels.get(&*label.queue_label));
                known.map_or(&*label.default, |known| &**known)
            });
            let labels: Vec<&str> = of_controller.into_iter().chain(more).collect();
            self.info.with_label_values(&labels).set(1.0);
            set_gauges(&self.fair_share, &of_scheduler, status.fair_share, &SCHEDULER_UNITS);
            let bound = |amount| match amount {
                Amount::Exactly(amount) => amount,
                Amount::Unlimited => i64::MIN,
            };
            set_gauges(&self.quota, &labels, status.quota.map(bound), &CONTROLLER_UNITS);
            set_gauges(
                &self.allocated,
                &labels,
                status.allocated.accounted_amounts(),
                &CONTROLLER_UNITS,
            );
            set_gauges(&self.usage, &of_scheduler, queue.historical_usage_micro, &USAGE_UNITS);
            self.set_dashboard_gauges(status);
            known.insert(Name::clone(&status.name), of_scheduler.map(Name::from));
        }
        *names = known;
    }

    /// Updates the gauges of historical usage, which changes between cycles.
    pub(super) fn set_usage(&self, usage_of: impl Fn(&Name) -> PerResource<i64>) {
        for (queue, names) in &*self.names.lock().expect("no thread panics while holding the lock")
        {
            set_gauges(
                &self.usage,
                &names.each_ref().map(|name| &**name),
                usage_of(queue),
                &USAGE_UNITS,
            );
        }
    }

    fn set_dashboard_gauges(&self, status: &QueueSummary) {
        let labels: [&str; 2] = [&status.name, &status.name];
        let used = status.allocated.gpu_milli;
        if let Amount::Exactly(quota) = status.quota.gpu
            && quota > 0
        {
            self.quota_usage_percent
                .with_label_values(&labels)
                .set(100.0 * to_metric_unit(used, quota));
        }
        if status.fair_share.gpu > 0 {
            self.fair_share_usage
                .with_label_values(&labels)
                .set(to_metric_unit(used, status.fair_share.gpu));
        }
    }

    /// Removes all series, so that deleted queues disappear.
    fn reset_gauges(&self) {
        let rows = [&self.fair_share, &self.quota, &self.allocated, &self.usage];
        rows.into_iter().flatten().for_each(GaugeVec::reset);
        [&self.info, &self.quota_usage_percent, &self.fair_share_usage]
            .into_iter()
            .for_each(GaugeVec::reset);
    }
}

/// Sets one gauge per resource; `i64::MIN` stands for unlimited and is exported as -1.
fn set_gauges(
    gauges: &[GaugeVec; 3],
    labels: &[&str],
    amounts: PerResource<i64>,
    units: &UnitScales,
) {
    for ((gauge, amount), unit) in gauges.iter().zip(amounts.values()).zip(units.0) {
        let value = if amount == i64::MIN { -1.0 } else { to_metric_unit(amount, unit) };
        gauge.with_label_values(labels).set(value);
    }
}
