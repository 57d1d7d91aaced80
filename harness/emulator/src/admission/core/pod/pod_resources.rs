//! Defaults of pod-level resources (`spec.resources`).

use crate::admission::checks::quantity_milli;
use crate::admission::quota;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::api_types::pod_requests;
use schedlab_api::{
    Value,
    object::{at, list, map, set_default},
    quantity::Milli,
};

const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// Completes `spec.resources` of a pod: missing requests are the sum of the containers' requests,
/// or else the pod-level limits; missing limits of huge pages are the sum of the containers'
/// limits.
pub(in crate::admission) fn set_pod_level_resources(version: KubernetesVersion, pod: &mut Value) {
    if !has_pod_level_resources(pod, "limits") && !has_pod_level_resources(pod, "requests") {
        return;
    }
    for (name, sum) in pod_requests::container_amounts(pod, "limits") {
        let request = at(pod, &["spec", "resources", "requests", &name]);
        if name.starts_with(HUGE_PAGES_PREFIX) && request.is_none() {
            set_pod_level_amount(pod, "limits", &name, sum);
        }
    }
    let fills_limits = version >= KubernetesVersion::V1_37;
    if !has_pod_level_resources(pod, "limits") && !fills_limits {
        return;
    }
    for (name, sum) in pod_requests::container_amounts(pod, "requests") {
        if matches!(&*name, "cpu" | "memory") {
            set_pod_level_amount(pod, "requests", &name, sum);
        }
    }
    let limits = map(pod, &["spec", "resources", "limits"]).cloned();
    for (name, limit) in limits.into_iter().flatten() {
        if matches!(&*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES_PREFIX) {
            set_default(pod, &["spec", "resources", "requests", &name], limit);
        }
    }
    if fills_limits {
        fill_limits(pod);
    }
}

/// Sets the limits of requested resources that every container limits: the sum of the containers,
/// and at least the request.
fn fill_limits(pod: &mut Value) {
    for (name, sum) in pod_requests::container_amounts(pod, "limits") {
        let is_limited = is_limited_everywhere(pod, &name);
        let request = at(pod, &["spec", "resources", "requests", &name]).cloned();
        let is_pod_level =
            matches!(&*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES_PREFIX);
        let Some(request) = request.filter(|_| is_limited && is_pod_level) else { continue };
        if quantity_milli(&request) > quantity_milli(&quota::canonical_amount(sum, false).into()) {
            set_default(pod, &["spec", "resources", "limits", &name], request);
        } else {
            set_pod_level_amount(pod, "limits", &name, sum);
        }
    }
}

fn is_limited_everywhere(pod: &Value, resource: &str) -> bool {
    let parts = ["initContainers", "containers"].map(|field| list(pod, &["spec", field]));
    let mut containers = parts.into_iter().flatten();
    containers.all(|container| !container["resources"]["limits"][resource].is_null())
}

fn has_pod_level_resources(pod: &Value, kind: &str) -> bool {
    map(pod, &["spec", "resources", kind]).is_some_and(|amounts| !amounts.is_empty())
}

/// Sets a pod-level amount, in binary units if a container's amount has binary units.
fn set_pod_level_amount(pod: &mut Value, kind: &str, resource: &str, sum: Milli) {
    let parts = ["initContainers", "containers"].map(|field| list(pod, &["spec", field]));
    let written = parts.into_iter().flatten().map(|one| &one["resources"][kind][resource]);
    let binary = written.filter_map(Value::as_str).any(|amount| amount.ends_with('i'));
    let shown = quota::canonical_amount(sum, binary);
    set_default(pod, &["spec", "resources", kind, resource], shown);
}
