//! Validation of metadata, shared by objects, templates and embedded resources.

use crate::api_types::error::FieldErrors;
use crate::api_types::names::{label_value_violation, qualified_name_violations};
use schedlab_api::{Value, object};

/// The maximum total size of annotations.
const ANNOTATION_BYTES: usize = 256 * 1024;

/// Checks `metadata.labels` of `object`; errors are reported at `field`.
pub(crate) fn check_labels(object: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in object::map(object, &["metadata", "labels"]).into_iter().flatten() {
        for rule in qualified_name_violations(key) {
            errors.invalid(field, &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(label_value_violation) {
            errors.invalid(field, value, &rule);
        }
    }
}

/// Checks the annotations of an object.
pub(crate) fn check_annotations(object: &Value, errors: &mut FieldErrors) {
    let mut bytes = 0;
    for (key, value) in object::map(object, &["metadata", "annotations"]).into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for rule in qualified_name_violations(&key.to_lowercase()) {
            errors.invalid("metadata.annotations", &key.as_str().into(), &rule);
        }
    }
    if bytes > ANNOTATION_BYTES {
        errors.too_long("metadata.annotations", ANNOTATION_BYTES);
    }
}

/// Checks the owner references of an object.
pub(crate) fn check_owners(object: &Value, errors: &mut FieldErrors) {
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
        errors.invalid_as_shown("metadata.ownerReferences", &shown, &rule);
    }
}

/// An owner reference with its fields in the order of the Go type.
fn owner_in_go(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let present = fields.iter().filter_map(|field| Some((field, owner.get(field)?)));
    let shown: Vec<String> = present.map(|(field, value)| format!("\"{field}\":{value}")).collect();
    format!("{{{}}}", shown.join(","))
}
