//! `x-kubernetes-validations`: rules in CEL, with `oldSelf` for changes.
//!
//! A rule that calls what the CEL library lacks is passed over, as a real server would know it.

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};
use serde_json::{Value, json};

use super::Schema;
use super::validate::shown;
use crate::error::FieldErrors;

/// The rules of a whole schema; none if it has none.
pub(super) fn compile(raw: &Value) -> Option<CompiledSchema> {
    has_rules(raw).then(|| compile_schema(raw))
}

fn has_rules(raw: &Value) -> bool {
    match raw {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Refuses rules that are no CEL.
pub(super) fn check(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let rules = raw["x-kubernetes-validations"].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        if compile_schema(&json!({"x-kubernetes-validations": [rule]})).has_errors() {
            let place = format!("{field}.x-kubernetes-validations[{index}].rule");
            errors.invalid(place, &rule["rule"], "compilation failed");
        }
    }
}

impl Schema {
    /// Whether it has rules in CEL.
    pub fn has_rules(&self) -> bool {
        self.cel.is_some()
    }

    /// Every rule that `new` breaks, but for those about a part that has not changed.
    pub fn broken_rules(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let Some(rules) = &self.cel else {
            return errors;
        };
        let Err(broken) = Validator::new().validate_compiled(rules, new, old) else {
            return errors;
        };
        let mut broken = broken.into_vec();
        broken.sort_by(|a, b| (&a.field_path, &a.rule).cmp(&(&b.field_path, &b.rule)));
        for rule in broken {
            let value = at(new, &rule.field_path);
            let is_old = old.is_some_and(|old| at(old, &rule.field_path) == value);
            if !is_old && rule.kind != ErrorKind::UnsupportedReference {
                report(&rule, value, &mut errors);
            }
        }
        errors
    }
}

fn report(rule: &ValidationError, value: Option<&Value>, errors: &mut FieldErrors) {
    let field = shown(&rule.field_path);
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => errors.forbidden(field, &rule.message),
        Some("FieldValueRequired") => errors.required(field, &rule.message),
        Some("FieldValueDuplicate") => errors.duplicate(field, value.unwrap_or(&Value::Null)),
        Some(_) | None => {
            errors.broken(field, &rule.message);
        }
    }
}

/// What stands at a path like `spec.tasks[1].name`.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    steps.filter(|step| !step.is_empty()).try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            value.get(step)
        }
    })
}
