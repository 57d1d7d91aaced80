//! Builds pods for tasks.

use schedlab_api::{Map, Value, annotations, json, labels, resources};

use super::{
    super::super::format::{Job, Task, TaskState},
    has_initial_node, namespace_of_job, to_object_name,
};

/// The pod of a task: the initial pod on its node, or, if `on_node` is `None`, a recreated pod.
pub(in super::super) fn pod_object(job: &Job, task: &Task, on_node: Option<&str>) -> Value {
    let mut spec = json!({
        "schedulerName": "kai-scheduler",
        "containers": [{
            "name": "main", "image": "case",
            "resources": { "requests": resource_requests(task), "limits": whole_device_requests(task) },
        }],
    });
    if let Some(node) = on_node {
        spec["nodeName"] = json!(to_object_name(node));
    }
    if task.state == TaskState::Gated {
        spec["schedulingGates"] = json!([{ "name": "case/gate" }]);
    }
    if let Some(affinity) = affinity_object(task) {
        spec["affinity"] = affinity;
    }
    let named = task.resource_claim_names.iter().map(|name| ("resourceClaimName", name));
    let made = task.resource_claim_templates.keys().map(|of| ("resourceClaimTemplateName", of));
    let claims: Vec<Value> = named
        .chain(made)
        .enumerate()
        .map(|(at, (field, name))| json!({ "name": format!("claim-{at}"), field: to_object_name(name) }))
        .collect();
    if !claims.is_empty() {
        spec["containers"][0]["resources"]["claims"] =
            claims.iter().map(|claim| json!({ "name": claim["name"] })).collect();
        spec["resourceClaims"] = json!(claims);
    }
    if !task.pvc_names.is_empty() {
        spec["volumes"] = task.pvc_names.iter().map(|claim| volume_of_claim(claim)).collect();
    }
    let termination = match (task.state, job.delete_when_released) {
        (_, true) | (TaskState::StuckInReleasing, _) => "24h",
        // Deleted pods are gone before the second cycle.
        (_, false) => "300ms",
    };
    if termination == "24h" {
        spec["terminationGracePeriodSeconds"] = json!(86_400);
    }
    let mut annotations: Map =
        task.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    annotations.insert(annotations::POD_GROUP_NAME, json!(to_object_name(&job.name)));
    annotations.insert(annotations::TERMINATION, json!(termination));
    annotations.extend(shared_gpu_annotations(task));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": to_object_name(&task.id),
            "namespace": namespace_of_job(job),
            "labels": pod_labels(task, on_node.is_some()),
            "annotations": annotations,
        },
        "spec": spec,
    })
}

fn volume_of_claim(claim: &str) -> Value {
    let claim = to_object_name(claim);
    json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } })
}

fn requests_shared_gpu(task: &Task) -> bool {
    task.gpu_fraction.is_some() || task.gpu_memory_mib.is_some()
}

/// The task's requests of CPU, memory and whole devices.
fn resource_requests(task: &Task) -> Map {
    let mut all = whole_device_requests(task);
    for (name, amount) in &task.request {
        match name.as_str() {
            "cpu_millis" => all.insert("cpu", json!(format!("{amount}m"))),
            "memory_bytes" => all.insert("memory", json!(amount.to_string())),
            _ => None,
        };
    }
    all
}

fn whole_device_requests(task: &Task) -> Map {
    let whole = !requests_shared_gpu(task) && task.claim_names().next().is_none();
    let named = task.request.iter().filter_map(|(name, amount)| match name.as_str() {
        "cpu_millis" | "memory_bytes" | "pods" => None,
        "gpus" => whole.then(|| (resources::GPU.to_owned(), amount)),
        other => Some((other.to_owned(), amount)),
    });
    let non_zero = named.filter(|(_, amount)| **amount > 0.0);
    non_zero.map(|(name, amount)| (name, json!(amount.to_string()))).collect()
}

fn shared_gpu_annotations(task: &Task) -> Vec<(String, Value)> {
    let mut annotations = Vec::new();
    if let Some(part) = task.gpu_fraction {
        annotations.push((annotations::GPU_FRACTION.to_owned(), json!(part.to_string())));
    }
    if let Some(mib) = task.gpu_memory_mib {
        annotations.push((annotations::GPU_MEMORY.to_owned(), json!(mib.to_string())));
    }
    if let Some(devices) =
        task.gpu_fraction_devices.filter(|devices| *devices > 1 && requests_shared_gpu(task))
    {
        annotations
            .push((annotations::GPU_FRACTION_NUM_DEVICES.to_owned(), json!(devices.to_string())));
    }
    if task.legacy_mig {
        annotations.push(("nvidia.com/mig-1g.5gb".to_owned(), json!("1")));
    }
    annotations
}

fn pod_labels(task: &Task, has_node: bool) -> Map {
    let mut labels: Map =
        task.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    if let Some(part) = task.subgroup.as_deref().filter(|part| *part != "default") {
        labels.insert(labels::SUB_GROUP, json!(to_object_name(part)));
    }
    if let Some(label) = &task.priority_label {
        let text = label.as_str().map_or_else(|| label.to_string(), str::to_owned);
        labels.insert(labels::TASK_PRIORITY, json!(text));
    }
    if has_node && has_initial_node(task) && requests_shared_gpu(task) {
        match &task.gpu_groups[..] {
            [one] => {
                labels.insert(labels::GPU_GROUP.to_owned(), json!(one));
            }
            several => labels.extend(
                several
                    .iter()
                    .map(|group| (format!("{}/{group}", labels::GPU_GROUP), json!(group))),
            ),
        }
    }
    labels
}

fn affinity_object(task: &Task) -> Option<Value> {
    let like = |key: &String| {
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": task.labels }, "topologyKey": key,
        }] })
    };
    let mut affinity = json!({});
    if !task.required_node_affinity_in.is_empty() {
        let expression = json!({
            "key": "kai.scheduler/type", "operator": "In", "values": task.required_node_affinity_in,
        });
        affinity["nodeAffinity"] = json!({ "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
        } });
    }
    if let Some(key) = &task.pod_affinity_topology_key {
        affinity["podAffinity"] = like(key);
    }
    if let Some(key) = &task.pod_anti_affinity_topology_key {
        affinity["podAntiAffinity"] = like(key);
    }
    (affinity != json!({})).then_some(affinity)
}
