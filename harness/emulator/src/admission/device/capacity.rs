//! Validation of the request policies of capacities.

use std::collections::BTreeSet;

use crate::admission::checks::{quantity_milli, quantity_text};
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::typed::canonical_quantity;
use schedlab_api::quantity::Milli;
use schedlab_api::{
    Value,
    object::{list, map},
};

const VALID_VALUES_MAX: usize = 10;

/// Checks the request policies of the capacities of the device at `path`.
pub(super) fn check_policies(device: &Value, path: &str, errors: &mut FieldErrors) {
    let is_shared = device["allowMultipleAllocations"] == true;
    for (name, capacity) in map(device, &["capacity"]).into_iter().flatten() {
        let policy = &capacity["requestPolicy"];
        if policy.is_null() {
            continue;
        }
        let path = format!("{path}.capacity[{name}].requestPolicy");
        if is_shared {
            check_request_policy(&capacity["value"], policy, &path, errors);
        } else {
            errors.forbidden(path, "allowMultipleAllocations must be true");
        }
    }
}

fn check_request_policy(capacity: &Value, policy: &Value, path: &str, errors: &mut FieldErrors) {
    let (values, range) = (list(policy, &["validValues"]), &policy["validRange"]);
    let default = &policy["default"];
    let kind = match (values.is_empty(), range.is_null()) {
        (true, true) => return,
        (false, false) => {
            let rule = "exactly one policy can be specified, cannot specify \"validValues\" and \
                        \"validRange\" at the same time";
            return errors.forbidden(path, rule);
        }
        (false, true) => "validValues",
        (true, false) => "validRange",
    };
    if default.is_null() {
        let rule = format!("required when {kind} is defined");
        errors.required(format!("{path}.default"), &rule);
    } else if range.is_null() {
        check_values(capacity, default, values, &format!("{path}.validValues"), errors);
    } else {
        check_valid_range(capacity, default, range, &format!("{path}.validRange"), errors);
    }
}

fn check_values(
    capacity: &Value,
    default: &Value,
    values: &[Value],
    path: &str,
    errors: &mut FieldErrors,
) {
    for (index, pair) in values.windows(2).enumerate() {
        if quantity_milli(&pair[0]) > quantity_milli(&pair[1]) {
            let rule = "values must be sorted in ascending order";
            errors.invalid(format!("{path}[{}]", index + 1), &pair[1], rule);
        }
    }
    if values.len() > VALID_VALUES_MAX {
        errors.too_many(path, values.len(), VALID_VALUES_MAX);
    } else {
        let mut seen = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if quantity_milli(value) > quantity_milli(capacity) {
                let rule =
                    format!("option is larger than capacity value: {}", quantity_text(capacity));
                errors.invalid(&*path, value, &rule);
            }
            if !seen.insert(quantity_milli(value)) {
                errors.duplicate(path, &plain_number(quantity_milli(value)).into());
            }
        }
    }
    if !values.iter().any(|value| quantity_milli(value) == quantity_milli(default)) {
        let rule = "default value is not valid according to the requestPolicy";
        errors.invalid(path, default, rule);
    }
}

fn check_valid_range(
    capacity: &Value,
    default: &Value,
    range: &Value,
    path: &str,
    errors: &mut FieldErrors,
) {
    let [least, most, step] = ["min", "max", "step"].map(|field| &range[field]);
    if least.is_null() {
        let rule = "required when validRange is defined";
        return errors.required(format!("{path}.min"), rule);
    }
    let mut check = |is_wrong: bool, field: &str, shown: &Value, why: &str, limit: &Value| {
        if is_wrong {
            let rule = format!("{why}: {}", quantity_text(limit));
            errors.invalid(format!("{path}.{field}"), shown, &rule);
        }
    };
    let is_above = |one: &Value, other: &Value| quantity_milli(one) > quantity_milli(other);
    let why = "min is larger than capacity value";
    check(is_above(least, capacity), "min", least, why, capacity);
    check(is_above(least, default), "default", default, "default is less than min", least);
    if !most.is_null() {
        check(is_above(least, most), "max", least, "min is larger than max", most);
        let why = "max is larger than capacity value";
        check(is_above(most, capacity), "max", most, why, capacity);
        check(is_above(default, most), "default", default, "default is more than max", most);
    }
    if step.is_null() {
        return;
    }
    let path = format!("{path}.step");
    if quantity_milli(step) <= 0 {
        return errors.invalid(path, step, "must be greater than zero");
    }
    let sum = quantity_milli(least) + quantity_milli(step);
    if sum > quantity_milli(capacity) {
        let rule = format!(
            "one step {} is larger than capacity value: {}",
            sum_text(sum, least),
            quantity_text(capacity)
        );
        errors.invalid(&*path, step, &rule);
    }
    for value in [default, most] {
        if !value.is_null()
            && (quantity_milli(value) - quantity_milli(least)) % quantity_milli(step) != 0
        {
            let rule = format!(
                "value is not a multiple of a given step ({}) from ({})",
                quantity_text(step),
                quantity_text(least)
            );
            errors.invalid(&*path, value, &rule);
        }
    }
}

/// A quantity in thousandths as a decimal number.
fn plain_number(thousandths: Milli) -> String {
    match (thousandths / 1000, thousandths % 1000) {
        (whole, 0) => whole.to_string(),
        (whole, part) => format!("{whole}.{part:03}").trim_end_matches('0').to_owned(),
    }
}

/// A sum in the format of its first summand.
fn sum_text(sum: Milli, first: &Value) -> String {
    let is_binary = quantity_text(first).ends_with('i');
    let plain = Value::from(plain_number(sum));
    if !is_binary {
        return canonical_quantity(quantity_text(&plain)).unwrap_or_else(|_| plain_number(sum));
    }
    let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let bytes = sum / 1000;
    let unit = units.iter().find(|(_, shift)| bytes % (1 << shift) == 0 && sum % 1000 == 0);
    unit.map_or_else(|| plain_number(sum), |(name, shift)| format!("{}{name}", bytes >> shift))
}
