//! `x-kubernetes-validations`: the checks of the rules in a schema. [`super::rule_evaluation`]
//! evaluates them.

use super::cel_cost::{OccurrencesMax, RuleSite, TotalCost};
use super::cel_sizes::declared_size;
use super::cel_types;
use super::path::{BracketKeys, resolve_json_path};
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, format_go_struct};
use crate::api_types::expression::{self, CelType, TypeScope};
use schedlab_api::{Value, object};

pub(super) const VALIDATIONS_KEYWORD: &str = "x-kubernetes-validations";
const RULE_REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const RULE_FIELDS: &[GoField] = &[
    GoField("rule", &[]),
    GoField("message", &[]),
    GoField("messageExpression", &[]),
    GoField("reason", &[]),
    GoField("fieldPath", &[]),
    GoField("optionalOldSelf", &[]),
];

/// Reports invalid fields of the rules in the schema part at `field`.
pub(super) fn check_rule_fields(raw: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, rule) in object::list(raw, &[VALIDATIONS_KEYWORD]).iter().enumerate() {
        let rule_path = format!("{field}.{VALIDATIONS_KEYWORD}[{index}]");
        check_rule_texts(rule, &rule_path, errors);
        let path = object::text(rule, &["fieldPath"]);
        let is_path = || resolve_json_path(path, raw, BracketKeys::Allowed).is_ok();
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
    if !rule["reason"].is_null() && !RULE_REASONS.contains(&of("reason")) {
        errors.unsupported(format!("{rule_path}.reason"), &rule["reason"], &RULE_REASONS);
    }
}

/// The position of a rule's part in the schema.
pub(super) struct RulePosition<'p> {
    pub(super) field: &'p str,
    pub(super) is_root: bool,
    /// The path of the enclosing list whose old and new items cannot be correlated; `None` if they
    /// can.
    pub(super) uncorrelated_within: Option<&'p str>,
    pub(super) cardinality: OccurrencesMax,
}

/// Reports rules of a schema part that do not compile, are too expensive, or use `oldSelf` where
/// old and new values cannot be correlated.
pub(super) fn check_compiled_rules(
    raw: &Value,
    place: &RulePosition<'_>,
    cost: &mut TotalCost,
    errors: &mut FieldErrors,
) {
    let rules = object::list(raw, &[VALIDATIONS_KEYWORD]);
    if rules.is_empty() {
        return;
    }
    let is_resource = place.is_root || raw["x-kubernetes-embedded-resource"] == true;
    let kind =
        if place.is_root { cel_types::root_self_type(raw) } else { cel_types::self_type(raw) };
    let size = declared_size(raw, is_resource).unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("{}.{VALIDATIONS_KEYWORD}[{index}]", place.field);
        let before = errors.causes().len();
        check_rule_compiles(rule, &kind, &path, errors);
        if errors.causes().len() == before {
            let (kind, size, cardinality) = (&kind, &size, place.cardinality);
            cost.add_rule(&RuleSite { rule, path: &path, kind, size, cardinality }, errors);
            check_old_self(rule, kind, &path, place.uncorrelated_within, errors);
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
    let alone =
        TypeScope { variables: vec![("self".to_owned(), kind.clone())], allows_bind: false };
    let uses_old_self = expression::check_type(object::text(rule, &["rule"]), &alone).is_err();
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
    let scope = TypeScope {
        variables: vec![("self".to_owned(), kind.clone()), ("oldSelf".to_owned(), old)],
        allows_bind: false,
    };
    let mut refuse = |field: &str, why: &str| {
        errors.invalid_as_shown(format!("{rule_path}.{field}"), &format_rule(rule), why);
    };
    match expression::check_type(object::text(rule, &["rule"]), &scope) {
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
    match expression::check_type(message, &scope) {
        Err(why) => refuse(field, &format!("{field} compilation failed: {why}")),
        Ok(kind) if !kind.is_assignable_to(&CelType::Text) => {
            refuse(field, &format!("{field} must evaluate to a string"));
        }
        Ok(_) => {}
    }
}

/// A rule as Go formats it in messages.
fn format_rule(rule: &Value) -> String {
    let mut whole = rule.clone();
    for field in ["message", "messageExpression", "fieldPath"] {
        object::set_default(&mut whole, &[field], "");
    }
    let mut shown = format_go_struct(&whole, RULE_FIELDS);
    for (letter, escape) in [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")] {
        shown = shown.replace(letter, escape);
    }
    shown
}
