//! Admission of decoded objects, before the store keeps them: defaults, fields the server sets and
//! validation. One module per API kind or concern; errors use the API server's texts. Webhooks are
//! in [`webhooks`].

pub(crate) mod quota;
pub(crate) mod webhooks;

mod apps;
mod autoscaling;
mod batch;
mod core;
mod scheduling;
mod storage;

mod checks;
mod conditions;
mod custom_resource;
mod declarative;
mod defaults;
mod device;
mod feature_gates;
mod limit_range;
mod limit_ranger;
mod match_conditions;
mod metadata;
mod rbac;
mod selector;
mod webhook_configuration;

pub(crate) use core::volume::{
    default_storage_class, has_storage_class_field, is_default_storage_class,
};

use std::sync::Arc;

use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::Kind;
use crate::api_types::kinds::schema::Schema;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::store::{Key, RuleEvaluation, Store, Subresource, WriteError};
use schedlab_api::{Value, object};

/// The input of built-in admission: the store, the request, and the schema of the written object.
pub(crate) struct Admission<'s> {
    pub(crate) store: &'s Store,
    pub(crate) kind: &'s Kind,
    /// Whether the request uses the API group of a view (`events.k8s.io` for events), which has
    /// stricter rules.
    pub(crate) via_view: bool,
    pub(crate) key: &'s Key,
    /// The schema of a custom resource in the version of the request; `None` for built-in kinds.
    pub(crate) schema: Option<&'s Arc<Schema>>,
    pub(crate) rules: &'s RuleEvaluation,
}

/// Sets the defaults and the server-owned fields of a new object, before mutating webhooks.
pub(crate) fn prepare_create(
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    core::namespace::check_namespace_accepts_content(admission)?;
    defaults::set_defaults(admission.kind, object);
    scheduling::pod_group::set_defaults(admission, object);
    core::namespace::set_namespace_fields(admission, object);
    core::node::set_node_fields(admission, object);
    core::pod::run_mutating_plugins(admission, object)?;
    defaults::set_initial_status(admission.kind, object);
    core::set_server_fields(admission, object)
}

/// Sets the fields of a written object that depend on the time of the request.
pub(crate) fn fill_times(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &mut Value,
    now: &Value,
) {
    device::fill_taint_times(admission.kind, old, new, now);
}

/// Sets the last server-owned fields of a new object, after the mutating webhooks, and validates
/// the object.
pub(crate) fn check_create(
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), WriteError> {
    feature_gates::drop_disabled(admission, None, object);
    apps::set_server_fields(admission, object);
    metadata::check_metadata(admission, object)?;
    custom_resource::check_custom_resource_or_crd(admission, false, None, object)?;
    check_built_in(admission, None, object)?;
    limit_ranger::check_limit_ranges(admission, object)?;
    Ok(core::pod::check_overhead(admission, object)?)
}

/// The warnings about an object that is written.
pub(crate) fn warnings(admission: &Admission<'_>, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let is_deprecated = admission.kind.is("", "Service")
        && admission.kind.kubernetes >= KubernetesVersion::V1_37
        && !object::list(spec, &["externalIPs"]).is_empty()
        && spec["clusterIP"] != "None"
        && spec["type"] != "ExternalName";
    let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
    is_deprecated.then(|| text.to_owned()).into_iter().collect()
}

/// Sets the defaults and the server-owned fields of an updated object.
pub(crate) fn prepare_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) {
    match subresource {
        Subresource::Status => {
            core::pod::keep_qos_class(admission, old, new);
            device::set_claim_status_defaults(admission, new);
        }
        Subresource::Resize | Subresource::EphemeralContainers => {
            *new = core::pod::subresources::with_subresource_fields(subresource, old, new);
            defaults::set_defaults(admission.kind, new);
        }
        Subresource::None | Subresource::Scale | Subresource::Finalize => {
            defaults::set_defaults(admission.kind, new);
            scheduling::pod_group::set_defaults(admission, new);
            core::pod::set_defaults_on_update(admission, new);
            if admission.kind.is("", "Service") {
                core::service::set_fields_on_update(old, new);
            }
        }
    }
}

/// Validates an update of an object.
pub(crate) fn check_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) -> Result<(), WriteError> {
    feature_gates::drop_disabled(admission, Some(old), new);
    // Metadata that did not change was valid when it was written.
    if !object::metadata_fields_equal(old, new, |_| true) {
        metadata::check_metadata(admission, new)?;
    }
    if subresource == Subresource::Status {
        let mut errors = FieldErrors::new();
        match (&*admission.kind.resource.group, &*admission.kind.kind) {
            ("", "Node") => core::node::check_resource_amounts(new, &mut errors),
            ("", "Pod") => core::pod::status_resources::check(new, &mut errors),
            ("resource.k8s.io", "ResourceClaim" | "DeviceTaintRule") => {
                device::check_status(admission, old, new, &mut errors);
            }
            ("scheduling.k8s.io", _) => {
                scheduling::pod_group::check(admission, true, Some(old), new, &mut errors);
            }
            _ => {}
        }
        errors.into_result(admission.kind, &admission.key.name)?;
        return custom_resource::check_custom_resource_or_crd(admission, true, Some(old), new);
    }
    custom_resource::check_custom_resource_or_crd(admission, false, Some(old), new)?;
    core::volume_expansion::check_expansion(admission, old, new)?;
    match subresource {
        Subresource::Resize | Subresource::EphemeralContainers => {
            let mut errors = FieldErrors::new();
            core::pod::subresources::check_subresource_update(subresource, old, new, &mut errors);
            errors.into_result(admission.kind, &admission.key.name)?;
        }
        Subresource::None | Subresource::Status | Subresource::Scale | Subresource::Finalize => {
            check_built_in(admission, Some(old), new)?;
        }
    }
    if admission.kind.is("", "PersistentVolumeClaim") || subresource == Subresource::Resize {
        Ok(limit_ranger::check_limit_ranges(admission, new)?)
    } else {
        Ok(())
    }
}

/// Rejects the deletion of undeletable namespaces and of system priority classes.
pub(crate) fn check_delete(admission: &Admission<'_>) -> Result<(), ApiError> {
    let name = &*admission.key.name;
    let why = match (&*admission.kind.resource.group, &*admission.kind.kind) {
        ("", "Namespace") if core::namespace::is_undeletable_namespace(name) => {
            "this namespace may not be deleted"
        }
        ("scheduling.k8s.io", "PriorityClass") if scheduling::is_system_priority_class(name) => {
            "this is a system priority class and cannot be deleted"
        }
        _ => return Ok(()),
    };
    Err(ApiError::forbidden(&admission.key.resource, name, why))
}

fn check_built_in(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let kind = admission.kind;
    match (&*kind.resource.group, &*kind.kind) {
        ("", "Pod") => core::pod::check_pod(old, new, &mut errors),
        ("", "Node") => core::node::check_node(old, new, &mut errors),
        ("", "Event") => {
            core::event::check_event(admission.via_view && old.is_none(), new, &mut errors);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            scheduling::check_priority_class(old, new, &mut errors);
        }
        ("scheduling.k8s.io", "Workload") => {
            scheduling::workload::check(admission, old, new, &mut errors);
        }
        ("scheduling.k8s.io", _) => {
            scheduling::pod_group::check(admission, false, old, new, &mut errors);
        }
        ("resource.k8s.io", _) => device::check_device_object(admission, old, new, &mut errors),
        _ if webhook_configuration::is_webhook_configuration(kind) => {
            webhook_configuration::check_webhook_configuration(new, &mut errors);
        }
        ("apps" | "batch", _) | ("", "ReplicationController") => {
            apps::check_workload(kind, old, new, &mut errors);
            if matches!(&*kind.kind, "Job" | "CronJob") {
                batch::scheduling::check(admission, old, new, &mut errors);
            }
        }
        _ => core::check_core_object(kind, old, new, &mut errors),
    }
    errors.into_result(kind, &admission.key.name)
}
