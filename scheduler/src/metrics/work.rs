//! Who waits, for how long, and what became of it: the metrics of the blog's dashboard, and the
//! pods that each group lost.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use prometheus::{CounterVec, GaugeVec};
use schedlab_scheduler_core::{
    Decision, EvictionCause, Reason,
    model::{Name, PodGroup, PodGroupId, Time},
};

use super::{Cycle, Register, priority_of};
use crate::mirror::Key;

/// Waits of which the 99th percentile is taken.
const WAITS_MAX: usize = 1000;

/// Starts this long ago still count for an estimate.
const STARTS_FOR: Duration = Duration::from_hours(1);

/// A queue and a class of work in it.
type Line = (Name, Name);

/// Labels of a pod group's own counter.
type Series = [String; 5];

pub(super) struct Work {
    depth: GaugeVec,
    depth_total: GaugeVec,
    estimate: GaugeVec,
    p99: GaugeVec,
    gang_success: GaugeVec,
    decisions: CounterVec,
    preemptions: CounterVec,
    evicted: CounterVec,
    /// Seconds that the last groups waited before their first pod got a node.
    waits: VecDeque<u64>,
    /// How many groups wait in the last cycle, and since when the first of them does.
    lines: BTreeMap<Line, (u64, Time)>,
    starts: BTreeMap<Line, VecDeque<Time>>,
    /// Gangs that started, by class.
    gangs_started: BTreeMap<Name, u64>,
    waiting: BTreeSet<(Name, Name)>,
    /// By namespace and name of the group.
    series: BTreeMap<(Name, Name), BTreeSet<Series>>,
}

impl Work {
    pub(super) fn new(register: &Register<'_>) -> Self {
        let line = &["queue_name", "priority"];
        let gauge = |name, help, labels| register.gauge(name, help, labels);
        let counter = |name, help, labels| register.counter(name, help, labels);
        Self {
            depth: gauge("queue_depth", "Pod groups that wait", line),
            depth_total: gauge("queue_depth_total", "Pod groups that wait, in all queues", &[]),
            estimate: gauge(
                "queue_wait_time_estimate",
                "Seconds until a new pod group would start: those that wait, at the pace of the last \
                 hour; where none started, the age of the oldest",
                line,
            ),
            p99: gauge(
                "queue_wait_time_p99_seconds",
                "99th percentile of how long the last 1000 pod groups waited for their first node",
                &[],
            ),
            gang_success: gauge(
                "gang_scheduling_success_rate",
                "Gangs that started, as part of those and of the gangs that wait",
                &["priority"],
            ),
            decisions: counter(
                "scheduling_decisions_total",
                "Pod groups that got nodes (accept), began to wait (queue), or can never run as \
                 things are set up (reject)",
                &["decision"],
            ),
            preemptions: counter(
                "preemptions_total",
                "Pods evicted by reclaim and preemption, by the class of the victim",
                &["priority"],
            ),
            evicted: counter(
                "pod_group_evicted_pods_total",
                "Pods evicted per pod group",
                &["podgroup", "namespace", "uid", "nodepool", "action"],
            ),
            waits: VecDeque::new(),
            lines: BTreeMap::new(),
            starts: BTreeMap::new(),
            gangs_started: BTreeMap::new(),
            waiting: BTreeSet::new(),
            series: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, cycle: &Cycle<'_>) {
        self.started(cycle);
        self.evicted(cycle);
        self.lines(cycle);
        self.gangs(cycle);
        self.percentile();
    }

    /// Groups of which this cycle bound the first pod.
    fn started(&mut self, cycle: &Cycle<'_>) {
        let snapshot = cycle.snapshot;
        let active: BTreeSet<PodGroupId> = snapshot
            .pods
            .iter()
            .filter(|pod| pod.node.is_some())
            .filter_map(|pod| pod.group)
            .collect();
        let bound = cycle.plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } => snapshot.pods[pod.0 as usize].group,
            Decision::Evict { .. } | Decision::Pipeline { .. } => None,
        });
        let started: BTreeSet<PodGroupId> = bound.filter(|id| !active.contains(id)).collect();
        for id in started {
            let group = &snapshot.pod_groups[id.0 as usize];
            let class = priority_of(cycle, group);
            self.decisions.with_label_values(&["accept"]).inc();
            self.waits.push_back(snapshot.now.since(waits_since(group)).as_secs());
            if is_gang(group) {
                *self.gangs_started.entry(Name::clone(&class)).or_default() += 1;
            }
            let starts = self.starts.entry((queue_of(cycle, group), class)).or_default();
            starts.push_back(snapshot.now);
        }
        while self.waits.len() > WAITS_MAX {
            self.waits.pop_front();
        }
    }

    fn evicted(&mut self, cycle: &Cycle<'_>) {
        for decision in &cycle.plan.decisions {
            let Decision::Evict { pod, cause } = decision else { continue };
            let Some(id) = cycle.snapshot.pods[pod.0 as usize].group else { continue };
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            if matches!(cause, EvictionCause::Reclaim { .. } | EvictionCause::Preempt { .. }) {
                self.preemptions.with_label_values(&[&*priority_of(cycle, group)]).inc();
            }
            let series: Series =
                [&*group.name, &group.namespace, &group.uid, cycle.pool, cause.action()]
                    .map(str::to_owned);
            self.evicted.with_label_values(&series.each_ref().map(String::as_str)).inc();
            let key = (Name::clone(&group.namespace), Name::clone(&group.name));
            self.series.entry(key).or_default().insert(series);
        }
        // One of which no pod is left is in no snapshot.
        let lives = |(namespace, name): &(Name, Name)| {
            let key = Key { namespace: Name::clone(namespace), name: Name::clone(name) };
            cycle.mirror.groups.contains_key(&key)
        };
        let gone: Vec<(Name, Name)> =
            self.series.keys().filter(|key| !lives(key)).cloned().collect();
        for series in gone.iter().filter_map(|key| self.series.remove(key)).flatten() {
            let _ = self.evicted.remove_label_values(&series.each_ref().map(String::as_str));
        }
    }

    fn lines(&mut self, cycle: &Cycle<'_>) {
        self.lines.clear();
        let mut waiting = BTreeSet::new();
        for (id, reason) in &cycle.plan.waiting {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            let line = (queue_of(cycle, group), priority_of(cycle, group));
            let since = waits_since(group);
            let (depth, first) = self.lines.entry(line).or_insert((0, since));
            *depth += 1;
            *first = (*first).min(since);
            let key = (Name::clone(&group.namespace), Name::clone(&group.name));
            if !self.waiting.contains(&key) {
                self.decisions.with_label_values(&[decision_for(reason)]).inc();
            }
            waiting.insert(key);
        }
        self.waiting = waiting;
        let none: &[&str] = &[];
        self.depth_total
            .with_label_values(none)
            .set(float(self.lines.values().map(|it| it.0).sum()));
        self.depth.reset();
        for ((queue, class), (depth, _)) in &self.lines {
            self.depth.with_label_values(&[&**queue, &**class]).set(float(*depth));
        }
        self.estimate.reset();
        self.estimate(cycle.snapshot.now);
    }

    /// How long new groups would wait by what is known at `now`.
    pub(super) fn estimate(&mut self, now: Time) {
        for starts in self.starts.values_mut() {
            while starts.front().is_some_and(|at| now.since(*at) > STARTS_FOR) {
                starts.pop_front();
            }
        }
        for ((queue, class), (depth, first)) in &self.lines {
            let labels: [&str; 2] = [queue, class];
            let starts = self.starts.get(&(Name::clone(queue), Name::clone(class)));
            let starts = starts.map_or(0, VecDeque::len) as u64;
            let seconds = match starts {
                0 => now.since(*first).as_secs(),
                starts => depth.saturating_mul(STARTS_FOR.as_secs()) / starts,
            };
            self.estimate.with_label_values(&labels).set(float(seconds));
        }
    }

    fn gangs(&mut self, cycle: &Cycle<'_>) {
        let mut waiting: BTreeMap<Name, u64> = BTreeMap::new();
        for id in cycle.plan.waiting.keys() {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            if is_gang(group) {
                *waiting.entry(priority_of(cycle, group)).or_default() += 1;
            }
        }
        self.gang_success.reset();
        let classes: BTreeSet<&Name> = waiting.keys().chain(self.gangs_started.keys()).collect();
        for class in classes {
            let started = self.gangs_started.get(class).copied().unwrap_or(0);
            let all = started + waiting.get(class).copied().unwrap_or(0);
            let rate = float(started) / float(all.max(1));
            self.gang_success.with_label_values(&[&**class]).set(rate);
        }
    }

    fn percentile(&self) {
        let mut waits: Vec<u64> = self.waits.iter().copied().collect();
        waits.sort_unstable();
        let at = (waits.len() * 99).div_ceil(100).saturating_sub(1);
        if let Some(wait) = waits.get(at) {
            let none: &[&str] = &[];
            self.p99.with_label_values(none).set(float(*wait));
        }
    }
}

/// Its creation, or when it was evicted.
fn waits_since(group: &PodGroup) -> Time {
    group.last_eviction.map_or(group.created, |evicted| evicted.max(group.created))
}

fn is_gang(group: &PodGroup) -> bool {
    group.sub_groups.iter().map(|part| u64::from(part.min_member)).sum::<u64>() > 1
}

/// It is refused where nothing that others do lets it run.
fn decision_for(reason: &Reason) -> &'static str {
    let is_refused = matches!(reason, Reason::Queue(_) | Reason::LargerThanFleet { .. });
    if is_refused { "reject" } else { "queue" }
}

/// The queue that it asks for, even where that cannot be used. Profile `kube`: none.
fn queue_of(cycle: &Cycle<'_>, group: &PodGroup) -> Name {
    match &group.queue {
        Ok(Some(queue)) => Name::clone(&cycle.snapshot.queues[queue.0 as usize].name),
        Ok(None) => Name::default(),
        Err(problem) => Name::clone(problem.queue()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn float(number: u64) -> f64 {
    number as f64
}
