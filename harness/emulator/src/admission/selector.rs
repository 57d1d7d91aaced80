//! Validation of label selectors in objects.

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, map, text},
};

/// Checks the label selector at `field`; null is valid.
pub(super) fn check_label_selector(selector: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in map(selector, &["matchLabels"]).into_iter().flatten() {
        let path = format!("{field}.matchLabels");
        for rule in names::qualified_name_violations(key) {
            errors.invalid(&*path, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value_violation) {
            errors.invalid(path, value, &rule);
        }
    }
    for (index, expression) in list(selector, &["matchExpressions"]).iter().enumerate() {
        let path = format!("{field}.matchExpressions[{index}]");
        check_label_expression(expression, &path, &[], errors);
        check_label_values(expression, &path, errors);
    }
}

/// Checks that the values of the expression at `field` are valid label values.
pub(super) fn check_label_values(expression: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, value) in list(expression, &["values"]).iter().enumerate() {
        if let Some(rule) = value.as_str().and_then(names::label_value_violation) {
            errors.invalid(format!("{field}.values[{index}]"), value, &rule);
        }
    }
}

/// Checks operator and key of the label expression at `field`. `others` are additional allowed
/// operators, whose number of values the caller checks.
pub(super) fn check_label_expression(
    expression: &Value,
    field: &str,
    others: &[&str],
    errors: &mut FieldErrors,
) {
    let path = |name: &str| format!("{field}.{name}");
    let values = list(expression, &["values"]);
    match text(expression, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let rule = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(path("values"), rule);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(path("values"), rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other if others.contains(&other) => {}
        other => errors.invalid(path("operator"), &other.into(), "not a valid selector operator"),
    }
    let key = text(expression, &["key"]);
    for rule in names::qualified_name_violations(key) {
        errors.invalid(path("key"), &key.into(), &rule);
    }
}
