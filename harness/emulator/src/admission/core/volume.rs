//! Defaults and validation of persistent volumes, persistent volume claims and storage classes.

use std::cmp::Reverse;

use super::{affinity, volume_source};
use crate::admission::checks::quantity_milli;
use crate::admission::{Admission, selector};
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use crate::store::{Object, Resource};
use schedlab_api::{
    Value, json,
    object::{self, list, map, text},
};

const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const CLASS_PARAMETER_BYTES_MAX: usize = 256 * 1024;
const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Sets the protection finalizer of a new `PersistentVolumeClaim`, and the default storage class if
/// the claim names none.
pub(in crate::admission) fn set_new_claim_fields(admission: &Admission<'_>, claim: &mut Value) {
    let classes = Resource::new("storage.k8s.io", "storageclasses");
    let default = default_storage_class(admission.store.list(&classes, None));
    if let Some(default) = default.filter(|_| !has_storage_class_field(claim)) {
        object::set(claim, &["spec", "storageClassName"], default.into());
    }
    add_finalizer(claim, "kubernetes.io/pvc-protection");
}

/// Sets the protection finalizer and the phase transition time of a new volume.
pub(in crate::admission) fn set_new_volume_fields(volume: &mut Value) {
    add_finalizer(volume, "kubernetes.io/pv-protection");
    let now = volume["metadata"]["creationTimestamp"].clone();
    object::set(volume, &["status", "lastPhaseTransitionTime"], now);
}

/// Whether the claim sets a storage class. Setting the empty class counts, too.
pub(crate) fn has_storage_class_field(claim: &Value) -> bool {
    let old = object::annotation(claim, "volume.beta.kubernetes.io/storage-class");
    old.is_some() || !claim["spec"]["storageClassName"].is_null()
}

/// The default storage class: the newest one that is marked as default.
pub(crate) fn default_storage_class<'c>(
    classes: impl Iterator<Item = &'c Object>,
) -> Option<&'c str> {
    let defaults = classes.filter(|class| is_default_storage_class(class));
    let made = |class: &Object| text(class, &["metadata", "creationTimestamp"]).to_owned();
    let newest = defaults.min_by_key(|class| (Reverse(made(class)), object::name(class)));
    newest.map(|class| object::name(class))
}

/// Whether the storage class is marked as default.
pub(crate) fn is_default_storage_class(class: &Value) -> bool {
    let keys = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    keys.iter().any(|key| object::annotation(class, key) == Some("true"))
}

/// Adds a finalizer unless the object has it.
fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut all = list(object, &["metadata", "finalizers"]).to_vec();
    if !all.iter().any(|one| one == finalizer) {
        all.push(finalizer.into());
        object::set(object, &["metadata", "finalizers"], all.into());
    }
}

/// Checks the claim spec at `field`.
pub(in crate::admission) fn check_claim_spec(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let rule = "at least 1 access mode is required";
    check_access_modes(spec, field, rule, errors);
    selector::check_label_selector(&spec["selector"], &format!("{field}.selector"), errors);
    let size = &spec["resources"]["requests"]["storage"];
    check_storage_size(size, &format!("{field}.resources[storage]"), errors);
    check_object_names(spec, field, &["storageClassName", "volumeAttributesClassName"], errors);
    check_choice(spec, field, "volumeMode", &VOLUME_MODES, errors);
}

/// Checks the fields of `spec` that hold object names.
fn check_object_names(spec: &Value, field: &str, names: &[&str], errors: &mut FieldErrors) {
    for name in names {
        let found = text(spec, &[name]);
        if !found.is_empty()
            && let Some(rule) = names::dns_subdomain_violation(found)
        {
            errors.invalid(format!("{field}.{name}"), &found.into(), &rule);
        }
    }
}

fn check_choice(spec: &Value, field: &str, name: &str, allowed: &[&str], errors: &mut FieldErrors) {
    let found = text(spec, &[name]);
    if !found.is_empty() && !allowed.contains(&found) {
        errors.unsupported(format!("{field}.{name}"), &found.into(), allowed);
    }
}

/// The pod spec of a StatefulSet, with one volume for each entry of `volumeClaimTemplates`. These
/// volumes come first and replace pod volumes of the same name.
pub(in crate::admission) fn with_claim_volumes(set: &Value, pod: &Value) -> Value {
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

/// Checks that only mutable fields of a claim changed: `volumeName` and the storage class can be
/// set once, and a bound claim can grow.
pub(in crate::admission) fn check_claim_update(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    if text(&before, &["volumeName"]).is_empty() {
        object::remove(&mut before, &["volumeName"]);
        object::remove(&mut after, &["volumeName"]);
    }
    if !has_storage_class_field(old) {
        object::remove(&mut after, &["storageClassName"]);
    }
    if text(new, &["status", "phase"]) == "Bound" {
        for spec in [&mut before, &mut after] {
            object::remove(spec, &["resources", "requests", "storage"]);
            object::remove(spec, &["volumeAttributesClassName"]);
        }
    }
    if before != after {
        let rule = "spec is immutable after creation except resources.requests and \
                    volumeAttributesClassName for bound claims";
        errors.forbidden("spec", rule);
    }
}

/// Checks a persistent volume.
pub(in crate::admission) fn check_volume(volume: &Value, errors: &mut FieldErrors) {
    let spec = &volume["spec"];
    check_access_modes(spec, "spec", "", errors);
    check_capacity(&spec["capacity"], errors);
    let source = volume_source::check_volume_sources(
        spec,
        "spec",
        &volume_source::PERSISTENT_VOLUME_SOURCES,
        errors,
    );
    match source {
        None => errors.required("spec", "must specify a volume type"),
        Some("csi") if text(spec, &["csi", "volumeHandle"]).is_empty() => {
            errors.required("spec.csi.volumeHandle", "");
        }
        Some("local") if spec["nodeAffinity"].is_null() => {
            errors.required("spec.nodeAffinity", "Local volume requires node affinity");
        }
        Some(_) => {}
    }
    check_object_names(spec, "spec", &["storageClassName", "volumeAttributesClassName"], errors);
    check_choice(spec, "spec", "volumeMode", &VOLUME_MODES, errors);
    check_choice(spec, "spec", "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES, errors);
    let is_root = |source: &Value| source["path"] == "/";
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" && is_root(&spec["hostPath"]) {
        let rule = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden("spec.persistentVolumeReclaimPolicy", rule);
    }
    check_node_affinity(spec, errors);
    match spec["volumeAttributesClassName"].as_str() {
        Some("") => {
            let rule = "an empty string is disallowed";
            errors.required("spec.volumeAttributesClassName", rule);
        }
        Some(_) if spec["csi"].is_null() => {
            let rule = "has to be specified when using volumeAttributesClassName";
            errors.required("spec.csi", rule);
        }
        _ => {}
    }
}

/// Checks that `capacity` holds `storage` and nothing else.
fn check_capacity(capacity: &Value, errors: &mut FieldErrors) {
    if capacity.is_null() {
        errors.required("spec.capacity", "");
    }
    let size = &capacity["storage"];
    if size.is_null() || map(capacity, &[]).is_some_and(|all| all.len() > 1) {
        errors.unsupported("spec.capacity", capacity, &["storage"]);
        return;
    }
    if quantity_milli(size) < 0 {
        let rule = "must be a valid resource quantity";
        errors.invalid_as_shown(
            "spec.capacity[storage]",
            &(quantity_milli(size) / 1000).to_string(),
            rule,
        );
    }
    check_storage_size(size, "spec.capacity[storage]", errors);
}

/// Checks the node affinity of a volume.
fn check_node_affinity(spec: &Value, errors: &mut FieldErrors) {
    let affinity = &spec["nodeAffinity"];
    if !affinity.is_null() && affinity["required"].is_null() {
        let rule = "must specify required node constraints";
        errors.required("spec.nodeAffinity.required", rule);
    } else if !affinity.is_null() {
        let field = "spec.nodeAffinity.required";
        affinity::check_node_selector(&affinity["required"], field, errors);
    }
}

fn check_access_modes(spec: &Value, field: &str, rule: &str, errors: &mut FieldErrors) {
    let modes = list(spec, &["accessModes"]);
    let path = format!("{field}.accessModes");
    if modes.is_empty() {
        errors.required(&*path, rule);
    }
    for mode in
        modes.iter().filter(|mode| !mode.as_str().is_some_and(|it| ACCESS_MODES.contains(&it)))
    {
        errors.unsupported(&*path, mode, &ACCESS_MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn check_storage_size(size: &Value, path: &str, errors: &mut FieldErrors) {
    if size.is_null() {
        errors.required(path, "");
    } else if quantity_milli(size) <= 0 {
        errors.invalid(path, size, "must be greater than zero");
    }
}

/// Checks a storage class.
pub(in crate::admission) fn check_storage_class(class: &Value, errors: &mut FieldErrors) {
    let provisioner = text(class, &["provisioner"]);
    if provisioner.is_empty() {
        errors.required("provisioner", "");
    } else {
        for rule in names::qualified_name_violations(&provisioner.to_lowercase()) {
            errors.invalid("provisioner", &provisioner.into(), &rule);
        }
    }
    let mut bytes = 0;
    for (key, value) in map(class, &["parameters"]).into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        if key.is_empty() {
            errors.invalid("parameters", &"".into(), "field can not be empty.");
        }
    }
    if bytes > CLASS_PARAMETER_BYTES_MAX {
        errors.too_long("parameters", CLASS_PARAMETER_BYTES_MAX);
    }
    let choices: [(&str, [&str; 2]); 2] = [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ];
    for (field, allowed) in choices {
        let found = text(class, &[field]);
        if !allowed.contains(&found) {
            errors.unsupported(field, &found.into(), &allowed);
        }
    }
    for (index, term) in list(class, &["allowedTopologies"]).iter().enumerate() {
        check_topology_term(term, &format!("allowedTopologies[{index}]"), errors);
    }
}

fn check_topology_term(term: &Value, path: &str, errors: &mut FieldErrors) {
    for (index, expression) in list(term, &["matchLabelExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchLabelExpressions[{index}]");
        let values = list(expression, &["values"]);
        if values.is_empty() {
            errors.required(format!("{path}.values"), "");
        }
        for (index, value) in values.iter().enumerate() {
            if values.iter().take(index).any(|other| other == value) {
                errors.duplicate(format!("{path}.values[{index}]"), value);
            }
        }
        let key = text(expression, &["key"]);
        for rule in names::qualified_name_violations(key) {
            errors.invalid(format!("{path}.key"), &key.into(), &rule);
        }
    }
}
