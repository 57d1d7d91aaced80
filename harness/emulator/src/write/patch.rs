//! PATCH: what the patch makes of the object, then as any update. An apply patch creates what is
//! not there.

use std::sync::Arc;

use super::configuration;
use super::history::with_owners;
use super::request::Request;
use super::{check_subresource, create, scale, update};
use crate::error::{ApiError, Cause, FieldErrors};
use crate::kinds::{Kind, Origin};
use crate::object;
use crate::patch::{self, Author, Shape};
use crate::store::{Object, PatchBody, Stop, Store, Subresource, Written};
use schedlab_json::Value;

pub(super) fn patch(
    store: &mut Store,
    request: &mut Request,
    subresource: Subresource,
    patch: &PatchBody,
) -> Result<Written, Stop> {
    check_subresource(request, subresource)?;
    let old = store.find(&request.key).cloned();
    if let (None, PatchBody::Apply { object, force }, Subresource::None) =
        (&old, patch, subresource)
    {
        return apply_new(store, request, object, *force);
    }
    let old = old.map_or_else(|| store.get(&request.key), Ok)?;
    let shown = shown(request, subresource, &old);
    let shown = match patch {
        PatchBody::Apply { .. } if is_as_stored(request, subresource) => {
            with_owners(store, request, &shown, &shape(&request.asked))
        }
        PatchBody::Apply { .. }
        | PatchBody::Json(_)
        | PatchBody::Merge(_)
        | PatchBody::Strategic(_) => shown,
    };
    let patched = patched(request, subresource, &shown, patch)?;
    if subresource == Subresource::Scale {
        return scale::scale(store, request, &old, patched);
    }
    let new = match request.decode(update::narrowed(subresource, Some(&old), patched)) {
        Ok(new) => new,
        Err(error) => {
            let written = as_written(request, subresource, &shown, patch)?;
            return Err(unfit_object(request, error, &written).into());
        }
    };
    update::check_place(request, &new)?;
    check_identity(request, &old, &new)?;
    update::replace(store, request, subresource, (&old, new))
}

/// A patch does not say which object it means by a uid: it changes the uid, which cannot be.
fn check_identity(request: &Request, old: &Value, new: &Value) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let uid = object::uid(new);
    if !uid.is_empty() && uid != object::uid(old) {
        errors.invalid("metadata.uid", &uid.into(), "field is immutable");
    }
    errors.refuse(&request.kind, &request.key.name)
}

/// What a refusal shows of a patch that leads to no valid object: itself, or the object it leads
/// to.
fn as_written(
    request: &mut Request,
    subresource: Subresource,
    shown: &Object,
    patch: &PatchBody,
) -> Result<Value, ApiError> {
    match patch {
        PatchBody::Strategic(changes) => Ok(patch::in_go(changes).into()),
        other @ (PatchBody::Json(_) | PatchBody::Merge(_) | PatchBody::Apply { .. }) => {
            Ok(patched(request, subresource, shown, other)?.to_string().into())
        }
    }
}

/// 422: decoded by itself, the patched object would be refused as a bad request.
fn unfit_object(request: &Request, error: ApiError, shown: &Value) -> ApiError {
    let kind = &request.asked.kind;
    let head = format!("cannot be handled as a {kind}: ");
    let Some((_, why)) = error.message.split_once(&head).filter(|_| error.code == 400) else {
        return error;
    };
    let message = format!("Invalid value: {shown}: {why}");
    let text = format!(" \"\" is invalid: patch: {message}");
    let cause =
        Cause { reason: "FieldValueInvalid".to_owned(), message, field: "patch".to_owned() };
    ApiError::new(422, "Invalid", text).with_cause(cause)
}

/// Whether the patch's writer sees what the log holds, not a scale or another view of it.
fn is_as_stored(request: &Request, subresource: Subresource) -> bool {
    subresource != Subresource::Scale && request.asked.origin != Origin::View
}

/// The object as the patch's writer sees it.
fn shown(request: &Request, subresource: Subresource, old: &Object) -> Object {
    if subresource == Subresource::Scale {
        let scale = request.kind.scale_of(old).expect("the subresource was checked");
        return Arc::new(scale);
    }
    request.asked.present(&request.asked.storage, old)
}

fn patched(
    request: &mut Request,
    subresource: Subresource,
    shown: &Object,
    patch: &PatchBody,
) -> Result<Value, ApiError> {
    match patch {
        PatchBody::Json(operations) => patch::json(shown, operations),
        PatchBody::Merge(changes) => patch::merge(shown, changes),
        PatchBody::Strategic(_) if request.kind.origin == Origin::Custom => {
            Err(ApiError::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
                "application/apply-patch+cbor",
            ]))
        }
        PatchBody::Strategic(changes) => patch::strategic(shown, changes, &shape(&request.asked)),
        PatchBody::Apply { object, force } => {
            request.applies = true;
            let (said, wanted) = reachable(request, subresource, object.clone())?;
            let shape = shape(&request.asked);
            patch::apply(
                Some(shown),
                (&said, &wanted),
                *force,
                &shape,
                &author(request, subresource, &wanted),
            )
        }
    }
}

fn apply_new(
    store: &mut Store,
    request: &mut Request,
    wanted: &Value,
    force: bool,
) -> Result<Written, Stop> {
    request.applies = true;
    let (said, wanted) = reachable(request, Subresource::None, wanted.clone())?;
    let shape = shape(&request.asked);
    let author = author(request, Subresource::None, &wanted);
    let object = patch::apply(None, (&said, &wanted), force, &shape, &author)?;
    let mut object = request.decode(object)?;
    // Who applies does not say what must be there already.
    object::remove(&mut object, &["metadata", "resourceVersion"]);
    create::create_decoded(store, request, object)
}

/// The applied configuration without what the written subresource does not reach: as it was said,
/// and as it would be stored.
fn reachable(
    request: &mut Request,
    subresource: Subresource,
    mut wanted: Value,
) -> Result<(Value, Value), ApiError> {
    let (version, kind) =
        (object::text(&wanted, &["apiVersion"]), object::text(&wanted, &["kind"]));
    let is_other = kind != &*request.asked.kind && subresource != Subresource::Scale;
    if version.is_empty() || kind.is_empty() || is_other {
        let slash = if version.contains('/') { "" } else { "/" };
        let what = format!("invalid object type: {slash}{version}, Kind={kind}");
        return Err(ApiError::bad_request(what));
    }
    if subresource != Subresource::Scale {
        configuration::check(request, &wanted, &shape(&request.asked))?;
    }
    let has_status = request.kind.stored().status;
    let fields = object::as_map(&mut wanted);
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
    let said = wanted.clone();
    if request.kind.origin == Origin::BuiltIn && subresource != Subresource::Scale {
        // Or else `1` after `"1"` of a quantity would be a change.
        request.fit(&mut wanted)?;
    }
    Ok((said, wanted))
}

fn author<'r>(request: &'r Request, subresource: Subresource, wanted: &'r Value) -> Author<'r> {
    Author {
        manager: &request.manager,
        api_version: object::text(wanted, &["apiVersion"]),
        subresource: path_of(subresource),
        now: request.now,
    }
}

pub(super) fn path_of(subresource: Subresource) -> &'static str {
    match subresource {
        Subresource::None => "",
        Subresource::Status => "status",
        Subresource::Scale => "scale",
        Subresource::Finalize => "finalize",
        Subresource::Resize => "resize",
        Subresource::EphemeralContainers => "ephemeralcontainers",
    }
}

/// What merges must know about a kind.
fn shape(kind: &Kind) -> Arc<Shape> {
    match (&kind.origin, &kind.stored().schema) {
        (Origin::Custom, Some(schema)) => patch::crd(&schema.raw),
        (Origin::Custom, None) => patch::untyped(),
        (Origin::BuiltIn | Origin::View, _) => patch::builtin(&kind.resource.group, &kind.kind),
    }
}

/// Records who owns which field of `new`, for objects on which that is recorded at all: those
/// that were applied at least once. The real server records it on every object; nothing that
/// schedules reads it, and it is a third of an object's size. The first apply reads off the log
/// what was not recorded (`history`).
pub(super) fn note_owner(request: &Request, (old, new): (Option<&Value>, &mut Value)) {
    let is_recorded =
        |object: &Value| !object::list(object, &["metadata", "managedFields"]).is_empty();
    if request.applies || !(old.is_some_and(is_recorded) || is_recorded(new)) {
        return;
    }
    let version = request.kind.api_version(&request.kind.storage);
    let author = Author {
        manager: &request.manager,
        api_version: &version,
        subresource: path_of(request.subresource),
        now: request.now,
    };
    patch::note_update(old, new, &shape(&request.kind), &author);
}
