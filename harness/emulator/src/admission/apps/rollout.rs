//! Validation of update strategies of StatefulSets and Deployments.

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, format_go_struct};
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{at, number, text},
};

const STATEFUL_SET_STRATEGY_FIELDS: &[GoField] = &[
    GoField("type", &[]),
    GoField("rollingUpdate", &[GoField("partition", &[]), GoField("maxUnavailable", &[])]),
];
const DEPLOYMENT_STRATEGY_FIELDS: &[GoField] = &[
    GoField("type", &[]),
    GoField("rollingUpdate", &[GoField("maxUnavailable", &[]), GoField("maxSurge", &[])]),
];

/// Checks that the count at `path` below `spec` is not negative.
pub(in crate::admission) fn check_count_not_negative(
    object: &Value,
    path: &[&str],
    errors: &mut FieldErrors,
) {
    let count = at(&object["spec"], path).and_then(Value::as_i64);
    if let Some(count) = count.filter(|count| *count < 0) {
        let rule = "must be greater than or equal to 0";
        errors.invalid(format!("spec.{}", path.join(".")), &count.into(), rule);
    }
}

pub(in crate::admission) fn check_stateful_set(set: &Value, errors: &mut FieldErrors) {
    let spec = &set["spec"];
    let order = text(spec, &["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&order) {
        let rule = "must be 'OrderedReady' or 'Parallel'";
        errors.invalid("spec.podManagementPolicy", &order.into(), rule);
    }
    let (strategy, field_path) = (&spec["updateStrategy"], "spec.updateStrategy");
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, &["type"]) {
        "OnDelete" if rolling.is_null() => {}
        "OnDelete" => {
            let shown = format_go_struct(rolling, STATEFUL_SET_STRATEGY_FIELDS[1].1);
            let rule = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid_as_shown(format!("{field_path}.rollingUpdate"), &shown, rule);
        }
        "RollingUpdate" => {
            check_count_not_negative(
                set,
                &["updateStrategy", "rollingUpdate", "partition"],
                errors,
            );
        }
        _ => {
            let rule = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid_as_shown(
                field_path,
                &format_go_struct(strategy, STATEFUL_SET_STRATEGY_FIELDS),
                rule,
            );
        }
    }
    for field in ["whenDeleted", "whenScaled"] {
        let found = text(spec, &["persistentVolumeClaimRetentionPolicy", field]);
        let allowed = ["Retain", "Delete"];
        if !found.is_empty() && !allowed.contains(&found) {
            let field_path = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            errors.unsupported(field_path, &found.into(), &allowed);
        }
    }
}

pub(in crate::admission) fn check_deployment(deployment: &Value, errors: &mut FieldErrors) {
    let spec = &deployment["spec"];
    let (strategy, field_path) = (&spec["strategy"], "spec.strategy.rollingUpdate");
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, &["type"]) {
        "Recreate" if rolling.is_null() => {}
        "Recreate" => {
            let rule = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(field_path, rule);
        }
        "RollingUpdate" => check_rolling_update(rolling, field_path, errors),
        _ => {
            let shown = format_go_struct(strategy, DEPLOYMENT_STRATEGY_FIELDS);
            errors.unsupported_as_shown("spec.strategy", &shown, &["Recreate", "RollingUpdate"]);
        }
    }
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        check_count_not_negative(deployment, &[field], errors);
    }
    let ready = number(spec, &["minReadySeconds"]).unwrap_or(0);
    let deadline = number(spec, &["progressDeadlineSeconds"]);
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
        let rule = "must be greater than minReadySeconds";
        errors.invalid("spec.progressDeadlineSeconds", &deadline.into(), rule);
    }
}

fn check_rolling_update(rolling_update: &Value, field_path: &str, errors: &mut FieldErrors) {
    let (unavailable, surge) = (&rolling_update["maxUnavailable"], &rolling_update["maxSurge"]);
    for (field, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        check_count_or_percentage(value, &format!("{field_path}.{field}"), errors);
    }
    let field = format!("{field_path}.maxUnavailable");
    if count_or_percent(unavailable) == 0 && count_or_percent(surge) == 0 {
        errors.invalid(&*field, unavailable, "may not be 0 when `maxSurge` is 0");
    }
    if unavailable.is_string() && count_or_percent(unavailable) > 100 {
        errors.invalid(field, unavailable, "must not be greater than 100%");
    }
}

/// The number of a count or of a percentage such as `25%`; 0 for any other value.
fn count_or_percent(value: &Value) -> i64 {
    let percent = || value.as_str()?.strip_suffix('%')?.parse().ok();
    value.as_i64().or_else(percent).unwrap_or(0)
}

fn check_count_or_percentage(value: &Value, field_path: &str, errors: &mut FieldErrors) {
    if let Some(share) = value.as_str() {
        if let Some(rule) = names::percentage_violation(share) {
            errors.invalid(field_path, value, &rule);
        }
    } else if count_or_percent(value) < 0 {
        errors.invalid(field_path, value, "must be greater than or equal to 0");
    }
}
