//! Builds the API objects of a case. Names are converted to valid object names; amounts stay as
//! recorded.

mod devices;
mod pods;

use schedlab_api::{Map, Value, annotations, api_versions, conditions, json, resources};

use super::super::format::{
    Case, ConstraintSpec, Gang, Job, NodeSpec, QueueSpec, ResourceShare, Task, TaskState,
    TopologySpec,
};

pub(super) use devices::{
    claim_template_object, device_class_object, initial_claim_status, resource_claim_object,
    resource_slice_object,
};
pub(super) use pods::pod_object;

/// Allocatable pods per node in the recordings.
const PODS_PER_NODE: i64 = 500;

/// Why the case cannot be expressed as Kubernetes objects; `None` if it can.
pub(super) fn unsupported_reason(case: &Case) -> Option<&'static str> {
    let mut tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    if case.cluster.nodes.iter().any(|node| node.numa.is_some()) {
        return Some(
            "cannot run end to end: the use of NUMA zones is not published between rounds",
        );
    }
    let has_ended = |task: &Task| {
        matches!(task.state, TaskState::Succeeded | TaskState::Failed | TaskState::Deleted)
    };
    if tasks.any(has_ended) {
        return Some("cannot run end to end: a task ended before the case began");
    }
    devices::unsupported_claims_reason(case)
}

/// Converts a name of the case to a valid name of a Kubernetes object.
pub(super) fn to_object_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '/'], "-")
}

pub(super) fn namespace_of_job(job: &Job) -> &str {
    if job.namespace.is_empty() { "default" } else { &job.namespace }
}

pub(super) fn node_object(case: &Case, spec: &NodeSpec) -> Value {
    let mut allocatable = Map::new();
    for (name, amount) in &spec.allocatable {
        let (name, amount) = match name.as_str() {
            "cpu_millis" => ("cpu", format!("{amount}m")),
            "memory_bytes" => ("memory", amount.to_string()),
            "pods" => ("pods", PODS_PER_NODE.to_string()),
            "gpus" if devices::publishes_gpus_in_slices(case, &spec.name) => continue,
            "gpus" => (resources::GPU, amount.to_string()),
            other => (other, amount.to_string()),
        };
        allocatable.insert(name.to_owned(), json!(amount));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": to_object_name(&spec.name), "labels": spec.labels },
        "status": {
            "capacity": allocatable,
            "allocatable": allocatable,
            "conditions": [{ "type": conditions::READY, "status": "True", "reason": "KubeletReady" }],
        },
    })
}

pub(super) fn topology_object(spec: &TopologySpec) -> Value {
    let levels = spec.levels.iter().map(|level| {
        let mut level_object = json!({ "nodeLabel": level.node_label });
        if let Some(alias) = &level.alias {
            level_object["alias"] = json!(alias);
        }
        level_object
    });
    json!({
        "apiVersion": api_versions::TOPOLOGY,
        "kind": "Topology",
        "metadata": { "name": to_object_name(&spec.name) },
        "spec": { "levels": levels.collect::<Vec<_>>() },
    })
}

pub(super) fn queue_object(spec: &QueueSpec) -> Value {
    let share = |share: &ResourceShare| {
        json!({
            "quota": share.quota,
            "limit": share.limit,
            "overQuotaWeight": share.over_quota_weight,
        })
    };
    let mut queue_spec = json!({
        "priority": spec.priority,
        "resources": {
            "gpu": share(&spec.resources.gpu),
            "cpu": share(&spec.resources.cpu_millis),
            "memory": share(&spec.resources.memory_mb),
        },
    });
    if let Some(parent) = &spec.parent {
        queue_spec["parentQueue"] = json!(to_object_name(parent));
    }
    if let Some(seconds) = spec.preempt_min_runtime_s {
        queue_spec["preemptMinRuntime"] = json!(format!("{seconds}s"));
    }
    if let Some(seconds) = spec.reclaim_min_runtime_s {
        queue_spec["reclaimMinRuntime"] = json!(format!("{seconds}s"));
    }
    json!({
        "apiVersion": api_versions::QUEUE,
        "kind": "Queue",
        "metadata": { "name": to_object_name(&spec.name) },
        "spec": queue_spec,
    })
}

pub(super) fn priority_class_object(value: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": priority_class_name(value) },
        "value": value,
    })
}

fn priority_class_name(value: i32) -> String {
    format!("case-{value}").replace("--", "-minus-")
}

/// The PodGroup of a job. `moment(s)` formats the time `s` seconds before the start.
pub(super) fn pod_group_object(job: &Job, moment: impl Fn(i64) -> String) -> Value {
    let mut annotations = Map::new();
    let marks = [
        (annotations::LAST_START_TIMESTAMP, job.running_for_s),
        (annotations::STALE_SINCE_TIMESTAMP, job.stale_for_s),
    ];
    for (mark, seconds) in marks {
        if let Some(seconds) = seconds {
            annotations.insert(mark.to_owned(), json!(moment(seconds)));
        }
    }
    let mut spec = gang_spec(&job.gang);
    spec["queue"] = json!(to_object_name(&job.queue));
    spec["priorityClassName"] = json!(priority_class_name(job.priority));
    spec["preemptibility"] = json!(job.preemptibility);
    if job.preemption_delay_s > 0 {
        spec["preemptionDelay"] = json!(format!("{}s", job.preemption_delay_s));
    }
    if let Some(seconds) = job.staleness_grace_period_s {
        spec["stalenessGracePeriod"] = json!(format!("{seconds}s"));
    }
    json!({
        "apiVersion": api_versions::POD_GROUP,
        "kind": "PodGroup",
        "metadata": {
            "name": to_object_name(&job.name), "namespace": namespace_of_job(job), "annotations": annotations,
        },
        "spec": spec,
    })
}

fn gang_spec(gang: &Gang) -> Value {
    let mut spec = json!({});
    if let Some(constraint) = &gang.topology_constraint {
        spec["topologyConstraint"] = topology_constraint_object(constraint);
    }
    if let Some(least) = gang.min_sub_group {
        spec["minSubGroup"] = json!(least);
    }
    match (&gang.pod_sets[..], &gang.sub_groups[..]) {
        ([only], []) if only.name == "default" && only.topology_constraint.is_none() => {
            spec["minMember"] = json!(only.min_available);
        }
        _ => {
            let mut parts = Vec::new();
            add_sub_groups(gang, None, &mut parts);
            spec["subGroups"] = json!(parts);
        }
    }
    spec
}

fn add_sub_groups(gang: &Gang, parent: Option<&str>, sub_groups: &mut Vec<Value>) {
    let mut add = |mut part: Value, constraint: Option<&ConstraintSpec>| {
        if let Some(parent) = parent {
            part["parent"] = json!(to_object_name(parent));
        }
        if let Some(constraint) = constraint {
            part["topologyConstraint"] = topology_constraint_object(constraint);
        }
        sub_groups.push(part);
    };
    for set in &gang.pod_sets {
        let part = json!({ "name": to_object_name(&set.name), "minMember": set.min_available });
        add(part, set.topology_constraint.as_ref());
    }
    for inner in &gang.sub_groups {
        let mut part = json!({ "name": to_object_name(&inner.name) });
        if let Some(least) = inner.min_sub_group {
            part["minSubGroup"] = json!(least);
        }
        add(part, inner.topology_constraint.as_ref());
    }
    for inner in &gang.sub_groups {
        add_sub_groups(inner, Some(&inner.name), sub_groups);
    }
}

fn topology_constraint_object(spec: &ConstraintSpec) -> Value {
    let mut object = json!({ "topology": to_object_name(&spec.topology) });
    if let Some(level) = &spec.required_level {
        object["requiredTopologyLevel"] = json!(level);
    }
    if let Some(level) = &spec.preferred_level {
        object["preferredTopologyLevel"] = json!(level);
    }
    object
}

/// Whether the task has a node at the start.
pub(super) fn has_initial_node(task: &Task) -> bool {
    !matches!(task.state, TaskState::Pending | TaskState::Gated | TaskState::Pipelined)
}
