//! Rules for where a pod may go: tolerations, affinity, spreading, gates.

use std::collections::BTreeSet;

use super::selector;
use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, map, text};
use schedlab_json::Value;

pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks everything about placement in a pod spec that stands at `field`.
pub(super) fn check_placement(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in map(spec, &["nodeSelector"]).into_iter().flatten() {
        let place = format!("{field}.nodeSelector");
        for rule in names::qualified_name(key) {
            errors.invalid(&*place, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value) {
            errors.invalid(place, value, &rule);
        }
    }
    check_node_affinity(
        &spec["affinity"]["nodeAffinity"],
        &format!("{field}.affinity.nodeAffinity"),
        errors,
    );
    for kind in ["podAffinity", "podAntiAffinity"] {
        check_pod_affinity(&spec["affinity"][kind], &format!("{field}.affinity.{kind}"), errors);
    }
    check_gates(spec, field, errors);
    check_spreading(spec, field, errors);
}

/// Checks the tolerations of a pod spec that stands at `field`.
pub(super) fn check_tolerations(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let place = |field_name: &str| format!("{field}.tolerations[{index}].{field_name}");
        let of = |field: &str| text(toleration, &[field]);
        let (key, operator, effect) = (of("key"), of("operator"), of("effect"));
        for rule in names::qualified_name(key).iter().filter(|_| !key.is_empty()) {
            errors.invalid(place("key"), &key.into(), rule);
        }
        if key.is_empty() && operator != "Exists" {
            let rule = "operator must be Exists when `key` is empty, which means \"match all \
                        values and all keys\"";
            errors.invalid(place("operator"), &operator.into(), rule);
        }
        match operator {
            "" | "Equal" => {
                if let Some(rule) = names::label_value(of("value")) {
                    errors.invalid(place("operator"), &of("value").into(), &rule);
                }
            }
            "Exists" if of("value").is_empty() => {}
            "Exists" => {
                let rule = "value must be empty when `operator` is 'Exists'";
                errors.invalid(place("operator"), &of("value").into(), rule);
            }
            // Comparisons are named, and refused as long as their feature is off.
            "Lt" | "Gt" => {
                let named = ["Equal", "Exists", "Lt", "Gt"];
                errors.unsupported(place("operator"), &operator.into(), &named);
            }
            _ => errors.unsupported(place("operator"), &operator.into(), &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.unsupported(place("effect"), &effect.into(), &EFFECTS);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(place("effect"), &effect.into(), rule);
        }
    }
}

fn check_node_affinity(affinity: &Value, field: &str, errors: &mut FieldErrors) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_object() {
        let place = format!("{field}.requiredDuringSchedulingIgnoredDuringExecution");
        check_node_selector(required, &place, errors);
    }
    let preferred = list(affinity, &["preferredDuringSchedulingIgnoredDuringExecution"]);
    for (index, one) in preferred.iter().enumerate() {
        let place = format!("{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
        check_weight(one, &place, errors);
        let place = format!("{place}.preference");
        check_term(&one["preference"], &place, Values::Any, errors);
    }
}

/// Checks the selector of nodes that stands at `field`.
pub(super) fn check_node_selector(selector: &Value, field: &str, errors: &mut FieldErrors) {
    let place = format!("{field}.nodeSelectorTerms");
    let terms = list(selector, &["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.required(&*place, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        check_term(term, &format!("{place}[{index}]"), Values::OfLabels, errors);
    }
}

fn check_weight(preferred: &Value, place: &str, errors: &mut FieldErrors) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(format!("{place}.weight"), &weight.into(), "must be in the range 1-100");
    }
}

/// Which values labels are compared with: a preference is none the worse for one that no label has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    OfLabels,
    Any,
}

fn check_term(term: &Value, field: &str, values: Values, errors: &mut FieldErrors) {
    for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        let place = format!("{field}.matchExpressions[{index}]");
        let by_number = ["Gt", "Lt"];
        let is_by_number = by_number.contains(&text(expression, &["operator"]));
        if is_by_number && list(expression, &["values"]).len() != 1 {
            let rule = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(format!("{place}.values"), rule);
        }
        selector::check_expression(expression, &place, &by_number, errors);
        if values == Values::OfLabels {
            selector::check_values(expression, &place, errors);
        }
    }
    for (index, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        check_field(requirement, &format!("{field}.matchFields[{index}]"), errors);
    }
}

/// The only field by which nodes are selected is their name.
fn check_field(requirement: &Value, place: &str, errors: &mut FieldErrors) {
    let values = list(requirement, &["values"]);
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field \
                        selector";
            errors.required(format!("{place}.values"), rule);
        }
        other => {
            let rule = "not a valid selector operator";
            errors.invalid(format!("{place}.operator"), &other.into(), rule);
        }
    }
    let key = text(requirement, &["key"]);
    if key != "metadata.name" {
        let rule = "not a valid field selector key";
        return errors.invalid(format!("{place}.key"), &key.into(), rule);
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(rule) = value.as_str().and_then(names::dns_subdomain) {
            errors.invalid(format!("{place}.values[{index}]"), value, &rule);
        }
    }
}

fn check_pod_affinity(affinity: &Value, field: &str, errors: &mut FieldErrors) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, &[required]).iter().enumerate() {
        check_affinity_term(term, &format!("{field}.{required}[{index}]"), errors);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, one) in list(affinity, &[preferred]).iter().enumerate() {
        let place = format!("{field}.{preferred}[{index}]");
        check_weight(one, &place, errors);
        check_affinity_term(&one["podAffinityTerm"], &format!("{place}.podAffinityTerm"), errors);
    }
}

fn check_affinity_term(term: &Value, place: &str, errors: &mut FieldErrors) {
    check_topology_key(term, place, errors);
    check_domain(text(term, &["topologyKey"]), place, errors);
    for field in ["labelSelector", "namespaceSelector"] {
        selector::check(&term[field], &format!("{place}.{field}"), errors);
    }
    check_label_keys(term, place, errors);
    for namespace in list(term, &["namespaces"]) {
        if let Some(rule) = namespace.as_str().and_then(names::dns_label) {
            errors.invalid(format!("{place}.namespace"), namespace, &rule);
        }
    }
}

/// Labels of the pod itself that narrow the selector, or widen it.
fn check_label_keys(term: &Value, place: &str, errors: &mut FieldErrors) {
    let fields = ["matchLabelKeys", "mismatchLabelKeys"];
    for field in fields {
        let keys = list(term, &[field]);
        if !keys.is_empty() && term["labelSelector"].is_null() {
            let rule = "must not be specified when labelSelector is not set";
            errors.forbidden(format!("{place}.{field}"), rule);
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            for rule in names::qualified_name(key.as_str().unwrap_or_default()) {
                errors.invalid(format!("{place}.{field}[{index}]"), key, &rule);
            }
        }
    }
    let [same, other] = fields.map(|field| list(term, &[field]));
    for (index, key) in same.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let rule = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(format!("{place}.matchLabelKeys[{index}]"), key, rule);
    }
}

fn check_topology_key(term: &Value, place: &str, errors: &mut FieldErrors) {
    let key = text(term, &["topologyKey"]);
    if key.is_empty() {
        errors.required(format!("{place}.topologyKey"), "can not be empty");
    }
}

/// A domain is a label of nodes.
fn check_domain(key: &str, place: &str, errors: &mut FieldErrors) {
    for rule in names::qualified_name(key) {
        errors.invalid(format!("{place}.topologyKey"), &key.into(), &rule);
    }
}

fn check_spreading(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let all = list(spec, &["topologySpreadConstraints"]);
    for (index, spread) in all.iter().enumerate() {
        let place = format!("{field}.topologySpreadConstraints[{index}]");
        let skew = spread["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            errors.invalid(format!("{place}.maxSkew"), &skew.into(), "must be greater than zero");
        }
        check_topology_key(spread, &place, errors);
        let action = text(spread, &["whenUnsatisfiable"]);
        let allowed = ["DoNotSchedule", "ScheduleAnyway"];
        if !allowed.contains(&action) {
            errors.unsupported(format!("{place}.whenUnsatisfiable"), &action.into(), &allowed);
        }
        let kind =
            |spread: &Value| (spread["topologyKey"].clone(), spread["whenUnsatisfiable"].clone());
        if all.iter().skip(index + 1).any(|other| kind(other) == kind(spread)) {
            let shown = format!("{{{}, {action}}}", text(spread, &["topologyKey"]));
            let place = format!("{place}.{{topologyKey, whenUnsatisfiable}}");
            errors.duplicate(place, &shown.into());
        }
        check_spread_nodes(spread, (&place, action), errors);
        if !list(spread, &["matchLabelKeys"]).is_empty() && spread["labelSelector"].is_null() {
            let rule = "must not be specified when labelSelector is not set";
            errors.forbidden(format!("{place}.matchLabelKeys"), rule);
        }
        selector::check(&spread["labelSelector"], &format!("{place}.labelSelector"), errors);
    }
}

/// In how many domains, and on which nodes.
fn check_spread_nodes(spread: &Value, (place, action): (&str, &str), errors: &mut FieldErrors) {
    if let Some(domains) = spread["minDomains"].as_i64() {
        let place = format!("{place}.minDomains");
        if domains <= 0 {
            errors.invalid(&*place, &domains.into(), "must be greater than zero");
        }
        if action != "DoNotSchedule" {
            let rule =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.invalid(place, &domains.into(), &rule);
        }
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let allowed = ["Honor", "Ignore"];
        if let Some(policy) = spread[field].as_str().filter(|policy| !allowed.contains(policy)) {
            errors.unsupported(format!("{place}.{field}"), &policy.into(), &allowed);
        }
    }
}

/// What keeps the pod from being ready, and from being scheduled.
fn check_gates(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let condition = text(gate, &["conditionType"]);
        for rule in names::qualified_name(condition) {
            let place = format!("{field}.readinessGates[{index}].conditionType");
            errors.invalid(place, &condition.into(), &rule);
        }
    }
    let gates = list(spec, &["schedulingGates"]);
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, &["name"]);
        let place = format!("{field}.schedulingGates[{index}]");
        for rule in names::qualified_name(name) {
            errors.invalid(&*place, &name.into(), &rule);
        }
        if !seen.insert(name) {
            errors.duplicate(place, &name.into());
        }
    }
}
