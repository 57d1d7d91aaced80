//! The `NamespaceLifecycle` admission plugin: no new objects in a namespace that does not exist or
//! is terminating.

use crate::admission::Admission;
use crate::api_types::error::{ApiError, Cause};
use crate::api_types::resource::Resource;
use crate::store::Key;
use schedlab_api::{Value, json, object};

/// Rejects a new object in a missing or terminating namespace.
pub(in crate::admission) fn check_namespace_accepts_content(
    admission: &Admission<'_>,
) -> Result<(), ApiError> {
    let name = &*admission.key.namespace;
    if !admission.kind.namespaced {
        return Ok(());
    }
    let namespaces = Resource::new("", "namespaces");
    let namespace = admission.store.get(&Key::new(namespaces, "", name))?;
    if !object::is_deleting(&namespace) {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    Err(ApiError::forbidden(&admission.key.resource, &admission.key.name, &why).with_cause(Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {name} is being terminated"),
        field: "metadata.namespace".to_owned(),
    }))
}

/// Whether `name` is a namespace that cannot be deleted, such as `default`.
pub(in crate::admission) fn is_undeletable_namespace(name: &str) -> bool {
    ["default", "kube-system", "kube-public"].contains(&name)
}

/// Sets the name label, the finalizer and the phase of a new namespace.
pub(in crate::admission) fn set_namespace_fields(admission: &Admission<'_>, object: &mut Value) {
    if !admission.kind.is("", "Namespace") {
        return;
    }
    let name = Value::from(&*admission.key.name);
    object::set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
    object::set(object, &["spec"], json!({"finalizers": ["kubernetes"]}));
    object::set(object, &["status"], json!({"phase": "Active"}));
}
