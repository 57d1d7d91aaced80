//! What a pod asks for, as kubelets and quotas count it.

use std::collections::BTreeMap;

use crate::object::{list, map, text};
use crate::quantity::{Milli, thousandths};
use schedlab_json::Value;

/// Amounts by resource, in thousandths.
pub(crate) type Amounts = BTreeMap<String, Milli>;

/// What a pod asks for: the sum of its containers or its largest init container, whichever is
/// more, with the init containers that keep running (`restartPolicy: Always`), the overhead, and
/// one of `pods`. What is asked for the pod as a whole stands above its containers. What is no quantity counts as nothing: the API server refuses it.
pub(crate) fn requested(pod: &Value) -> Amounts {
    let mut total = summed(pod, amounts);
    total.extend(quantities(pod, &["spec", "resources", "requests"]));
    add(&mut total, &quantities(pod, &["spec", "overhead"]));
    total.insert("pods".to_owned(), 1000);
    total
}

/// The bounds of what a pod may use, summed in the same way. Overhead comes to bounds that there
/// are.
pub(crate) fn limited(pod: &Value) -> Amounts {
    let mut total = of_containers(pod, "limits");
    total.extend(quantities(pod, &["spec", "resources", "limits"]));
    let mut overhead = quantities(pod, &["spec", "overhead"]);
    overhead.retain(|resource, _| total.contains_key(resource));
    add(&mut total, &overhead);
    total
}

/// The `requests` or `limits` of a pod's containers, summed in the same way.
pub(crate) fn of_containers(pod: &Value, kind: &str) -> Amounts {
    summed(pod, |container| quantities(container, &["resources", kind]))
}

fn summed(pod: &Value, of: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add(&mut total, &of(container));
    }
    let mut beside = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(pod, &["spec", "initContainers"]) {
        let own = of(container);
        let mut at_once = beside.clone();
        add(&mut at_once, &own);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut beside, &own);
        }
        raise(&mut peak, &at_once);
    }
    add(&mut total, &beside);
    raise(&mut total, &peak);
    total
}

/// A node's allocatable amounts.
pub(crate) fn allocatable(node: &Value) -> Amounts {
    quantities(node, &["status", "allocatable"])
}

/// A container's requests; a limit stands in for a missing request.
fn amounts(container: &Value) -> Amounts {
    let mut all = quantities(container, &["resources", "limits"]);
    all.extend(quantities(container, &["resources", "requests"]));
    all
}

fn quantities(value: &Value, path: &[&str]) -> Amounts {
    let written = map(value, path).into_iter().flatten();
    written.filter_map(|(name, amount)| Some((name.to_string(), thousandths(amount)?))).collect()
}

/// Adds one set of amounts to another.
pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = to.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (resource, amount) in at_least {
        let most = to.entry(resource.clone()).or_default();
        *most = (*most).max(*amount);
    }
}
