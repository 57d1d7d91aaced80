//! The life cycle of namespaces: nothing comes into one that is not there or is going.

use super::Admission;
use crate::error::{ApiError, Cause};
use crate::kinds::Resource;
use crate::object;
use crate::store::Key;
use schedlab_json::{Value, json};

/// Refuses a new object whose namespace cannot take it.
pub(super) fn check(admission: &Admission<'_>) -> Result<(), ApiError> {
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

/// Whether the server cannot be without it.
pub(super) fn is_needed(name: &str) -> bool {
    ["default", "kube-system", "kube-public"].contains(&name)
}

/// What every new namespace has.
pub(super) fn complete(admission: &Admission<'_>, object: &mut Value) {
    if !admission.kind.is("", "Namespace") {
        return;
    }
    let name = Value::from(&*admission.key.name);
    object::set(object, &["metadata", "labels", "kubernetes.io/metadata.name"], name);
    object::set(object, &["spec"], json!({"finalizers": ["kubernetes"]}));
    object::set(object, &["status"], json!({"phase": "Active"}));
}
