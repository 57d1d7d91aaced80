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

/// Checks `metadata.annotations` of `object`; errors are reported at `field`.
pub(crate) fn check_annotations(object: &Value, field: &str, errors: &mut FieldErrors) {
    let mut bytes = 0;
    for (key, value) in object::map(object, &["metadata", "annotations"]).into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for rule in qualified_name_violations(&key.to_lowercase()) {
            errors.invalid(field, &key.as_str().into(), &rule);
        }
    }
    if bytes > ANNOTATION_BYTES {
        errors.too_long(field, ANNOTATION_BYTES);
    }
}

/// Checks the owner references of an object.
pub(crate) fn check_owners(object: &Value, errors: &mut FieldErrors) {
    let owners = object::list(object, &["metadata", "ownerReferences"]);
    for (index, owner) in owners.iter().enumerate() {
        let path = format!("metadata.ownerReferences[{index}]");
        let version = object::text(owner, &["apiVersion"]);
        if !version.is_empty() && has_no_version(version) {
            let rule = "must be <group>/<version> or <version>";
            errors.invalid(format!("{path}.apiVersion"), &version.into(), rule);
        }
        for field in ["apiVersion", "kind", "name", "uid"] {
            if object::text(owner, &[field]).is_empty() {
                errors.required(format!("{path}.{field}"), "must not be empty");
            }
        }
        if version == "v1" && owner["kind"] == "Event" {
            let rule = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid_as_shown(path, &owner_in_go(owner), rule);
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

/// Whether an API version names no version: `apps/` or `a/b/c`.
fn has_no_version(api_version: &str) -> bool {
    let mut parts = api_version.split('/');
    let version = match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, None) | (Some(_), Some(version), None) => version,
        _ => "",
    };
    version.is_empty()
}

/// An owner reference with its fields in the order of the Go type.
fn owner_in_go(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let present = fields.iter().filter_map(|field| Some((field, owner.get(field)?)));
    let shown: Vec<String> = present.map(|(field, value)| format!("\"{field}\":{value}")).collect();
    format!("{{{}}}", shown.join(","))
}
