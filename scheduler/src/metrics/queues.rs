//! What queues deserve, may use and use.

use std::{collections::BTreeMap, sync::Mutex};

use prometheus::GaugeVec;
use schedlab_scheduler_core::{
    model::Name,
    resources::{Amount, PerResource},
};

use super::{Cycle, Register, scaled};
use crate::{config::QueueMetricLabel, status::QueueStatus};

const NAMES: &[&str] = &["queue_name", "queue_metadata_name", "queue_display_name"];
const DASHBOARD: &[&str] = &["queue_name", "team"];
const GB: i64 = 1_000_000_000;

pub(super) struct Queues {
    info: GaugeVec,
    /// GPU, CPU, memory.
    fair_share: [GaugeVec; 3],
    quota: [GaugeVec; 3],
    allocated: [GaugeVec; 3],
    usage: [GaugeVec; 3],
    quota_used: GaugeVec,
    share_used: GaugeVec,
    /// By what names those are known of which the last cycle told, in `usage`.
    names: Mutex<BTreeMap<Name, [Name; 3]>>,
    /// What is told in `info`, `quota` and `allocated` besides the names.
    labels: Vec<QueueMetricLabel>,
}

/// What each of GPU, CPU and memory is divided by.
struct Units([i64; 3]);

const LARGE: Units = Units([1000, 1000, GB]);
const BYTES: Units = Units([1000, 1000, 1]);
const MILLIONTHS: Units = Units([1_000_000; 3]);

impl Queues {
    pub(super) fn new(register: &Register<'_>, labels: Vec<QueueMetricLabel>) -> Self {
        let shared = |name: &str, help: &str| register.gauge(name, help, NAMES);
        let more = labels.iter().map(|label| &*label.metric_label);
        let all: Vec<&str> = NAMES.iter().copied().chain(more).collect();
        let gauge = |name: &str, help: &str| register.gauge(name, help, &all);
        let fair_share = "Fair share of the queue";
        let quota = "What the queue deserves; -1: without bound";
        let allocated = "Used by pods of the queue that have a node";
        let usage = "Part of the cluster that the queue used over the window of its history";
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
            quota_used: register.gauge(
                "quota_usage_percent",
                "Used GPUs as percentage of the quota; absent without one",
                DASHBOARD,
            ),
            share_used: register.gauge(
                "fairshare_quota_usage",
                "Used GPUs as part of the fair share; absent without one",
                DASHBOARD,
            ),
            names: Mutex::default(),
            labels,
        }
    }

    pub(super) fn observe(&self, cycle: &Cycle<'_>) {
        // To the end: who tells usage meanwhile would do so by the names of before.
        let mut names = self.names.lock().expect("nobody panics while holding it");
        self.reset();
        let mut known = BTreeMap::new();
        for (status, queue) in cycle.queues.iter().zip(&cycle.snapshot.queues) {
            let record = cycle.mirror.queues.get(&status.name);
            let display = record.map(|record| Name::clone(&record.display_name));
            let display = display.unwrap_or_default();
            let shown = if display.is_empty() { &status.name } else { &display };
            // KAI's scheduler calls queues as people see them, its queue controller as the API has
            // them; what asks for past usage finds them by that.
            let of_scheduler: [&str; 3] = [shown, &status.name, &display];
            let of_controller: [&str; 3] = [&status.name, &status.name, &display];
            let more = self.labels.iter().map(|label| {
                let known = record.and_then(|record| record.labels.get(&*label.queue_label));
                known.map_or(&*label.default, |known| &**known)
            });
            let labels: Vec<&str> = of_controller.into_iter().chain(more).collect();
            self.info.with_label_values(&labels).set(1.0);
            set(&self.fair_share, &of_scheduler, (status.fair_share, LARGE));
            let bound = |amount| match amount {
                Amount::Exactly(amount) => amount,
                Amount::Unlimited => i64::MIN,
            };
            set(&self.quota, &labels, (status.quota.map(bound), BYTES));
            set(&self.allocated, &labels, (status.allocated.accounted(), BYTES));
            set(&self.usage, &of_scheduler, (queue.historical_usage_micro, MILLIONTHS));
            self.dashboard(status);
            known.insert(Name::clone(&status.name), of_scheduler.map(Name::from));
        }
        *names = known;
    }

    /// Past usage as it is now, which moves from one cycle to the next.
    pub(super) fn tell_usage(&self, of: impl Fn(&Name) -> PerResource<i64>) {
        for (queue, names) in &*self.names.lock().expect("nobody panics while holding it") {
            set(&self.usage, &names.each_ref().map(|name| &**name), (of(queue), MILLIONTHS));
        }
    }

    fn dashboard(&self, status: &QueueStatus) {
        let labels: [&str; 2] = [&status.name, &status.name];
        let used = status.allocated.gpu_milli;
        if let Amount::Exactly(quota) = status.quota.gpu
            && quota > 0
        {
            self.quota_used.with_label_values(&labels).set(100.0 * scaled(used, quota));
        }
        if status.fair_share.gpu > 0 {
            self.share_used.with_label_values(&labels).set(scaled(used, status.fair_share.gpu));
        }
    }

    /// Queues that are gone are told no more.
    fn reset(&self) {
        let rows = [&self.fair_share, &self.quota, &self.allocated, &self.usage];
        rows.into_iter().flatten().for_each(GaugeVec::reset);
        [&self.info, &self.quota_used, &self.share_used].into_iter().for_each(GaugeVec::reset);
    }
}

/// `i64::MIN` stands for no bound.
fn set(gauges: &[GaugeVec; 3], labels: &[&str], (amounts, units): (PerResource<i64>, Units)) {
    for ((gauge, amount), unit) in gauges.iter().zip(amounts.values()).zip(units.0) {
        let value = if amount == i64::MIN { -1.0 } else { scaled(amount, unit) };
        gauge.with_label_values(labels).set(value);
    }
}
