//! Custom resources against their schema, and the definitions of custom kinds.

use serde_json::{Value, json};

use super::Admission;
use crate::error::{ApiError, FieldErrors};
use crate::kinds;
use crate::object;

/// Refuses a custom resource that breaks its schema, and a definition that defines nothing.
pub(super) fn check(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<(), ApiError> {
    if let Some(schema) = admission.schema {
        let mut errors = schema.validate(new);
        if let Some(old) = old.filter(|_| !errors.is_empty()) {
            // What was wrong before and has not changed may stay wrong.
            errors = errors.without(&schema.validate(old));
        }
        if errors.is_empty() {
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
    if let Some(old) = old {
        check_unchanged(old, new, &mut errors);
    }
    errors.refuse(admission.kind, &admission.key.name)
}

/// The definition's own defaults.
fn complete(crd: &mut Value) {
    object::set_default(crd, &["spec", "conversion"], json!({"strategy": "None"}));
    let kind = object::text(crd, &["spec", "names", "kind"]).to_owned();
    object::set_default(crd, &["spec", "names", "singular"], kind.to_lowercase());
    object::set_default(crd, &["spec", "names", "listKind"], format!("{kind}List"));
}

fn check_unchanged(old: &Value, new: &Value, errors: &mut FieldErrors) {
    for path in [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "kind"]] {
        let value = |crd: &Value| object::text(crd, path).to_owned();
        if value(old) != value(new) {
            errors.invalid(path.join("."), &value(new).into(), "field is immutable");
        }
    }
}
