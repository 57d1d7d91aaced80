//! Validation of the metadata of every object.

use std::borrow::Cow;

use super::Admission;
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::metadata::{check_annotations, check_labels, check_owners};
use crate::api_types::kinds::{Kind, Origin};
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::api_types::names;
use schedlab_api::{Value, object};

pub(super) fn check(admission: &Admission<'_>, object: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    check_name(admission, object, &mut errors);
    check_labels(object, "metadata.labels", &mut errors);
    check_annotations(object, "metadata.annotations", &mut errors);
    for (index, name) in object::finalizers(object).enumerate() {
        let is_standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        for rule in &names::qualified_name_violations(name) {
            errors.invalid("metadata.finalizers", &name.into(), rule);
        }
        let is_bare = !is_standard && !name.contains('/');
        if is_bare && admission.kind.origin != Origin::Custom {
            let path = format!("metadata.finalizers[{index}]");
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(path, &name.into(), rule);
        }
    }
    let has = |finalizer: &str| object::finalizers(object).any(|name| name == finalizer);
    if has("orphan") && has("foregroundDeletion") {
        let rule = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid("metadata.finalizers", &object["metadata"]["finalizers"], rule);
    }
    check_owners(object, &mut errors);
    errors.into_result(admission.kind, &admission.key.name)
}

fn check_name(admission: &Admission<'_>, object: &Value, errors: &mut FieldErrors) {
    let stem = object::text(object, &["metadata", "generateName"]);
    if !stem.is_empty()
        && checks_stem(admission.kind)
        && let Some(rule) = name_violation(admission.kind, &with_masked_dash(stem))
    {
        errors.invalid("metadata.generateName", &stem.into(), &rule);
    }
    let name = object::name(object);
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else if let Some(rule) = name_violation(admission.kind, name) {
        errors.invalid("metadata.name", &name.into(), &rule);
    }
}

/// Whether kube-apiserver validates `generateName` itself, not only the generated name.
fn checks_stem(kind: &Kind) -> bool {
    !kind.is("", "ReplicationController") && !kind.is("resource.k8s.io", "DeviceClass")
}

/// The text that kube-apiserver validates for a `generateName`: it replaces the last two letters if
/// the name ends in a dash, which is allowed there.
fn with_masked_dash(stem: &str) -> Cow<'_, str> {
    let start = stem.strip_suffix('-').filter(|start| !start.is_empty());
    let Some(start) = start else { return Cow::Borrowed(stem) };
    let last = start.chars().next_back().map_or(0, char::len_utf8);
    Cow::Owned(format!("{}a", start.get(..start.len() - last).unwrap_or_default()))
}

/// The rule of the kind that a name violates.
fn name_violation(kind: &Kind, name: &str) -> Option<String> {
    let group = &*kind.resource.group;
    match &*kind.kind {
        // RBAC names may be any path segment; Kubernetes rejects `/` and `%` with the same message.
        _ if group == "rbac.authorization.k8s.io" => {
            (name.contains('/') || name.contains('%')).then(|| "may not contain '/'".to_owned())
        }
        "Namespace" => names::dns_label_violation(name),
        "StatefulSet" if group == "apps" => names::dns_label_violation(name),
        "Service" if group.is_empty() => match kind.kubernetes {
            KubernetesVersion::V1_35 => names::dns_1035_label_violation(name),
            KubernetesVersion::V1_37 => names::dns_label_violation(name),
        },
        _ => names::dns_subdomain_violation(name),
    }
}
