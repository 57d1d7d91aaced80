//! Validation of jobs: limits, completion mode and policies.

pub(super) mod cron_job;
pub(super) mod scheduling;

mod policy;

use crate::admission::core::pod::check_spec;
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::go_struct_json;
use schedlab_api::{
    Value,
    object::{number, text},
};

/// The maximum parallelism and `maxFailedIndexes` of an Indexed job.
const INDEXED_MAX: i64 = 100_000;
/// The maximum parallelism and `maxFailedIndexes` of a job with a backoff limit per index and more
/// than `INDEXED_MAX` completions.
const MANY_COMPLETIONS_MAX: i64 = 10_000;
const MANAGED_BY_LENGTH_MAX: usize = 63;

/// Checks `spec` of a job, except its selector.
pub(super) fn check(job: &Value, errors: &mut FieldErrors) {
    let spec = &job["spec"];
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if let Some(count) = number(spec, &[field]).filter(|count| *count < 0) {
            let rule = "must be greater than or equal to 0";
            errors.invalid(format!("spec.{field}"), &count.into(), rule);
        }
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        errors.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    check_managed_by(spec, errors);
    check_completion_mode(spec, errors);
    policy::check(spec, errors);
    check_spec(&spec["template"]["spec"], "spec.template.spec", errors);
    check_restart_policy(spec, errors);
}

fn check_managed_by(spec: &Value, errors: &mut FieldErrors) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let is_path = manager.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && crate::api_types::names::dns_subdomain_violation(domain).is_none()
    });
    if !is_path {
        let rule = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid("spec.managedBy", &manager.into(), rule);
    }
    if manager.len() > MANAGED_BY_LENGTH_MAX {
        errors.too_long("spec.managedBy", MANAGED_BY_LENGTH_MAX);
    }
}

fn check_completion_mode(spec: &Value, errors: &mut FieldErrors) {
    // The completion mode is not defaulted in job templates of a `CronJob`.
    if spec["completionMode"].is_null() {
        return;
    }
    match text(spec, &["completionMode"]) {
        "Indexed" => check_indexed(spec, errors),
        "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if !spec[field].is_null() {
                    let rule = "requires indexed completion mode";
                    errors.invalid(format!("spec.{field}"), &spec[field], rule);
                }
            }
        }
        other => {
            let allowed = ["NonIndexed", "Indexed"];
            errors.unsupported("spec.completionMode", &other.into(), &allowed);
        }
    }
}

fn check_indexed(spec: &Value, errors: &mut FieldErrors) {
    let count = |field: &str| number(spec, &[field]);
    let completions = count("completions");
    if completions.is_none() {
        errors.required("spec.completions", "when completion mode is Indexed");
    }
    let mut at_most = |field: &str, most: i64, rule: &str| {
        if let Some(found) = count(field).filter(|found| *found > most) {
            errors.invalid(format!("spec.{field}"), &found.into(), rule);
        }
    };
    at_most(
        "parallelism",
        INDEXED_MAX,
        "must be less than or equal to 100000 when completion mode is Indexed",
    );
    if let Some(completions) = completions {
        let rule = "must be less than or equal to completions";
        at_most("maxFailedIndexes", completions, rule);
    }
    at_most("maxFailedIndexes", INDEXED_MAX, "must be less than or equal to 100000");
    let is_many = completions.is_some_and(|completions| completions > INDEXED_MAX);
    if is_many && count("backoffLimitPerIndex").is_some() {
        check_many_completions(spec, errors);
    }
}

fn check_many_completions(spec: &Value, errors: &mut FieldErrors) {
    if spec["maxFailedIndexes"].is_null() {
        let rule = "must be specified when completions is above 100000";
        errors.required("spec.maxFailedIndexes", rule);
    }
    for field in ["parallelism", "maxFailedIndexes"] {
        if let Some(found) = number(spec, &[field]).filter(|found| *found > MANY_COMPLETIONS_MAX) {
            let rule = "must be less than or equal to 10000 when completions are above 100000 \
                        and used with backoff limit per index";
            errors.invalid(format!("spec.{field}"), &found.into(), rule);
        }
    }
}

fn check_restart_policy(spec: &Value, errors: &mut FieldErrors) {
    let field_path = "spec.template.spec.restartPolicy";
    let found = text(spec, &["template", "spec", "restartPolicy"]);
    match found {
        "" | "Always" => errors.required(field_path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            let rule = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(field_path, &found.into(), rule);
        }
        "OnFailure" | "Never" => {}
        _ => errors.unsupported(field_path, &found.into(), &["OnFailure", "Never"]),
    }
}

/// Checks the immutable policy fields of a job.
pub(super) fn check_policies_unchanged(before: &Value, after: &Value, errors: &mut FieldErrors) {
    let shown = |field: &str| match field {
        "podFailurePolicy" => go_struct_json(&after[field], policy::POD_FAILURE_POLICY),
        "successPolicy" => go_struct_json(&after[field], policy::SUCCESS_POLICY),
        _ => after[field].to_string(),
    };
    for field in ["podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        if before[field] != after[field] {
            let field_path = format!("spec.{field}");
            errors.invalid_as_shown(field_path, &shown(field), "field is immutable");
        }
    }
}
