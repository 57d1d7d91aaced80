//! POST: a new object gets its name, uid, times and defaults.

use std::sync::Arc;

use super::patch::note_owner;
use super::request::Request;
use super::webhooks::{self, Point};
use super::{crd, quota};
use crate::admit;
use crate::error::ApiError;
use crate::kinds::{Generation, Origin};
use crate::object;
use crate::store::{Key, Stop, Store, Written};
use schedlab_json::{Map, Value};

/// How often a taken generated name is replaced by another one.
const NAME_TRIES: usize = 8;
/// How many letters are added to the stem of a generated name.
const SUFFIX_LETTERS: usize = 5;

pub(super) fn create(
    store: &mut Store,
    request: &mut Request,
    body: Value,
) -> Result<Written, Stop> {
    let object = request.decode(body)?;
    create_decoded(store, request, object)
}

/// Creates an object that is already in stored form (a create, or an apply of something new).
pub(super) fn create_decoded(
    store: &mut Store,
    request: &mut Request,
    mut object: Value,
) -> Result<Written, Stop> {
    if !object::resource_version(&object).is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::unforeseen(why).into());
    }
    place(request, &object)?;
    name(store, request, &mut object)?;
    begin(store, request, &mut object);
    let prepared = admit::prepare(&request.admission(store), &mut object);
    prepared.map_err(|refusal| without_name(refusal, &object))?;
    let mut object = webhooks::mutate(store, request, Point::create(), object, &taken_up)?;
    admit::check(&request.admission(store), &mut object)?;
    crd::warn(request, None, &object);
    webhooks::validate(store, request, Point::create(), &object)?;
    let charged = quota::charged(store, request, None, &object)?;
    if store.find(&request.key).is_some() {
        return Err(ApiError::already_exists(&request.key.resource, &request.key.name).into());
    }
    quota::publish(store, request, charged);
    note_owner(request, (None, &mut object));
    Ok(request.commit(store, object, true))
}

/// A real server refuses an object by its stem as long as it has made no name of it. Our own
/// controllers, whose names are the same in every run, make the names that it would make.
fn without_name(mut refusal: ApiError, object: &Value) -> ApiError {
    let (name, stem) = (object::name(object), object::text(object, &["metadata", "generateName"]));
    let letters = name.strip_prefix(shortened(stem).as_str()).map(str::len);
    if letters != Some(SUFFIX_LETTERS) || stem.is_empty() {
        return refusal;
    }
    refusal.message = refusal.message.replace(&format!("\"{name}\""), &format!("\"{stem}\""));
    if let Some(details) = refusal.details.as_mut().filter(|details| details.name == name) {
        stem.clone_into(&mut details.name);
    }
    refusal
}

/// Names of generated objects keep within 63 letters.
fn shortened(stem: &str) -> String {
    stem.chars().take(63 - SUFFIX_LETTERS).collect()
}

/// A new object as a webhook has changed it.
fn taken_up(
    store: &Store,
    request: &mut Request,
    (before, mut patched): (&Value, Value),
) -> Result<Value, ApiError> {
    webhooks::restore(before, &mut patched);
    request.refit(&mut patched)?;
    admit::prepare(&request.admission(store), &mut patched)?;
    Ok(patched)
}

/// The namespace in the body must be the one in the path.
fn place(request: &Request, object: &Value) -> Result<(), ApiError> {
    let namespace = object::namespace(object);
    if !namespace.is_empty() && request.kind.namespaced && *namespace != *request.key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if request.kind.namespaced && request.key.namespace.is_empty() {
        return Err(ApiError::bad_request("an empty namespace may not be set during creation"));
    }
    Ok(())
}

fn name(store: &mut Store, request: &mut Request, object: &mut Value) -> Result<(), ApiError> {
    let given = object::name(object);
    if !given.is_empty() {
        if !request.key.name.is_empty() && *given != *request.key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                request.key.name
            )));
        }
        request.key.name = given.into();
        return Ok(());
    }
    if request.key.name.is_empty() {
        request.key.name = generated(store, request, object);
        request.begun.name = request.key.name.to_string();
    }
    let name = request.key.name.as_ref().into();
    object::set(object, &["metadata", "name"], name);
    Ok(())
}

/// A name that is not taken: that of an earlier try, or a new one. Empty where no stem is given.
fn generated(store: &mut Store, request: &Request, object: &Value) -> Arc<str> {
    let mut key = Key { name: request.begun.name.as_str().into(), ..request.key.clone() };
    if key.name.is_empty() || store.find(&key).is_some() {
        let stem = shortened(object::text(object, &["metadata", "generateName"]));
        for _ in 0..NAME_TRIES {
            if stem.is_empty() {
                break;
            }
            key.name = format!("{stem}{}", store.names.suffix()).into();
            if store.find(&key).is_none() {
                break;
            }
        }
    }
    key.name
}

/// What the server alone says about a new object.
fn begin(store: &mut Store, request: &mut Request, object: &mut Value) {
    if request.begun.uid.is_empty() {
        request.begun.uid = store.names.uid();
    }
    let request = &*request;
    let kind = &request.kind;
    let root = object::as_map(object);
    root.insert("kind", kind.kind.as_ref().into());
    root.insert("apiVersion", kind.api_version(&kind.storage).into());
    let drops_status = kind.stored().status && keeps_no_status(request);
    if drops_status {
        root.remove("status");
    }
    let metadata =
        object::as_map(root.entry("metadata").or_insert_with(|| Value::Object(Map::new())));
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        metadata.remove(field);
    }
    if kind.namespaced {
        metadata.insert("namespace", request.key.namespace.as_ref().into());
    } else {
        metadata.remove("namespace");
    }
    metadata.insert("uid", request.begun.uid.as_str().into());
    metadata.insert("creationTimestamp", request.time());
    match kind.generation {
        Generation::OnSpec => {
            metadata.insert("generation", 1.into());
        }
        Generation::None => {}
    }
}

/// A node may come with its status: that is how kubelets register.
fn keeps_no_status(request: &Request) -> bool {
    request.kind.origin == Origin::Custom || !request.kind.is("", "Node")
}
