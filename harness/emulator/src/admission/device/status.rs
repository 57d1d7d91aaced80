//! Validation of the status of resource claims: allocation, reservations and device status.

use std::collections::BTreeSet;

use super::claim::{check_reference, check_references, request_names, require_admin_access};
use super::{
    ITEMS_MAX, binding, bounded_items, check_dns_label, check_driver, check_opaque, check_pool,
    check_unique, taint,
};
use crate::admission::Admission;
use crate::admission::core::affinity;
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, go_struct_json};
use schedlab_api::{
    Value,
    object::{list, text},
};

const RESERVATIONS_MAX: usize = 256;
const CONFIG_SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

const EXPRESSION: &[GoField] =
    &[GoField("key", &[]), GoField("operator", &[]), GoField("values", &[])];
const ALLOCATION: &[GoField] = &[
    GoField(
        "devices",
        &[
            GoField(
                "results",
                &[
                    GoField("request", &[]),
                    GoField("driver", &[]),
                    GoField("pool", &[]),
                    GoField("device", &[]),
                    GoField("adminAccess", &[]),
                    GoField("tolerations", &[]),
                    GoField("bindingConditions", &[]),
                    GoField("bindingFailureConditions", &[]),
                    GoField("shareID", &[]),
                    GoField("consumedCapacity", &[]),
                ],
            ),
            GoField(
                "config",
                &[GoField("source", &[]), GoField("requests", &[]), GoField("opaque", &[])],
            ),
        ],
    ),
    GoField(
        "nodeSelector",
        &[GoField(
            "nodeSelectorTerms",
            &[GoField("matchExpressions", EXPRESSION), GoField("matchFields", EXPRESSION)],
        )],
    ),
    GoField("allocationTimestamp", &[]),
];

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
        check_unique(text(user, &["uid"]), &path, &mut seen, errors);
    }
    if allocation.is_null() && !list(after, &["reservedFor"]).is_empty() {
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set");
    }
    check_devices(after, errors);
    let had = &before["allocation"];
    if !had.is_null() && !allocation.is_null() && had != allocation {
        let rule = "field is immutable";
        errors.invalid_as_shown("status.allocation", &go_struct_json(allocation, ALLOCATION), rule);
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
        check_device_id(result, &path, errors);
        binding::check(result, &path, errors);
        taint::check_tolerations(result, &path, errors);
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

/// Checks driver, pool and device name.
fn check_device_id(device: &Value, path: &str, errors: &mut FieldErrors) {
    check_driver(text(device, &["driver"]), &format!("{path}.driver"), errors);
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
