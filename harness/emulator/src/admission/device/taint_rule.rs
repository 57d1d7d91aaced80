//! Device taint rules: validation, and the times at which taints of devices were added.

use super::{check_dns_label, check_plain_driver, check_pool, device_features};
use crate::admission::conditions::check_conditions;
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use schedlab_api::{
    Value,
    object::{self, list, text},
};

/// The maximum number of conditions of a rule.
const CONDITIONS_MAX: usize = 8;

pub(super) fn check(rule: &Value, errors: &mut FieldErrors) {
    let (spec, path) = (&rule["spec"], "spec.deviceSelector");
    if let Some(device) = spec["deviceSelector"]["device"].as_str() {
        check_dns_label(device, &format!("{path}.device"), errors);
    }
    if let Some(driver) = spec["deviceSelector"]["driver"].as_str() {
        check_plain_driver(driver, &format!("{path}.driver"), errors);
    }
    if let Some(pool) = spec["deviceSelector"]["pool"].as_str() {
        check_pool(pool, &format!("{path}.pool"), errors);
    }
    device_features::check_taint(&spec["taint"], "spec.taint", errors);
}

/// Checks the new status of a rule.
pub(super) fn check_status(rule: &Value, errors: &mut FieldErrors) {
    check_conditions(&rule["status"], "status.conditions", errors);
    let found = list(rule, &["status", "conditions"]).len();
    if found > CONDITIONS_MAX {
        errors.too_many("status.conditions", found, CONDITIONS_MAX);
    }
}

/// Sets the times of new taints to the time of the request, and that of a rule whose effect
/// changed.
pub(in crate::admission) fn fill_times(
    kind: &Kind,
    old: Option<&Value>,
    new: &mut Value,
    now: &Value,
) {
    let has_time = |taint: &Value| !taint["timeAdded"].is_null();
    if kind.is("resource.k8s.io", "DeviceTaintRule") {
        let Some(taint) = new.get_mut("spec").and_then(|spec| spec.get_mut("taint")) else {
            return;
        };
        let is_changed = old.is_some_and(|old| {
            let before = &old["spec"]["taint"];
            text(before, &["effect"]) != text(taint, &["effect"])
                && before["timeAdded"] == taint["timeAdded"]
        });
        if !has_time(taint) || is_changed {
            object::set(taint, &["timeAdded"], now.clone());
        }
    }
    if kind.is("resource.k8s.io", "ResourceSlice") {
        let devices = new.get_mut("spec").and_then(|spec| spec.get_mut("devices"));
        for device in devices.and_then(Value::as_array_mut).into_iter().flatten() {
            let taints = device.get_mut("taints").and_then(Value::as_array_mut);
            for taint in taints.into_iter().flatten().filter(|taint| !has_time(taint)) {
                object::set(taint, &["timeAdded"], now.clone());
            }
        }
    }
}
