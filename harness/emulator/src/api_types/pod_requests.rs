//! Resource requests and limits of pods, as kubelets and quotas compute them.

use std::collections::BTreeMap;

use schedlab_api::{
    Value,
    object::{list, map, text},
    quantity::{Milli, thousandths},
};

/// Amounts by resource, in thousandths.
pub(crate) type Amounts = BTreeMap<String, Milli>;

/// The requests of a pod: the sum of its containers and sidecars or the peak of its init
/// containers, whichever is greater, plus the overhead and one of `pods`. Pod-level requests
/// override the sum of the containers. An invalid quantity counts as 0; the API server rejects it.
pub(crate) fn pod_requests(pod: &Value) -> Amounts {
    let mut total = sum_containers(pod, effective_requests);
    total.extend(quantities_at(pod, &["spec", "resources", "requests"]));
    add_amounts(&mut total, &quantities_at(pod, &["spec", "overhead"]));
    total.insert("pods".to_owned(), 1000);
    total
}

/// The limits of a pod, computed like [`pod_requests`]. The overhead is added only to resources
/// with a limit.
pub(crate) fn pod_limits(pod: &Value) -> Amounts {
    let mut total = container_amounts(pod, "limits");
    total.extend(quantities_at(pod, &["spec", "resources", "limits"]));
    let mut overhead = quantities_at(pod, &["spec", "overhead"]);
    overhead.retain(|resource, _| total.contains_key(resource));
    add_amounts(&mut total, &overhead);
    total
}

/// The `requests` or `limits` (`kind`) of all containers of a pod, computed like [`pod_requests`]
/// but without overhead.
pub(crate) fn container_amounts(pod: &Value, kind: &str) -> Amounts {
    sum_containers(pod, |container| quantities_at(container, &["resources", kind]))
}

fn sum_containers(pod: &Value, amounts_of: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add_amounts(&mut total, &amounts_of(container));
    }
    let mut beside = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(pod, &["spec", "initContainers"]) {
        let own = amounts_of(container);
        let mut at_once = beside.clone();
        add_amounts(&mut at_once, &own);
        if text(container, &["restartPolicy"]) == "Always" {
            add_amounts(&mut beside, &own);
        }
        raise_amounts(&mut peak, &at_once);
    }
    add_amounts(&mut total, &beside);
    raise_amounts(&mut total, &peak);
    total
}

/// The allocatable amounts of a node.
pub(crate) fn allocatable_amounts(node: &Value) -> Amounts {
    quantities_at(node, &["status", "allocatable"])
}

/// The requests of a container. A limit replaces a missing request.
fn effective_requests(container: &Value) -> Amounts {
    let mut all = quantities_at(container, &["resources", "limits"]);
    all.extend(quantities_at(container, &["resources", "requests"]));
    all
}

fn quantities_at(value: &Value, path: &[&str]) -> Amounts {
    let written = map(value, path).into_iter().flatten();
    written.filter_map(|(name, amount)| Some((name.to_string(), thousandths(amount)?))).collect()
}

/// Adds the amounts of `addend` to those of `total`.
pub(crate) fn add_amounts(total: &mut Amounts, addend: &Amounts) {
    for (resource, amount) in addend {
        let sum = total.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise_amounts(amounts: &mut Amounts, minimum: &Amounts) {
    for (resource, amount) in minimum {
        let most = amounts.entry(resource.clone()).or_default();
        *most = (*most).max(*amount);
    }
}
