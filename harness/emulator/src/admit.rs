//! What stands between a decoded object and the store: defaults, what the server adds by itself,
//! and what it refuses. One file a concern; each answers in the real server's words.

mod affinity;
mod attachment;
mod autoscaler;
mod condition;
mod container;
mod custom;
mod defaults;
mod device;
mod event;
mod features;
mod job;
mod limits;
mod metadata;
mod namespace;
mod node;
mod others;
mod pod;
mod ports;
mod priority;
mod quota;
mod range;
mod roles;
mod schedule;
mod selector;
mod service;
mod settings;
mod source;
mod storage;
mod strategy;
mod template;
mod volume;
mod webhook;
mod workload;

pub use node::NOT_READY;
pub(crate) use node::UNREACHABLE;
pub(crate) use storage::{default_class, is_default, names_class};

use crate::error::{ApiError, FieldErrors};
use crate::kinds::Kind;
use crate::kinds::schema::Schema;
use crate::object;
use crate::store::{Key, Store, Subresource};
use schedlab_json::Value;

/// Where a decision about a new state of an object is made.
pub(crate) struct Admission<'s> {
    pub(crate) store: &'s Store,
    pub(crate) kind: &'s Kind,
    /// Whether it was asked for under the name of a view, which has rules of its own.
    pub(crate) by_view: bool,
    pub(crate) key: &'s Key,
    /// Of a custom resource, in the version it was sent in.
    pub(crate) schema: Option<&'s Schema>,
}

/// Defaults and completes a new object.
pub(crate) fn prepare(admission: &Admission<'_>, object: &mut Value) -> Result<(), ApiError> {
    namespace::check(admission)?;
    defaults::fill(admission.kind, object);
    namespace::complete(admission, object);
    node::complete(admission, object);
    pod::complete(admission, object)?;
    defaults::fill_status(admission.kind, object);
    others::complete(admission, object)
}

/// Completes what webhooks see only when it is judged, and checks a new object.
pub(crate) fn check(admission: &Admission<'_>, object: &mut Value) -> Result<(), ApiError> {
    features::drop_disabled(admission, None, object);
    workload::complete(admission, object);
    metadata::check(admission, object)?;
    custom::check(admission, false, None, object)?;
    check_built_in(admission, None, object)?;
    limits::check(admission, object)?;
    pod::check_overhead(admission, object)
}

/// Defaults and completes a new state of an object that is there.
pub(crate) fn prepare_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) {
    match subresource {
        Subresource::Status => pod::complete_status(admission, old, new),
        Subresource::Resize | Subresource::EphemeralContainers => {
            *new = pod::part::reached(subresource, old, new);
            defaults::fill(admission.kind, new);
        }
        Subresource::None | Subresource::Scale | Subresource::Finalize => {
            defaults::fill(admission.kind, new);
            pod::complete_update(admission, new);
            if admission.kind.is("", "Service") {
                service::complete_update(old, new);
            }
        }
    }
}

/// Checks a new state of an object that is there.
pub(crate) fn check_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    features::drop_disabled(admission, Some(old), new);
    // What stands is right already.
    if !object::is_metadata_alike(old, new, |_| true) {
        metadata::check(admission, new)?;
    }
    if subresource == Subresource::Status {
        let mut errors = FieldErrors::new();
        match (&*admission.kind.resource.group, &*admission.kind.kind) {
            ("", "Node") => node::check_amounts(new, &mut errors),
            ("resource.k8s.io", "ResourceClaim") => {
                device::check_status(admission, (old, new), &mut errors);
            }
            _ => {}
        }
        errors.refuse(admission.kind, &admission.key.name)?;
        return custom::check(admission, true, Some(old), new);
    }
    custom::check(admission, false, Some(old), new)?;
    volume::check_growth(admission, old, new)?;
    match subresource {
        Subresource::Resize | Subresource::EphemeralContainers => {
            let mut errors = FieldErrors::new();
            pod::part::check(subresource, (old, new), &mut errors);
            errors.refuse(admission.kind, &admission.key.name)?;
        }
        Subresource::None | Subresource::Status | Subresource::Scale | Subresource::Finalize => {
            check_built_in(admission, Some(old), new)?;
        }
    }
    if admission.kind.is("", "PersistentVolumeClaim") || subresource == Subresource::Resize {
        limits::check(admission, new)
    } else {
        Ok(())
    }
}

/// Refuses to delete what the system itself needs.
pub(crate) fn on_delete(admission: &Admission<'_>) -> Result<(), ApiError> {
    let name = &*admission.key.name;
    let why = match (&*admission.kind.resource.group, &*admission.kind.kind) {
        ("", "Namespace") if namespace::is_needed(name) => "this namespace may not be deleted",
        ("scheduling.k8s.io", "PriorityClass") if priority::is_of_system(name) => {
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
        ("", "Pod") => pod::check(old, new, &mut errors),
        ("", "Node") => node::check(old, new, &mut errors),
        ("", "Event") => event::check(admission.by_view && old.is_none(), new, &mut errors),
        ("scheduling.k8s.io", "PriorityClass") => priority::check_class(old, new, &mut errors),
        ("resource.k8s.io", _) => device::check(admission, old, new, &mut errors),
        _ if webhook::is_configuration(kind) => webhook::check(new, &mut errors),
        ("apps" | "batch", _) | ("", "ReplicationController") => {
            workload::check(kind, (old, new), &mut errors);
        }
        _ => others::check(kind, (old, new), &mut errors),
    }
    errors.refuse(kind, &admission.key.name)
}
