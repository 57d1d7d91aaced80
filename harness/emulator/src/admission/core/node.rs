//! Defaults and validation of nodes. A new node has the not-ready taint until it is ready.

use std::net::IpAddr;

use crate::admission::Admission;
use crate::admission::checks::{EFFECTS, check_quantity, check_timing_annotations};
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value, json,
    object::{self, list, map, text},
    taints,
};

/// Sets the not-ready taint, `podCIDRs` and `allocatable` of a new node.
pub(in crate::admission) fn complete(admission: &Admission<'_>, node: &mut Value) {
    if !admission.kind.is("", "Node") {
        return;
    }
    let mut taints = list(node, &["spec", "taints"]).to_vec();
    let is_tainted =
        |taint: &Value| taint["key"] == taints::NOT_READY && taint["effect"] == "NoSchedule";
    if !taints.iter().any(is_tainted) {
        taints.push(json!({"key": taints::NOT_READY, "effect": "NoSchedule"}));
    }
    object::set(node, &["spec", "taints"], taints.into());
    let range = text(node, &["spec", "podCIDR"]).to_owned();
    if !range.is_empty() {
        object::set_default(node, &["spec", "podCIDRs"], json!([range]));
    }
    let capacity = map(node, &["status", "capacity"]).cloned();
    if let Some(capacity) = capacity {
        object::set_default(node, &["status", "allocatable"], capacity);
    }
}

pub(in crate::admission) fn check(old: Option<&Value>, node: &Value, errors: &mut FieldErrors) {
    let before = old.map_or("", |old| text(old, &["spec", "providerID"]));
    match text(node, &["spec", "providerID"]) {
        _ if before.is_empty() => {}
        "" => {
            let rule = "field cannot be cleared once set";
            errors.invalid("spec.providerID", &Value::Null, rule);
        }
        after if after != before => {
            let rule = "field cannot be modified once set";
            errors.invalid("spec.providerID", &Value::Null, rule);
        }
        _ => {}
    }
    let ranges = |node| list(node, &["spec", "podCIDRs"]);
    let first = &node["spec"]["podCIDR"];
    let is_other = |old| ranges(old) != ranges(node) || ranges(old).first() != Some(first);
    if old.is_some_and(|old| !ranges(old).is_empty() && is_other(old)) {
        let rule = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden("spec.podCIDRs", rule);
    }
    check_pod_cidrs(node, errors);
    check_resource_amounts(node, errors);
    check_timing_annotations(old, node, "metadata.annotations", errors);
    let taints = list(node, &["spec", "taints"]);
    for (index, taint) in taints.iter().enumerate() {
        let path = |field: &str| format!("metadata.taints[{index}].{field}");
        let key = text(taint, &["key"]);
        for rule in names::qualified_name_violations(key) {
            errors.invalid(path("key"), &key.into(), &rule);
        }
        let value = text(taint, &["value"]);
        if let Some(rule) = names::label_value_violation(value) {
            errors.invalid(path("value"), &value.into(), &rule);
        }
        let effect = text(taint, &["effect"]);
        if effect.is_empty() {
            errors.required(path("effect"), "");
        } else if !EFFECTS.contains(&effect) {
            errors.unsupported(path("effect"), &effect.into(), &EFFECTS);
        }
        let same =
            |other: &&Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if taints.iter().take(index).any(|other| same(&other)) {
            let [key, value, effect] = [key, value, effect].map(Value::from);
            let shown = format!(
                "{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":null}}"
            );
            errors.duplicate_with_rule(
                format!("metadata.taints[{index}]"),
                &shown,
                "taints must be unique by key and effect pair",
            );
        }
    }
}

/// Checks that the pod CIDRs are valid.
fn check_pod_cidrs(node: &Value, errors: &mut FieldErrors) {
    let is_range = |text: &str| {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(ip, bits)| Some((ip.parse().ok()?, bits.parse().ok()?)));
        parts.is_some_and(|(ip, bits): (IpAddr, u8)| bits <= if ip.is_ipv4() { 32 } else { 128 })
    };
    for (index, range) in list(node, &["spec", "podCIDRs"]).iter().enumerate() {
        if !range.as_str().is_some_and(is_range) {
            let rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.invalid(format!("spec.podCIDRs[{index}]"), range, rule);
        }
    }
}

/// Checks the amounts in `capacity` and `allocatable`.
pub(in crate::admission) fn check_resource_amounts(node: &Value, errors: &mut FieldErrors) {
    for field in ["capacity", "allocatable"] {
        for (name, quantity) in map(node, &["status", field]).into_iter().flatten() {
            check_quantity(&format!("status.{field}.{name}"), name, quantity, errors);
        }
    }
}
