//! Pods without what decisions do not depend on and another cluster does not have: mounts, volumes
//! beside claims, secrets, service accounts, runtime classes.

use schedlab_api::{Map, Value, json, object, taints};
use schedlab_scheduler::snapshot_file::required_config_maps;

/// Fields of a pod that name objects which a case does not have, or that only the API server sets.
const FOREIGN_FIELDS: [&str; 5] = [
    "serviceAccountName",
    "serviceAccount",
    "runtimeClassName",
    "imagePullSecrets",
    "ephemeralContainers",
];

/// The lists of containers of a pod.
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The pod with what decisions depend on in a form that each API server admits: of its volumes the
/// claims, without mounts, and the `ConfigMap`s that its containers require as `envFrom` of the first
/// container.
pub(crate) fn portable_pod(pod: &Value) -> Value {
    let required = required_config_maps(pod);
    let mut pod = pod.clone();
    let name = object::name(&pod).to_owned();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return pod };
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        *volumes = volumes.iter().filter_map(|volume| claimed_volume(&name, volume)).collect();
        if volumes.is_empty() {
            spec.remove("volumes");
        }
    }
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            make_container_portable(container);
        }
    }
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    let first = containers.and_then(|containers| containers.first_mut());
    if let Some(first) = first.and_then(Value::as_object_mut).filter(|_| !required.is_empty()) {
        let sources = required.iter().map(|name| json!({ "configMapRef": { "name": &**name } }));
        first.insert("envFrom", sources.collect());
    }
    for field in FOREIGN_FIELDS {
        spec.remove(field);
    }
    pod
}

/// A volume that is a claim; that of an ephemeral volume has the names of the pod and the volume.
fn claimed_volume(pod: &str, volume: &Value) -> Option<Value> {
    let name = object::text(volume, &["name"]);
    if let Some(claim) = object::at(volume, &["persistentVolumeClaim"]) {
        return Some(json!({ "name": name, "persistentVolumeClaim": claim }));
    }
    object::at(volume, &["ephemeral", "volumeClaimTemplate"])?;
    let claim = format!("{pod}-{name}");
    Some(json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } }))
}

fn make_container_portable(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    for field in ["volumeMounts", "volumeDevices", "envFrom"] {
        container.remove(field);
    }
    if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
        variables.retain(|variable| variable.get("valueFrom").is_none());
        if variables.is_empty() {
            container.remove("env");
        }
    }
    // A port that is not of the node takes part in no decision.
    if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
        ports.retain(|port| object::number(port, &["hostPort"]).is_some_and(|port| port > 0));
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            add_container_port(port);
        }
        if ports.is_empty() {
            container.remove("ports");
        }
    }
}

/// The API requires the port of the container.
fn add_container_port(port: &mut Map) {
    if port.get("containerPort").is_none()
        && let Some(of_node) = port.get("hostPort").cloned()
    {
        port.insert("containerPort", of_node);
    }
}

/// Removes the mounts of volumes that a pod no longer has.
pub(crate) fn drop_mounts(pod: &mut Value) {
    for list in CONTAINER_LISTS {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            object::remove(container, &["volumeMounts"]);
            object::remove(container, &["volumeDevices"]);
        }
    }
}

/// Seconds for which admission lets a pod tolerate a node that is not ready or not reachable.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// Whether this is a toleration that admission adds to each pod without one of its own
/// (`DefaultTolerationSeconds`): a cluster in which the pod is created adds it again.
pub(crate) fn is_default_toleration(toleration: &Value) -> bool {
    let is = |field: &str, expected: &str| object::text(toleration, &[field]) == expected;
    (is("key", taints::NOT_READY) || is("key", taints::UNREACHABLE))
        && is("operator", "Exists")
        && is("effect", "NoExecute")
        && object::number(toleration, &["tolerationSeconds"]) == Some(DEFAULT_TOLERATION_SECONDS)
}

/// Removes the tolerations that admission adds.
pub(crate) fn drop_default_tolerations(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else {
        return;
    };
    tolerations.retain(|toleration| !is_default_toleration(toleration));
    if tolerations.is_empty() {
        spec.remove("tolerations");
    }
}
