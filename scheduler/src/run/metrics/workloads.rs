//! Metrics of pending and started pod groups for the dashboard in KAI's blog, and counters of
//! evicted pods per group.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use prometheus::{CounterVec, GaugeVec};
use schedlab_scheduler_core::{
    Decision, EvictionCause, Reason,
    model::{Name, PodGroup, PodGroupId, Time},
};

use super::{CycleObservation, Registrar, priority_label};
use crate::{records::ObjectKey, snapshot_builder::pods_of_group};

/// Number of last waiting times of which the 99th percentile is computed.
const WAITING_TIMES_MAX: usize = 1000;

/// Starts of groups within this time count for estimates of the waiting time.
const ESTIMATE_WINDOW: Duration = Duration::from_hours(1);

/// Labels `queue_name` and `priority`.
type QueueAndClass = (Name, Name);

/// Label values of the eviction counter of a pod group.
type EvictionLabels = [String; 5];

pub(super) struct WorkloadMetrics {
    depth: GaugeVec,
    depth_total: GaugeVec,
    estimate: GaugeVec,
    p99: GaugeVec,
    gang_success: GaugeVec,
    decisions: CounterVec,
    preemptions: CounterVec,
    evicted: CounterVec,
    /// Seconds that the last started groups waited for their first node.
    wait_seconds: VecDeque<u64>,
    /// Number of groups pending in the last cycle, and start of the longest wait.
    waiting_groups: BTreeMap<QueueAndClass, (u64, Time)>,
    recent_starts: BTreeMap<QueueAndClass, VecDeque<Time>>,
    /// Number of started gangs by priority class.
    gangs_started: BTreeMap<Name, u64>,
    known_waiting: BTreeSet<(Name, Name)>,
    /// Eviction counters by namespace and name of the group.
    eviction_series: BTreeMap<(Name, Name), BTreeSet<EvictionLabels>>,
}

impl WorkloadMetrics {
    pub(super) fn new(register: &Registrar<'_>) -> Self {
        let line = &["queue_name", "priority"];
        let gauge = |name, help, labels| register.register_gauge(name, help, labels);
        let counter = |name, help, labels| register.register_counter(name, help, labels);
        Self {
            depth: gauge("queue_depth", "Pending pod groups", line),
            depth_total: gauge("queue_depth_total", "Pending pod groups in all queues", &[]),
            estimate: gauge(
                "queue_wait_time_estimate",
                "Estimated seconds until a new pod group starts: pending groups at the start rate of \
                 the last hour; if none started, the age of the oldest",
                line,
            ),
            p99: gauge(
                "queue_wait_time_p99_seconds",
                "99th percentile of the seconds that the last 1000 pod groups waited for their first node",
                &[],
            ),
            gang_success: gauge(
                "gang_scheduling_success_rate",
                "Started gangs as a fraction of started and pending gangs",
                &["priority"],
            ),
            decisions: counter(
                "scheduling_decisions_total",
                "Pod groups that got nodes (accept), became pending (queue), or cannot run in the \
                 current configuration (reject)",
                &["decision"],
            ),
            preemptions: counter(
                "preemptions_total",
                "Pods evicted by reclaim and preemption, by the priority class of the victim",
                &["priority"],
            ),
            evicted: counter(
                "pod_group_evicted_pods_total",
                "Pods evicted per pod group",
                &["podgroup", "namespace", "uid", "nodepool", "action"],
            ),
            wait_seconds: VecDeque::new(),
            waiting_groups: BTreeMap::new(),
            recent_starts: BTreeMap::new(),
            gangs_started: BTreeMap::new(),
            known_waiting: BTreeSet::new(),
            eviction_series: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, cycle: &CycleObservation<'_>) {
        self.observe_starts(cycle);
        self.observe_evictions(cycle);
        self.observe_waiting(cycle);
        self.observe_gangs(cycle);
        self.set_wait_percentile();
    }

    /// Records groups whose first pod was bound in this cycle.
    fn observe_starts(&mut self, cycle: &CycleObservation<'_>) {
        let snapshot = cycle.snapshot;
        let bound = cycle.plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } => snapshot.pods[pod.0 as usize].group,
            Decision::Evict { .. } | Decision::Pipeline { .. } => None,
        });
        let had_no_node = |id: &PodGroupId| {
            let pods = pods_of_group(cycle.cache, snapshot, *id);
            pods.into_iter().all(|pod| snapshot.pods[pod.0 as usize].node.is_none())
        };
        let started: BTreeSet<PodGroupId> = bound.collect();
        let started: Vec<PodGroupId> = started.into_iter().filter(had_no_node).collect();
        for id in started {
            let group = &snapshot.pod_groups[id.0 as usize];
            let class = priority_label(cycle, group);
            self.decisions.with_label_values(&["accept"]).inc();
            self.wait_seconds.push_back(snapshot.now.elapsed_since(waiting_since(group)).as_secs());
            if is_gang(group) {
                *self.gangs_started.entry(Name::clone(&class)).or_default() += 1;
            }
            let starts = self.recent_starts.entry((queue_label(cycle, group), class)).or_default();
            starts.push_back(snapshot.now);
        }
        while self.wait_seconds.len() > WAITING_TIMES_MAX {
            self.wait_seconds.pop_front();
        }
    }

    fn observe_evictions(&mut self, cycle: &CycleObservation<'_>) {
        for decision in &cycle.plan.decisions {
            let Decision::Evict { pod, cause } = decision else { continue };
            let Some(id) = cycle.snapshot.pods[pod.0 as usize].group else { continue };
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            if matches!(cause, EvictionCause::Reclaim { .. } | EvictionCause::Preempt { .. }) {
                self.preemptions.with_label_values(&[&*priority_label(cycle, group)]).inc();
            }
            let series: EvictionLabels =
                [&*group.name, &group.namespace, &group.uid, cycle.pool, cause.kai_action_name()]
                    .map(str::to_owned);
            self.evicted.with_label_values(&series.each_ref().map(String::as_str)).inc();
            let key = (Name::clone(&group.namespace), Name::clone(&group.name));
            self.eviction_series.entry(key).or_default().insert(series);
        }
        // A group without pods is not in the snapshot, so the cache decides whether it exists.
        let lives = |(namespace, name): &(Name, Name)| {
            let key = ObjectKey { namespace: Name::clone(namespace), name: Name::clone(name) };
            cycle.cache.groups.contains_key(&key)
        };
        let gone: Vec<(Name, Name)> =
            self.eviction_series.keys().filter(|key| !lives(key)).cloned().collect();
        for series in gone.iter().filter_map(|key| self.eviction_series.remove(key)).flatten() {
            let _ = self.evicted.remove_label_values(&series.each_ref().map(String::as_str));
        }
    }

    fn observe_waiting(&mut self, cycle: &CycleObservation<'_>) {
        self.waiting_groups.clear();
        let mut waiting = BTreeSet::new();
        for (id, reason) in &cycle.plan.waiting {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            let line = (queue_label(cycle, group), priority_label(cycle, group));
            let since = waiting_since(group);
            let (depth, first) = self.waiting_groups.entry(line).or_insert((0, since));
            *depth += 1;
            *first = (*first).min(since);
            let key = (Name::clone(&group.namespace), Name::clone(&group.name));
            if !self.known_waiting.contains(&key) {
                self.decisions.with_label_values(&[decision_label(reason)]).inc();
            }
            waiting.insert(key);
        }
        self.known_waiting = waiting;
        let none: &[&str] = &[];
        self.depth_total
            .with_label_values(none)
            .set(to_f64(self.waiting_groups.values().map(|it| it.0).sum()));
        self.depth.reset();
        for ((queue, class), (depth, _)) in &self.waiting_groups {
            self.depth.with_label_values(&[&**queue, &**class]).set(to_f64(*depth));
        }
        self.estimate.reset();
        self.set_wait_estimates(cycle.snapshot.now);
    }

    /// Updates the estimated waiting time of new groups.
    pub(super) fn set_wait_estimates(&mut self, now: Time) {
        for starts in self.recent_starts.values_mut() {
            while starts.front().is_some_and(|at| now.elapsed_since(*at) > ESTIMATE_WINDOW) {
                starts.pop_front();
            }
        }
        for ((queue, class), (depth, first)) in &self.waiting_groups {
            let labels: [&str; 2] = [queue, class];
            let starts = self.recent_starts.get(&(Name::clone(queue), Name::clone(class)));
            let starts = starts.map_or(0, VecDeque::len) as u64;
            let seconds = match starts {
                0 => now.elapsed_since(*first).as_secs(),
                starts => depth.saturating_mul(ESTIMATE_WINDOW.as_secs()) / starts,
            };
            self.estimate.with_label_values(&labels).set(to_f64(seconds));
        }
    }

    fn observe_gangs(&mut self, cycle: &CycleObservation<'_>) {
        let mut waiting: BTreeMap<Name, u64> = BTreeMap::new();
        for id in cycle.plan.waiting.keys() {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            if is_gang(group) {
                *waiting.entry(priority_label(cycle, group)).or_default() += 1;
            }
        }
        self.gang_success.reset();
        let classes: BTreeSet<&Name> = waiting.keys().chain(self.gangs_started.keys()).collect();
        for class in classes {
            let started = self.gangs_started.get(class).copied().unwrap_or(0);
            let all = started + waiting.get(class).copied().unwrap_or(0);
            let rate = to_f64(started) / to_f64(all.max(1));
            self.gang_success.with_label_values(&[&**class]).set(rate);
        }
    }

    fn set_wait_percentile(&self) {
        let mut waits: Vec<u64> = self.wait_seconds.iter().copied().collect();
        waits.sort_unstable();
        let at = (waits.len() * 99).div_ceil(100).saturating_sub(1);
        if let Some(wait) = waits.get(at) {
            let none: &[&str] = &[];
            self.p99.with_label_values(none).set(to_f64(*wait));
        }
    }
}

/// Since when a group waits: its creation, or its last eviction.
fn waiting_since(group: &PodGroup) -> Time {
    group.last_eviction.map_or(group.created, |evicted| evicted.max(group.created))
}

fn is_gang(group: &PodGroup) -> bool {
    group.sub_groups.iter().map(|part| u64::from(part.min_member)).sum::<u64>() > 1
}

/// Value of label `decision` of a pending group: `reject` if the group cannot run even when all
/// other workloads have ended.
fn decision_label(reason: &Reason) -> &'static str {
    let is_refused = matches!(reason, Reason::Queue(_) | Reason::ExceedsClusterCapacity { .. });
    if is_refused { "reject" } else { "queue" }
}

/// Value of label `queue_name`, even if the queue is unusable; empty in profile `kube`.
fn queue_label(cycle: &CycleObservation<'_>, group: &PodGroup) -> Name {
    match &group.queue {
        Ok(Some(queue)) => Name::clone(&cycle.snapshot.queues[queue.0 as usize].name),
        Ok(None) => Name::default(),
        Err(problem) => Name::clone(problem.named_queue()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
