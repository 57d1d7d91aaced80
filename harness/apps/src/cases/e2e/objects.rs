//! Builds the API objects of a case. Names are converted to valid object names; amounts stay as
//! recorded.

mod devices;
mod pods;

use schedlab_api::{Map, Value, annotations, api_versions, conditions, json, resources};

use super::super::format::{
    Case, ConstraintSpec, Gang, Job, NodeSpec, QueueSpec, Share, State, Task, TopologySpec,
};

pub(super) use devices::{claim, claim_status, claim_template, class, slice};
pub(super) use pods::pod;

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
    let has_ended =
        |task: &Task| matches!(task.state, State::Succeeded | State::Failed | State::Deleted);
    if tasks.any(has_ended) {
        return Some("cannot run end to end: a task ended before the case began");
    }
    devices::unsupported_reason(case)
}

/// Converts a name of the case to a valid name of a Kubernetes object.
pub(super) fn to_object_name(name: &str) -> String {
    name.to_lowercase().replace(['_', '/'], "-")
}

pub(super) fn namespace(job: &Job) -> &str {
    if job.namespace.is_empty() { "default" } else { &job.namespace }
}

pub(super) fn node(case: &Case, spec: &NodeSpec) -> Value {
    let mut allocatable = Map::new();
    for (name, amount) in &spec.allocatable {
        let (name, amount) = match name.as_str() {
            "cpu_millis" => ("cpu", format!("{amount}m")),
            "memory_bytes" => ("memory", amount.to_string()),
            "pods" => ("pods", PODS_PER_NODE.to_string()),
            "gpus" if devices::has_gpus(case, &spec.name) => continue,
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

pub(super) fn topology(spec: &TopologySpec) -> Value {
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

pub(super) fn queue(spec: &QueueSpec) -> Value {
    let share = |share: &Share| {
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

pub(super) fn priority_class(value: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": class_name(value) },
        "value": value,
    })
}

fn class_name(value: i32) -> String {
    format!("case-{value}").replace("--", "-minus-")
}

/// `moment` formats the time this many seconds before the start.
pub(super) fn pod_group(job: &Job, moment: impl Fn(i64) -> String) -> Value {
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
    let mut spec = gang(&job.gang);
    spec["queue"] = json!(to_object_name(&job.queue));
    spec["priorityClassName"] = json!(class_name(job.priority));
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
            "name": to_object_name(&job.name), "namespace": namespace(job), "annotations": annotations,
        },
        "spec": spec,
    })
}

fn gang(gang: &Gang) -> Value {
    let mut spec = json!({});
    if let Some(constraint) = &gang.topology_constraint {
        spec["topologyConstraint"] = self::constraint(constraint);
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

fn add_sub_groups(gang: &Gang, parent: Option<&str>, parts: &mut Vec<Value>) {
    let mut add = |mut part: Value, constraint: Option<&ConstraintSpec>| {
        if let Some(parent) = parent {
            part["parent"] = json!(to_object_name(parent));
        }
        if let Some(constraint) = constraint {
            part["topologyConstraint"] = self::constraint(constraint);
        }
        parts.push(part);
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
        add_sub_groups(inner, Some(&inner.name), parts);
    }
}

fn constraint(spec: &ConstraintSpec) -> Value {
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
pub(super) fn is_placed(task: &Task) -> bool {
    !matches!(task.state, State::Pending | State::Gated | State::Pipelined)
}
