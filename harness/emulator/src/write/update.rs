//! PUT, and the second half of PATCH: a new state of an object that is there. The object itself
//! and its status are written apart; a write that changes nothing leaves no trace.

use std::sync::Arc;

use super::patch::note_owner;
use super::request::Request;
use super::webhooks::{self, Point};
use super::{Seen, check_seen, check_subresource, crd, create, quota, scale};
use crate::admit;
use crate::error::{ApiError, FieldErrors};
use crate::kinds::{Generation, Kind, Origin};
use crate::object;
use crate::store::{Object, Stop, Store, Subresource, Written};
use schedlab_json::{Map, Value};

pub(super) fn update(
    store: &mut Store,
    request: &mut Request,
    subresource: Subresource,
    body: Value,
) -> Result<Written, Stop> {
    check_subresource(request, subresource)?;
    if subresource == Subresource::Scale {
        let old = store.get(&request.key)?;
        return scale::scale(store, request, &old, body);
    }
    if store.find(&request.key).is_none() && creates_on_update(request) {
        return create::create(store, request, body);
    }
    let new = request.decode(narrowed(subresource, store.find(&request.key), body))?;
    check_place(request, &new)?;
    let old = store.get(&request.key)?;
    if object::resource_version(&new).is_empty() && !may_be_unconditional(request) {
        let mut errors = FieldErrors::new();
        let rule = "must be specified for an update";
        errors.invalid("metadata.resourceVersion", &0.into(), rule);
        // This refusal names the collection where others name the kind.
        let plural = Arc::clone(&request.kind.resource.plural);
        errors.refuse(&Kind { kind: plural, ..Kind::clone(&request.kind) }, &request.key.name)?;
    }
    replace(store, request, subresource, (&old, new))
}

/// The name and namespace in the body must be those in the path.
pub(super) fn check_place(request: &Request, new: &Value) -> Result<(), ApiError> {
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

/// Kinds of which a PUT makes what is not there.
fn creates_on_update(request: &Request) -> bool {
    let kinds = [("coordination.k8s.io", "Lease"), ("", "Event"), ("", "Endpoints")];
    request.subresource == Subresource::None
        && kinds.iter().any(|(group, kind)| request.kind.is(group, kind))
}

/// A body without what the subresource does not reach, which then need not be decoded: a spec that
/// is the stored one has nothing that its writer would have to be told.
pub(super) fn narrowed(subresource: Subresource, old: Option<&Object>, mut body: Value) -> Value {
    if subresource == Subresource::Status && old.is_some_and(|old| old["spec"] == body["spec"]) {
        object::remove(&mut body, &["spec"]);
    }
    body
}

/// Whether an update without `resourceVersion` overwrites whatever is there.
fn may_be_unconditional(request: &Request) -> bool {
    match request.kind.origin {
        Origin::Custom => false,
        Origin::BuiltIn | Origin::View => {
            !request.kind.is("coordination.k8s.io", "Lease")
                && !request.kind.is("policy", "PodDisruptionBudget")
                && !request.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        }
    }
}

/// Puts `new` in the place of `old`, as far as the subresource reaches.
pub(super) fn replace(
    store: &mut Store,
    request: &mut Request,
    subresource: Subresource,
    (old, new): (&Object, Value),
) -> Result<Written, Stop> {
    let seen = |text: &'static str| {
        object::at(&new, &["metadata", text])
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let by_update = Seen { uid: seen("uid"), revision: seen("resourceVersion"), by_update: true };
    if let Some(text) = by_update.revision.filter(|text| text.parse::<u64>().is_err()) {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        return Err(ApiError::unforeseen(why).into());
    }
    check_seen(request, old, &by_update)?;
    let unsaid = webhooks::unsaid(&new);
    let new = prepared(store, request, subresource, (old, new))?;
    let take_up = |store: &Store, request: &mut Request, (_, mut patched): (&Value, Value)| {
        request.refit(&mut patched)?;
        prepared(store, request, subresource, (old, patched))
    };
    let point = Point::update(old).without(&unsaid);
    let mut new = webhooks::mutate(store, request, point, new, &take_up)?;
    admit::check_update(&request.admission(store), subresource, old, &mut new)?;
    crd::warn(request, Some(&**old), &new);
    webhooks::validate(store, request, Point::update(old), &new)?;
    let charged = quota::charged(store, request, Some(old), &new)?;
    let written = settle(store, request, old, new);
    quota::publish(store, request, charged);
    Ok(written)
}

/// The new state with what its writer does not reach, and what the server adds.
fn prepared(
    store: &Store,
    request: &Request,
    subresource: Subresource,
    (old, new): (&Object, Value),
) -> Result<Value, ApiError> {
    let mut new = match subresource {
        Subresource::None | Subresource::Resize | Subresource::EphemeralContainers => {
            with_old_parts(request, old, new)
        }
        Subresource::Status => with_new_status(request, old, new),
        Subresource::Scale | Subresource::Finalize => with_new_finalizers(old, &new),
    };
    check_finalizers(request, old, &new)?;
    admit::prepare_update(&request.admission(store), subresource, old, &mut new);
    Ok(new)
}

/// Ends an update: generation, nothing at all, the last finalizer, or a commit.
pub(super) fn settle(
    store: &mut Store,
    request: &Request,
    old: &Object,
    mut new: Value,
) -> Written {
    if request.kind.generation == Generation::OnSpec && is_new_generation(request, old, &new) {
        let generation = object::number(old, &["metadata", "generation"]).unwrap_or(0);
        object::set(&mut new, &["metadata", "generation"], (generation + 1).into());
    }
    note_owner(request, (Some(&**old), &mut new));
    if new == **old {
        return Request::unchanged(old);
    }
    if is_over(request, old, &new) {
        // The writer sees what the last write made of the object, at the revision it had.
        let written = request.take_away(store, old);
        return Written { object: new.into(), ..written };
    }
    request.commit(store, new, false)
}

/// A deletion waited only for the finalizers, and they are gone.
fn is_over(request: &Request, old: &Value, new: &Value) -> bool {
    let held =
        request.kind.is("", "Namespace") && !object::list(new, &["spec", "finalizers"]).is_empty();
    object::is_deleting(old)
        && !held
        && object::finalizers(new).next().is_none()
        && object::number(old, &["metadata", "deletionGracePeriodSeconds"])
            .is_none_or(|left| left == 0)
}

/// Everything the writer of the object itself cannot change.
fn with_old_parts(request: &Request, old: &Value, mut new: Value) -> Value {
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

/// The old object with the new status. Built-in kinds take the metadata along, as the real server
/// lets them: all but a deployment's labels and a pod's owners.
fn with_new_status(request: &Request, old: &Value, mut new: Value) -> Value {
    let status = object::remove(&mut new, &["status"]);
    let kept = old.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
    let kept = kept.map(|(field, value)| (field.clone(), value.clone()));
    let mut merged: Value = kept.chain(status.map(|it| ("status".into(), it))).collect();
    let kind = &request.kind;
    let takes = |field: &str| match field {
        "managedFields" => true,
        "labels" if kind.is("apps", "Deployment") => false,
        "ownerReferences" if kind.is("", "Pod") => false,
        _ => kind.origin != Origin::Custom && !kind.is("resource.k8s.io", "ResourceClaim"),
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

/// A deletion that has begun can get no new finalizers.
fn check_finalizers(request: &Request, old: &Object, new: &Value) -> Result<(), ApiError> {
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
    errors.refuse(&request.kind, &request.key.name)
}

/// Whether the controllers of a kind have something new to look at. A deployment's annotations
/// are: they go on to its ReplicaSets.
fn is_new_generation(request: &Request, old: &Value, new: &Value) -> bool {
    let annotations = |object| object::map(object, &["metadata", "annotations"]);
    let notes = request.kind.is("apps", "Deployment") && request.subresource == Subresource::None;
    specs_differ(request, old, new) || (notes && annotations(old) != annotations(new))
}

/// Whether anything but metadata and status differs.
fn specs_differ(request: &Request, old: &Value, new: &Value) -> bool {
    let has_status = request.kind.stored().status;
    let relevant = |field: &str| field != "metadata" && !(has_status && field == "status");
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let left = old.iter().filter(|(field, _)| relevant(field));
    let right = new.iter().filter(|(field, _)| relevant(field));
    !left.eq(right)
}
