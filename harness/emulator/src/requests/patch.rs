//! PATCH: applies the patch and continues as an update. An apply patch creates a missing object.

use std::sync::Arc;

use super::apply_validation;
use super::managed_fields_bootstrap::with_managed_fields;
use super::request::WriteRequest;
use super::{check_subresource, create, scale, update};
use crate::api_types::error::go_format::format_go_value;
use crate::api_types::error::{ApiError, Cause, FieldErrors};
use crate::api_types::kinds::{Kind, Origin};
use crate::requests::patch_types::{self, MergeShape, WriteAuthor};
use crate::store::{Object, PatchBody, Store, Subresource, WriteError, WriteOutcome};
use schedlab_api::{Value, object};

pub(super) fn patch_object(
    store: &mut Store,
    request: &mut WriteRequest,
    subresource: Subresource,
    patch: &PatchBody,
) -> Result<WriteOutcome, WriteError> {
    check_subresource(request, subresource)?;
    let old = store.find(&request.key).cloned();
    if let (None, PatchBody::Apply { object, force }, Subresource::None) =
        (&old, patch, subresource)
    {
        return apply_create(store, request, object, *force);
    }
    let old = request.in_current_schema(&old.map_or_else(|| store.get(&request.key), Ok)?);
    let shown = as_patched_representation(request, subresource, &old);
    let shown = match patch {
        PatchBody::Apply { .. } if is_stored_representation(request, subresource) => {
            with_managed_fields(store, request, &shown, &merge_shape(&request.requested_kind))
        }
        PatchBody::Apply { .. }
        | PatchBody::Json(_)
        | PatchBody::Merge(_)
        | PatchBody::Strategic(_) => shown,
    };
    let patched = apply_patch(request, subresource, &shown, patch)?;
    if subresource == Subresource::Scale {
        return scale::update_scale(store, request, &old, patched);
    }
    let new = match request.decode(update::without_unchanged_spec(subresource, Some(&old), patched))
    {
        Ok(new) => new,
        Err(error) => {
            let written = patch_as_shown(request, subresource, &shown, patch)?;
            return Err(invalid_patched_object_error(request, error, &written).into());
        }
    };
    update::check_name_and_namespace(request, &new)?;
    check_uid_unchanged(request, &old, &new)?;
    update::replace_part(store, request, subresource, &old, new)
}

/// Refuses a patch that changes the uid. In a patch, unlike in an update, the uid is no
/// precondition.
fn check_uid_unchanged(request: &WriteRequest, old: &Value, new: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let uid = object::uid(new);
    if !uid.is_empty() && uid != object::uid(old) {
        errors.invalid("metadata.uid", &uid.into(), "field is immutable");
    }
    errors.into_result(&request.kind, &request.key.name)
}

/// The value that an error shows for a patch with an invalid result: the patch or the patched
/// object, depending on the patch type.
fn patch_as_shown(
    request: &mut WriteRequest,
    subresource: Subresource,
    shown: &Object,
    patch: &PatchBody,
) -> Result<Value, ApiError> {
    match patch {
        PatchBody::Strategic(changes) => Ok(format_go_value(changes).into()),
        other @ (PatchBody::Json(_) | PatchBody::Merge(_) | PatchBody::Apply { .. }) => {
            Ok(apply_patch(request, subresource, shown, other)?.to_string().into())
        }
    }
}

/// The part of a 400 decoding error that is about the value; `None` for other errors.
fn decoding_error_detail<'e>(request: &WriteRequest, error: &'e ApiError) -> Option<&'e str> {
    let head = format!("cannot be handled as a {}: ", request.requested_kind.kind);
    error.message.split_once(&head).filter(|_| error.code == 400).map(|(_, why)| why)
}

/// Turns the 400 error of decoding a patched object into the 422 error of a patch.
fn invalid_patched_object_error(
    request: &WriteRequest,
    error: ApiError,
    shown: &Value,
) -> ApiError {
    let Some(why) = decoding_error_detail(request, &error) else { return error };
    let message = format!("Invalid value: {shown}: {why}");
    let text = format!(" \"\" is invalid: patch: {message}");
    let cause =
        Cause { reason: "FieldValueInvalid".to_owned(), message, field: "patch".to_owned() };
    ApiError::new(422, "Invalid", text).with_cause(cause)
}

/// Whether the patch applies to the object as it is stored, not to a Scale or to an alias kind such
/// as `events.k8s.io` events.
fn is_stored_representation(request: &WriteRequest, subresource: Subresource) -> bool {
    subresource != Subresource::Scale && request.requested_kind.origin != Origin::View
}

/// The object in the representation that the patch applies to: as a Scale, as an alias kind, or as
/// stored.
fn as_patched_representation(
    request: &WriteRequest,
    subresource: Subresource,
    old: &Object,
) -> Object {
    if subresource == Subresource::Scale {
        let scale = request.kind.scale_of(old).expect("the subresource was checked");
        return Arc::new(scale);
    }
    request.requested_kind.in_version(&request.requested_kind.storage, old)
}

fn apply_patch(
    request: &mut WriteRequest,
    subresource: Subresource,
    shown: &Object,
    patch: &PatchBody,
) -> Result<Value, ApiError> {
    match patch {
        PatchBody::Json(operations) => patch_types::apply_json_patch(shown, operations),
        PatchBody::Merge(changes) => patch_types::apply_merge_patch(shown, changes),
        PatchBody::Strategic(_) if request.kind.origin == Origin::Custom => {
            Err(ApiError::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
                "application/apply-patch+cbor",
            ]))
        }
        PatchBody::Strategic(changes) => patch_types::apply_strategic_patch(
            shown,
            changes,
            &merge_shape(&request.requested_kind),
        ),
        PatchBody::Apply { object, force } => {
            request.is_apply = true;
            let (as_written, configuration) =
                restrict_to_subresource(request, subresource, object.clone())?;
            let shape = merge_shape(&request.requested_kind);
            patch_types::apply_configuration(
                Some(shown),
                &as_written,
                &configuration,
                *force,
                &shape,
                &patch_author(request, subresource, &configuration),
            )
        }
    }
}

fn apply_create(
    store: &mut Store,
    request: &mut WriteRequest,
    configuration: &Value,
    force: bool,
) -> Result<WriteOutcome, WriteError> {
    request.is_apply = true;
    let (as_written, configuration) =
        restrict_to_subresource(request, Subresource::None, configuration.clone())?;
    let shape = merge_shape(&request.requested_kind);
    let author = patch_author(request, Subresource::None, &configuration);
    let object = patch_types::apply_configuration(
        None,
        &as_written,
        &configuration,
        force,
        &shape,
        &author,
    )?;
    let mut object = request.decode(object)?;
    // On creation, the resourceVersion of an applied configuration is no precondition.
    object::remove(&mut object, &["metadata", "resourceVersion"]);
    create::create_decoded_object(store, request, object)
}

/// Drops the fields that the subresource does not cover from an applied configuration. Returns it
/// as written, and as it would be stored.
fn restrict_to_subresource(
    request: &mut WriteRequest,
    subresource: Subresource,
    mut configuration: Value,
) -> Result<(Value, Value), ApiError> {
    let (version, kind) =
        (object::text(&configuration, &["apiVersion"]), object::text(&configuration, &["kind"]));
    let is_other = kind != &*request.requested_kind.kind && subresource != Subresource::Scale;
    if version.is_empty() || kind.is_empty() || is_other {
        let slash = if version.contains('/') { "" } else { "/" };
        let what = format!("invalid object type: {slash}{version}, Kind={kind}");
        return Err(ApiError::bad_request(what));
    }
    if subresource != Subresource::Scale {
        apply_validation::check_applied_configuration(
            request,
            &configuration,
            &merge_shape(&request.requested_kind),
        )?;
    }
    let has_status = request.kind.stored().status;
    let fields = object::as_map(&mut configuration);
    match subresource {
        Subresource::None if has_status => {
            fields.remove("status");
        }
        Subresource::Status => fields.retain(|field, _| {
            matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status")
        }),
        Subresource::None
        | Subresource::Scale
        | Subresource::Finalize
        | Subresource::Resize
        | Subresource::EphemeralContainers => {}
    }
    let as_written = configuration.clone();
    if request.kind.origin == Origin::BuiltIn && subresource != Subresource::Scale {
        // Otherwise the quantity `1` after `"1"` would be a change.
        let decoded = request.prune_and_default(&mut configuration);
        decoded.map_err(|error| match decoding_error_detail(request, &error) {
            Some(why) => patch_types::typed_conversion_error(&as_written, why),
            None => error,
        })?;
    }
    Ok((as_written, configuration))
}

fn patch_author<'r>(
    request: &'r WriteRequest,
    subresource: Subresource,
    configuration: &'r Value,
) -> WriteAuthor<'r> {
    WriteAuthor {
        manager: &request.manager,
        api_version: object::text(configuration, &["apiVersion"]),
        subresource: subresource_path(subresource),
        now: request.now,
    }
}

pub(super) fn subresource_path(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::None => "",
        Subresource::Status => "status",
        Subresource::Scale => "scale",
        Subresource::Finalize => "finalize",
        Subresource::Resize => "resize",
        Subresource::EphemeralContainers => "ephemeralcontainers",
    }
}

/// The merge rules of the kind's fields.
fn merge_shape(kind: &Kind) -> Arc<MergeShape> {
    match (&kind.origin, &kind.stored().schema) {
        (Origin::Custom, Some(schema)) => patch_types::custom_resource_shape(&schema.raw),
        (Origin::Custom, None) => patch_types::untyped_shape(),
        (Origin::BuiltIn | Origin::View, _) => {
            patch_types::builtin_shape(&kind.resource.group, &kind.kind)
        }
    }
}

/// Updates `managedFields` of an object that was applied at least once. Unlike kube-apiserver, the
/// emulator does not record `managedFields` on other objects: schedulers do not read them, and they
/// are a third of an object's size. The first apply reconstructs them (`managed_fields_bootstrap`).
pub(super) fn record_managed_fields(request: &WriteRequest, old: Option<&Value>, new: &mut Value) {
    let is_recorded =
        |object: &Value| !object::list(object, &["metadata", "managedFields"]).is_empty();
    if request.is_apply || !(old.is_some_and(is_recorded) || is_recorded(new)) {
        return;
    }
    let version = request.kind.api_version(&request.kind.storage);
    let author = WriteAuthor {
        manager: &request.manager,
        api_version: &version,
        subresource: subresource_path(request.subresource),
        now: request.now,
    };
    patch_types::record_update(old, new, &merge_shape(&request.kind), &author);
}
