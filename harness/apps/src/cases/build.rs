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

pub(super) use numa_zones::{NumaZoneAmounts, numa_allocations_of_task as zone_shares};

use super::format::{
    ActionName, Case, ConstraintSpec, Gang, Job, NodeSpec, Preemptibility, Task, TaskState,
    TopologySpec,
};

const SNAPSHOT_TIME: Time = Time(1_767_225_600_000);
/// The label of nodes that the required node affinity of a case's tasks selects.
const NODE_TYPE_LABEL: &str = "kai.scheduler/type";
/// Allocatable pods per node in the recordings.
const PODS_PER_NODE: i64 = 500;

/// The snapshot of a case. Pods and groups are in the order of the case's tasks and jobs, not by
/// name.
pub(super) fn snapshot_of_case(case: &Case) -> Snapshot {
    let mut snapshot = Snapshot { now: SNAPSHOT_TIME, ..Snapshot::default() };
    snapshot.nodes = case.cluster.nodes.iter().map(|spec| node_from_spec(case, spec)).collect();
    snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot.topologies = case.cluster.topologies.iter().map(topology_from_spec).collect();
    let queues = queues::queue_tree(&case.queues);
    snapshot.queues = queues.usable;
    for (job, at) in case.jobs.iter().zip(0..) {
        let queue = queues.by_job_queue.get(job.queue.as_str()).cloned();
        let queue =
            queue.unwrap_or_else(|| Err(QueueProblem::Missing { queue: to_name(&job.queue) }));
        snapshot.pod_groups.push(pod_group_of_job(job, queue.map(Some)));
        for task in &job.tasks {
            let shape = pod_shape_id(&mut snapshot, case, job, task);
            let pod = pod_of_task(&snapshot, job, PodGroupId(at), task, shape);
            snapshot.pods.push(pod);
        }
    }
    snapshot
}

/// The scheduler configuration of a case: KAI's as recorded, with the settings of KAI's tests.
/// Consolidation may move any number of victims, and the staleness grace is zero, except in cases
/// whose only action is stale gang eviction.
///
/// # Errors
/// The configuration is not in KAI's format.
pub(super) fn scheduler_config_of_case(case: &Case) -> Result<Config, SnapshotFileError> {
    let mut config = Config::kai();
    apply_kai_configuration(case.kai_configuration(), &mut config)?;
    let grace = if case.actions == [ActionName::StaleGangEviction] { 60 } else { 0 };
    config.profile.consolidation_victims_max = usize::MAX;
    config.profile.staleness_grace = Duration::from_secs(grace);
    Ok(config)
}

/// Settings of the case's recorded KAI configuration that this scheduler ignores.
pub(super) fn ignored_settings(case: &Case) -> Vec<String> {
    apply_kai_configuration(case.kai_configuration(), &mut Config::kai()).unwrap_or_default()
}

fn node_from_spec(case: &Case, spec: &NodeSpec) -> Node {
    let mut allocatable = resources_from_amounts(&spec.allocatable);
    allocatable.pods = PODS_PER_NODE;
    claims::add_devices_of_slices(case, &spec.name, &mut allocatable);
    let labels = spec.labels.iter().map(|(key, value)| (to_name(key), to_name(value)));
    Node {
        name: to_name(&spec.name),
        labels: labels.collect(),
        allocatable,
        gpus_via_dra: claims::offers_gpus_via_claims(case, &spec.name),
        numa: spec.numa.as_ref().map(numa_zones::numa_topology),
        gpu_memory_mib: spec.gpu_memory_mib,
        ready: true,
        ..Node::default()
    }
}

fn topology_from_spec(spec: &TopologySpec) -> Topology {
    let levels = spec.levels.iter().map(|level| TopologyLevel {
        label: to_name(&level.node_label),
        alias: level.alias.as_deref().map(to_name),
    });
    Topology { name: to_name(&spec.name), levels: levels.collect() }
}

fn pod_group_of_job(job: &Job, queue: Result<Option<QueueId>, QueueProblem>) -> PodGroup {
    let ago = |seconds: i64| Time(SNAPSHOT_TIME.0 - seconds * 1000);
    let mut sub_groups = Vec::new();
    add_sub_groups(&job.gang, None, &mut sub_groups);
    PodGroup {
        namespace: to_name(&job.namespace),
        name: to_name(&job.name),
        uid: to_name(&job.name),
        queue,
        priority: job.priority,
        preemptible: job.preemptibility == Preemptibility::Preemptible,
        sub_groups,
        min_sub_group: job.gang.min_sub_group,
        topology: job.gang.topology_constraint.as_ref().map(topology_constraint_from_spec),
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

fn add_sub_groups(gang: &Gang, parent: Option<usize>, sub_groups: &mut Vec<SubGroup>) {
    for set in &gang.pod_sets {
        let (name, min_member) = (to_name(&set.name), set.min_available);
        let topology = set.topology_constraint.as_ref().map(topology_constraint_from_spec);
        sub_groups.push(SubGroup { name, min_member, parent, min_sub_group: None, topology });
    }
    for inner in &gang.sub_groups {
        let (name, min_sub_group) = (to_name(&inner.name), inner.min_sub_group);
        let topology = inner.topology_constraint.as_ref().map(topology_constraint_from_spec);
        sub_groups.push(SubGroup { name, min_member: 0, parent, min_sub_group, topology });
        let at = sub_groups.len() - 1;
        add_sub_groups(inner, Some(at), sub_groups);
    }
}

fn topology_constraint_from_spec(spec: &ConstraintSpec) -> TopologyConstraint {
    let level = |level: &Option<String>| level.as_deref().map(to_name);
    TopologyConstraint {
        topology: to_name(&spec.topology),
        required: level(&spec.required_level),
        preferred: level(&spec.preferred_level),
    }
}

fn pod_shape_id(snapshot: &mut Snapshot, case: &Case, job: &Job, task: &Task) -> ShapeId {
    let mut requests = resources_from_amounts(&task.request);
    let shared_gpu = requested_gpu_fraction(task);
    if shared_gpu.is_some() {
        requests.gpu_milli = 0;
    }
    let claims = claims::task_claims(case, job, task);
    if claims.iter().any(DeviceClaim::claims_gpus) {
        requests.gpu_milli = 0;
    }
    let shape = PodShape {
        requests,
        guaranteed: job.qos_class == "Guaranteed",
        fractional_gpu: shared_gpu,
        legacy_mig: task.legacy_mig,
        claims,
        volumes: task.pvc_names.iter().map(|volume| missing_volume_claim(volume)).collect(),
        node_affinity: (!task.required_node_affinity_in.is_empty())
            .then(|| vec![required_node_affinity_term(task)]),
        pod_affinity: own_labels_affinity_terms(task, task.pod_affinity_topology_key.as_deref()),
        pod_anti_affinity: own_labels_affinity_terms(
            task,
            task.pod_anti_affinity_topology_key.as_deref(),
        ),
        ..PodShape::default()
    };
    let known = snapshot.shapes.iter().position(|other| *other == shape);
    let at = known.unwrap_or_else(|| {
        snapshot.shapes.push(shape);
        snapshot.shapes.len() - 1
    });
    ShapeId(u32::try_from(at).expect("a case has few shapes"))
}

fn requested_gpu_fraction(task: &Task) -> Option<FractionalGpu> {
    let fraction = task.gpu_fraction.map(|part| GpuFraction::Milli(round_to_i64(part * 1000.0)));
    let part = fraction.or_else(|| task.gpu_memory_mib.map(GpuFraction::MemoryMib))?;
    Some(FractionalGpu { fraction: part, devices: task.gpu_fraction_devices.unwrap_or(1).max(1) })
}

/// A claim for a volume that does not exist. Cases name volume claims but define none.
fn missing_volume_claim(volume: &str) -> VolumeClaim {
    let access = VolumeAccess::Unavailable(VolumeProblem::Missing);
    VolumeClaim { name: to_name(volume), is_exclusive: false, attached_volume: None, access }
}

fn required_node_affinity_term(task: &Task) -> NodeSelectorTerm {
    let values = task.required_node_affinity_in.iter().map(|value| to_name(value)).collect();
    let requirement = Requirement { key: to_name(NODE_TYPE_LABEL), operator: Operator::In, values };
    NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() }
}

/// Pod affinity terms that select pods with the task's own labels; none without a topology key.
fn own_labels_affinity_terms(task: &Task, topology_key: Option<&str>) -> Vec<PodAffinityTerm> {
    let requirements = task.labels.iter().map(|(key, value)| Requirement {
        key: to_name(key),
        operator: Operator::In,
        values: vec![to_name(value)],
    });
    let selector = Some(LabelSelector { requirements: requirements.collect() });
    let term = |key| PodAffinityTerm { selector, namespaces: None, topology_key: to_name(key) };
    topology_key.map(term).into_iter().collect()
}

fn pod_of_task(
    snapshot: &Snapshot,
    job: &Job,
    group: PodGroupId,
    task: &Task,
    shape: ShapeId,
) -> Pod {
    let (status, released_since) = match task.state {
        TaskState::Pending | TaskState::Pipelined => (PodStatus::Pending, None),
        TaskState::Gated => (PodStatus::Gated, None),
        TaskState::Running => (PodStatus::Running, None),
        TaskState::Bound | TaskState::Binding | TaskState::Allocated => (PodStatus::Bound, None),
        TaskState::Releasing => (PodStatus::Releasing, Some(SNAPSHOT_TIME)),
        TaskState::StuckInReleasing => {
            (PodStatus::Releasing, Some(Time(SNAPSHOT_TIME.0 - 600_000)))
        }
        TaskState::Succeeded => (PodStatus::Succeeded, None),
        TaskState::Failed | TaskState::Deleted => (PodStatus::Failed, None),
    };
    let node = task.node.as_deref().and_then(|node| find_node_id(snapshot, node));
    let (node, nominated) =
        if task.state == TaskState::Pipelined { (None, node) } else { (node, None) };
    let sub_group = task.subgroup.as_deref().unwrap_or("default");
    let sub_groups = &snapshot.pod_groups[group.0 as usize].sub_groups;
    let label = task.priority_label.as_ref();
    Pod {
        namespace: to_name(&job.namespace),
        name: to_name(&task.id),
        uid: to_name(&task.id),
        labels: task.labels.iter().map(|(key, value)| (to_name(key), to_name(value))).collect(),
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
            task.gpu_groups.iter().map(|group| to_name(group)).collect()
        },
        numa_allocations: numa_zones::numa_allocations_of_task(task),
        nominated_node: nominated,
        task_priority: label.and_then(|label| {
            let text = label.as_str().map_or_else(|| label.to_string(), str::to_owned);
            text.parse().ok()
        }),
        leader_role: None,
        created: SNAPSHOT_TIME,
        started: None,
        releasing_since: released_since,
        binding_failed: false,
    }
}

fn find_node_id(snapshot: &Snapshot, node: &str) -> Option<NodeId> {
    let at = snapshot.nodes.iter().position(|other| &*other.name == node)?;
    u32::try_from(at).ok().map(NodeId)
}

fn resources_from_amounts(amounts: &BTreeMap<String, f64>) -> Resources {
    let mut resources = Resources::default();
    for (key, value) in amounts {
        match key.as_str() {
            "gpus" => resources.gpu_milli = round_to_i64(value * 1000.0),
            "cpu_millis" => resources.cpu_milli = round_to_i64(*value),
            "memory_bytes" => resources.memory_bytes = round_to_i64(*value),
            "pods" => resources.pods = round_to_i64(*value),
            other => {
                resources.extended.insert(to_name(other), round_to_i64(*value));
            }
        }
    }
    resources
}

/// `value` times `unit`, rounded; a negative `value` means unlimited.
fn amount_or_unlimited(value: f64, unit: f64) -> Amount {
    if value < 0.0 { Amount::Unlimited } else { Amount::Exactly(round_to_i64(value * unit)) }
}

fn to_name(text: &str) -> Name {
    text.into()
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, as recorded maxima need")]
fn round_to_i64(value: f64) -> i64 {
    value.round() as i64
}
