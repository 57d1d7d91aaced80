//! Replays cycles over a snapshot file, and prints plans and reasons. The cluster is closed: no
//! pods arrive or finish; an evicted pod waits again in the next cycle. [`forecast`] plays a cluster on
//! in more detail.

pub mod forecast;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{Read, Seek},
};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    inspect::run_cycle,
    model::{DeviceClaim, Name, NodeId, Pod, PodGroup, PodGroupId, PodId, PodStatus, Time},
};

use crate::{
    cache::ClusterCache,
    podgrouper,
    records::ObjectKey,
    snapshot_builder::{BuiltSnapshot, SnapshotBuilder, UnschedulableReason},
    snapshot_file::{LoadedSnapshot, Overrides, SnapshotFileError, read_snapshot},
};

/// The result of a replay. As text: plans and pending reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The scheduler whose pods were scheduled.
    pub scheduler_name: String,
    /// Number of nodes that the scheduler uses.
    pub nodes: usize,
    /// Number of valid queues.
    pub queues: usize,
    /// Number of pod groups.
    pub pod_groups: usize,
    /// Notes on settings without effect and on unusable objects.
    pub notes: Vec<String>,
    /// The decisions of each cycle.
    pub cycles: Vec<Vec<ReplayedDecision>>,
    /// The pod groups that are pending after the last cycle, with the reason.
    pub waiting: Vec<WaitingGroup>,
    /// Pods that cannot be scheduled as they are.
    pub unschedulable: Vec<UnschedulablePod>,
    /// Whether a cycle ended its searches for pods to evict early, as the profile limits their
    /// number: some of the pending pod groups may evict others.
    pub is_search_limited: bool,
    /// All pods, as they were before the last cycle.
    pub pods: Vec<ReplayedPod>,
}

/// A decision of a replayed cycle. Pods and pod groups are written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayedDecision {
    /// The pod is bound to a node.
    Bind {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// The pod will be bound to a node when evicted pods have left it.
    Pipeline {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// The pod is evicted.
    Evict {
        /// The pod.
        pod: String,
        /// The pod group that it makes room for.
        preemptor: Option<String>,
        /// KAI's name of the action that evicts.
        action: &'static str,
    },
}

/// A pending pod group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingGroup {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its queue, if that exists.
    pub queue: Option<String>,
    /// Number of its pending pods.
    pub pods: usize,
    /// The code of the reason, such as `OverLimit`.
    pub code: &'static str,
    /// The reason as text.
    pub message: String,
    /// What would let it run.
    pub remedy: String,
}

/// A pod that cannot be scheduled as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulablePod {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// Why it cannot be scheduled.
    pub message: String,
    /// What to change.
    pub remedy: String,
}

/// A pod at the end of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its pod group.
    pub group: Option<String>,
    /// The queue of its pod group.
    pub queue: Option<String>,
    /// Its node.
    pub node: Option<String>,
    /// Whether it waits for a node.
    pub is_pending: bool,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}, {}, {}, scheduler {}",
            count_text(self.nodes, "node"),
            count_text(self.queues, "queue"),
            count_text(self.pod_groups, "pod group"),
            count_text(self.pods.len(), "pod"),
            self.scheduler_name
        )?;
        if !self.notes.is_empty() {
            f.write_str("\nnotes on the snapshot\n")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))?;
        for (at, decisions) in self.cycles.iter().enumerate() {
            writeln!(f, "\ncycle {}", at + 1)?;
            if decisions.is_empty() {
                f.write_str("  no decisions\n")?;
            }
            decisions.iter().try_for_each(|decision| writeln!(f, "  {decision}"))?;
        }
        f.write_str(if self.waiting.is_empty() {
            "\nno pod group waits\n"
        } else {
            "\nwaiting\n"
        })?;
        self.waiting.iter().try_for_each(|group| writeln!(f, "  {group}"))?;
        if !self.unschedulable.is_empty() {
            f.write_str("\nunschedulable pods\n")?;
        }
        for UnschedulablePod { pod, message, remedy } in &self.unschedulable {
            writeln!(f, "  {pod}: {message}\n    remedy: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ReplayedDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { pod, node } => write!(f, "bind {pod} to {node}"),
            Self::Pipeline { pod, node } => write!(f, "pipeline {pod} to {node}"),
            Self::Evict { pod, preemptor, action } => {
                let preemptor = preemptor.as_ref().map(|group| format!(" for {group}"));
                write!(f, "evict {pod}{} ({action})", preemptor.unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for WaitingGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, code, message, remedy, .. } = self;
        let pods = count_text(self.pods, "pod");
        write!(f, "{namespace}/{name} ({pods}): {code}: {message}\n    remedy: {remedy}")
    }
}

/// Replays at most `cycles` cycles of a snapshot file; stops after a cycle without decisions.
///
/// # Errors
/// The file is no valid snapshot.
pub fn replay(
    file: impl Read + Seek,
    overrides: &Overrides,
    cycles: u32,
) -> Result<String, SnapshotFileError> {
    Ok(replay_loaded(read_snapshot(file, overrides)?, cycles).to_string())
}

/// Replays at most `cycles` cycles over a loaded snapshot; stops after a cycle without decisions.
pub fn replay_loaded(loaded: LoadedSnapshot, cycles: u32) -> Replay {
    let LoadedSnapshot { config, mut cache, mut notes } = loaded;
    podgrouper::record_faults(&mut cache);
    let mut builder = SnapshotBuilder::from_config(&config);
    builder.refresh(&mut cache);
    let BuiltSnapshot { mut snapshot, mut unschedulable } = builder.built;
    snapshot.now = cache.time_after_last_event();
    let unjudged = cache.resource_claims.unevaluable_selectors(&cache.pods).into_iter();
    notes.extend(unjudged.map(|(pod, fault)| format!("Pod {pod}: {fault}")));
    let mut decided = Vec::new();
    let mut waiting = Vec::new();
    let mut is_search_limited = false;
    for cycle in 1..=cycles {
        let (statement, plan) = run_cycle(&snapshot, &config.profile, &mut ());
        is_search_limited |= statement.is_search_limited();
        drop(statement);
        decided.push(replayed_decisions(&snapshot, &plan));
        if cycle == cycles || plan.decisions.is_empty() {
            waiting = waiting_groups(&snapshot, &plan);
            break;
        }
        apply_and_advance(&mut snapshot, &plan, config.period.as_millis());
        release_claims(&mut snapshot, &evicted_pods(&plan));
        unschedulable.extend(drop_malformed_evicted(&mut snapshot, &plan, &cache));
    }
    Replay {
        scheduler_name: config.scheduler_name,
        nodes: snapshot.nodes.len(),
        queues: snapshot.queues.len(),
        pod_groups: snapshot.pod_groups.len(),
        notes,
        cycles: decided,
        waiting,
        unschedulable: unschedulable_pods(&unschedulable),
        is_search_limited,
        pods: replayed_pods(&snapshot),
    }
}

fn unschedulable_pods(reasons: &BTreeMap<ObjectKey, UnschedulableReason>) -> Vec<UnschedulablePod> {
    let pod = |(pod, reason): (&ObjectKey, &UnschedulableReason)| UnschedulablePod {
        pod: pod.to_string(),
        message: reason.to_string(),
        remedy: reason.remedy(),
    };
    reasons.iter().map(pod).collect()
}

fn replayed_decisions(snapshot: &Snapshot, plan: &Plan) -> Vec<ReplayedDecision> {
    let pod = |id: &PodId| {
        let pod = &snapshot.pods[id.0 as usize];
        format!("{}/{}", pod.namespace, pod.name)
    };
    let node = |id: &NodeId| snapshot.nodes[id.0 as usize].name.to_string();
    let decision = |decision: &Decision| match decision {
        Decision::Bind { pod: id, node: to } => {
            ReplayedDecision::Bind { pod: pod(id), node: node(to) }
        }
        Decision::Pipeline { pod: id, node: to } => {
            ReplayedDecision::Pipeline { pod: pod(id), node: node(to) }
        }
        Decision::Evict { pod: id, cause } => ReplayedDecision::Evict {
            pod: pod(id),
            preemptor: cause.preemptor().map(|group| group_name(snapshot, group)),
            action: cause.kai_action_name(),
        },
    };
    plan.decisions.iter().map(decision).collect()
}

fn replayed_pods(snapshot: &Snapshot) -> Vec<ReplayedPod> {
    let pod = |pod: &Pod| {
        let group = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]);
        let queue = group.and_then(PodGroup::queue_id);
        ReplayedPod {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            group: group.map(|group| group.name.to_string()),
            queue: queue.map(|queue| snapshot.queues[queue.0 as usize].name.to_string()),
            node: pod.node.map(|node| snapshot.nodes[node.0 as usize].name.to_string()),
            is_pending: pod.status == PodStatus::Pending,
        }
    };
    snapshot.pods.iter().map(pod).collect()
}

fn group_name(snapshot: &Snapshot, group: PodGroupId) -> String {
    let group = &snapshot.pod_groups[group.0 as usize];
    format!("{}/{}", group.namespace, group.name)
}

fn waiting_groups(snapshot: &Snapshot, plan: &Plan) -> Vec<WaitingGroup> {
    let mut counts: BTreeMap<PodGroupId, usize> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.status == PodStatus::Pending) {
        if let Some(group) = pod.group {
            *counts.entry(group).or_default() += 1;
        }
    }
    let waiting = |(id, reason): (&PodGroupId, &schedlab_scheduler_core::Reason)| {
        let group = &snapshot.pod_groups[id.0 as usize];
        let queue = group.queue_id().map(|queue| &snapshot.queues[queue.0 as usize]);
        let is_behind = plan.blocked_by_head_of_line.contains(id);
        WaitingGroup {
            namespace: group.namespace.to_string(),
            name: group.name.to_string(),
            queue: queue.map(|queue| queue.name.to_string()),
            pods: counts.get(id).copied().unwrap_or(0),
            code: reason.code(),
            message: reason.to_string(),
            remedy: reason.suggestion().text_with_queue_order(is_behind),
        }
    };
    plan.waiting.iter().map(waiting).collect()
}

/// A number with its noun, such as `1 pod` or `2 pods`.
fn count_text(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Applies the plan to the snapshot and advances its time by one period.
fn apply_and_advance(snapshot: &mut Snapshot, plan: &Plan, period_millis: u128) {
    let period = i64::try_from(period_millis).unwrap_or(1000);
    snapshot.now = Time(snapshot.now.0.saturating_add(period));
    for decision in &plan.decisions {
        let (id, status, node) = match decision {
            Decision::Bind { pod, node } => (pod, PodStatus::Running, Some(*node)),
            Decision::Evict { pod, .. } => (pod, PodStatus::Pending, None),
            Decision::Pipeline { .. } => continue,
        };
        let pod = &mut snapshot.pods[id.0 as usize];
        (pod.status, pod.node) = (status, node);
        pod.started = node.map(|_| snapshot.now);
        let groups = plan.gpu_groups.get(id).filter(|_| node.is_some());
        pod.gpu_groups = groups.cloned().unwrap_or_default();
        let zones = plan.numa_allocations.get(id).filter(|_| node.is_some());
        pod.numa_allocations = zones.cloned().unwrap_or_default();
        let Some(group) = pod.group.map(|group| &mut snapshot.pod_groups[group.0 as usize]) else {
            continue;
        };
        match node {
            Some(_) => group.last_start = group.last_start.or(Some(snapshot.now)),
            None => group.last_eviction = Some(snapshot.now),
        }
    }
}

/// Drops evicted pods that are malformed or belong to a malformed group, since such pods are not
/// scheduled again. Returns them with the reason.
fn drop_malformed_evicted(
    snapshot: &mut Snapshot,
    plan: &Plan,
    cache: &ClusterCache,
) -> BTreeMap<ObjectKey, UnschedulableReason> {
    let mut unschedulable = BTreeMap::new();
    for decision in &plan.decisions {
        let Decision::Evict { pod, .. } = decision else { continue };
        let pod = &mut snapshot.pods[pod.0 as usize];
        let Some(group) = pod.group.map(|group| &mut snapshot.pod_groups[group.0 as usize]) else {
            continue;
        };
        let key = |name: &Name| ObjectKey { namespace: pod.namespace.clone(), name: name.clone() };
        let own = cache.pods.get(&key(&pod.name)).and_then(|record| record.malformed.clone());
        let record = cache.groups.get(&key(&group.name));
        let of_group =
            record.and_then(|record| UnschedulableReason::for_malformed_group(&group.name, record));
        if let Some(reason) =
            own.map(UnschedulableReason::MalformedPod).or_else(|| of_group.clone())
        {
            if of_group.is_none() {
                let (name, part) = (Name::clone(&pod.name), Some(pod.sub_group));
                group
                    .unschedulable_members
                    .push(reason.unschedulable_member(name, part, pod.shape));
                group.unschedulable_members.sort_by(|a, b| a.pod.cmp(&b.pod));
            }
            unschedulable.insert(key(&pod.name), reason);
            pod.status = PodStatus::Failed;
        }
    }
    unschedulable
}

fn evicted_pods(plan: &Plan) -> Vec<PodId> {
    let evicted = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, .. } => Some(*pod),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    evicted.collect()
}

/// Releases claims that only these pods used, which have left, so that they can be allocated on any
/// node.
fn release_claims(snapshot: &mut Snapshot, pods: &[PodId]) {
    let left = pods.iter().map(|pod| &snapshot.pods[pod.0 as usize]);
    let claims_of = |pod: &Pod| snapshot.shapes[pod.shape.0 as usize].claims.iter();
    let is_alone = |claim: &&DeviceClaim| claim.reserved_for_others == 0;
    let mut unused: BTreeSet<Name> =
        left.flat_map(claims_of).filter(is_alone).map(|claim| claim.name.clone()).collect();
    if unused.is_empty() {
        return;
    }
    for pod in snapshot.pods.iter().filter(|pod| pod.node.is_some()) {
        for claim in claims_of(pod) {
            unused.remove(&claim.name);
        }
    }
    let claims = snapshot.shapes.iter_mut().flat_map(|shape| &mut shape.claims);
    for claim in claims.filter(|claim| unused.contains(&claim.name)) {
        claim.allocated_on = None;
    }
}

#[cfg(test)]
mod mistyped_tests;

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

    use schedlab_scheduler_core::EvictionCause;

    use super::*;
    use crate::config::Flavor;

    fn pod(name: &str, node: &str, cpu: &str) -> Value {
        json!({ "kind": "Pod",
                "metadata": { "namespace": "ns", "name": name, "uid": name,
                              "annotations": { "pod-group-name": "g" } },
                "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                          "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }],
                          "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] },
                "status": { "phase": "Running" } })
    }

    /// Two pods on n1 share a claim that is allocated there; then these pods are evicted.
    fn after_eviction(
        evicted: &[u32],
        group: &Value,
        cpu: &str,
    ) -> (Snapshot, BTreeMap<ObjectKey, UnschedulableReason>) {
        let name = |name: &str| json!({ "namespace": "ns", "name": name });
        let result = json!({ "request": "r", "driver": "gpu.x", "pool": "n1", "device": "gpu-0" });
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let user = |pod: &str| json!({ "resource": "pods", "name": pod, "uid": pod });
        let objects = [
            json!({ "kind": "Node", "metadata": { "name": "n1" } }),
            json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.x" }, "spec": {} }),
            json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
                "nodeName": "n1", "driver": "gpu.x", "devices": [{ "name": "gpu-0" }],
                "pool": { "name": "n1", "generation": 1 } } }),
            json!({ "kind": "ResourceClaim", "metadata": name("c"),
                    "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
                    "status": { "allocation": { "devices": { "results": [result] } },
                                "reservedFor": [user("a"), user("b")] } }),
            json!({ "kind": "PodGroup", "metadata": name("g"), "spec": group }),
            pod("a", "n1", cpu),
            pod("b", "n1", cpu),
        ];
        let mut cache = ClusterCache::from_objects(&objects);
        let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
        builder.refresh(&mut cache);
        let mut snapshot = builder.built.snapshot;
        let cause = EvictionCause::StaleGang { min_member: 1 };
        let evict = |pod: &u32| Decision::Evict { pod: PodId(*pod), cause: cause.clone() };
        let plan = Plan { decisions: evicted.iter().map(evict).collect(), ..Plan::default() };
        apply_and_advance(&mut snapshot, &plan, 1000);
        release_claims(&mut snapshot, &evicted_pods(&plan));
        let unschedulable = drop_malformed_evicted(&mut snapshot, &plan, &cache);
        (snapshot, unschedulable)
    }

    #[test]
    fn a_claim_is_released_with_its_last_evicted_pod() {
        let allocated = |evicted: &[u32]| {
            let (snapshot, _) = after_eviction(evicted, &json!({}), "1");
            let mut claims = snapshot.shapes.iter().flat_map(|shape| &shape.claims);
            claims.next().expect("they share one").allocated_on.clone()
        };
        assert_eq!(allocated(&[]).as_deref(), Some("n1"));
        assert_eq!(allocated(&[1]).as_deref(), Some("n1"));
        assert_eq!(allocated(&[0, 1]), None);
    }

    #[test]
    fn an_evicted_pod_waits_again_unless_it_or_its_group_is_malformed() {
        let after = |group: Value, cpu: &str| {
            let (snapshot, unschedulable) = after_eviction(&[0], &group, cpu);
            let output: Vec<String> = unschedulable.keys().map(ObjectKey::to_string).collect();
            let unusable = snapshot.pod_groups[0].unschedulable_members.len();
            (snapshot.pods[0].status, output.join(" "), unusable)
        };
        assert_eq!(after(json!({}), "1"), (PodStatus::Pending, String::new(), 0));
        let left_out = |unusable| (PodStatus::Failed, "ns/a".to_owned(), unusable);
        assert_eq!(
            after(json!({ "minMember": -1 }), "1"),
            left_out(0),
            "the group itself is reported"
        );
        assert_eq!(after(json!({}), "many"), left_out(1));
    }
}
