//! The answer: how what happens with the changes differs from what happens without them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_scheduler::replay::{
    WaitingGroup,
    forecast::{Forecast, ForecastPod, PodEviction, PodStart},
};
use serde::Serialize;

use super::apply::{ChangedCase, DisplacedPod};

/// What would happen if a cluster were changed, beside what happens without the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The changes in words.
    pub changes: Vec<String>,
    /// What becomes of each submitted pod group.
    pub submitted: Vec<SubmittedGroup>,
    /// Pod groups with pods that start only with the changes, or earlier with them.
    pub started: Vec<StartedGroup>,
    /// Pod groups with pods that start only without the changes, or earlier without them.
    pub delayed: Vec<StartedGroup>,
    /// Pod groups with pods that are evicted only with the changes.
    pub evicted: Vec<EvictedGroup>,
    /// Pod groups with pods that are evicted only without the changes.
    pub spared: Vec<EvictedGroup>,
    /// Pods that leave with a removed node.
    pub displaced: Vec<DisplacedPod>,
    /// What is pending at the end with the changes, by queue and reason.
    pub pending: Vec<PendingReason>,
    /// The queues that use more or less at the end than without the changes.
    pub queues: Vec<QueueDifference>,
    /// All that the scheduler does with the changes, in order.
    pub plan: Vec<PlanStep>,
    /// How far the cluster was played on with the changes.
    pub end: ForecastEnd,
    /// Notes on settings without effect and on unusable objects.
    pub notes: Vec<String>,
}

/// A pod group that was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedGroup {
    /// Namespace and name.
    pub group: String,
    /// Number of its pods.
    pub pods: usize,
    /// Number of its pods that start.
    pub started: usize,
    /// Why its other pods are pending.
    pub reason: Option<String>,
    /// What would let them run.
    pub remedy: Option<String>,
}

/// Pods of a pod group that start.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedGroup {
    /// Namespace and name.
    pub group: String,
    /// Its queue.
    pub queue: String,
    /// Number of pods that start.
    pub pods: usize,
    /// Their GPUs.
    pub gpus: f64,
    /// Their nodes.
    pub nodes: Vec<String>,
    /// Seconds until the last of them has started.
    pub after_secs: f64,
    /// Seconds in the other forecast; `None`: they do not start there.
    pub otherwise_after_secs: Option<f64>,
    /// Pod groups of which pods are evicted for this one.
    pub evicts: Vec<String>,
}

/// Pods of a pod group that are evicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictedGroup {
    /// Namespace and name.
    pub group: String,
    /// Its queue.
    pub queue: String,
    /// Number of pods that are evicted.
    pub pods: usize,
    /// Their GPUs.
    pub gpus: f64,
    /// The nodes that they leave.
    pub nodes: Vec<String>,
    /// The pod groups that they make room for.
    pub preemptors: Vec<String>,
    /// KAI's names of the actions that evict.
    pub actions: Vec<String>,
    /// Number of evicted pods that start again.
    pub restarted: usize,
}

/// Pending pod groups of a queue with one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingReason {
    /// The queue; empty if it does not exist.
    pub queue: String,
    /// Code of the reason, such as `OverLimit`.
    pub reason: String,
    /// The reason of the first group.
    pub message: String,
    /// What would let the first group run.
    pub remedy: String,
    /// Number of pending pods.
    pub pods: usize,
    /// The groups: namespace and name.
    pub groups: Vec<String>,
    /// Number of groups that are pending only with the changes.
    pub only_with_changes: usize,
}

/// What a queue uses at the end, in GPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDifference {
    /// Name of the queue.
    pub queue: String,
    /// What it uses now.
    pub now: f64,
    /// What it uses at the end without the changes.
    pub without: f64,
    /// What it uses at the end with the changes.
    pub with: f64,
    /// Its fair share with the changes.
    pub fair_share: f64,
}

/// One step of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// Seconds since the changes.
    pub after_secs: f64,
    /// `evict` or `start`, or `wait` for a pod whose node is not free yet at the end.
    pub step: &'static str,
    /// Namespace and name of the pod.
    pub pod: String,
    /// Its queue.
    pub queue: String,
    /// The node that it leaves or gets.
    pub node: String,
    /// The pod group that an evicted pod makes room for, and the action.
    pub because: Option<String>,
}

/// The end of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForecastEnd {
    /// Seconds of virtual time since the changes.
    pub after_secs: f64,
    /// Number of cycles.
    pub cycles: u32,
    /// Whether the cluster is at rest: no later cycle decides anything without an event.
    pub at_rest: bool,
    /// The limit of simulated evictions, if a search stopped at it, with or without the changes:
    /// some of the pending pod groups may evict others.
    pub search_stopped_at: Option<usize>,
    /// GPUs in use at the end.
    pub used_gpus: f64,
    /// GPUs in use at the end without the changes.
    pub used_gpus_without: f64,
    /// Number of pods that ended by themselves.
    pub ended_pods: usize,
    /// Number of pods that start in both forecasts.
    pub starts_in_both: usize,
}

type PodKey<'f> = (&'f str, &'f str);

fn key(pod: &ForecastPod) -> PodKey<'_> {
    (&pod.namespace, &pod.name)
}

fn group_key(pod: &ForecastPod) -> String {
    format!("{}/{}", pod.namespace, pod.group)
}

impl Answer {
    pub(super) fn compare(changed: &ChangedCase, without: &Forecast, with: &Forecast) -> Self {
        let restarts = restarted_pods(with);
        let first = first_starts(without);
        Self {
            changes: changed.descriptions.clone(),
            submitted: submitted_groups(changed, with),
            started: earlier_starts(with, without),
            delayed: earlier_starts(without, with),
            evicted: evictions_of_only(with, without, &restarts),
            spared: evictions_of_only(without, with, &restarted_pods(without)),
            displaced: changed.displaced.clone(),
            pending: pending_reasons(with, without),
            queues: queue_differences(with, without),
            plan: plan_steps(with),
            end: ForecastEnd {
                after_secs: with.elapsed.as_secs_f64(),
                cycles: with.cycles,
                at_rest: with.is_at_rest,
                search_stopped_at: with.search_stopped_at.or(without.search_stopped_at),
                used_gpus: gpus(with.gpus_used_after),
                used_gpus_without: gpus(without.gpus_used_after),
                ended_pods: with.ended,
                starts_in_both: first_starts(with)
                    .keys()
                    .filter(|pod| first.contains_key(*pod))
                    .count(),
            },
            notes: with.notes.clone(),
        }
    }
}

/// The first start of each pod that does not replace an evicted one.
fn first_starts(forecast: &Forecast) -> BTreeMap<PodKey<'_>, &PodStart> {
    let mut first = BTreeMap::new();
    for start in forecast.starts.iter().filter(|start| !start.is_replacement) {
        first.entry(key(&start.pod)).or_insert(start);
    }
    first
}

/// Evicted pods that start again.
fn restarted_pods(forecast: &Forecast) -> BTreeSet<PodKey<'_>> {
    let again = forecast.starts.iter().filter(|start| start.is_replacement);
    again.map(|start| key(&start.pod)).collect()
}

/// The first start of a pod group, for the order of groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FirstStart {
    after: Duration,
    group: String,
}

/// Pods of `of` that start earlier than in `other`, by pod group.
fn earlier_starts(of: &Forecast, other: &Forecast) -> Vec<StartedGroup> {
    let others = first_starts(other);
    let mut evicts: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for eviction in &of.evictions {
        if let Some(preemptor) = &eviction.preemptor {
            evicts.entry(preemptor).or_default().insert(group_key(&eviction.pod));
        }
    }
    let mut groups: BTreeMap<String, StartedGroup> = BTreeMap::new();
    let mut order = Vec::new();
    for start in first_starts(of).into_values() {
        let otherwise = others.get(&key(&start.pod)).map(|other| other.after);
        if otherwise.is_some_and(|otherwise| otherwise <= start.after) {
            continue;
        }
        let name = group_key(&start.pod);
        let group = groups.entry(name.clone()).or_insert_with(|| {
            order.push(FirstStart { after: start.after, group: name.clone() });
            StartedGroup {
                queue: start.pod.queue.clone(),
                pods: 0,
                gpus: 0.0,
                nodes: Vec::new(),
                after_secs: 0.0,
                otherwise_after_secs: None,
                evicts: evicts.get(&*name).into_iter().flatten().cloned().collect(),
                group: name,
            }
        });
        group.pods += 1;
        group.gpus += gpus(start.pod.gpu_milli);
        group.after_secs = group.after_secs.max(start.after.as_secs_f64());
        if let Some(otherwise) = otherwise {
            let latest = group.otherwise_after_secs.unwrap_or_default();
            group.otherwise_after_secs = Some(latest.max(otherwise.as_secs_f64()));
        }
        insert_sorted(&mut group.nodes, &start.node);
    }
    order.sort();
    order.iter().filter_map(|first| groups.remove(&first.group)).collect()
}

/// Pods that are evicted in `of` and not in `other`, by pod group.
fn evictions_of_only(
    of: &Forecast,
    other: &Forecast,
    restarted: &BTreeSet<PodKey<'_>>,
) -> Vec<EvictedGroup> {
    let others: BTreeSet<PodKey<'_>> = other.evictions.iter().map(|it| key(&it.pod)).collect();
    let mut groups: BTreeMap<String, EvictedGroup> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for PodEviction { pod, node, preemptor, action, .. } in &of.evictions {
        if others.contains(&key(pod)) || !seen.insert(key(pod)) {
            continue;
        }
        let name = group_key(pod);
        let group = groups.entry(name.clone()).or_insert_with(|| EvictedGroup {
            group: name,
            queue: pod.queue.clone(),
            pods: 0,
            gpus: 0.0,
            nodes: Vec::new(),
            preemptors: Vec::new(),
            actions: Vec::new(),
            restarted: 0,
        });
        group.pods += 1;
        group.gpus += gpus(pod.gpu_milli);
        group.restarted += usize::from(restarted.contains(&key(pod)));
        insert_sorted(&mut group.nodes, node);
        insert_sorted(&mut group.actions, action);
        if let Some(preemptor) = preemptor {
            insert_sorted(&mut group.preemptors, preemptor);
        }
    }
    groups.into_values().collect()
}

fn submitted_groups(changed: &ChangedCase, with: &Forecast) -> Vec<SubmittedGroup> {
    let starts = first_starts(with);
    let pods_of_groups = changed.submitted.iter();
    pods_of_groups.map(|(name, pods)| submitted_group(name, pods, with, &starts)).collect()
}

/// What becomes of the submitted group with this namespace and name, and these pods.
fn submitted_group(
    name: &str,
    pods: &BTreeSet<String>,
    with: &Forecast,
    starts: &BTreeMap<PodKey<'_>, &PodStart>,
) -> SubmittedGroup {
    let namespace = name.split('/').next().unwrap_or_default();
    let started = pods.iter().filter(|pod| starts.contains_key(&(namespace, pod.as_str())));
    let waiting = with.waiting.iter().find(|group| full_name(group) == name);
    let broken = with.unschedulable.iter().find(|broken| {
        broken.pod.split_once('/').is_some_and(|(at, pod)| at == namespace && pods.contains(pod))
    });
    let (reason, remedy) = match (waiting, broken) {
        (Some(group), _) => {
            let reason = format!("{}: {}", group.code, group.message);
            (Some(reason), Some(group.remedy.clone()))
        }
        (None, Some(broken)) => (Some(broken.message.clone()), Some(broken.remedy.clone())),
        (None, None) => (None, None),
    };
    SubmittedGroup {
        group: name.to_owned(),
        pods: pods.len(),
        started: started.count(),
        reason,
        remedy,
    }
}

fn full_name(group: &WaitingGroup) -> String {
    format!("{}/{}", group.namespace, group.name)
}

fn pending_reasons(with: &Forecast, without: &Forecast) -> Vec<PendingReason> {
    let before: BTreeSet<String> = without.waiting.iter().map(full_name).collect();
    let mut reasons: BTreeMap<(&str, &str), PendingReason> = BTreeMap::new();
    for group in &with.waiting {
        let queue = group.queue.as_deref().unwrap_or_default();
        let name = full_name(group);
        let reason = reasons.entry((queue, group.code)).or_insert_with(|| PendingReason {
            queue: queue.to_owned(),
            reason: group.code.to_owned(),
            message: group.message.clone(),
            remedy: group.remedy.clone(),
            pods: 0,
            groups: Vec::new(),
            only_with_changes: 0,
        });
        reason.pods += group.pods;
        reason.only_with_changes += usize::from(!before.contains(&name));
        reason.groups.push(name);
    }
    reasons.into_values().collect()
}

fn queue_differences(with: &Forecast, without: &Forecast) -> Vec<QueueDifference> {
    let others: BTreeMap<&str, _> =
        without.queues.iter().map(|queue| (&*queue.name, queue)).collect();
    let difference = |queue: &schedlab_scheduler::replay::forecast::QueueForecast| {
        let other = others.get(&*queue.name);
        let without = other.map_or(0, |other| other.used_after);
        (without != queue.used_after).then(|| QueueDifference {
            queue: queue.name.clone(),
            now: gpus(other.map_or(0, |other| other.used_before)),
            without: gpus(without),
            with: gpus(queue.used_after),
            fair_share: gpus(queue.fair_share),
        })
    };
    with.queues.iter().filter_map(difference).collect()
}

/// A step with its exact time, for the order of steps.
struct TimedStep {
    after: Duration,
    step: PlanStep,
}

fn plan_steps(with: &Forecast) -> Vec<PlanStep> {
    let name = |pod: &ForecastPod| format!("{}/{}", pod.namespace, pod.name);
    let timed = |after: Duration, step: PlanStep| TimedStep { after, step };
    let evictions = with.evictions.iter().map(|eviction| {
        let because = match &eviction.preemptor {
            Some(preemptor) => format!("{} for {preemptor}", eviction.action),
            None => eviction.action.to_owned(),
        };
        let step = PlanStep {
            after_secs: eviction.after.as_secs_f64(),
            step: "evict",
            pod: name(&eviction.pod),
            queue: eviction.pod.queue.clone(),
            node: eviction.node.clone(),
            because: Some(because),
        };
        timed(eviction.after, step)
    });
    let step = |start: &PodStart, step: &'static str, after: Duration| {
        let step = PlanStep {
            after_secs: after.as_secs_f64(),
            step,
            pod: name(&start.pod),
            queue: start.pod.queue.clone(),
            node: start.node.clone(),
            because: None,
        };
        timed(after, step)
    };
    let starts = with.starts.iter().map(|start| step(start, "start", start.after));
    let waits = with.pipelined.iter().map(|start| step(start, "wait", with.elapsed));
    let mut steps: Vec<TimedStep> = evictions.chain(starts).chain(waits).collect();
    steps.sort_by_key(|timed| timed.after);
    steps.into_iter().map(|timed| timed.step).collect()
}

fn insert_sorted(names: &mut Vec<String>, name: &str) {
    if let Err(at) = names.binary_search_by(|known| known.as_str().cmp(name)) {
        names.insert(at, name.to_owned());
    }
}

/// Thousandths of GPUs as GPUs.
#[expect(clippy::cast_precision_loss, reason = "no cluster has 2^52 thousandths of GPUs")]
fn gpus(milli: i64) -> f64 {
    milli as f64 / 1000.0
}
