//! Custom resources against their schema, and the definitions of custom kinds.

use std::sync::Arc;

use super::Admission;
use crate::error::{ApiError, FieldErrors};
use crate::kinds;
use crate::kinds::schema::Schema;
use crate::{object, patch};
use schedlab_json::{Value, json};

/// The annotation that approves a definition of the community's own groups.
const APPROVED: &str = "api-approved.kubernetes.io";

/// Refuses a custom resource that breaks its schema, and a definition that defines nothing.
pub(super) fn check(
    admission: &Admission<'_>,
    is_status: bool,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), ApiError> {
    if let Some(schema) = admission.schema {
        let broken = |object: &Value| broken_schema(admission, schema, is_status, object);
        let mut errors = broken(new);
        if let Some(old) = old.filter(|_| !errors.is_empty()) {
            // What was wrong before and has not changed may stay wrong.
            errors = errors.without(&broken(old));
        }
        if !errors.blocks_rules() {
            errors.extend(schema.broken_rules(old, new));
        } else if schema.has_rules() {
            let rule = "some validation rules were not checked because the object was invalid; \
                        correct the existing errors to complete validation";
            errors.invalid("<nil>", &Value::Null, rule);
        }
        return errors.refuse(admission.kind, &admission.key.name);
    }
    if !admission.kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return Ok(());
    }
    complete(new);
    let (_, mut errors) = kinds::from_crd(new);
    check_approval(old, new, &mut errors);
    if let Some(old) = old {
        check_unchanged(old, new, &mut errors);
        if !is_status {
            check_stored_versions(new, &mut errors);
        }
    }
    errors.refuse(admission.kind, &admission.key.name)
}

/// What breaks the schema in the part that is written, and what its scale could not be read from.
fn broken_schema(
    admission: &Admission<'_>,
    schema: &Schema,
    is_status: bool,
    object: &Value,
) -> FieldErrors {
    if is_status {
        let mut errors = FieldErrors::new();
        if let (Some(part), Some(status)) = (schema.field("status"), object.get("status")) {
            errors.extend_below("status", part.validate(status));
            errors.extend_below("status", part.check_embedded(status));
        }
        return errors;
    }
    let mut errors = schema.validate(object);
    errors.extend(schema.check_embedded(object));
    if let Some(scale) = &admission.kind.stored().scale {
        check_replicas(object, &scale.spec_replicas, &mut errors);
        check_replicas(object, &scale.status_replicas, &mut errors);
    }
    errors
}

fn check_replicas(object: &Value, path: &[Arc<str>], errors: &mut FieldErrors) {
    let found = path.iter().try_fold(object, |value, field| value.get(&**field));
    let Some(found) = found.filter(|value| !value.is_null()) else { return };
    let field = format!(".{}", path.join("."));
    match found.as_i64() {
        None => {
            let (shown, kind) = (patch::in_go(found), go_type_of(found));
            let rule =
                format!("{field} accessor error: {shown} is of the type {kind}, expected int64");
            errors.invalid(field, &0.into(), &rule);
        }
        Some(count) if count < 0 => {
            errors.invalid(field, &count.into(), "should be a non-negative integer");
        }
        Some(count) if count > i64::from(i32::MAX) => {
            let rule = format!("should be less than or equal to {}", i32::MAX);
            errors.invalid(field, &count.into(), &rule);
        }
        Some(_) => {}
    }
}

/// The Go type in which untyped JSON is held.
fn go_type_of(value: &Value) -> &'static str {
    match object::go_type(value) {
        "number" => "float64",
        "array" => "[]interface {}",
        "object" => "map[string]interface {}",
        other => other,
    }
}

/// The definition's own defaults.
fn complete(crd: &mut Value) {
    object::set_default(crd, &["spec", "conversion"], json!({"strategy": "None"}));
    let kind = object::text(crd, &["spec", "names", "kind"]).to_owned();
    object::set_default(crd, &["spec", "names", "singular"], kind.to_lowercase());
    object::set_default(crd, &["spec", "names", "listKind"], format!("{kind}List"));
}

/// Groups of the Kubernetes community name who approved them, or say that nobody did. What was
/// wrong before may stay wrong.
fn check_approval(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let group = object::text(new, &["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .filter_map(|domain| group.strip_suffix(domain))
        .any(|rest| rest.is_empty() || rest.ends_with('.'));
    let said = approval(new);
    if !is_protected || old.is_some_and(|old| approval(old) == said) {
        return;
    }
    let place = format!("metadata.annotations[{APPROVED}]");
    let rule = format!("protected groups must have approval annotation \"{APPROVED}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match said {
        Approval::Given => {}
        Approval::Missing => errors.required(place, &format!("{rule}, {see}")),
        Approval::Unclear => {
            let text = object::annotation(new, APPROVED).unwrap_or_default();
            let allowed = "with either a URL or a reason starting with \"unapproved\"";
            errors.invalid(place, &text.into(), &format!("{rule} {allowed}, {see}"));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Unclear,
    Given,
}

fn approval(crd: &Value) -> Approval {
    let is_url = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
        })
    };
    match object::annotation(crd, APPROVED) {
        None | Some("") => Approval::Missing,
        Some(text) if text.starts_with("unapproved") || is_url(text) => Approval::Given,
        Some(_) => Approval::Unclear,
    }
}

/// Versions that objects may be stored in stay.
fn check_stored_versions(crd: &Value, errors: &mut FieldErrors) {
    let versions = object::list(crd, &["spec", "versions"]);
    for (index, stored) in object::list(crd, &["status", "storedVersions"]).iter().enumerate() {
        if versions.iter().all(|version| version["name"] != *stored) {
            let name = stored.as_str().unwrap_or_default();
            let rule = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(format!("status.storedVersions[{index}]"), stored, &rule);
        }
    }
}

fn check_unchanged(old: &Value, new: &Value, errors: &mut FieldErrors) {
    for path in [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "kind"]] {
        let value = |crd: &Value| object::text(crd, path).to_owned();
        if value(old) != value(new) {
            errors.invalid(path.join("."), &value(new).into(), "field is immutable");
        }
    }
}
