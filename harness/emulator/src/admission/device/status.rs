//! Validation of the status of resource claims: allocation, reservations and device status.

use std::collections::BTreeSet;

use super::claim::{check_reference, check_references, request_names, require_admin_access};
use super::device_features::{check_binding_conditions, check_toleration};
use super::{
    ITEMS_MAX, POOL_MAX, bounded_items, check_dns_label, check_driver, check_opaque,
    check_plain_driver, check_pool, check_unique_item,
};
use crate::admission::Admission;
use crate::admission::core::affinity;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, text},
};

const RESERVATIONS_MAX: usize = 256;
const CONFIG_SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Checks the new status of a resource claim.
pub(crate) fn check(admission: &Admission<'_>, old: &Value, new: &Value, errors: &mut FieldErrors) {
    let (before, after) = (&old["status"], &new["status"]);
    let allocation = &after["allocation"];
    if let Some(index) = first_admin_access(allocation)
        .filter(|_| first_admin_access(&before["allocation"]).is_none())
    {
        let path = format!("status.allocation.devices.results[{index}].adminAccess");
        require_admin_access(admission, path, errors);
    }
    let mut seen = BTreeSet::new();
    for (path, user) in bounded_items(after, "status", "reservedFor", RESERVATIONS_MAX, errors) {
        for field in ["resource", "name", "uid"] {
            if text(user, &[field]).is_empty() {
                errors.required(format!("{path}.{field}"), "");
            }
        }
        check_unique_item(text(user, &["uid"]), user, &path, &mut seen, errors);
    }
    if allocation.is_null() && !list(after, &["reservedFor"]).is_empty() {
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set");
    }
    check_devices(after, errors);
    let had = &before["allocation"];
    if !had.is_null() && !allocation.is_null() && had != allocation {
        let rule = "field cannot be modified once set";
        errors.invalid("status.allocation", &Value::Null, rule);
    } else if had.is_null() && !allocation.is_null() {
        check_allocation(&new["spec"]["devices"], allocation, errors);
    }
}

/// The index of the first result with admin access.
fn first_admin_access(allocation: &Value) -> Option<usize> {
    let results = list(allocation, &["devices", "results"]);
    results.iter().position(|result| result["adminAccess"] == true)
}

fn check_allocation(requested_devices: &Value, allocation: &Value, errors: &mut FieldErrors) {
    let field = "status.allocation.devices";
    let devices = &allocation["devices"];
    let names = request_names(requested_devices);
    for (path, result) in bounded_items(devices, field, "results", ITEMS_MAX, errors) {
        let request = text(result, &["request"]);
        check_reference(request, &format!("{path}.request"), &names, errors);
        check_driver(text(result, &["driver"]), &format!("{path}.driver"), errors);
        check_result_pool(text(result, &["pool"]), &format!("{path}.pool"), errors);
        check_dns_label(text(result, &["device"]), &format!("{path}.device"), errors);
        check_binding_conditions(result, &path, errors);
        for (index, toleration) in list(result, &["tolerations"]).iter().enumerate() {
            check_toleration(toleration, &format!("{path}.tolerations[{index}]"), errors);
        }
    }
    for (path, configuration) in bounded_items(devices, field, "config", 2 * ITEMS_MAX, errors) {
        let source = text(configuration, &["source"]);
        if source.is_empty() {
            errors.required(format!("{path}.source"), "");
        } else if !CONFIG_SOURCES.contains(&source) {
            errors.unsupported(format!("{path}.source"), &source.into(), &CONFIG_SOURCES);
        }
        check_references(configuration, &path, &names, errors);
        check_opaque(configuration, &path, errors);
    }
    let selector = &allocation["nodeSelector"];
    if !selector.is_null() {
        affinity::check_node_selector(selector, "status.allocation.nodeSelector", errors);
    }
}

/// Checks the pool name of an allocation, whose errors name the segment.
fn check_result_pool(pool: &str, field: &str, errors: &mut FieldErrors) {
    if pool.is_empty() {
        return errors.required(field, "");
    }
    if pool.len() > POOL_MAX {
        errors.too_long(field, POOL_MAX);
    }
    for (index, part) in pool.split('/').enumerate() {
        if part.is_empty() {
            let rule = format!("segment {index}: must not be empty");
            errors.invalid(field, &pool.into(), &rule);
        } else if let Some(rule) = names::dns_subdomain_violation(part) {
            errors.invalid(field, &part.into(), &format!("segment {index}: {rule}"));
        }
    }
}

/// Checks driver, pool and device name.
fn check_device_id(device: &Value, path: &str, errors: &mut FieldErrors) {
    check_plain_driver(text(device, &["driver"]), &format!("{path}.driver"), errors);
    check_pool(text(device, &["pool"]), &format!("{path}.pool"), errors);
    check_dns_label(text(device, &["device"]), &format!("{path}.device"), errors);
}

/// Checks that every device status is of an allocated device.
fn check_devices(status: &Value, errors: &mut FieldErrors) {
    let key = |device: &Value| {
        ["driver", "pool", "device", "shareID"].map(|field| text(device, &[field]).to_owned())
    };
    let has = list(&status["allocation"], &["devices", "results"]);
    let has: BTreeSet<[String; 4]> = has.iter().map(key).collect();
    for (index, device) in list(status, &["devices"]).iter().enumerate() {
        let path = format!("status.devices[{index}]");
        check_device_id(device, &path, errors);
        let key = key(device);
        if !has.contains(&key) {
            let [driver, pool, name, share] = key.map(Value::from);
            let shown = format!(
                "{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}"
            );
            errors.invalid_as_shown(path, &shown, "must be an allocated device in the claim");
        }
    }
}
