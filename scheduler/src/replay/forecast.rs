//! Plays a captured cluster on in virtual time: cycles run as in a live scheduler, evicted pods
//! need time to leave, pods with a known run time end, and controllers replace evicted pods. No
//! other pods arrive.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_scheduler_core::{
    CycleObserver, Decision, Plan, Profile, QueueUsage, SearchMemory, Snapshot,
    framework::{KeptSession, Session},
    model::{NodeId, PodGroupId, PodId, PodStatus, QueueId, SnapshotChanges, Time},
    profile::{Action, VictimSearch},
    schedule_kept,
};

use super::{
    UnschedulablePod, WaitingGroup, group_name, release_claims, unschedulable_pods, waiting_groups,
};
use crate::{
    config::Config,
    podgrouper,
    snapshot_builder::{BuiltSnapshot, SnapshotBuilder},
    snapshot_file::ClusterLoader,
};

/// How a pod ends, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLifecycle {
    /// Time from its start to its end; `None` if it is unknown or the pod runs forever.
    pub run_time: Option<Duration>,
    /// Time from the request to delete it until it has left its node.
    pub termination: Duration,
    /// Whether a controller creates a new pod when this one is evicted.
    pub is_replaced: bool,
}

impl Default for PodLifecycle {
    fn default() -> Self {
        Self { run_time: None, termination: Duration::from_secs(1), is_replaced: false }
    }
}

/// Until when a cluster is played on, and what is known of its pods.
#[derive(Clone, Debug)]
pub struct ForecastOptions {
    /// The time of the captured cluster, in milliseconds since 1970; `None`: one second after the
    /// latest time in it.
    pub start_millis: Option<i64>,
    /// Virtual time after which the forecast ends. It ends earlier when nothing changes any more.
    pub horizon: Duration,
    /// Maximum number of cycles.
    pub cycles_max: u32,
    /// Lifecycles by namespace and name of the pod. Other pods have the default.
    pub lifecycles: BTreeMap<(String, String), PodLifecycle>,
}

impl Default for ForecastOptions {
    fn default() -> Self {
        Self {
            start_millis: None,
            horizon: Duration::from_mins(10),
            cycles_max: 1000,
            lifecycles: BTreeMap::new(),
        }
    }
}

/// A pod with its workload, as a forecast names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForecastPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name. A pod that replaces an evicted one has the name of that pod.
    pub name: String,
    /// Its pod group.
    pub group: String,
    /// The queue of its pod group; empty if it has none.
    pub queue: String,
    /// GPUs that it requests, in thousandths.
    pub gpu_milli: i64,
}

/// A pod that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// The pod.
    pub pod: ForecastPod,
    /// Its node.
    pub node: String,
    /// Time since the start of the forecast.
    pub after: Duration,
    /// Whether the pod replaces one that was evicted in this forecast.
    pub is_replacement: bool,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEviction {
    /// The pod.
    pub pod: ForecastPod,
    /// The node that it leaves.
    pub node: String,
    /// Time since the start of the forecast.
    pub after: Duration,
    /// The pod group that it makes room for.
    pub preemptor: Option<String>,
    /// KAI's name of the action that evicts.
    pub action: &'static str,
    /// Whether a controller replaces the pod.
    pub is_replaced: bool,
}

/// The GPUs of a queue in a forecast, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueForecast {
    /// Name of the queue.
    pub name: String,
    /// Its fair share in the last cycle.
    pub fair_share: i64,
    /// What it uses at the start.
    pub used_before: i64,
    /// What it uses at the end.
    pub used_after: i64,
}

/// What happens from a captured state on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Pods that start, in order.
    pub starts: Vec<PodStart>,
    /// Pods that are evicted, in order.
    pub evictions: Vec<PodEviction>,
    /// Number of pods that end by themselves.
    pub ended: usize,
    /// Pods that still wait at the end for evicted pods to leave.
    pub pipelined: Vec<PodStart>,
    /// Pod groups that are pending at the end, with the reason.
    pub waiting: Vec<WaitingGroup>,
    /// Pods that cannot be scheduled as they are.
    pub unschedulable: Vec<UnschedulablePod>,
    /// The queues, by name.
    pub queues: Vec<QueueForecast>,
    /// GPUs that all queues together use at the end, in thousandths.
    pub gpus_used_after: i64,
    /// Number of cycles.
    pub cycles: u32,
    /// Virtual time of the last cycle since the start.
    pub elapsed: Duration,
    /// Whether the cluster is at rest at the end: without an event, no later cycle decides
    /// anything else.
    pub is_at_rest: bool,
    /// The limit of simulated evictions, if an action reached it. Later cycles then evict nothing,
    /// and some of the pending pod groups may evict others.
    pub search_stopped_at: Option<usize>,
    /// Notes on settings without effect and on unusable objects.
    pub notes: Vec<String>,
}

/// The state of a cluster that a forecast starts from.
#[derive(Debug)]
pub struct ForecastBase {
    config: Config,
    built: BuiltSnapshot,
    notes: Vec<String>,
}

impl ClusterLoader {
    /// The present state, from which a forecast starts.
    pub fn forecast_base(&mut self) -> ForecastBase {
        let mut builder = SnapshotBuilder::from_config(&self.config);
        let cache = self.cache();
        podgrouper::record_faults(cache);
        // An earlier base took the changes of the cache.
        cache.changes.everything = true;
        builder.refresh(cache);
        let mut built = builder.built;
        built.snapshot.now = cache.time_after_last_event();
        ForecastBase { config: self.config.clone(), built, notes: self.notes() }
    }
}

/// Plays a captured cluster on until nothing changes any more, or until the horizon.
pub fn forecast(base: ForecastBase, options: &ForecastOptions) -> Forecast {
    let ForecastBase { config, built, notes } = base;
    let BuiltSnapshot { mut snapshot, unschedulable } = built;
    let start = options.start_millis.map_or(snapshot.now, Time);
    snapshot.now = start;
    let period = i64::try_from(config.period.as_millis()).unwrap_or(1000).max(1);
    let mut future = Future::new(snapshot, options, &config.profile, start);
    let mut result = Forecast { notes, ..Forecast::default() };
    loop {
        let plan = future.run_cycle(&mut result);
        let next = future.time_of_next_cycle(&plan, period);
        let end = start.0.saturating_add(millis(options.horizon));
        result.is_at_rest = next.is_none() && result.search_stopped_at.is_none();
        let next = next.filter(|next| next.0 <= end && result.cycles < options.cycles_max);
        let Some(next) = next else {
            future.finish(&plan, &mut result);
            break;
        };
        future.advance(next, &mut result);
    }
    result.unschedulable = unschedulable_pods(&unschedulable);
    result
}

/// The state of a cluster that is played on.
struct Future {
    snapshot: Snapshot,
    /// What changed in the snapshot since the last cycle.
    changes: SnapshotChanges,
    /// What the last cycle derived from the snapshot.
    kept: KeptSession,
    memory: SearchMemory,
    profile: Profile,
    start: Time,
    lifecycles: Vec<PodLifecycle>,
    /// Pods that replace evicted ones.
    replacements: BTreeSet<PodId>,
    /// Pods that leave or end, by time.
    departures: BTreeSet<(Time, PodId)>,
    /// When each pod leaves or ends; `None`: never.
    departure_of: Vec<Option<Time>>,
    first_usage: BTreeMap<QueueId, QueueUsage>,
}

/// Observes whether an action of a cycle simulated as many evictions as the profile allows.
#[derive(Default)]
struct SearchLimitObserver {
    is_limited: bool,
}

impl CycleObserver for SearchLimitObserver {
    fn on_action_start(&mut self, _: Action, _: &Session<'_>) {}

    fn on_action_end(&mut self, _: Action, session: &Session<'_>) {
        self.is_limited |= session.is_search_limited();
    }
}

impl Future {
    fn new(snapshot: Snapshot, options: &ForecastOptions, profile: &Profile, start: Time) -> Self {
        let lifecycle = |pod: &schedlab_scheduler_core::model::Pod| {
            if options.lifecycles.is_empty() {
                return PodLifecycle::default();
            }
            let key = (pod.namespace.to_string(), pod.name.to_string());
            options.lifecycles.get(&key).copied().unwrap_or_default()
        };
        let lifecycles = snapshot.pods.iter().map(lifecycle).collect();
        let pods = snapshot.pods.len();
        let mut future = Self {
            snapshot,
            changes: SnapshotChanges::everything(),
            kept: KeptSession::default(),
            memory: SearchMemory::default(),
            profile: profile.clone(),
            start,
            lifecycles,
            replacements: BTreeSet::new(),
            departures: BTreeSet::new(),
            departure_of: vec![None; pods],
            first_usage: BTreeMap::new(),
        };
        for id in 0..future.snapshot.pods.len() {
            let pod = &future.snapshot.pods[id];
            let lives = future.lifecycles[id];
            let id = PodId(u32::try_from(id).unwrap_or(u32::MAX));
            match pod.status {
                PodStatus::Running | PodStatus::Bound => {
                    let since = pod.started.unwrap_or(start);
                    future.end_after(id, since, lives.run_time);
                }
                PodStatus::Releasing => {
                    let since = pod.releasing_since.unwrap_or(start);
                    future.end_after(id, since, Some(lives.termination));
                }
                PodStatus::Pending
                | PodStatus::Gated
                | PodStatus::OnExcludedNode
                | PodStatus::Succeeded
                | PodStatus::Failed => {}
            }
        }
        future
    }

    fn end_after(&mut self, pod: PodId, since: Time, time: Option<Duration>) {
        let Some(time) = time else { return };
        // What should have ended before the start ends soon after it.
        let at = since.0.saturating_add(millis(time)).max(self.start.0.saturating_add(1));
        self.departures.insert((Time(at), pod));
        self.departure_of[pod.0 as usize] = Some(Time(at));
    }

    /// Runs a cycle and applies its plan.
    fn run_cycle(&mut self, result: &mut Forecast) -> Plan {
        let mut observer = SearchLimitObserver::default();
        let plan = schedule_kept(
            &mut self.kept,
            &mut self.memory,
            &std::mem::take(&mut self.changes),
            &self.snapshot,
            &self.profile,
            &mut observer,
        );
        if observer.is_limited && result.search_stopped_at.is_none() {
            result.search_stopped_at = self.profile.victim_search.simulations_max();
            self.profile.victim_search = VictimSearch::Nothing;
        }
        if result.cycles == 0 {
            self.first_usage.clone_from(&plan.queues);
        }
        result.cycles += 1;
        result.elapsed = self.elapsed();
        for (group, is_stale) in &plan.staleness_changes {
            let now = self.snapshot.now;
            self.snapshot.pod_groups[group.0 as usize].stale_since = is_stale.then_some(now);
            self.changes.groups.insert(*group);
        }
        for decision in &plan.decisions {
            match decision {
                Decision::Bind { pod, node } => {
                    result.starts.push(self.pod_start(*pod, *node));
                    self.bind(*pod, *node, &plan);
                }
                Decision::Evict { pod, cause } => {
                    let at = &self.snapshot.pods[pod.0 as usize];
                    let node = at.node.map(|node| self.node_name(node)).unwrap_or_default();
                    result.evictions.push(PodEviction {
                        pod: self.named_pod(*pod),
                        node,
                        after: self.elapsed(),
                        preemptor: cause.preemptor().map(|group| group_name(&self.snapshot, group)),
                        action: cause.kai_action_name(),
                        is_replaced: self.lifecycles[pod.0 as usize].is_replaced,
                    });
                    self.evict(*pod);
                }
                Decision::Pipeline { .. } => {}
            }
        }
        plan
    }

    /// Records that the pod, and so its group, changed since the last cycle.
    fn pod_changed(&mut self, id: PodId) -> Option<PodGroupId> {
        self.changes.pods.insert(id);
        let group = self.snapshot.pods[id.0 as usize].group;
        self.changes.groups.extend(group);
        group
    }

    fn bind(&mut self, id: PodId, node: NodeId, plan: &Plan) {
        let now = self.snapshot.now;
        let pod = &mut self.snapshot.pods[id.0 as usize];
        (pod.status, pod.node, pod.started) = (PodStatus::Running, Some(node), Some(now));
        pod.gpu_groups = plan.gpu_groups.get(&id).cloned().unwrap_or_default();
        pod.numa_allocations = plan.numa_allocations.get(&id).cloned().unwrap_or_default();
        pod.nominated_node = None;
        if let Some(group) = self.pod_changed(id) {
            let group = &mut self.snapshot.pod_groups[group.0 as usize];
            group.last_start = group.last_start.or(Some(now));
        }
        self.end_after(id, now, self.lifecycles[id.0 as usize].run_time);
    }

    fn evict(&mut self, id: PodId) {
        let now = self.snapshot.now;
        let pod = &mut self.snapshot.pods[id.0 as usize];
        (pod.status, pod.releasing_since) = (PodStatus::Releasing, Some(now));
        if let Some(group) = self.pod_changed(id) {
            self.snapshot.pod_groups[group.0 as usize].last_eviction = Some(now);
        }
        // It does not end by itself any more.
        if let Some(at) = self.departure_of[id.0 as usize].take() {
            self.departures.remove(&(at, id));
        }
        self.end_after(id, now, Some(self.lifecycles[id.0 as usize].termination));
    }

    /// When the next cycle runs; `None` if nothing changes any more.
    fn time_of_next_cycle(&self, plan: &Plan, period: i64) -> Option<Time> {
        let now = self.snapshot.now.0;
        let earliest = now.saturating_add(period);
        let changes = plan.decisions.iter().any(|it| !matches!(it, Decision::Pipeline { .. }));
        let after_plan = (changes || !plan.staleness_changes.is_empty()).then_some(earliest);
        let departure = self.departures.first().map(|(time, _)| time.0.max(earliest));
        let requeue = plan.requeue_after_millis.and_then(|after| i64::try_from(after).ok());
        let requeue = requeue.map(|after| now.saturating_add(after).max(earliest));
        after_plan.into_iter().chain(departure).chain(requeue).min().map(Time)
    }

    /// Moves the time on, and lets pods end and leave.
    fn advance(&mut self, to: Time, result: &mut Forecast) {
        while let Some((at, pod)) = self.departures.first().copied().filter(|(at, _)| *at <= to) {
            self.departures.remove(&(at, pod));
            self.departure_of[pod.0 as usize] = None;
            self.snapshot.now = at;
            self.end(pod, result);
        }
        self.snapshot.now = to;
    }

    fn end(&mut self, id: PodId, result: &mut Forecast) {
        let now = self.snapshot.now;
        let is_replaced = self.lifecycles[id.0 as usize].is_replaced;
        let pod = &mut self.snapshot.pods[id.0 as usize];
        let was_evicted = pod.status == PodStatus::Releasing;
        pod.status = match (was_evicted, is_replaced) {
            (true, true) => PodStatus::Pending,
            (true, false) => PodStatus::Failed,
            (false, _) => PodStatus::Succeeded,
        };
        (pod.node, pod.started, pod.releasing_since) = (None, None, None);
        pod.gpu_groups.clear();
        pod.numa_allocations.clear();
        if was_evicted && is_replaced {
            pod.created = now;
            self.replacements.insert(id);
            let uid = &pod.uid;
            let group = pod.group.map(|group| &mut self.snapshot.pod_groups[group.0 as usize]);
            // Each pod of a Deployment has a group of its own, which the new pod gets as well.
            if let Some(group) = group.filter(|group| group.name.contains(&**uid)) {
                (group.created, group.last_start, group.last_eviction) = (now, None, None);
            }
        }
        if !was_evicted {
            result.ended += 1;
        }
        self.pod_changed(id);
        let shape = self.snapshot.pods[id.0 as usize].shape;
        if !self.snapshot.shapes[shape.0 as usize].claims.is_empty() {
            release_claims(&mut self.snapshot, &[id]);
            self.changes = SnapshotChanges::everything();
        }
    }

    /// Records what is left at the end.
    fn finish(&self, plan: &Plan, result: &mut Forecast) {
        let pipelined = plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Pipeline { pod, node } => Some(self.pod_start(*pod, *node)),
            Decision::Bind { .. } | Decision::Evict { .. } => None,
        });
        result.pipelined = pipelined.collect();
        result.waiting = waiting_groups(&self.snapshot, plan);
        let queue = |(id, usage): (&QueueId, &QueueUsage)| QueueForecast {
            name: self.snapshot.queues[id.0 as usize].name.to_string(),
            fair_share: usage.fair_share.gpu,
            used_before: self.first_usage.get(id).map_or(0, |first| first.allocated.gpu_milli),
            used_after: plan.queues_after.get(id).map_or(0, |after| after.allocated.gpu_milli),
        };
        result.queues = plan.queues.iter().map(queue).collect();
        let queues = plan.queues_after.iter();
        let top = queues.filter(|(id, _)| self.snapshot.queues[id.0 as usize].parent.is_none());
        result.gpus_used_after = top.map(|(_, after)| after.allocated.gpu_milli).sum();
    }

    fn pod_start(&self, pod: PodId, node: NodeId) -> PodStart {
        PodStart {
            pod: self.named_pod(pod),
            node: self.node_name(node),
            after: self.elapsed(),
            is_replacement: self.replacements.contains(&pod),
        }
    }

    fn named_pod(&self, id: PodId) -> ForecastPod {
        let pod = &self.snapshot.pods[id.0 as usize];
        let group = pod.group.map(|group| &self.snapshot.pod_groups[group.0 as usize]);
        let queue = group.and_then(schedlab_scheduler_core::model::PodGroup::queue_id);
        let queue = queue.map(|queue| self.snapshot.queues[queue.0 as usize].name.to_string());
        ForecastPod {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            group: group.map(|group| group.name.to_string()).unwrap_or_default(),
            queue: queue.unwrap_or_default(),
            gpu_milli: self.snapshot.shapes[pod.shape.0 as usize].requests.gpu_milli,
        }
    }

    fn node_name(&self, node: NodeId) -> String {
        self.snapshot.nodes[node.0 as usize].name.to_string()
    }

    fn elapsed(&self) -> Duration {
        let millis = self.snapshot.now.0.saturating_sub(self.start.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
