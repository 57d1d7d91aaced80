//! Device taints, their tolerations, and `DeviceTaintRule`: defaults and validation.

use super::device_features::check_taint;
use super::{check_dns_label, check_plain_driver, check_pool};
use crate::admission::Admission;
use crate::admission::conditions::check_conditions;
use crate::admission::defaults::pod_template::items_mut;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{self, list, text},
};

const RULE_CONDITIONS_MAX: usize = 8;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

/// Sets the time of taints and the operator of tolerations that have none.
pub(in crate::admission) fn fill(admission: &Admission<'_>, object: &mut Value) {
    let set_time = |taint: &mut Value| {
        if taint.is_object() {
            object::set_default(taint, &["timeAdded"], admission.now.clone());
        }
    };
    if *admission.kind.resource.group != *"resource.k8s.io" {
        return;
    }
    match &*admission.kind.kind {
        "DeviceTaintRule" => object.pointer_mut("/spec/taint").into_iter().for_each(set_time),
        "ResourceSlice" => {
            if let Some(spec) = object.get_mut("spec") {
                for device in items_mut(spec, "devices") {
                    items_mut(device, "taints").for_each(set_time);
                }
            }
        }
        "ResourceClaim" => {
            object.pointer_mut("/spec/devices").into_iter().for_each(fill_requests);
            if let Some(devices) = object.pointer_mut("/status/allocation/devices") {
                items_mut(devices, "results").for_each(fill_operators);
            }
        }
        "ResourceClaimTemplate" => {
            object.pointer_mut("/spec/spec/devices").into_iter().for_each(fill_requests);
        }
        _ => {}
    }
}

fn fill_requests(devices: &mut Value) {
    for request in items_mut(devices, "requests") {
        request.get_mut("exactly").into_iter().for_each(fill_operators);
        items_mut(request, "firstAvailable").for_each(fill_operators);
    }
}

fn fill_operators(owner: &mut Value) {
    for toleration in items_mut(owner, "tolerations") {
        object::fill_text(toleration, &["operator"], "Equal");
    }
}

/// Sets the time of the taint of a rule when its effect changes.
pub(in crate::admission) fn renew(admission: &Admission<'_>, old: &Value, new: &mut Value) {
    if !admission.kind.is("resource.k8s.io", "DeviceTaintRule") {
        return;
    }
    let [before, after] = [old, &*new].map(|rule| &rule["spec"]["taint"]);
    if before["effect"] != after["effect"] && before["timeAdded"] == after["timeAdded"] {
        object::set(new, &["spec", "taint", "timeAdded"], admission.now.clone());
    }
}

/// Checks a `DeviceTaintRule`.
pub(super) fn check_rule(new: &Value, errors: &mut FieldErrors) {
    let selector = &new["spec"]["deviceSelector"];
    let path = "spec.deviceSelector";
    if let Some(driver) = selector["driver"].as_str() {
        check_plain_driver(driver, &format!("{path}.driver"), errors);
    }
    if let Some(pool) = selector["pool"].as_str() {
        check_pool(pool, &format!("{path}.pool"), errors);
    }
    if let Some(device) = selector["device"].as_str() {
        check_dns_label(device, &format!("{path}.device"), errors);
    }
    check_taint(&new["spec"]["taint"], "spec.taint", errors);
}

/// Checks the status of a `DeviceTaintRule`.
pub(super) fn check_rule_status(new: &Value, errors: &mut FieldErrors) {
    check_conditions(&new["status"], "status.conditions", errors);
    let found = list(new, &["status", "conditions"]).len();
    if found > RULE_CONDITIONS_MAX {
        errors.too_many("status.conditions", found, RULE_CONDITIONS_MAX);
    }
}

/// Checks the tolerations of the request or the allocation result at `path`.
pub(super) fn check_tolerations(owner: &Value, path: &str, errors: &mut FieldErrors) {
    for (index, toleration) in list(owner, &["tolerations"]).iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let of = |field: &str| text(toleration, &[field]);
        if !of("key").is_empty() {
            for rule in names::qualified_name_violations(of("key")) {
                errors.invalid(format!("{path}.key"), &of("key").into(), &rule);
            }
        }
        match of("operator") {
            "Exists" if !of("value").is_empty() => {
                let rule = "must be empty for operator `Exists`";
                errors.invalid(format!("{path}.value"), &of("value").into(), rule);
            }
            "Exists" => {}
            "Equal" => check_label_value(of("value"), &format!("{path}.value"), errors),
            "" => errors.required(format!("{path}.operator"), ""),
            other => errors.unsupported(format!("{path}.operator"), &other.into(), &OPERATORS),
        }
        if !of("effect").is_empty() {
            check_effect(of("effect"), &format!("{path}.effect"), errors);
        }
    }
}

fn check_effect(effect: &str, path: &str, errors: &mut FieldErrors) {
    if !EFFECTS.contains(&effect) {
        errors.unsupported(path, &effect.into(), &EFFECTS);
    }
}

fn check_label_value(value: &str, path: &str, errors: &mut FieldErrors) {
    if let Some(rule) = names::label_value_violation(value) {
        errors.invalid(path, &value.into(), &rule);
    }
}
