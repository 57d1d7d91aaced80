//! Rules that hold for the metadata of every object.

use super::Admission;
use crate::error::{ApiError, FieldErrors};
use crate::kinds::Origin;
use crate::names;
use crate::object;
use schedlab_json::Value;

/// Annotations may hold this many bytes in all.
const ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check(admission: &Admission<'_>, object: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    check_name(admission, object, &mut errors);
    check_labels(object, "metadata.labels", &mut errors);
    let mut bytes = 0;
    for (key, value) in object::map(object, &["metadata", "annotations"]).into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for rule in names::qualified_name(&key.to_lowercase()) {
            errors.invalid("metadata.annotations", &key.as_str().into(), &rule);
        }
    }
    if bytes > ANNOTATION_BYTES {
        errors.too_long("metadata.annotations", ANNOTATION_BYTES);
    }
    for (index, name) in object::finalizers(object).enumerate() {
        let is_standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        let place = format!("metadata.finalizers[{index}]");
        let rules = names::qualified_name(name);
        for rule in &rules {
            errors.invalid(&*place, &name.into(), rule);
        }
        let is_bare = rules.is_empty() && !is_standard && !name.contains('/');
        if is_bare && admission.kind.origin != Origin::Custom {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(place, &name.into(), rule);
        }
    }
    check_owners(object, &mut errors);
    errors.refuse(admission.kind, &admission.key.name)
}

/// Checks the labels of an object, or of one that is made after it, which stand at `field`.
pub(super) fn check_labels(object: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in object::map(object, &["metadata", "labels"]).into_iter().flatten() {
        for rule in names::qualified_name(key) {
            errors.invalid(field, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value) {
            errors.invalid(field, value, &rule);
        }
    }
}

fn check_name(admission: &Admission<'_>, object: &Value, errors: &mut FieldErrors) {
    let name = object::name(object);
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
        return;
    }
    let group = &*admission.kind.resource.group;
    let rule = match &*admission.kind.kind {
        // Role names are path segments: anything but slashes and dots.
        _ if group == "rbac.authorization.k8s.io" => {
            (name.contains('/') || name.contains('%')).then(|| "may not contain '/'".to_owned())
        }
        "Namespace" => names::dns_label(name),
        "Service" if group.is_empty() => names::dns_1035_label(name),
        _ => names::dns_subdomain(name),
    };
    if let Some(rule) = rule {
        errors.invalid("metadata.name", &name.into(), &rule);
    }
}

fn check_owners(object: &Value, errors: &mut FieldErrors) {
    let owners = object::list(object, &["metadata", "ownerReferences"]);
    for owner in owners {
        for (field, rule) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if object::text(owner, &[field]).is_empty() {
                errors.invalid(format!("metadata.ownerReferences.{field}"), &"".into(), rule);
            }
        }
    }
    let controllers: Vec<String> = owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .map(|owner| {
            format!("{}/{}", object::text(owner, &["kind"]), object::text(owner, &["name"]))
        })
        .collect();
    if let [one, other, ..] = controllers.as_slice() {
        let rule = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references \
             for {one} and {other}"
        );
        let shown: Vec<String> = owners.iter().map(owner_in_go).collect();
        let shown = format!("[{}]", shown.join(","));
        errors.invalid_in_go("metadata.ownerReferences", &shown, &rule);
    }
}

/// An owner reference with its fields in the order that Go has them in.
fn owner_in_go(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let there = fields.iter().filter_map(|field| Some((field, owner.get(field)?)));
    let shown: Vec<String> = there.map(|(field, value)| format!("\"{field}\":{value}")).collect();
    format!("{{{}}}", shown.join(","))
}
