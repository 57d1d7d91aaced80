//! A pod's quality of service.

use crate::admit::container::amount;
use crate::object::{list, map};
use schedlab_json::Value;

/// `Guaranteed`, `Burstable` or `BestEffort`: by what is said of the pod as a whole, else by all of
/// its containers.
pub(super) fn of(spec: &Value) -> &'static str {
    let parts: Vec<&Value> = if spec["resources"].is_object() {
        vec![spec]
    } else {
        ["initContainers", "containers"].iter().flat_map(|field| list(spec, &[field])).collect()
    };
    let asks = |container: &Value, kind: &str, name: &str| {
        map(container, &["resources", kind])
            .and_then(|amounts| amounts.get(name))
            .map(amount)
            .filter(|amount| *amount > 0)
    };
    let mut any = false;
    let mut all_equal = true;
    for container in parts {
        for name in ["cpu", "memory"] {
            let (request, limit) =
                (asks(container, "requests", name), asks(container, "limits", name));
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
