//! Validation of the pod failure policy, the success policy and the pod replacement policy of jobs.

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, format_go_struct};
use crate::api_types::names;
use schedlab_api::{
    Value, json,
    object::{list, number, text},
};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const FAILURE_ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const EXIT_CODE_OPERATORS: [&str; 2] = ["In", "NotIn"];
const CONDITION_STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) const POD_FAILURE_POLICY_FIELDS: &[GoField] = &[GoField(
    "rules",
    &[
        GoField("action", &[]),
        GoField(
            "onExitCodes",
            &[GoField("containerName", &[]), GoField("operator", &[]), GoField("values", &[])],
        ),
        GoField("onPodConditions", &[GoField("type", &[]), GoField("status", &[])]),
    ],
)];
pub(super) const SUCCESS_POLICY_FIELDS: &[GoField] =
    &[GoField("rules", &[GoField("succeededIndexes", &[]), GoField("succeededCount", &[])])];

pub(super) fn check_job_policies(spec: &Value, errors: &mut FieldErrors) {
    let failure = &spec["podFailurePolicy"];
    if failure.is_object() {
        let rules = list(failure, &["rules"]);
        if rules.len() > RULES_MAX {
            errors.too_many("spec.podFailurePolicy.rules", rules.len(), RULES_MAX);
        }
        for (index, rule) in rules.iter().enumerate() {
            check_failure_rule(
                spec,
                rule,
                &format!("spec.podFailurePolicy.rules[{index}]"),
                errors,
            );
        }
    }
    if spec["successPolicy"].is_object() {
        check_success_policy(spec, errors);
    }
    let allowed: &[&str] =
        if failure.is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    let found = text(spec, &["podReplacementPolicy"]);
    if !spec["podReplacementPolicy"].is_null() && !allowed.contains(&found) {
        errors.unsupported("spec.podReplacementPolicy", &found.into(), allowed);
    }
}

/// Checks that a required field has one of the allowed values.
fn check_choice(found: &str, allowed: &[&str], path: String, errors: &mut FieldErrors) {
    if found.is_empty() {
        let allowed: Vec<String> = allowed.iter().map(|one| format!("\"{one}\"")).collect();
        errors.required(path, &format!("valid values: [{}]", allowed.join(" ")));
    } else if !allowed.contains(&found) {
        errors.unsupported(path, &found.into(), allowed);
    }
}

fn check_failure_rule(spec: &Value, rule: &Value, field: &str, errors: &mut FieldErrors) {
    let action = text(rule, &["action"]);
    let path = format!("{field}.action");
    if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
        errors.invalid(&*path, &action.into(), "requires the backoffLimitPerIndex to be set");
    }
    check_choice(action, &FAILURE_ACTIONS, path, errors);
    let (codes, conditions) = (&rule["onExitCodes"], list(rule, &["onPodConditions"]));
    if codes.is_object() {
        check_exit_codes(spec, codes, &format!("{field}.onExitCodes"), errors);
    }
    check_pod_conditions(conditions, &format!("{field}.onPodConditions"), errors);
    match (codes.is_object(), conditions.is_empty()) {
        (true, false) => {
            let rule = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.invalid_without_value(field, rule);
        }
        (false, true) => {
            let rule = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.invalid_without_value(field, rule);
        }
        (true, true) | (false, false) => {}
    }
}

fn check_exit_codes(spec: &Value, exit_codes: &Value, field: &str, errors: &mut FieldErrors) {
    let operator = text(exit_codes, &["operator"]);
    check_choice(operator, &EXIT_CODE_OPERATORS, format!("{field}.operator"), errors);
    if let Some(container_name) = exit_codes["containerName"].as_str() {
        let containers = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|kind| list(spec, &["template", "spec", kind]));
        if !containers.into_iter().any(|one| text(one, &["name"]) == container_name) {
            let rule = "must be one of the container or initContainer names in the pod template";
            errors.invalid(format!("{field}.containerName"), &container_name.into(), rule);
        }
    }
    let values = list(exit_codes, &["values"]);
    let path = format!("{field}.values");
    if values.is_empty() {
        errors.invalid(&*path, &json!(values), "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&*path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && value == 0 {
            let rule = "must not be 0 for the In operator";
            errors.invalid(format!("{path}[{index}]"), value, rule);
        }
        if !seen.insert(value.as_i64()) {
            errors.duplicate(format!("{path}[{index}]"), value);
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        errors.invalid(path, &json!(values), "must be ordered");
    }
}

fn check_pod_conditions(conditions: &[Value], field: &str, errors: &mut FieldErrors) {
    if conditions.len() > RULES_MAX {
        errors.too_many(field, conditions.len(), RULES_MAX);
    }
    for (index, condition) in conditions.iter().enumerate() {
        let kind = text(condition, &["type"]);
        for rule in names::qualified_name_violations(kind) {
            errors.invalid(format!("{field}[{index}].type"), &kind.into(), &rule);
        }
        let path = format!("{field}[{index}].status");
        check_choice(text(condition, &["status"]), &CONDITION_STATUSES, path, errors);
    }
}

fn check_success_policy(spec: &Value, errors: &mut FieldErrors) {
    let policy = &spec["successPolicy"];
    if spec["completionMode"] != "Indexed" {
        let rule = "requires indexed completion mode";
        errors.invalid_as_shown(
            "spec.successPolicy",
            &format_go_struct(policy, SUCCESS_POLICY_FIELDS),
            rule,
        );
        return;
    }
    let (rules, field) = (list(policy, &["rules"]), "spec.successPolicy.rules");
    if rules.is_empty() {
        let rule = "at least one rules must be specified when the successPolicy is specified";
        errors.required(field, rule);
    }
    if rules.len() > RULES_MAX {
        errors.too_many(field, rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        check_success_rule(spec, rule, &format!("{field}[{index}]"), errors);
    }
}

fn check_success_rule(spec: &Value, rule: &Value, field: &str, errors: &mut FieldErrors) {
    let completions = number(spec, &["completions"]).unwrap_or(0);
    let (count, indexes) = (number(rule, &["succeededCount"]), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        let rule = "at least one of succeededCount or succeededIndexes must be specified";
        errors.required(field, rule);
    }
    let named = indexes.map(|indexes| count_indexes(indexes, completions));
    if let (Some(Err(why)), Some(indexes)) = (&named, indexes) {
        let rule = format!("error parsing succeededIndexes: {why}");
        errors.invalid(format!("{field}.succeededIndexes"), &indexes.into(), &rule);
    }
    let Some(count) = count else { return };
    let path = format!("{field}.succeededCount");
    if count < 0 {
        errors.invalid(&*path, &count.into(), "must be greater than or equal to 0");
    }
    let mut at_most = |most: i64, of: &str| {
        if count > most {
            let rule = format!("must be less than or equal to {most} (the number of {of})");
            errors.invalid(&*path, &count.into(), &rule);
        }
    };
    at_most(completions, "specified completions");
    if let Some(named) = named {
        let of = "indexes in the specified succeededIndexes field";
        at_most(named.unwrap_or(0), of);
    }
}

/// The number of indexes in a list such as `1,3-5`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let read = |part: &str| match part.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: \"{part}\"")),
        Ok(index) if index >= completions => Err(format!("too large index: \"{part}\"")),
        Ok(index) => Ok(index),
    };
    let unordered = |before: i64, now: i64| {
        Err(format!("non-increasing order, previous: {before}, current: {now}"))
    };
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let ends: Vec<&str> = part.split('-').collect();
        let (first, end) = match ends.as_slice() {
            [one] => (read(one)?, read(one)?),
            [first, end] => match (read(first)?, read(end)?) {
                (first, end) if first >= end => return unordered(first, end),
                ends => ends,
            },
            _ => {
                return Err(format!(
                    "the fragment \"{part}\" violates the requirement that an index interval can \
                     have at most two parts separated by '-'"
                ));
            }
        };
        if let Some(last) = last.filter(|last| *last >= first) {
            return unordered(last, first);
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
