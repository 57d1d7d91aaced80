//! PUT, and the second half of PATCH: replaces an existing object. The object and its status are
//! written separately. A write that changes nothing gets no revision.

use std::sync::Arc;

use super::patch::record_managed_fields;
use super::request::WriteRequest;
use super::webhooks::{self, AdmissionPoint};
use super::{
    WritePreconditions, check_preconditions, check_size, check_subresource, crd, create, quota,
    scale,
};
use crate::admission;
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::{Generation, Kind, Origin};
use crate::store::{Object, Store, Subresource, WriteError, WriteOutcome};
use schedlab_api::{Map, Value, object};

pub(super) fn update_object(
    store: &mut Store,
    request: &mut WriteRequest,
    subresource: Subresource,
    body: Value,
) -> Result<WriteOutcome, WriteError> {
    check_subresource(request, subresource)?;
    if subresource == Subresource::Scale {
        let old = store.get(&request.key)?;
        return scale::update_scale(store, request, &old, body);
    }
    if store.find(&request.key).is_none() && may_update_create(request) {
        return create::create_object(store, request, body);
    }
    let old = store.find(&request.key).map(|old| request.in_current_schema(old));
    let new = request.decode(without_unchanged_spec(subresource, old.as_ref(), body))?;
    check_name_and_namespace(request, &new)?;
    let old = old.map_or_else(|| store.get(&request.key), Ok)?;
    if object::resource_version(&new).is_empty() && !allows_unconditional_update(request) {
        let mut errors = FieldErrors::new();
        let rule = "must be specified for an update";
        errors.invalid("metadata.resourceVersion", &0.into(), rule);
        // Unlike other errors, this one names the collection instead of the kind.
        let plural = Arc::clone(&request.kind.resource.plural);
        errors
            .into_result(&Kind { kind: plural, ..Kind::clone(&request.kind) }, &request.key.name)?;
    }
    replace_part(store, request, subresource, &old, new)
}

/// Refuses a body whose name or namespace differs from the path.
pub(super) fn check_name_and_namespace(
    request: &WriteRequest,
    new: &Value,
) -> Result<(), ApiError> {
    let name = object::name(new);
    if !name.is_empty() && *name != *request.key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.key.name
        )));
    }
    let namespace = object::namespace(new);
    if !namespace.is_empty() && *namespace != *request.key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Whether a PUT creates a missing object of this kind.
fn may_update_create(request: &WriteRequest) -> bool {
    let kinds = [("coordination.k8s.io", "Lease"), ("", "Event"), ("", "Endpoints")];
    request.subresource == Subresource::None
        && kinds.iter().any(|(group, kind)| request.kind.is(group, kind))
}

/// The body of a status update, without the spec if that equals the stored one: an unchanged spec
/// must not yield warnings when the body is decoded.
pub(super) fn without_unchanged_spec(
    subresource: Subresource,
    old: Option<&Object>,
    mut body: Value,
) -> Value {
    if subresource == Subresource::Status && old.is_some_and(|old| old["spec"] == body["spec"]) {
        object::remove(&mut body, &["spec"]);
    }
    body
}

/// Whether the kind accepts an update without `resourceVersion`.
fn allows_unconditional_update(request: &WriteRequest) -> bool {
    match request.kind.origin {
        Origin::Custom => false,
        Origin::BuiltIn | Origin::View => {
            !request.kind.is("coordination.k8s.io", "Lease")
                && !request.kind.is("policy", "PodDisruptionBudget")
                && !request.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
                && !request.kind.is("resource.k8s.io", "DeviceTaintRule")
                && !["Workload", "PodGroup", "CompositePodGroup"]
                    .iter()
                    .any(|kind| request.kind.is("scheduling.k8s.io", kind))
        }
    }
}

/// Replaces the part of `old` that the subresource covers by the same part of `new`.
pub(super) fn replace_part(
    store: &mut Store,
    request: &mut WriteRequest,
    subresource: Subresource,
    old: &Object,
    new: Value,
) -> Result<WriteOutcome, WriteError> {
    let expected = |text: &'static str| {
        object::at(&new, &["metadata", text])
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let preconditions = WritePreconditions {
        uid: expected("uid"),
        revision: expected("resourceVersion"),
        is_update: true,
    };
    if let Some(text) = preconditions.revision.filter(|text| text.parse::<u64>().is_err()) {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        return Err(ApiError::without_reason(why).into());
    }
    check_preconditions(request, old, &preconditions)?;
    let omitted = webhooks::omitted_metadata(&new);
    let new = prepare_update(store, request, subresource, old, new)?;
    let reprepare = |store: &Store, request: &mut WriteRequest, _: &Value, mut patched: Value| {
        request.prune_and_default_webhook_change(&mut patched)?;
        prepare_update(store, request, subresource, old, patched)
    };
    let point = AdmissionPoint::update(old).hiding(&omitted);
    let mut new = webhooks::call_mutating_webhooks(store, request, point, new, &reprepare)?;
    admission::check_update(&request.admission(store), subresource, old, &mut new)?;
    crd::warn_unrecognized_formats(request, Some(&**old), &new);
    request.warnings.extend(admission::warnings(&request.admission(store), &new));
    webhooks::call_validating_webhooks(store, request, AdmissionPoint::update(old), &new)?;
    check_size(request, &new)?;
    let charged = quota::charged_quotas(store, request, Some(old), &new)?;
    let written = finish_update(store, request, old, new);
    quota::commit_charges(store, request, charged);
    Ok(written)
}

/// Completes the new state of an updated object: restores the fields that the writer cannot change,
/// and sets server-owned fields.
fn prepare_update(
    store: &Store,
    request: &WriteRequest,
    subresource: Subresource,
    old: &Object,
    new: Value,
) -> Result<Value, ApiError> {
    let mut new = match subresource {
        Subresource::None | Subresource::Resize | Subresource::EphemeralContainers => {
            with_immutable_fields(request, old, new)
        }
        Subresource::Status => with_new_status(request, old, new),
        Subresource::Scale | Subresource::Finalize => with_new_finalizers(old, &new),
    };
    check_finalizers(request, old, &new)?;
    let admission = request.admission(store);
    admission::prepare_update(&admission, subresource, old, &mut new);
    admission::fill_times(&admission, Some(old), &mut new, &request.timestamp());
    Ok(new)
}

/// Finishes an update: increments the generation, and then commits the object, removes it if its
/// last finalizer is gone, or leaves it unchanged.
pub(super) fn finish_update(
    store: &mut Store,
    request: &WriteRequest,
    old: &Object,
    mut new: Value,
) -> WriteOutcome {
    if request.kind.generation == Generation::OnSpec && does_generation_increase(request, old, &new)
    {
        let generation = object::number(old, &["metadata", "generation"]).unwrap_or(0);
        object::set(&mut new, &["metadata", "generation"], (generation + 1).into());
    }
    record_managed_fields(request, Some(&**old), &mut new);
    if new == **old {
        return WriteRequest::unchanged_outcome(old);
    }
    if is_deletion_complete(request, old, &new) {
        // The response shows the new state with the revision of the last commit.
        let written = request.remove(store, old);
        return WriteOutcome { object: new.into(), ..written };
    }
    request.commit(store, new, false)
}

/// Whether the object is being deleted and has no finalizers left.
fn is_deletion_complete(request: &WriteRequest, old: &Value, new: &Value) -> bool {
    let held =
        request.kind.is("", "Namespace") && !object::list(new, &["spec", "finalizers"]).is_empty();
    object::is_deleting(old)
        && !held
        && object::finalizers(new).next().is_none()
        && object::number(old, &["metadata", "deletionGracePeriodSeconds"])
            .is_none_or(|left| left == 0)
}

/// Keeps the old value of every field that a write of the object cannot change.
fn with_immutable_fields(request: &WriteRequest, old: &Value, mut new: Value) -> Value {
    let kind = &request.kind;
    let root = object::as_map(&mut new);
    root.insert("kind", kind.kind.as_ref().into());
    root.insert("apiVersion", kind.api_version(&kind.storage).into());
    if kind.stored().status {
        match old.get("status") {
            Some(status) => root.insert("status", status.clone()),
            None => root.remove("status"),
        };
    }
    let metadata =
        object::as_map(root.entry("metadata").or_insert_with(|| Value::Object(Map::new())));
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "resourceVersion",
    ] {
        match object::at(old, &["metadata", field]) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if !metadata.contains_key("managedFields")
        && let Some(fields) = object::at(old, &["metadata", "managedFields"])
    {
        metadata.insert("managedFields", fields.clone());
    }
    new
}

/// The old object with the new status. As in kube-apiserver, a status update of a built-in kind
/// also changes metadata, except the labels of a Deployment and the owners of a pod.
fn with_new_status(request: &WriteRequest, old: &Value, mut new: Value) -> Value {
    let status = object::remove(&mut new, &["status"]);
    let kept = old.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
    let kept = kept.map(|(field, value)| (field.clone(), value.clone()));
    let mut merged: Value = kept.chain(status.map(|it| ("status".into(), it))).collect();
    let kind = &request.kind;
    let takes = |field: &str| match field {
        "managedFields" => true,
        "labels" if kind.is("apps", "Deployment") => false,
        "ownerReferences" if kind.is("", "Pod") => false,
        _ => {
            kind.origin != Origin::Custom
                && !kind.is("resource.k8s.io", "ResourceClaim")
                && !kind.is("resource.k8s.io", "DeviceTaintRule")
                && *kind.resource.group != *"scheduling.k8s.io"
        }
    };
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
        let path = ["metadata", field];
        if !takes(field) {
            continue;
        }
        match object::remove(&mut new, &path) {
            Some(value) => object::set(&mut merged, &path, value),
            None if field == "managedFields" => {}
            None => drop(object::remove(&mut merged, &path)),
        }
    }
    merged
}

fn with_new_finalizers(old: &Value, new: &Value) -> Value {
    let mut merged = old.clone();
    match object::at(new, &["spec", "finalizers"]) {
        Some(finalizers) => object::set(&mut merged, &["spec", "finalizers"], finalizers.clone()),
        None => {
            object::remove(&mut merged, &["spec", "finalizers"]);
        }
    }
    merged
}

/// Refuses new finalizers on an object that is being deleted.
fn check_finalizers(request: &WriteRequest, old: &Object, new: &Value) -> Result<(), ApiError> {
    if !object::is_deleting(old) {
        return Ok(());
    }
    let old: Vec<&str> = object::finalizers(old).collect();
    let added: Vec<&str> = object::finalizers(new).filter(|name| !old.contains(name)).collect();
    let mut errors = FieldErrors::new();
    if !added.is_empty() {
        let rule = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{\"{}\"}}",
            added.join("\", \"")
        );
        errors.forbidden("metadata.finalizers", &rule);
    }
    errors.into_result(&request.kind, &request.key.name)
}

/// Whether an update increases the generation. For a Deployment, a change of annotations increases
/// it, too: they are copied to its ReplicaSets.
fn does_generation_increase(request: &WriteRequest, old: &Value, new: &Value) -> bool {
    let annotations = |object| object::map(object, &["metadata", "annotations"]);
    let notes = request.kind.is("apps", "Deployment") && request.subresource == Subresource::None;
    specs_differ(request, old, new) || (notes && annotations(old) != annotations(new))
}

/// Whether anything but metadata and status differs.
fn specs_differ(request: &WriteRequest, old: &Value, new: &Value) -> bool {
    let has_status = request.kind.stored().status;
    let relevant = |field: &str| field != "metadata" && !(has_status && field == "status");
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let left = old.iter().filter(|(field, _)| relevant(field));
    let right = new.iter().filter(|(field, _)| relevant(field));
    !left.eq(right)
}
