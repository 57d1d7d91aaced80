//! Defaults of pod-level resources (`spec.resources`).

use crate::admission::quota;
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
pub(in crate::admission) fn set_pod_level_resources(pod: &mut Value) {
    if !has_pod_level_resources(pod, "limits") && !has_pod_level_resources(pod, "requests") {
        return;
    }
    for (name, sum) in pod_requests::container_amounts(pod, "limits") {
        let request = at(pod, &["spec", "resources", "requests", &name]);
        if name.starts_with(HUGE_PAGES_PREFIX) && request.is_none() {
            set_pod_level_amount(pod, "limits", &name, sum);
        }
    }
    if !has_pod_level_resources(pod, "limits") {
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
