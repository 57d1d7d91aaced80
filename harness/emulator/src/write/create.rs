//! POST: a new object gets its name, uid, times and defaults.

use serde_json::{Map, Value};

use super::patch::note_owner;
use super::quota;
use super::request::Request;
use crate::admit;
use crate::error::ApiError;
use crate::kinds::{Generation, Origin};
use crate::object;
use crate::store::{Store, Written};

/// How often a taken generated name is replaced by another one.
const NAME_TRIES: usize = 8;

pub(super) fn create(
    store: &mut Store,
    request: &mut Request,
    body: Value,
) -> Result<Written, ApiError> {
    let object = request.decode(body)?;
    create_decoded(store, request, object)
}

/// Creates an object that is already in stored form (a create, or an apply of something new).
pub(super) fn create_decoded(
    store: &mut Store,
    request: &mut Request,
    mut object: Value,
) -> Result<Written, ApiError> {
    if !object::resource_version(&object).is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::unforeseen(why));
    }
    place(request, &object)?;
    name(store, request, &mut object)?;
    begin(store, request, &mut object);
    admit::on_create(&request.admission(store), &mut object)?;
    let charged = quota::charged(store, request, None, &object)?;
    if store.find(&request.key).is_some() {
        return Err(ApiError::already_exists(&request.key.resource, &request.key.name));
    }
    quota::publish(store, request, charged);
    note_owner(request, (None, &mut object));
    Ok(request.commit(store, object, true))
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
        let stem = object::text(object, &["metadata", "generateName"]).to_owned();
        // Names of generated objects keep within 63 letters: 58 of the stem and 5 more.
        let stem: String = stem.chars().take(58).collect();
        for _ in 0..NAME_TRIES {
            if stem.is_empty() {
                break;
            }
            request.key.name = format!("{stem}{}", store.names.suffix()).into();
            if store.find(&request.key).is_none() {
                break;
            }
        }
    }
    let name = request.key.name.as_ref().into();
    object::set(object, &["metadata", "name"], name);
    Ok(())
}

/// What the server alone says about a new object.
fn begin(store: &mut Store, request: &Request, object: &mut Value) {
    let kind = &request.kind;
    let root = object::as_map(object);
    root.insert("kind".to_owned(), kind.kind.as_ref().into());
    root.insert("apiVersion".to_owned(), kind.api_version(&kind.storage).into());
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
        metadata.insert("namespace".to_owned(), request.key.namespace.as_ref().into());
    } else {
        metadata.remove("namespace");
    }
    metadata.insert("uid".to_owned(), store.names.uid().into());
    metadata.insert("creationTimestamp".to_owned(), request.time());
    match kind.generation {
        Generation::OnSpec => {
            metadata.insert("generation".to_owned(), 1.into());
        }
        Generation::None => {}
    }
}

/// A node may come with its status: that is how kubelets register.
fn keeps_no_status(request: &Request) -> bool {
    request.kind.origin == Origin::Custom || !request.kind.is("", "Node")
}
