//! Validation of what features add to a device of a slice: taints, counters, binding conditions and
//! policies of capacity requests.

use std::collections::BTreeSet;

use super::{capacity, check_dns_label, items_up_to_limit, json_in_declared_order};
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, map, text},
};

const TAINTS_MAX: usize = 16;
const COUNTER_SETS_MAX: usize = 8;
const CONSUMED_SETS_MAX: usize = 2;
const COUNTERS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 4;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Checks the taints, counters, binding conditions and request policies of a device.
pub(super) fn check_device_features(device: &Value, field_path: &str, errors: &mut FieldErrors) {
    for (path, taint) in items_up_to_limit(device, field_path, "taints", TAINTS_MAX, errors) {
        check_taint(taint, &path, errors);
    }
    let consumed =
        items_up_to_limit(device, field_path, "consumesCounters", CONSUMED_SETS_MAX, errors);
    check_counter_sets(consumed, "counterSet", errors);
    check_binding_conditions(device, field_path, errors);
    capacity::check_policies(device, field_path, errors);
}

/// Checks the counters that the devices of a pool share.
pub(super) fn check_shared_counters(spec: &Value, errors: &mut FieldErrors) {
    let shared = items_up_to_limit(spec, "spec", "sharedCounters", COUNTER_SETS_MAX, errors);
    check_counter_sets(shared, "name", errors);
}

/// Checks sets of counters, each with its path. `name_field` has the name of a set, which no other
/// set may have.
fn check_counter_sets<'v>(
    sets: impl IntoIterator<Item = (String, &'v Value)>,
    name_field: &str,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (path, set) in sets {
        let name = text(set, &[name_field]);
        check_counter_name(name, &format!("{path}.{name_field}"), errors);
        check_counters(set, &path, errors);
        if !seen.insert(name) {
            errors.duplicate_as_shown(path, &json_in_declared_order(set));
        }
    }
}

/// Checks a taint of a device or of a taint rule.
pub(super) fn check_taint(taint: &Value, path: &str, errors: &mut FieldErrors) {
    let key = text(taint, &["key"]);
    for rule in names::qualified_name_violations(key) {
        errors.invalid(format!("{path}.key"), &key.into(), &rule);
    }
    if let Some(rule) = names::label_value_violation(text(taint, &["value"])) {
        errors.invalid(format!("{path}.value"), &taint["value"], &rule);
    }
    let effect = text(taint, &["effect"]);
    if effect.is_empty() {
        errors.required(format!("{path}.effect"), "");
    } else if !TAINT_EFFECTS.contains(&effect) {
        errors.unsupported(format!("{path}.effect"), &effect.into(), &TAINT_EFFECTS);
    }
}

/// Checks a toleration of device taints.
pub(super) fn check_toleration(toleration: &Value, path: &str, errors: &mut FieldErrors) {
    let key = text(toleration, &["key"]);
    if !key.is_empty() {
        for rule in names::qualified_name_violations(key) {
            errors.invalid(format!("{path}.key"), &key.into(), &rule);
        }
    }
    let value = text(toleration, &["value"]);
    match text(toleration, &["operator"]) {
        "Exists" if !value.is_empty() => {
            let rule = "must be empty for operator `Exists`";
            errors.invalid(format!("{path}.value"), &value.into(), rule);
        }
        "Exists" => {}
        "Equal" => {
            if let Some(rule) = names::label_value_violation(value) {
                errors.invalid(format!("{path}.value"), &value.into(), &rule);
            }
        }
        operator => {
            let allowed = ["Equal", "Exists"];
            errors.unsupported(format!("{path}.operator"), &operator.into(), &allowed);
        }
    }
    let effect = text(toleration, &["effect"]);
    if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
        errors.unsupported(format!("{path}.effect"), &effect.into(), &TAINT_EFFECTS);
    }
}

fn check_counter_name(name: &str, path: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path, "");
    } else {
        check_dns_label(name, path, errors);
    }
}

fn check_counters(owner: &Value, path: &str, errors: &mut FieldErrors) {
    let path = format!("{path}.counters");
    let count = map(owner, &["counters"]).map_or(0, schedlab_api::Map::len);
    if count == 0 {
        return errors.required(path, "");
    }
    if count > COUNTERS_MAX {
        return errors.too_many(&*path, count, COUNTERS_MAX);
    }
    for (name, _) in map(owner, &["counters"]).into_iter().flatten() {
        check_dns_label(name, &path, errors);
    }
}

/// Checks the binding conditions of a device or of an allocation result.
pub(super) fn check_binding_conditions(device: &Value, field_path: &str, errors: &mut FieldErrors) {
    let [success, failure] = ["bindingConditions", "bindingFailureConditions"];
    for field in [success, failure] {
        let mut seen = BTreeSet::new();
        for (path, condition) in
            items_up_to_limit(device, field_path, field, CONDITIONS_MAX, errors)
        {
            let name = condition.as_str().unwrap_or_default();
            for rule in names::qualified_name_violations(name) {
                errors.invalid(&*path, condition, &rule);
            }
            if !seen.insert(name) {
                errors.duplicate(&*path, condition);
            }
            if field == failure && list(device, &[success]).contains(condition) {
                let rule = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(path, condition, rule);
            }
        }
    }
    for (field, other) in [(success, failure), (failure, success)] {
        if list(device, &[field]).is_empty() && !list(device, &[other]).is_empty() {
            let rule = format!("{field} are required to use {other}");
            errors.invalid(format!("{field_path}.{field}"), &device[field], &rule);
        }
    }
}
