//! Device classes, resource slices and resource claims.

use std::collections::BTreeSet;

use schedlab_api::{
    Value, json,
    pointer::{at, list, text},
};

use super::{
    super::super::format::{Case, ClaimSpec, SliceSpec, Task},
    to_object_name,
};

/// Why the case's claims cannot be expressed as Kubernetes objects; `None` if they can.
pub(super) fn unsupported_claims_reason(case: &Case) -> Option<&'static str> {
    let claims = || case.cluster.dra.iter().flat_map(|dra| &dra.resource_claims);
    let is_free = |status: &Value| at(status, "/allocation").is_none_or(Value::is_null);
    let is_reserved = |status: &Value| !list(status, "/reservedFor").is_empty();
    let is_reserved_without_allocation = |claim: &ClaimSpec| {
        claim.status.as_ref().is_some_and(|status| is_free(status) && is_reserved(status))
    };
    if claims().any(is_reserved_without_allocation) {
        return Some("cannot run end to end: a claim is reserved but not allocated");
    }
    let given: Vec<&String> =
        claims().filter(|claim| claim.status.is_none()).map(|claim| &claim.name).collect();
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    let mut made = BTreeSet::new();
    let mut of_templates = tasks.clone().flat_map(|task| task.resource_claim_templates.values());
    if !of_templates.all(|claim| made.insert(claim)) {
        return Some("cannot run end to end: a template made one claim for several pods");
    }
    let mut placed = tasks.filter(|task| super::has_initial_node(task));
    let is_without = |task: &Task| task.claim_names().any(|name| given.contains(&name));
    let has_templates = |task: &Task| !task.resource_claim_templates.is_empty();
    placed
        .any(|task| is_without(task) || has_templates(task))
        .then_some("cannot run end to end: the claim of a running task has no devices")
}

/// Whether the node publishes its GPUs in slices.
pub(super) fn publishes_gpus_in_slices(case: &Case, node: &str) -> bool {
    let mut slices = case.cluster.dra.iter().flat_map(|dra| &dra.resource_slices);
    slices.any(|slice| slice.node == node && slice.class.to_ascii_lowercase().contains("gpu"))
}

/// The DeviceClass `name`, which selects the devices of the driver of that name.
pub(in super::super) fn device_class_object(name: &str) -> Value {
    let of_driver = format!("device.driver == \"{}\"", to_object_name(name));
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": { "name": to_object_name(name) },
        "spec": { "selectors": [{ "cel": { "expression": of_driver } }] },
    })
}

pub(in super::super) fn resource_slice_object(spec: &SliceSpec) -> Value {
    let devices: Vec<Value> = (0..spec.count).map(|at| json!({ "name": at.to_string() })).collect();
    let (class, node) = (to_object_name(&spec.class), to_object_name(&spec.node));
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": { "name": format!("{node}-{class}") },
        "spec": {
            "driver": class,
            "nodeName": node,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": devices,
        },
    })
}

pub(in super::super) fn resource_claim_object(spec: &ClaimSpec) -> Value {
    let namespace = if spec.namespace.is_empty() { "default" } else { &spec.namespace };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, as recorded maxima need"
    )]
    let count = spec.count as i64;
    let exactly = json!({ "deviceClassName": to_object_name(&spec.class), "count": count });
    let labels: schedlab_api::Map = spec
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), json!(to_object_name(value))))
        .collect();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": { "name": to_object_name(&spec.name), "namespace": namespace, "labels": labels },
        "spec": { "devices": { "requests": [{ "name": to_object_name(&spec.name), "exactly": exactly }] } },
    })
}

/// The `ResourceClaimTemplate` called `name`, for claims like `spec`.
pub(in super::super) fn claim_template_object(name: &str, spec: &ClaimSpec) -> Value {
    let claim = resource_claim_object(spec);
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": { "name": to_object_name(name), "namespace": claim["metadata"]["namespace"] },
        "spec": {
            "metadata": { "labels": claim["metadata"]["labels"] },
            "spec": claim["spec"],
        },
    })
}

/// The initial status of a ResourceClaim. `uid` looks up the uid of a pod.
pub(in super::super) fn initial_claim_status(
    spec: &ClaimSpec,
    uid: impl Fn(&str) -> Option<String>,
) -> Option<Value> {
    let status = spec.status.as_ref().filter(|status| at(status, "/allocation").is_some())?;
    let results = list(status, "/allocation/devices/results").iter().map(|one| {
        let part = |pointer| to_object_name(text(one, pointer).unwrap_or_default());
        json!({
            "request": part("/request"),
            "driver": part("/driver"),
            "pool": part("/pool"),
            "device": part("/device"),
        })
    });
    let results: Vec<Value> = results.collect();
    let node = results.first().map(|one| one["pool"].clone());
    let on_node = json!({ "nodeSelectorTerms": [{ "matchFields": [{
        "key": "metadata.name", "operator": "In", "values": [node],
    }] }] });
    let users = list(status, "/reservedFor").iter().filter_map(|user| {
        let name = text(user, "/name")?;
        let known = uid(&to_object_name(name)).or_else(|| text(user, "/uid").map(str::to_owned));
        Some(json!({ "resource": "pods", "name": to_object_name(name), "uid": known }))
    });
    Some(json!({
        "allocation": { "devices": { "results": results }, "nodeSelector": on_node },
        "reservedFor": users.collect::<Vec<_>>(),
    }))
}
