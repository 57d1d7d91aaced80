//! The pod subresources `/resize` and `/ephemeralcontainers`: the fields that they change, and
//! their validation.

use super::qos_class;
use crate::api_types::error::FieldErrors;
use crate::store::Subresource;
use schedlab_api::{
    Map, Value,
    object::{self, annotation, list, map, text},
};

/// The annotation of mirror pods.
const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The old pod with the fields of the new one that the subresource may change.
pub(in crate::admission) fn with_subresource_fields(
    subresource: Subresource,
    old: &Value,
    new: &Value,
) -> Value {
    let mut reached = old.clone();
    if let Some(fields) = object::at(new, &["metadata", "managedFields"]) {
        object::set(&mut reached, &["metadata", "managedFields"], fields.clone());
    }
    if subresource == Subresource::Resize {
        for kind in ["containers", "initContainers"] {
            let sized = resized_containers(list(old, &["spec", kind]), list(new, &["spec", kind]));
            set_or_remove(
                &mut reached["spec"],
                kind,
                Some(sized).filter(|all| *all != Value::Array(vec![])),
            );
        }
    } else {
        let more = new["spec"].get("ephemeralContainers").cloned();
        set_or_remove(&mut reached["spec"], "ephemeralContainers", more);
    }
    reached
}

/// The old containers with the new resources; the new containers if the names differ, which
/// validation rejects.
fn resized_containers(old: &[Value], new: &[Value]) -> Value {
    let is_named_alike = |(old, new): (&Value, &Value)| old["name"] == new["name"];
    if old.len() != new.len() || !old.iter().zip(new).all(is_named_alike) {
        return Value::Array(new.to_vec());
    }
    let sized = |(old, new): (&Value, &Value)| {
        let mut sized = old.clone();
        for field in ["resources", "resizePolicy"] {
            set_or_remove(&mut sized, field, new.get(field).cloned());
        }
        sized
    };
    old.iter().zip(new).map(sized).collect()
}

fn set_or_remove(parent: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object::set(parent, &[field], value),
        None => drop(object::remove(parent, &[field])),
    }
}

/// Validates an update by a subresource.
pub(in crate::admission) fn check(
    subresource: Subresource,
    old: &Value,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let is_resize = subresource == Subresource::Resize;
    let why = match (
        is_resize,
        annotation(old, MIRROR_POD_ANNOTATION),
        text(old, &["spec", "os", "name"]),
    ) {
        (true, Some(_), _) => "static pods cannot be resized",
        (true, None, "windows") => "windows pods cannot be resized",
        (false, Some(_), _) => "static pods do not support ephemeral containers",
        (true | false, None, _) => {
            super::check_spec(&new["spec"], "spec", errors);
            return if is_resize {
                check_resize(old, new, errors);
            } else {
                check_ephemeral_containers(old, new, errors);
            };
        }
    };
    errors.forbidden("[]", why);
}

fn check_resize(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let class = &old["status"]["qosClass"];
    if *class != qos_class::qos_class(&new["spec"]) {
        errors.invalid("spec", class, "Pod QOS Class may not change as a result of resizing");
    }
    let mut renamed = FieldErrors::new();
    for kind in ["containers", "initContainers"] {
        check_names(kind, old, new, &mut renamed);
    }
    if !renamed.is_empty() {
        errors.extend(renamed);
        return;
    }
    for kind in ["initContainers", "containers"] {
        let pairs = list(old, &["spec", kind]).iter().zip(list(new, &["spec", kind]));
        for (index, (old, new)) in pairs.enumerate() {
            check_resources_kept(old, new, &format!("spec.{kind}[{index}].resources"), errors);
        }
    }
    for kind in ["containers", "initContainers"] {
        let pairs = list(old, &["spec", kind]).iter().zip(list(new, &["spec", kind]));
        for (index, (old, new)) in pairs.enumerate() {
            check_mutable_resources(&format!("spec.{kind}[{index}]"), old, new, errors);
        }
    }
}

fn check_names(kind: &str, old: &Value, new: &Value, errors: &mut FieldErrors) {
    let (old, new) = (list(old, &["spec", kind]), list(new, &["spec", kind]));
    if old.len() != new.len() {
        let rule = format!("{kind} may not be added or removed on resize");
        errors.forbidden(format!("spec.{kind}"), &rule);
        return;
    }
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        if old["name"] != new["name"] {
            let rule = format!("{kind} may not be renamed or reordered on resize");
            errors.forbidden(format!("spec.{kind}[{index}].name"), &rule);
        }
    }
}

/// Checks that no request and no limit was removed.
fn check_resources_kept(old: &Value, new: &Value, path: &str, errors: &mut FieldErrors) {
    for (field, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
        let of = |container| map(container, &["resources", field]).into_iter().flat_map(Map::keys);
        if of(old).any(|name| !of(new).any(|kept| kept == name)) {
            errors.forbidden(format!("{path}.{field}"), &format!("{what} cannot be removed"));
        }
    }
}

/// Checks that only cpu and memory changed.
fn check_mutable_resources(path: &str, old: &Value, new: &Value, errors: &mut FieldErrors) {
    let mut frozen = new.clone();
    for field in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            let path = ["resources", field, name];
            let was = object::at(old, &path).cloned();
            match was {
                Some(amount) => object::set(&mut frozen, &path, amount),
                None => drop(object::remove(&mut frozen, &path)),
            }
        }
        if map(&frozen, &["resources", field]).is_some_and(Map::is_empty) {
            object::remove(&mut frozen, &["resources", field]);
        }
    }
    if frozen == *old {
        return;
    }
    if path.starts_with("spec.initContainers") {
        let rule = "only cpu and memory resources for init or sidecar containers are mutable";
        errors.forbidden(path, rule);
    } else {
        errors.forbidden("spec", "only cpu and memory resources are mutable");
    }
}

/// Checks that existing ephemeral containers were neither changed nor removed.
fn check_ephemeral_containers(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let field = "spec.ephemeralContainers";
    let new = list(new, &["spec", "ephemeralContainers"]);
    for old in list(old, &["spec", "ephemeralContainers"]) {
        let name = text(old, &["name"]);
        let what = match new.iter().find(|new| new["name"] == old["name"]) {
            None => "removed",
            Some(new) if new != old => "changed",
            Some(_) => continue,
        };
        let rule = format!("existing ephemeral containers {name:?} may not be {what}\n");
        errors.forbidden(field, &rule);
    }
}
