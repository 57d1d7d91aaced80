//! Validation of pod placement: node selector, tolerations, affinity, topology spread constraints,
//! gates.

use std::collections::BTreeSet;

use crate::admission::checks::TAINT_EFFECTS;
use crate::admission::selector;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, map, text},
};

/// Checks the node selector, affinity, gates and topology spread constraints of the pod spec at
/// `field`.
pub(in crate::admission) fn check_placement(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in map(spec, &["nodeSelector"]).into_iter().flatten() {
        let path = format!("{field}.nodeSelector");
        for rule in names::qualified_name_violations(key) {
            errors.invalid(&*path, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value_violation) {
            errors.invalid(path, value, &rule);
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
    check_readiness_and_scheduling_gates(spec, field, errors);
    check_topology_spread(spec, field, errors);
}

/// Checks the tolerations of the pod spec at `field`.
pub(in crate::admission) fn check_tolerations(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let path = |field_name: &str| format!("{field}.tolerations[{index}].{field_name}");
        let of = |field: &str| text(toleration, &[field]);
        let (key, operator, effect) = (of("key"), of("operator"), of("effect"));
        for rule in names::qualified_name_violations(key).iter().filter(|_| !key.is_empty()) {
            errors.invalid(path("key"), &key.into(), rule);
        }
        if key.is_empty() && operator != "Exists" {
            let rule = "operator must be Exists when `key` is empty, which means \"match all \
                        values and all keys\"";
            errors.invalid(path("operator"), &operator.into(), rule);
        }
        match operator {
            "" | "Equal" => {
                if let Some(rule) = names::label_value_violation(of("value")) {
                    errors.invalid(path("operator"), &of("value").into(), &rule);
                }
            }
            "Exists" if of("value").is_empty() => {}
            "Exists" => {
                let rule = "value must be empty when `operator` is 'Exists'";
                errors.invalid(path("operator"), &of("value").into(), rule);
            }
            // `Lt` and `Gt` belong to a feature that is off by default; the message lists them all
            // the same.
            "Lt" | "Gt" => {
                let named = ["Equal", "Exists", "Lt", "Gt"];
                errors.unsupported(path("operator"), &operator.into(), &named);
            }
            _ => errors.unsupported(path("operator"), &operator.into(), &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
            errors.unsupported(path("effect"), &effect.into(), &TAINT_EFFECTS);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(path("effect"), &effect.into(), rule);
        }
    }
}

fn check_node_affinity(affinity: &Value, field: &str, errors: &mut FieldErrors) {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_object() {
        let path = format!("{field}.requiredDuringSchedulingIgnoredDuringExecution");
        check_node_selector(required, &path, errors);
    }
    let preferred = list(affinity, &["preferredDuringSchedulingIgnoredDuringExecution"]);
    for (index, one) in preferred.iter().enumerate() {
        let path = format!("{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
        check_preferred_weight(one, &path, errors);
        let path = format!("{path}.preference");
        check_node_selector_term(&one["preference"], &path, ValueRule::Any, errors);
    }
}

/// Checks the node selector at `field`.
pub(in crate::admission) fn check_node_selector(
    selector: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    let path = format!("{field}.nodeSelectorTerms");
    let terms = list(selector, &["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.required(&*path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        check_node_selector_term(term, &format!("{path}[{index}]"), ValueRule::LabelValue, errors);
    }
}

fn check_preferred_weight(preferred: &Value, path: &str, errors: &mut FieldErrors) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(format!("{path}.weight"), &weight.into(), "must be in the range 1-100");
    }
}

/// The rule for values of `matchExpressions`. A preferred term may hold values that no label can
/// have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueRule {
    LabelValue,
    Any,
}

fn check_node_selector_term(
    term: &Value,
    field: &str,
    values: ValueRule,
    errors: &mut FieldErrors,
) {
    for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
        let path = format!("{field}.matchExpressions[{index}]");
        let by_number = ["Gt", "Lt"];
        let is_by_number = by_number.contains(&text(expression, &["operator"]));
        if is_by_number && list(expression, &["values"]).len() != 1 {
            let rule = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(format!("{path}.values"), rule);
        }
        selector::check_label_expression(expression, &path, &by_number, errors);
        if values == ValueRule::LabelValue {
            selector::check_label_values(expression, &path, errors);
        }
    }
    for (index, requirement) in list(term, &["matchFields"]).iter().enumerate() {
        check_field_requirement(requirement, &format!("{field}.matchFields[{index}]"), errors);
    }
}

/// Checks a `matchFields` requirement; `metadata.name` is the only supported key.
fn check_field_requirement(requirement: &Value, path: &str, errors: &mut FieldErrors) {
    let values = list(requirement, &["values"]);
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field \
                        selector";
            errors.required(format!("{path}.values"), rule);
        }
        other => {
            let rule = "not a valid selector operator";
            errors.invalid(format!("{path}.operator"), &other.into(), rule);
        }
    }
    let key = text(requirement, &["key"]);
    if key != "metadata.name" {
        let rule = "not a valid field selector key";
        return errors.invalid(format!("{path}.key"), &key.into(), rule);
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(rule) = value.as_str().and_then(names::dns_subdomain_violation) {
            errors.invalid(format!("{path}.values[{index}]"), value, &rule);
        }
    }
}

fn check_pod_affinity(affinity: &Value, field: &str, errors: &mut FieldErrors) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, &[required]).iter().enumerate() {
        check_pod_affinity_term(term, &format!("{field}.{required}[{index}]"), errors);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, one) in list(affinity, &[preferred]).iter().enumerate() {
        let path = format!("{field}.{preferred}[{index}]");
        check_preferred_weight(one, &path, errors);
        check_pod_affinity_term(
            &one["podAffinityTerm"],
            &format!("{path}.podAffinityTerm"),
            errors,
        );
    }
}

fn check_pod_affinity_term(term: &Value, path: &str, errors: &mut FieldErrors) {
    check_topology_key(term, path, errors);
    check_topology_key_name(text(term, &["topologyKey"]), path, errors);
    for field in ["labelSelector", "namespaceSelector"] {
        selector::check_label_selector(&term[field], &format!("{path}.{field}"), errors);
    }
    check_label_keys(term, path, errors);
    for namespace in list(term, &["namespaces"]) {
        if let Some(rule) = namespace.as_str().and_then(names::dns_label_violation) {
            errors.invalid(format!("{path}.namespace"), namespace, &rule);
        }
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`.
fn check_label_keys(term: &Value, path: &str, errors: &mut FieldErrors) {
    let fields = ["matchLabelKeys", "mismatchLabelKeys"];
    for field in fields {
        let keys = list(term, &[field]);
        if !keys.is_empty() && term["labelSelector"].is_null() {
            let rule = "must not be specified when labelSelector is not set";
            errors.forbidden(format!("{path}.{field}"), rule);
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            for rule in names::qualified_name_violations(key.as_str().unwrap_or_default()) {
                errors.invalid(format!("{path}.{field}[{index}]"), key, &rule);
            }
        }
    }
    let [same, other] = fields.map(|field| list(term, &[field]));
    for (index, key) in same.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let rule = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(format!("{path}.matchLabelKeys[{index}]"), key, rule);
    }
}

fn check_topology_key(term: &Value, path: &str, errors: &mut FieldErrors) {
    let key = text(term, &["topologyKey"]);
    if key.is_empty() {
        errors.required(format!("{path}.topologyKey"), "can not be empty");
    }
}

/// Checks that the topology key is a valid label key.
fn check_topology_key_name(key: &str, path: &str, errors: &mut FieldErrors) {
    for rule in names::qualified_name_violations(key) {
        errors.invalid(format!("{path}.topologyKey"), &key.into(), &rule);
    }
}

fn check_topology_spread(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let all = list(spec, &["topologySpreadConstraints"]);
    for (index, spread) in all.iter().enumerate() {
        let path = format!("{field}.topologySpreadConstraints[{index}]");
        let skew = spread["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            errors.invalid(format!("{path}.maxSkew"), &skew.into(), "must be greater than zero");
        }
        check_topology_key(spread, &path, errors);
        let action = text(spread, &["whenUnsatisfiable"]);
        let allowed = ["DoNotSchedule", "ScheduleAnyway"];
        if !allowed.contains(&action) {
            errors.unsupported(format!("{path}.whenUnsatisfiable"), &action.into(), &allowed);
        }
        let kind =
            |spread: &Value| (spread["topologyKey"].clone(), spread["whenUnsatisfiable"].clone());
        if all.iter().skip(index + 1).any(|other| kind(other) == kind(spread)) {
            let shown = format!("{{{}, {action}}}", text(spread, &["topologyKey"]));
            let path = format!("{path}.{{topologyKey, whenUnsatisfiable}}");
            errors.duplicate(path, &shown.into());
        }
        check_spread_domains_and_policies(spread, &path, action, errors);
        if !list(spread, &["matchLabelKeys"]).is_empty() && spread["labelSelector"].is_null() {
            let rule = "must not be specified when labelSelector is not set";
            errors.forbidden(format!("{path}.matchLabelKeys"), rule);
        }
        selector::check_label_selector(
            &spread["labelSelector"],
            &format!("{path}.labelSelector"),
            errors,
        );
    }
}

/// Checks `minDomains`, `nodeAffinityPolicy` and `nodeTaintsPolicy`.
fn check_spread_domains_and_policies(
    spread: &Value,
    path: &str,
    action: &str,
    errors: &mut FieldErrors,
) {
    if let Some(domains) = spread["minDomains"].as_i64() {
        let path = format!("{path}.minDomains");
        if domains <= 0 {
            errors.invalid(&*path, &domains.into(), "must be greater than zero");
        }
        if action != "DoNotSchedule" {
            let rule =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.invalid(path, &domains.into(), &rule);
        }
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let allowed = ["Honor", "Ignore"];
        if let Some(policy) = spread[field].as_str().filter(|policy| !allowed.contains(policy)) {
            errors.unsupported(format!("{path}.{field}"), &policy.into(), &allowed);
        }
    }
}

/// Checks the readiness gates and the scheduling gates.
fn check_readiness_and_scheduling_gates(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, gate) in list(spec, &["readinessGates"]).iter().enumerate() {
        let condition = text(gate, &["conditionType"]);
        for rule in names::qualified_name_violations(condition) {
            let path = format!("{field}.readinessGates[{index}].conditionType");
            errors.invalid(path, &condition.into(), &rule);
        }
    }
    let gates = list(spec, &["schedulingGates"]);
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, &["name"]);
        let path = format!("{field}.schedulingGates[{index}]");
        for rule in names::qualified_name_violations(name) {
            errors.invalid(&*path, &name.into(), &rule);
        }
        if !seen.insert(name) {
            errors.duplicate(path, &name.into());
        }
    }
}
