//! What is said of the resources of a pod as a whole, beside those of its containers.

use crate::object::{at, list, map, set_default};
use crate::quantity::Milli;
use crate::{quota, requests};
use schedlab_json::Value;

const HUGE_PAGES: &str = "hugepages-";

/// Fills in what is asked for the pod, where its bounds are given: what its containers ask for
/// together, else as much as the bounds. Huge pages are bounded by what bounds the containers.
pub(in crate::admit) fn fill(pod: &mut Value) {
    if !is_said(pod, "limits") && !is_said(pod, "requests") {
        return;
    }
    for (name, sum) in requests::of_containers(pod, "limits") {
        let asked = at(pod, &["spec", "resources", "requests", &name]);
        if name.starts_with(HUGE_PAGES) && asked.is_none() {
            fill_one(pod, "limits", &name, sum);
        }
    }
    if !is_said(pod, "limits") {
        return;
    }
    for (name, sum) in requests::of_containers(pod, "requests") {
        if matches!(&*name, "cpu" | "memory") {
            fill_one(pod, "requests", &name, sum);
        }
    }
    let limits = map(pod, &["spec", "resources", "limits"]).cloned();
    for (name, limit) in limits.into_iter().flatten() {
        if matches!(&*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES) {
            set_default(pod, &["spec", "resources", "requests", &name], limit);
        }
    }
}

fn is_said(pod: &Value, kind: &str) -> bool {
    map(pod, &["spec", "resources", kind]).is_some_and(|amounts| !amounts.is_empty())
}

/// A sum is written in the units of its parts.
fn fill_one(pod: &mut Value, kind: &str, resource: &str, sum: Milli) {
    let parts = ["initContainers", "containers"].map(|field| list(pod, &["spec", field]));
    let written = parts.into_iter().flatten().map(|one| &one["resources"][kind][resource]);
    let binary = written.filter_map(Value::as_str).any(|amount| amount.ends_with('i'));
    let shown = quota::shown(sum, binary);
    set_default(pod, &["spec", "resources", kind, resource], shown);
}
