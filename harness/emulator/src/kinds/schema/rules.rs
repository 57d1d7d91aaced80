//! `x-kubernetes-validations`: rules in CEL, with `oldSelf` for changes.
//!
//! A rule that calls what the CEL library lacks is passed over, as a real server would know it. An
//! `oldSelf` that is optional is null to the library where there is none: rules are written so that
//! they see the optional value that they ask for.

use kube_cel::{CompiledSchema, ErrorKind, ValidationError, Validator, compile_schema};

use super::path::{Brackets, follow};
use super::validate::named;
use super::{Schema, kinds};
use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::expression::{self, Kind, Scope, is_bounded, is_plain, with_room};
use crate::object;
use schedlab_json::{Map, Value};

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

const RULES: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const RULE: &[Field] = &[
    Field("rule", &[]),
    Field("message", &[]),
    Field("messageExpression", &[]),
    Field("reason", &[]),
    Field("fieldPath", &[]),
    Field("optionalOldSelf", &[]),
];

/// Refuses rules that are not whole in the part of a schema that stands at `field`.
pub(super) fn check_whole(raw: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, rule) in object::list(raw, &[RULES]).iter().enumerate() {
        let place = format!("{field}.{RULES}[{index}]");
        check_texts(rule, &place, errors);
        let path = object::text(rule, &["fieldPath"]);
        let is_path = || follow(path, raw, Brackets::Allowed).is_ok();
        if !path.is_empty() && !is_path() {
            let place = format!("{place}.fieldPath");
            errors.invalid(place, &path.into(), "must be a valid path");
        }
    }
}

fn check_texts(rule: &Value, place: &str, errors: &mut FieldErrors) {
    let of = |field: &str| object::text(rule, &[field]);
    let (text, message) = (of("rule").trim(), of("message"));
    let place_of_message = format!("{place}.message");
    if text.is_empty() {
        errors.required(format!("{place}.rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(place_of_message, &message.into(), "must be non-empty if specified");
    } else if message.trim().contains('\n') {
        errors.invalid(place_of_message, &message.into(), "must not contain line breaks");
    } else if message.is_empty() && text.contains('\n') {
        let why = "message must be specified if rule contains line breaks";
        errors.required(place_of_message, why);
    }
    if !of("messageExpression").is_empty() && of("messageExpression").trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.required(format!("{place}.messageExpression"), why);
    }
    if !rule["reason"].is_null() && !REASONS.contains(&of("reason")) {
        errors.unsupported(format!("{place}.reason"), &rule["reason"], &REASONS);
    }
}

/// Refuses rules that cannot be compiled for the part of a schema that stands at `field`, or ask
/// for an old value where none belongs to the new one.
pub(super) fn check_compile(
    raw: &Value,
    (field, is_root): (&str, bool),
    uncorrelated: Option<&str>,
    errors: &mut FieldErrors,
) {
    let rules = object::list(raw, &[RULES]);
    if rules.is_empty() {
        return;
    }
    let kind = if is_root { kinds::of_root(raw) } else { kinds::of(raw) };
    for (index, rule) in rules.iter().enumerate() {
        let place = format!("{field}.{RULES}[{index}]");
        let before = errors.causes().len();
        check_compiles((rule, &kind), &place, errors);
        if errors.causes().len() == before {
            check_old((rule, &kind), &place, uncorrelated, errors);
        }
    }
}

fn check_old(
    (rule, kind): (&Value, &Kind),
    place: &str,
    uncorrelated: Option<&str>,
    errors: &mut FieldErrors,
) {
    let alone = Scope { variables: vec![("self".to_owned(), kind.clone())], binds: false };
    let asks_for_old = expression::check(object::text(rule, &["rule"]), &alone).is_err();
    match uncorrelated {
        Some(within) if asks_for_old => {
            let why = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
            );
            errors.invalid(format!("{place}.rule"), &rule["rule"], &why);
        }
        _ if !asks_for_old && !rule["optionalOldSelf"].is_null() => {
            let why = "may not be set if oldSelf is not used in rule";
            errors.invalid(format!("{place}.optionalOldSelf"), &rule["optionalOldSelf"], why);
        }
        _ => {}
    }
}

fn check_compiles((rule, kind): (&Value, &Kind), place: &str, errors: &mut FieldErrors) {
    let old = if rule["optionalOldSelf"] == true { Kind::Dyn } else { kind.clone() };
    let scope = Scope {
        variables: vec![("self".to_owned(), kind.clone()), ("oldSelf".to_owned(), old)],
        binds: false,
    };
    let mut refuse = |field: &str, why: &str| {
        errors.invalid_in_go(format!("{place}.{field}"), &shown(rule), why);
    };
    match expression::check(object::text(rule, &["rule"]), &scope) {
        Err(why) => return refuse("rule", &format!("compilation failed: {why}")),
        Ok(kind) if !kind.fits(&Kind::Bool) => {
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
        Ok(kind) if !kind.fits(&Kind::Text) => {
            refuse(field, &format!("{field} must evaluate to a string"));
        }
        Ok(_) => {}
    }
}

/// A rule as Go shows it.
fn shown(rule: &Value) -> String {
    let mut whole = rule.clone();
    for field in ["message", "messageExpression", "fieldPath"] {
        object::set_default(&mut whole, &[field], "");
    }
    let mut shown = in_go(&whole, RULE);
    for (letter, escape) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
        shown = shown.replace(letter, escape);
    }
    shown
}

impl Schema {
    /// Whether it has rules in CEL.
    pub fn has_rules(&self) -> bool {
        self.cel.is_some()
    }

    /// Every rule that `new` breaks, but for those about a part that has not changed.
    pub fn broken_rules(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        self.cel.as_ref().map_or_else(FieldErrors::new, |rules| rules.broken(old, new))
    }
}

impl CompiledRules {
    pub(super) fn broken(&self, old: Option<&Value>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (was, is) = (old.cloned().map(Into::into), new.clone().into());
        let judge = || Validator::new().validate_compiled(&self.compiled, &is, was.as_ref());
        let Some(Err(broken)) = with_room(self.plain, judge) else {
            return errors;
        };
        let mut broken = broken.into_vec();
        broken.sort_by(|a, b| (&a.field_path, &a.rule).cmp(&(&b.field_path, &b.rule)));
        for mut rule in broken {
            rule.message = rule.message.replace(OPTIONAL_OLD, "oldSelf");
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
    let field = named(rule.field_path.clone());
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => errors.forbidden(field, &rule.message),
        Some("FieldValueRequired") => errors.required(field, &rule.message),
        Some("FieldValueDuplicate") => errors.duplicate(field, value.unwrap_or(&Value::Null)),
        // What is no scalar is not shown.
        Some(_) | None => match value {
            Some(Value::Object(_) | Value::Array(_)) | None => {
                errors.broken(field, &rule.message);
            }
            Some(value) => errors.invalid(field, value, &rule.message),
        },
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
