//! `x-kubernetes-validations`: CEL rules, with `oldSelf` for transition rules.
//!
//! Rules that call functions missing in the CEL library are skipped: the API server knows these
//! functions. The library passes an absent optional `oldSelf` as null, so rules are rewritten to
//! see the optional value.

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};

use super::path::{Brackets, resolve};
use super::validate::path_or_nil;
use super::{Schema, cel_types};
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, go_struct_json};
use crate::api_types::expression::{
    self, CelType, Scope, is_shallow, is_within_length_limit, with_large_stack,
};
use schedlab_api::{Map, Value, object};

/// The compiled rules of a whole schema.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    compiled: CompiledSchema,
    /// Whether evaluation needs no large stack.
    is_shallow: bool,
}

/// Compiles the rules of a schema; `None` if there are none, or one is too long.
pub(super) fn compile(raw: &Value) -> Option<CompiledRules> {
    let rules = all_expressions(raw);
    if rules.is_empty() || !rules.iter().all(|rule| is_within_length_limit(rule)) {
        return None;
    }
    let plain = rules.iter().all(|rule| is_shallow(rule));
    let compiled = with_large_stack(plain, || compile_schema(&with_optional_old_self(raw).into()))?;
    Some(CompiledRules { compiled, is_shallow: plain })
}

/// The expression that replaces an optional `oldSelf`.
const OPTIONAL_OLD_SELF: &str = "(oldSelf == null ? optional.none() : optional.of(oldSelf))";

/// The schema with `oldSelf` replaced in rules with `optionalOldSelf`.
fn with_optional_old_self(raw: &Value) -> Value {
    match raw {
        Value::Object(fields) => {
            let is_old_optional = raw["optionalOldSelf"] == true;
            let mut changed = Map::new();
            for (field, value) in fields {
                let value = match (value, field.as_str()) {
                    (Value::String(text), "rule" | "messageExpression") if is_old_optional => {
                        replace_word(text, "oldSelf", OPTIONAL_OLD_SELF).into()
                    }
                    _ => with_optional_old_self(value),
                };
                changed.insert(field.as_str(), value);
            }
            Value::Object(changed)
        }
        Value::Array(items) => items.iter().map(with_optional_old_self).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => raw.clone(),
    }
}

/// Replaces `word` where it is a whole identifier and not a field name.
fn replace_word(text: &str, word: &str, other: &str) -> String {
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

/// All CEL expressions in a schema.
fn all_expressions(raw: &Value) -> Vec<&str> {
    match raw {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(field, value)| match field.as_str() {
                "x-kubernetes-validations" => rule_expressions(value),
                _ => all_expressions(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(all_expressions).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The expressions of a list of rules: `rule` and `messageExpression`.
fn rule_expressions(list: &Value) -> Vec<&str> {
    let each = list.as_array().into_iter().flatten();
    let of = |rule| ["rule", "messageExpression"].map(|field| object::text(rule, &[field]));
    each.flat_map(of).collect()
}

const VALIDATIONS: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const RULE: &[GoField] = &[
    GoField("rule", &[]),
    GoField("message", &[]),
    GoField("messageExpression", &[]),
    GoField("reason", &[]),
    GoField("fieldPath", &[]),
    GoField("optionalOldSelf", &[]),
];

/// Reports invalid fields of the rules in the schema part at `field`.
pub(super) fn check_rule_fields(raw: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, rule) in object::list(raw, &[VALIDATIONS]).iter().enumerate() {
        let rule_path = format!("{field}.{VALIDATIONS}[{index}]");
        check_rule_texts(rule, &rule_path, errors);
        let path = object::text(rule, &["fieldPath"]);
        let is_path = || resolve(path, raw, Brackets::Allowed).is_ok();
        if !path.is_empty() && !is_path() {
            let rule_path = format!("{rule_path}.fieldPath");
            errors.invalid(rule_path, &path.into(), "must be a valid path");
        }
    }
}

fn check_rule_texts(rule: &Value, rule_path: &str, errors: &mut FieldErrors) {
    let of = |field: &str| object::text(rule, &[field]);
    let (text, message) = (of("rule").trim(), of("message"));
    let message_path = format!("{rule_path}.message");
    if text.is_empty() {
        errors.required(format!("{rule_path}.rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(message_path, &message.into(), "must be non-empty if specified");
    } else if message.trim().contains('\n') {
        errors.invalid(message_path, &message.into(), "must not contain line breaks");
    } else if message.is_empty() && text.contains('\n') {
        let why = "message must be specified if rule contains line breaks";
        errors.required(message_path, why);
    }
    if !of("messageExpression").is_empty() && of("messageExpression").trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.required(format!("{rule_path}.messageExpression"), why);
    }
    if !rule["reason"].is_null() && !REASONS.contains(&of("reason")) {
        errors.unsupported(format!("{rule_path}.reason"), &rule["reason"], &REASONS);
    }
}

/// Reports rules in the schema part at `field` that do not compile, or use `oldSelf` where old and
/// new values cannot be correlated (`uncorrelated`: the path of that part).
pub(super) fn check_compiled_rules(
    raw: &Value,
    field: &str,
    is_root: bool,
    uncorrelated: Option<&str>,
    errors: &mut FieldErrors,
) {
    let rules = object::list(raw, &[VALIDATIONS]);
    if rules.is_empty() {
        return;
    }
    let kind = if is_root { cel_types::root_type(raw) } else { cel_types::type_of(raw) };
    for (index, rule) in rules.iter().enumerate() {
        let rule_path = format!("{field}.{VALIDATIONS}[{index}]");
        let before = errors.causes().len();
        check_rule_compiles(rule, &kind, &rule_path, errors);
        if errors.causes().len() == before {
            check_old_self(rule, &kind, &rule_path, uncorrelated, errors);
        }
    }
}

fn check_old_self(
    rule: &Value,
    kind: &CelType,
    rule_path: &str,
    uncorrelated: Option<&str>,
    errors: &mut FieldErrors,
) {
    let alone = Scope { variables: vec![("self".to_owned(), kind.clone())], allows_bind: false };
    let uses_old_self = expression::check(object::text(rule, &["rule"]), &alone).is_err();
    match uncorrelated {
        Some(within) if uses_old_self => {
            let why = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
            );
            errors.invalid(format!("{rule_path}.rule"), &rule["rule"], &why);
        }
        _ if !uses_old_self && !rule["optionalOldSelf"].is_null() => {
            let why = "may not be set if oldSelf is not used in rule";
            errors.invalid(format!("{rule_path}.optionalOldSelf"), &rule["optionalOldSelf"], why);
        }
        _ => {}
    }
}

fn check_rule_compiles(rule: &Value, kind: &CelType, rule_path: &str, errors: &mut FieldErrors) {
    let old = if rule["optionalOldSelf"] == true { CelType::Dyn } else { kind.clone() };
    let scope = Scope {
        variables: vec![("self".to_owned(), kind.clone()), ("oldSelf".to_owned(), old)],
        allows_bind: false,
    };
    let mut refuse = |field: &str, why: &str| {
        errors.invalid_as_shown(format!("{rule_path}.{field}"), &rule_as_go(rule), why);
    };
    match expression::check(object::text(rule, &["rule"]), &scope) {
        Err(why) => return refuse("rule", &format!("compilation failed: {why}")),
        Ok(kind) if !kind.is_assignable_to(&CelType::Bool) => {
            return refuse("rule", "cel expression must evaluate to a bool");
        }
        Ok(_) => {}
    }
    let message = object::text(rule, &["messageExpression"]);
    if message.is_empty() {
        return;
    }
    let field = "messageExpression";
    match expression::check(message, &scope) {
        Err(why) => refuse(field, &format!("{field} compilation failed: {why}")),
        Ok(kind) if !kind.is_assignable_to(&CelType::Text) => {
            refuse(field, &format!("{field} must evaluate to a string"));
        }
        Ok(_) => {}
    }
}

/// A rule as Go formats it in messages.
fn rule_as_go(rule: &Value) -> String {
    let mut whole = rule.clone();
    for field in ["message", "messageExpression", "fieldPath"] {
        object::set_default(&mut whole, &[field], "");
    }
    let mut shown = go_struct_json(&whole, RULE);
    for (letter, escape) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
        shown = shown.replace(letter, escape);
    }
    shown
}

impl Schema {
    /// Whether the schema has CEL rules.
    pub fn has_rules(&self) -> bool {
        self.cel.is_some()
    }

    /// The rules that `new` violates, except those about an unchanged part.
    pub fn rule_violations(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        self.cel.as_ref().map_or_else(FieldErrors::new, |rules| rules.violations(old, new))
    }
}

impl CompiledRules {
    pub(super) fn violations(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (was, is) = (old.cloned().map(Into::into), new.clone().into());
        let judge = || Validator::new().validate_compiled(&self.compiled, &is, was.as_ref());
        let Some(Err(broken)) = with_large_stack(self.is_shallow, judge) else {
            return errors;
        };
        let mut broken = broken.into_vec();
        broken.sort_by(|a, b| (&a.field_path, &a.rule).cmp(&(&b.field_path, &b.rule)));
        for mut rule in broken {
            rule.message = rule.message.replace(OPTIONAL_OLD_SELF, "oldSelf");
            let value = at(new, &rule.field_path);
            let is_old = old.is_some_and(|old| at(old, &rule.field_path) == value);
            let is_passed_over = matches!(
                rule.kind,
                ErrorKind::UnsupportedReference | ErrorKind::CompilationFailure
            );
            if !is_old && !is_passed_over {
                report(&rule, value, &mut errors);
            }
        }
        errors
    }
}

fn report(rule: &ValidationError, value: Option<&Value>, errors: &mut FieldErrors) {
    let field = path_or_nil(rule.field_path.clone());
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => errors.forbidden(field, &rule.message),
        Some("FieldValueRequired") => errors.required(field, &rule.message),
        Some("FieldValueDuplicate") => errors.duplicate(field, value.unwrap_or(&Value::Null)),
        // The message shows scalars only.
        Some(_) | None => match value {
            Some(Value::Object(_) | Value::Array(_)) | None => {
                errors.invalid_without_value(field, &rule.message);
            }
            Some(value) => errors.invalid(field, value, &rule.message),
        },
    }
}

/// The value at a path such as `spec.tasks[1].name`.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']'));
    steps.filter(|step| !step.is_empty()).try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            value.get(step)
        }
    })
}
