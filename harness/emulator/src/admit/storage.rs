//! Volumes, claims of them, and their classes.

use super::container::amount;
use crate::error::FieldErrors;
use crate::object::{self, list, text};
use schedlab_json::{Value, json};

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks the spec of a claim that stands at `field`.
pub(super) fn check_claim(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let rule = "at least 1 access mode is required";
    check_modes(spec, (field, rule), errors);
    let size = &spec["resources"]["requests"]["storage"];
    check_size(size, &format!("{field}.resources[storage]"), errors);
}

/// The spec of a StatefulSet's pods with a volume for each of its claims, whatever number the pod
/// has: they come first, and instead of others of their names.
pub(super) fn with_claims(set: &Value, pod: &Value) -> Value {
    let mut volumes: Vec<Value> = Vec::new();
    let claims = list(set, &["volumeClaimTemplates"]).iter().map(|claim| {
        let name = text(claim, &["metadata", "name"]);
        json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
    });
    for volume in claims {
        if !volumes.iter().any(|known| known["name"] == volume["name"]) {
            volumes.push(volume);
        }
    }
    let named = |volume: &&Value| volumes.iter().any(|known| known["name"] == volume["name"]);
    let others: Vec<Value> =
        list(pod, &["volumes"]).iter().filter(|volume| !named(volume)).cloned().collect();
    volumes.extend(others);
    let mut pod = pod.clone();
    if !volumes.is_empty() {
        object::set(&mut pod, &["volumes"], volumes.into());
    }
    pod
}

/// Checks a volume.
pub(super) fn check_volume(volume: &Value, errors: &mut FieldErrors) {
    let spec = &volume["spec"];
    check_modes(spec, ("spec", ""), errors);
    if spec["capacity"].is_null() {
        errors.required("spec.capacity", "");
        errors.unsupported("spec.capacity", &Value::Null, &["storage"]);
    } else {
        check_size(&spec["capacity"]["storage"], "spec.capacity[storage]", errors);
    }
    let besides = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let is_source = |field: &str| !besides.contains(&field);
    if !spec.as_object().into_iter().flatten().any(|(field, _)| is_source(field)) {
        errors.required("spec", "must specify a volume type");
    }
}

fn check_modes(spec: &Value, (field, rule): (&str, &str), errors: &mut FieldErrors) {
    let modes = list(spec, &["accessModes"]);
    let place = format!("{field}.accessModes");
    if modes.is_empty() {
        errors.required(&*place, rule);
    }
    for mode in modes.iter().filter(|mode| !mode.as_str().is_some_and(|it| MODES.contains(&it))) {
        errors.unsupported(&*place, mode, &MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.forbidden(place, "may not use ReadWriteOncePod with other access modes");
    }
}

fn check_size(size: &Value, place: &str, errors: &mut FieldErrors) {
    if size.is_null() {
        errors.required(place, "");
    } else if amount(size) <= 0 {
        errors.invalid(place, size, "must be greater than zero");
    }
}

/// Checks a class of volumes.
pub(super) fn check_class(class: &Value, errors: &mut FieldErrors) {
    if text(class, &["provisioner"]).is_empty() {
        errors.required("provisioner", "");
    }
    let choices: [(&str, [&str; 2]); 2] = [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ];
    for (field, allowed) in choices {
        let found = text(class, &[field]);
        if !found.is_empty() && !allowed.contains(&found) {
            errors.unsupported(field, &found.into(), &allowed);
        }
    }
}
