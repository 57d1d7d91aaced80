//! What a claim has got, who uses it, and what drivers say of its devices.

use std::collections::BTreeSet;

use super::claim::{check_reference, check_references, demand_rights, references};
use super::{ITEMS_MAX, bounded, check_driver, check_label, check_once, check_opaque, check_pool};
use crate::admit::{Admission, affinity};
use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::object::{list, text};
use schedlab_json::Value;

const RESERVATIONS_MAX: usize = 256;
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

const EXPRESSION: &[Field] = &[Field("key", &[]), Field("operator", &[]), Field("values", &[])];
const ALLOCATION: &[Field] = &[
    Field(
        "devices",
        &[
            Field(
                "results",
                &[
                    Field("request", &[]),
                    Field("driver", &[]),
                    Field("pool", &[]),
                    Field("device", &[]),
                    Field("adminAccess", &[]),
                    Field("tolerations", &[]),
                    Field("bindingConditions", &[]),
                    Field("bindingFailureConditions", &[]),
                    Field("shareID", &[]),
                    Field("consumedCapacity", &[]),
                ],
            ),
            Field("config", &[Field("source", &[]), Field("requests", &[]), Field("opaque", &[])]),
        ],
    ),
    Field(
        "nodeSelector",
        &[Field(
            "nodeSelectorTerms",
            &[Field("matchExpressions", EXPRESSION), Field("matchFields", EXPRESSION)],
        )],
    ),
    Field("allocationTimestamp", &[]),
];

/// Checks the new status of a claim.
pub(crate) fn check(
    admission: &Admission<'_>,
    (old, new): (&Value, &Value),
    errors: &mut FieldErrors,
) {
    let (before, after) = (&old["status"], &new["status"]);
    let allocation = &after["allocation"];
    if let Some(index) =
        for_admins(allocation).filter(|_| for_admins(&before["allocation"]).is_none())
    {
        let place = format!("status.allocation.devices.results[{index}].adminAccess");
        demand_rights(admission, place, errors);
    }
    let mut seen = BTreeSet::new();
    let at = ("status", "reservedFor");
    for (place, user) in bounded(after, at, RESERVATIONS_MAX, errors) {
        for field in ["resource", "name", "uid"] {
            if text(user, &[field]).is_empty() {
                errors.required(format!("{place}.{field}"), "");
            }
        }
        check_once(text(user, &["uid"]), (&place, &mut seen), errors);
    }
    if allocation.is_null() && !list(after, &["reservedFor"]).is_empty() {
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set");
    }
    check_devices(after, errors);
    let had = &before["allocation"];
    if !had.is_null() && !allocation.is_null() && had != allocation {
        let rule = "field is immutable";
        errors.invalid_in_go("status.allocation", &in_go(allocation, ALLOCATION), rule);
    } else if had.is_null() && !allocation.is_null() {
        check_allocation(&new["spec"]["devices"], allocation, errors);
    }
}

/// The first device that was given to who may look at those of others.
fn for_admins(allocation: &Value) -> Option<usize> {
    let results = list(allocation, &["devices", "results"]);
    results.iter().position(|result| result["adminAccess"] == true)
}

fn check_allocation(asked: &Value, allocation: &Value, errors: &mut FieldErrors) {
    let field = "status.allocation.devices";
    let devices = &allocation["devices"];
    let names = references(asked);
    for (place, result) in bounded(devices, (field, "results"), ITEMS_MAX, errors) {
        let request = text(result, &["request"]);
        check_reference(request, (&format!("{place}.request"), &names), errors);
        check_place(result, &place, errors);
    }
    for (place, configuration) in bounded(devices, (field, "config"), 2 * ITEMS_MAX, errors) {
        let source = text(configuration, &["source"]);
        if source.is_empty() {
            errors.required(format!("{place}.source"), "");
        } else if !SOURCES.contains(&source) {
            errors.unsupported(format!("{place}.source"), &source.into(), &SOURCES);
        }
        check_references(configuration, (&place, &names), errors);
        check_opaque(configuration, &place, errors);
    }
    let selector = &allocation["nodeSelector"];
    if !selector.is_null() {
        affinity::check_node_selector(selector, "status.allocation.nodeSelector", errors);
    }
}

/// Which device of which pool of which driver.
fn check_place(device: &Value, place: &str, errors: &mut FieldErrors) {
    check_driver(text(device, &["driver"]), &format!("{place}.driver"), errors);
    check_pool(text(device, &["pool"]), &format!("{place}.pool"), errors);
    check_label(text(device, &["device"]), &format!("{place}.device"), errors);
}

/// What is said of devices is said of those that the claim has.
fn check_devices(status: &Value, errors: &mut FieldErrors) {
    let key = |device: &Value| {
        ["driver", "pool", "device", "shareID"].map(|field| text(device, &[field]).to_owned())
    };
    let has = list(&status["allocation"], &["devices", "results"]);
    let has: BTreeSet<[String; 4]> = has.iter().map(key).collect();
    for (index, device) in list(status, &["devices"]).iter().enumerate() {
        let place = format!("status.devices[{index}]");
        check_place(device, &place, errors);
        let key = key(device);
        if !has.contains(&key) {
            let [driver, pool, name, share] = key.map(Value::from);
            let shown = format!(
                "{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{name},\"ShareID\":{share}}}"
            );
            errors.invalid_in_go(place, &shown, "must be an allocated device in the claim");
        }
    }
}
