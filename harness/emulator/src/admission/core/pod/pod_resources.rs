//! Defaults of pod-level resources (`spec.resources`).

use crate::admission::checks::amount;
use crate::admission::quota;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::api_types::pod_requests;
use schedlab_api::{
    Value,
    object::{at, list, map, set_default},
    quantity::Milli,
};

const HUGE_PAGES: &str = "hugepages-";

/// Sets pod-level requests from the sum of the containers, or else from the pod-level limits; and
/// the huge page limits from the containers.
pub(in crate::admission) fn fill(version: KubernetesVersion, pod: &mut Value) {
    if !is_set(pod, "limits") && !is_set(pod, "requests") {
        return;
    }
    for (name, sum) in pod_requests::container_amounts(pod, "limits") {
        let request = at(pod, &["spec", "resources", "requests", &name]);
        if name.starts_with(HUGE_PAGES) && request.is_none() {
            fill_amount(pod, "limits", &name, sum);
        }
    }
    let fills_limits = version >= KubernetesVersion::V1_37;
    if !is_set(pod, "limits") && !fills_limits {
        return;
    }
    for (name, sum) in pod_requests::container_amounts(pod, "requests") {
        if matches!(&*name, "cpu" | "memory") {
            fill_amount(pod, "requests", &name, sum);
        }
    }
    let limits = map(pod, &["spec", "resources", "limits"]).cloned();
    for (name, limit) in limits.into_iter().flatten() {
        if matches!(&*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES) {
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
        let is_pod_level = matches!(&*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES);
        let Some(request) = request.filter(|_| is_limited && is_pod_level) else { continue };
        if amount(&request) > amount(&quota::canonical_amount(sum, false).into()) {
            set_default(pod, &["spec", "resources", "limits", &name], request);
        } else {
            fill_amount(pod, "limits", &name, sum);
        }
    }
}

fn is_limited_everywhere(pod: &Value, resource: &str) -> bool {
    let parts = ["initContainers", "containers"].map(|field| list(pod, &["spec", field]));
    let mut containers = parts.into_iter().flatten();
    containers.all(|container| !container["resources"]["limits"][resource].is_null())
}

fn is_set(pod: &Value, kind: &str) -> bool {
    map(pod, &["spec", "resources", kind]).is_some_and(|amounts| !amounts.is_empty())
}

/// Sets an amount, in binary units if a container uses binary units.
fn fill_amount(pod: &mut Value, kind: &str, resource: &str, sum: Milli) {
    let parts = ["initContainers", "containers"].map(|field| list(pod, &["spec", field]));
    let written = parts.into_iter().flatten().map(|one| &one["resources"][kind][resource]);
    let binary = written.filter_map(Value::as_str).any(|amount| amount.ends_with('i'));
    let shown = quota::canonical_amount(sum, binary);
    set_default(pod, &["spec", "resources", kind, resource], shown);
}
