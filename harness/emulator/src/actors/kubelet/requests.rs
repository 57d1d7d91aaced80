//! What a pod asks a node for, as the kubelet counts it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::fields::texts;
use crate::object::{at, list, text};
use crate::quantity::{Milli, parse};

/// Amounts by resource, in thousandths.
pub(crate) type Amounts = BTreeMap<String, Milli>;

/// What a pod asks for: the sum of its containers or its largest init container, whichever is
/// more, with the init containers that keep running (`restartPolicy: Always`), the overhead, and
/// one of `pods`. What is no quantity counts as nothing: the API server refuses it.
pub(crate) fn requested(pod: &Value) -> Amounts {
    let mut total = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add(&mut total, &amounts(container));
    }
    let mut beside = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(pod, &["spec", "initContainers"]) {
        let own = amounts(container);
        let mut at_once = beside.clone();
        add(&mut at_once, &own);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut beside, &own);
        }
        raise(&mut peak, &at_once);
    }
    add(&mut total, &beside);
    raise(&mut total, &peak);
    add(&mut total, &quantities(pod, &["spec", "overhead"]));
    total.insert("pods".to_owned(), 1000);
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
    let mut all: Amounts = texts(value, path)
        .filter_map(|(resource, text)| Some((resource.to_owned(), parse(text).ok()?)))
        .collect();
    let map = at(value, path).and_then(Value::as_object);
    for (resource, amount) in map.into_iter().flatten() {
        if let Some(whole) = amount.as_i64() {
            all.insert(resource.clone(), Milli::from(whole) * 1000);
        }
    }
    all
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
