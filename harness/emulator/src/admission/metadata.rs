//! Validation of the metadata of every object.

use super::Admission;
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::Origin;
use crate::api_types::kinds::metadata::{check_annotations, check_labels, check_owners};
use crate::api_types::names;
use schedlab_api::{Value, object};

pub(super) fn check(admission: &Admission<'_>, object: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    check_name(admission, object, &mut errors);
    check_labels(object, "metadata.labels", &mut errors);
    check_annotations(object, &mut errors);
    for (index, name) in object::finalizers(object).enumerate() {
        let is_standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        let path = format!("metadata.finalizers[{index}]");
        let rules = names::qualified_name_violations(name);
        for rule in &rules {
            errors.invalid(&*path, &name.into(), rule);
        }
        let is_bare = rules.is_empty() && !is_standard && !name.contains('/');
        if is_bare && admission.kind.origin != Origin::Custom {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(path, &name.into(), rule);
        }
    }
    check_owners(object, &mut errors);
    errors.into_result(admission.kind, &admission.key.name)
}

fn check_name(admission: &Admission<'_>, object: &Value, errors: &mut FieldErrors) {
    let name = object::name(object);
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
        return;
    }
    let group = &*admission.kind.resource.group;
    let rule = match &*admission.kind.kind {
        // RBAC names may be any path segment; Kubernetes rejects `/` and `%` with the same message.
        _ if group == "rbac.authorization.k8s.io" => {
            (name.contains('/') || name.contains('%')).then(|| "may not contain '/'".to_owned())
        }
        "Namespace" => names::dns_label_violation(name),
        "Service" if group.is_empty() => names::dns_1035_label_violation(name),
        _ => names::dns_subdomain_violation(name),
    };
    if let Some(rule) = rule {
        errors.invalid("metadata.name", &name.into(), &rule);
    }
}
