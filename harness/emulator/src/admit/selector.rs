//! Selectors of labels, where they stand in an object.

use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, map, text};
use schedlab_json::Value;

/// Checks the selector that stands at `field`, if there is one.
pub(super) fn check(selector: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in map(selector, &["matchLabels"]).into_iter().flatten() {
        let place = format!("{field}.matchLabels");
        for rule in names::qualified_name(key) {
            errors.invalid(&*place, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value) {
            errors.invalid(place, value, &rule);
        }
    }
    for (index, expression) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let place = format!("{field}.matchExpressions[{index}]");
        check_expression(expression, &place, &[], errors);
        check_values(expression, &place, errors);
    }
}

/// Checks that labels can have the values of the expression that stands at `field`.
pub(super) fn check_values(expression: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, value) in list(expression, &["values"]).iter().enumerate() {
        if let Some(rule) = value.as_str().and_then(names::label_value) {
            errors.invalid(format!("{field}.values[{index}]"), value, &rule);
        }
    }
}

/// Checks operator and key of the expression that stands at `field`. Whether there are as many
/// values as it needs is known for all operators but `others`, which are allowed besides.
pub(super) fn check_expression(
    expression: &Value,
    field: &str,
    others: &[&str],
    errors: &mut FieldErrors,
) {
    let place = |name: &str| format!("{field}.{name}");
    let values = list(expression, &["values"]);
    match text(expression, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let rule = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(place("values"), rule);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(place("values"), rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other if others.contains(&other) => {}
        other => errors.invalid(place("operator"), &other.into(), "not a valid selector operator"),
    }
    let key = text(expression, &["key"]);
    for rule in names::qualified_name(key) {
        errors.invalid(place("key"), &key.into(), &rule);
    }
}
