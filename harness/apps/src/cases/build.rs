//! Converts a case to the core's snapshot and profile.

mod claims;
mod numa_zones;
mod queues;

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler::{
    Config,
    snapshot_file::{SnapshotFileError, apply_kai_configuration},
};
use schedlab_scheduler_core::{
    Snapshot,
    model::{
        DeviceClaim, FractionalGpu, GpuFraction, LabelSelector, Name, Node, NodeId,
        NodeSelectorTerm, Operator, Pod, PodAffinityTerm, PodGroup, PodGroupId, PodShape,
        PodStatus, PreemptionPolicy, QueueId, QueueProblem, Requirement, ShapeId, StalenessGrace,
        SubGroup, Time, Topology, TopologyConstraint, TopologyLevel, VolumeAccess, VolumeClaim,
        VolumeProblem,
    },
    resources::{Amount, Resources},
};

pub(super) use numa_zones::{NumaZoneAmounts, numa_shares as zone_shares};

use super::format::{
    ActionName, Case, ConstraintSpec, Gang, Job, NodeSpec, Preemptibility, State, Task,
    TopologySpec,
};

const START: Time = Time(1_767_225_600_000);
/// The node label that required affinities of cases select.
const TYPE_LABEL: &str = "kai.scheduler/type";
/// Allocatable pods per node in the recordings.
const PODS_PER_NODE: i64 = 500;

/// The snapshot of a case. Pods and groups are in the order of the case's tasks and jobs, not by
/// name.
pub(super) fn snapshot(case: &Case) -> Snapshot {
    let mut snapshot = Snapshot { now: START, ..Snapshot::default() };
    snapshot.nodes = case.cluster.nodes.iter().map(|spec| node(case, spec)).collect();
    snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot.topologies = case.cluster.topologies.iter().map(topology).collect();
    let queues = queues::queue_tree(&case.queues);
    snapshot.queues = queues.usable;
    for (job, at) in case.jobs.iter().zip(0..) {
        let queue = queues.by_job_queue.get(job.queue.as_str()).cloned();
        let queue = queue.unwrap_or_else(|| Err(QueueProblem::Missing { queue: name(&job.queue) }));
        snapshot.pod_groups.push(pod_group(job, queue.map(Some)));
        for task in &job.tasks {
            let shape = shape(&mut snapshot, case, job, task);
            let pod = pod(&snapshot, job, PodGroupId(at), task, shape);
            snapshot.pods.push(pod);
        }
    }
    snapshot
}

/// The scheduler's configuration of a case: KAI's as recorded, with the test settings of the
/// recordings: unlimited consolidation victims, and no staleness grace except in cases that run
/// only that action.
///
/// # Errors
/// The configuration is not in KAI's format.
pub(super) fn config(case: &Case) -> Result<Config, SnapshotFileError> {
    let mut config = Config::kai();
    apply_kai_configuration(case.configuration(), &mut config)?;
    let grace = if case.actions == [ActionName::StaleGangEviction] { 60 } else { 0 };
    config.profile.consolidation_victims_max = usize::MAX;
    config.profile.staleness_grace = Duration::from_secs(grace);
    Ok(config)
}

/// Settings of the case that are ignored.
pub(super) fn ignored_settings(case: &Case) -> Vec<String> {
    apply_kai_configuration(case.configuration(), &mut Config::kai()).unwrap_or_default()
}

fn node(case: &Case, spec: &NodeSpec) -> Node {
    let mut allocatable = resources(&spec.allocatable);
    allocatable.pods = PODS_PER_NODE;
    claims::add_slices(case, &spec.name, &mut allocatable);
    let labels = spec.labels.iter().map(|(key, value)| (name(key), name(value)));
    Node {
        name: name(&spec.name),
        labels: labels.collect(),
        allocatable,
        gpus_via_dra: claims::has_gpus(case, &spec.name),
        numa: spec.numa.as_ref().map(numa_zones::numa_topology),
        gpu_memory_mib: spec.gpu_memory_mib,
        ready: true,
        ..Node::default()
    }
}

fn topology(spec: &TopologySpec) -> Topology {
    let levels = spec.levels.iter().map(|level| TopologyLevel {
        label: name(&level.node_label),
        alias: level.alias.as_deref().map(name),
    });
    Topology { name: name(&spec.name), levels: levels.collect() }
}

fn pod_group(job: &Job, queue: Result<Option<QueueId>, QueueProblem>) -> PodGroup {
    let ago = |seconds: i64| Time(START.0 - seconds * 1000);
    let mut sub_groups = Vec::new();
    add_sub_groups(&job.gang, None, &mut sub_groups);
    PodGroup {
        namespace: name(&job.namespace),
        name: name(&job.name),
        uid: name(&job.name),
        queue,
        priority: job.priority,
        preemptible: job.preemptibility == Preemptibility::Preemptible,
        sub_groups,
        min_sub_group: job.gang.min_sub_group,
        topology: job.gang.topology_constraint.as_ref().map(constraint),
        created: ago(job.age_s),
        last_start: job.running_for_s.map(ago),
        last_eviction: None,
        stale_since: job.stale_for_s.map(ago),
        staleness_grace: job.staleness_grace_period_s.map(|seconds| {
            u64::try_from(seconds).map_or(StalenessGrace::Never, |seconds| {
                StalenessGrace::After(Duration::from_secs(seconds))
            })
        }),
        preemption_delay: Duration::from_secs(job.preemption_delay_s),
        is_skipped: false,
        evicted_together: false,
        unschedulable_members: Vec::new(),
    }
}

fn add_sub_groups(gang: &Gang, parent: Option<usize>, all: &mut Vec<SubGroup>) {
    for set in &gang.pod_sets {
        let (name, min_member) = (name(&set.name), set.min_available);
        let topology = set.topology_constraint.as_ref().map(constraint);
        all.push(SubGroup { name, min_member, parent, min_sub_group: None, topology });
    }
    for inner in &gang.sub_groups {
        let (name, min_sub_group) = (name(&inner.name), inner.min_sub_group);
        let topology = inner.topology_constraint.as_ref().map(constraint);
        all.push(SubGroup { name, min_member: 0, parent, min_sub_group, topology });
        let at = all.len() - 1;
        add_sub_groups(inner, Some(at), all);
    }
}

fn constraint(spec: &ConstraintSpec) -> TopologyConstraint {
    let level = |level: &Option<String>| level.as_deref().map(name);
    TopologyConstraint {
        topology: name(&spec.topology),
        required: level(&spec.required_level),
        preferred: level(&spec.preferred_level),
    }
}

fn shape(snapshot: &mut Snapshot, case: &Case, job: &Job, task: &Task) -> ShapeId {
    let mut requests = resources(&task.request);
    let shared_gpu = shared_gpu(task);
    if shared_gpu.is_some() {
        requests.gpu_milli = 0;
    }
    let claims = claims::task_claims(case, job, task);
    if claims.iter().any(DeviceClaim::is_gpu) {
        requests.gpu_milli = 0;
    }
    let shape = PodShape {
        requests,
        guaranteed: job.qos_class == "Guaranteed",
        fractional_gpu: shared_gpu,
        legacy_mig: task.legacy_mig,
        claims,
        volumes: task.pvc_names.iter().map(|volume| missing_volume(volume)).collect(),
        node_affinity: (!task.required_node_affinity_in.is_empty()).then(|| vec![affinity(task)]),
        pod_affinity: affinity_to_like(task, task.pod_affinity_topology_key.as_deref()),
        pod_anti_affinity: affinity_to_like(task, task.pod_anti_affinity_topology_key.as_deref()),
        ..PodShape::default()
    };
    let known = snapshot.shapes.iter().position(|other| *other == shape);
    let at = known.unwrap_or_else(|| {
        snapshot.shapes.push(shape);
        snapshot.shapes.len() - 1
    });
    ShapeId(u32::try_from(at).expect("a case has few shapes"))
}

fn shared_gpu(task: &Task) -> Option<FractionalGpu> {
    let fraction = task.gpu_fraction.map(|part| GpuFraction::Milli(whole(part * 1000.0)));
    let part = fraction.or_else(|| task.gpu_memory_mib.map(GpuFraction::MemoryMib))?;
    Some(FractionalGpu { fraction: part, devices: task.gpu_fraction_devices.unwrap_or(1).max(1) })
}

/// No case has a volume claim; pods only name missing ones.
fn missing_volume(volume: &str) -> VolumeClaim {
    let access = VolumeAccess::Unavailable(VolumeProblem::Missing);
    VolumeClaim { name: name(volume), is_exclusive: false, attached_volume: None, access }
}

fn affinity(task: &Task) -> NodeSelectorTerm {
    let values = task.required_node_affinity_in.iter().map(|value| name(value)).collect();
    let requirement = Requirement { key: name(TYPE_LABEL), operator: Operator::In, values };
    NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() }
}

/// A term that selects the task's own labels.
fn affinity_to_like(task: &Task, topology_key: Option<&str>) -> Vec<PodAffinityTerm> {
    let requirements = task.labels.iter().map(|(key, value)| Requirement {
        key: name(key),
        operator: Operator::In,
        values: vec![name(value)],
    });
    let selector = Some(LabelSelector { requirements: requirements.collect() });
    let term = |key| PodAffinityTerm { selector, namespaces: None, topology_key: name(key) };
    topology_key.map(term).into_iter().collect()
}

fn pod(snapshot: &Snapshot, job: &Job, group: PodGroupId, task: &Task, shape: ShapeId) -> Pod {
    let (status, released_since) = match task.state {
        State::Pending | State::Pipelined => (PodStatus::Pending, None),
        State::Gated => (PodStatus::Gated, None),
        State::Running => (PodStatus::Running, None),
        State::Bound | State::Binding | State::Allocated => (PodStatus::Bound, None),
        State::Releasing => (PodStatus::Releasing, Some(START)),
        State::StuckInReleasing => (PodStatus::Releasing, Some(Time(START.0 - 600_000))),
        State::Succeeded => (PodStatus::Succeeded, None),
        State::Failed | State::Deleted => (PodStatus::Failed, None),
    };
    let node = task.node.as_deref().and_then(|node| node_id(snapshot, node));
    let (node, nominated) =
        if task.state == State::Pipelined { (None, node) } else { (node, None) };
    let sub_group = task.subgroup.as_deref().unwrap_or("default");
    let sub_groups = &snapshot.pod_groups[group.0 as usize].sub_groups;
    let label = task.priority_label.as_ref();
    Pod {
        namespace: name(&job.namespace),
        name: name(&task.id),
        uid: name(&task.id),
        labels: task.labels.iter().map(|(key, value)| (name(key), name(value))).collect(),
        group: Some(group),
        sub_group: sub_groups.iter().position(|sub| &*sub.name == sub_group).unwrap_or(0),
        shape,
        priority: job.priority,
        preemption_policy: PreemptionPolicy::default(),
        status,
        node,
        own_claims: Vec::new(),
        gpu_groups: if status == PodStatus::Pending && nominated.is_none() {
            Vec::new()
        } else {
            task.gpu_groups.iter().map(|group| name(group)).collect()
        },
        numa_allocations: numa_zones::numa_shares(task),
        nominated_node: nominated,
        task_priority: label.and_then(|label| {
            let text = label.as_str().map_or_else(|| label.to_string(), str::to_owned);
            text.parse().ok()
        }),
        leader_role: None,
        created: START,
        started: None,
        releasing_since: released_since,
        binding_failed: false,
    }
}

fn node_id(snapshot: &Snapshot, node: &str) -> Option<NodeId> {
    let at = snapshot.nodes.iter().position(|other| &*other.name == node)?;
    u32::try_from(at).ok().map(NodeId)
}

fn resources(amounts: &BTreeMap<String, f64>) -> Resources {
    let mut resources = Resources::default();
    for (key, value) in amounts {
        match key.as_str() {
            "gpus" => resources.gpu_milli = whole(value * 1000.0),
            "cpu_millis" => resources.cpu_milli = whole(*value),
            "memory_bytes" => resources.memory_bytes = whole(*value),
            "pods" => resources.pods = whole(*value),
            other => {
                resources.extended.insert(name(other), whole(*value));
            }
        }
    }
    resources
}

/// -1 means unlimited.
fn amount(value: f64, unit: f64) -> Amount {
    if value < 0.0 { Amount::Unlimited } else { Amount::Exactly(whole(value * unit)) }
}

fn name(text: &str) -> Name {
    text.into()
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, as recorded maxima should")]
fn whole(value: f64) -> i64 {
    value.round() as i64
}
