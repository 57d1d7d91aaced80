//! `x-kubernetes-validations`: rules in CEL, with `oldSelf` for changes.
//!
//! A rule that calls what the CEL library lacks is passed over, as a real server would know it. An
//! `oldSelf` that is optional is null to the library where there is none: rules are written so that
//! they see the optional value that they ask for.

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};

use super::Schema;
use super::validate::named;
use crate::error::FieldErrors;
use crate::expression::{is_bounded, is_plain, with_room};
use crate::object;
use schedlab_json::{Map, Value, json};

/// The rules of a whole schema.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    compiled: CompiledSchema,
    /// They are judged on any stack.
    plain: bool,
}

/// The rules of a whole schema; none if it has none, or none that can be read.
pub(super) fn compile(raw: &Value) -> Option<CompiledRules> {
    let rules = rules(raw);
    if rules.is_empty() || !rules.iter().all(|rule| is_bounded(rule)) {
        return None;
    }
    let plain = rules.iter().all(|rule| is_plain(rule));
    let compiled = with_room(plain, || compile_schema(&with_optional_old(raw).into()))?;
    Some(CompiledRules { compiled, plain })
}

/// `oldSelf` as an optional value.
const OPTIONAL_OLD: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";

/// The schema, with rules that see the optional value where they ask for one.
fn with_optional_old(raw: &Value) -> Value {
    match raw {
        Value::Object(fields) => {
            let asks = raw["optionalOldSelf"] == true;
            let mut changed = Map::new();
            for (field, value) in fields {
                let value = match (value, field.as_str()) {
                    (Value::String(text), "rule" | "messageExpression") if asks => {
                        whole_words(text, "oldSelf", OPTIONAL_OLD).into()
                    }
                    _ => with_optional_old(value),
                };
                changed.insert(field.as_str(), value);
            }
            Value::Object(changed)
        }
        Value::Array(items) => items.iter().map(with_optional_old).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => raw.clone(),
    }
}

/// The text with other words for one, where that stands alone and is no field's name.
fn whole_words(text: &str, word: &str, other: &str) -> String {
    let mut changed = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(word) {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let alone = !before.ends_with(|c: char| part(c) || c == '.') && !after.starts_with(part);
        changed.push_str(before);
        changed.push_str(if alone { other } else { word });
        rest = after;
    }
    changed + rest
}

/// All expressions that stand in a schema.
fn rules(raw: &Value) -> Vec<&str> {
    match raw {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(field, value)| match field.as_str() {
                "x-kubernetes-validations" => expressions(value),
                _ => rules(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(rules).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Of a list of rules: what must hold, and what makes the message.
fn expressions(list: &Value) -> Vec<&str> {
    let each = list.as_array().into_iter().flatten();
    let of = |rule| ["rule", "messageExpression"].map(|field| object::text(rule, &[field]));
    each.flat_map(of).collect()
}

/// Refuses rules that are no CEL.
pub(super) fn check(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let rules = raw["x-kubernetes-validations"].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        let alone = json!({"x-kubernetes-validations": [rule]});
        if compile(&alone).is_none_or(|rules| rules.compiled.has_errors()) {
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
        let (was, is) = (old.cloned().map(Into::into), new.clone().into());
        let judge = || Validator::new().validate_compiled(&rules.compiled, &is, was.as_ref());
        let Some(Err(broken)) = with_room(rules.plain, judge) else {
            return errors;
        };
        let mut broken = broken.into_vec();
        broken.sort_by(|a, b| (&a.field_path, &a.rule).cmp(&(&b.field_path, &b.rule)));
        for mut rule in broken {
            rule.message = rule.message.replace(OPTIONAL_OLD, "oldSelf");
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
    let field = named(rule.field_path.clone());
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
