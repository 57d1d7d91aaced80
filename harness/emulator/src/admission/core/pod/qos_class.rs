//! The `QoS` class of a pod.

use crate::admission::checks::amount;
use schedlab_api::{
    Value,
    object::{list, map},
};

/// `Guaranteed`, `Burstable` or `BestEffort`, from the pod-level resources if they are set, else
/// from all containers.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let is_set = |kind: &str| map(spec, &["resources", kind]).is_some_and(|it| !it.is_empty());
    let parts: Vec<&Value> = if is_set("requests") || is_set("limits") {
        vec![spec]
    } else {
        ["initContainers", "containers"].iter().flat_map(|field| list(spec, &[field])).collect()
    };
    let positive_amount = |container: &Value, kind: &str, name: &str| {
        map(container, &["resources", kind])
            .and_then(|amounts| amounts.get(name))
            .map(amount)
            .filter(|amount| *amount > 0)
    };
    let mut any = false;
    let mut all_equal = true;
    for container in parts {
        for name in ["cpu", "memory"] {
            let (request, limit) = (
                positive_amount(container, "requests", name),
                positive_amount(container, "limits", name),
            );
            any |= request.is_some() || limit.is_some();
            all_equal &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
