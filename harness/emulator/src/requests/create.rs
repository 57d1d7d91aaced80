//! POST: sets the name, uid, creation time and defaults of a new object.

use std::sync::Arc;

use super::patch::record_managed_fields;
use super::request::WriteRequest;
use super::webhooks::{self, AdmissionPoint};
use super::{check_size, crd, quota};
use crate::admission;
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Generation, Origin};
use crate::store::{Key, Store, WriteError, WriteOutcome};
use schedlab_api::{Map, Value, object};

/// The number of attempts to find a free generated name.
const NAME_TRIES: usize = 8;
/// The number of letters appended to `generateName`.
const SUFFIX_LETTERS: usize = 5;

pub(super) fn create_object(
    store: &mut Store,
    request: &mut WriteRequest,
    body: Value,
) -> Result<WriteOutcome, WriteError> {
    let object = request.decode(body)?;
    create_decoded_object(store, request, object)
}

/// Creates an object that is already in stored form, for a create or an apply.
pub(super) fn create_decoded_object(
    store: &mut Store,
    request: &mut WriteRequest,
    mut object: Value,
) -> Result<WriteOutcome, WriteError> {
    // As in kube-apiserver, a text that is no revision is ignored.
    if object::resource_version(&object).parse::<u64>().is_ok_and(|revision| revision != 0) {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::without_reason(why).into());
    }
    check_namespace(request, &object)?;
    set_name(store, request, &mut object)?;
    set_server_metadata(store, request, &mut object);
    let prepared = admission::prepare_create(&request.admission(store), &mut object);
    prepared.map_err(|refusal| with_stem_in_error(refusal, &object))?;
    admission::fill_times(&request.admission(store), None, &mut object, &request.timestamp());
    let mut object = webhooks::call_mutating_webhooks(
        store,
        request,
        AdmissionPoint::create(),
        object,
        &prepare_after_webhook,
    )?;
    admission::check_create(&request.admission(store), &mut object)?;
    crd::warn_unrecognized_formats(request, None, &object);
    request.warnings.extend(admission::warnings(&request.admission(store), &object));
    webhooks::call_validating_webhooks(store, request, AdmissionPoint::create(), &object)?;
    check_size(request, &object)?;
    let charged = quota::charged_quotas(store, request, None, &object)?;
    if store.find(&request.key).is_some() {
        return Err(ApiError::already_exists(&request.key.resource, &request.key.name).into());
    }
    quota::commit_charges(store, request, charged);
    record_managed_fields(request, None, &mut object);
    Ok(request.commit(store, object, true))
}

/// Replaces the generated name in an error by its stem: kube-apiserver refuses an object before it
/// generates the name. The emulator's controllers, however, generate names themselves, so that the
/// names are the same in every run.
fn with_stem_in_error(mut refusal: ApiError, object: &Value) -> ApiError {
    let (name, stem) = (object::name(object), object::text(object, &["metadata", "generateName"]));
    let letters = name.strip_prefix(truncate_stem(stem).as_str()).map(str::len);
    if letters != Some(SUFFIX_LETTERS) || stem.is_empty() {
        return refusal;
    }
    refusal.message = refusal.message.replace(&format!("\"{name}\""), &format!("\"{stem}\""));
    if let Some(details) = refusal.details.as_mut().filter(|details| details.name == name) {
        stem.clone_into(&mut details.name);
    }
    refusal
}

/// The stem of a generated name (`generateName`), cut so that the name with its suffix has at most
/// 63 letters.
fn truncate_stem(stem: &str) -> String {
    stem.chars().take(63 - SUFFIX_LETTERS).collect()
}

/// Sets defaults and server-owned fields again after a webhook changed a new object.
fn prepare_after_webhook(
    store: &Store,
    request: &mut WriteRequest,
    before: &Value,
    mut patched: Value,
) -> Result<Value, ApiError> {
    webhooks::restore_server_fields(before, &mut patched);
    request.prune_and_default_webhook_change(&mut patched)?;
    admission::prepare_create(&request.admission(store), &mut patched)?;
    Ok(patched)
}

/// Refuses a body whose namespace differs from the path.
fn check_namespace(request: &WriteRequest, object: &Value) -> Result<(), ApiError> {
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

fn set_name(
    store: &mut Store,
    request: &mut WriteRequest,
    object: &mut Value,
) -> Result<(), ApiError> {
    let body_name = object::name(object);
    if !body_name.is_empty() {
        if !request.key.name.is_empty() && *body_name != *request.key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({body_name}) does not match the name on the URL ({})",
                request.key.name
            )));
        }
        request.key.name = body_name.into();
        return Ok(());
    }
    if request.key.name.is_empty() {
        request.key.name = generate_name(store, request, object);
        request.first_attempt.name = request.key.name.to_string();
    }
    let name = request.key.name.as_ref().into();
    object::set(object, &["metadata", "name"], name);
    Ok(())
}

/// A generated name that no object has: the name of the first attempt, or a new one. Empty without
/// `generateName`.
fn generate_name(store: &mut Store, request: &WriteRequest, object: &Value) -> Arc<str> {
    let mut key = Key { name: request.first_attempt.name.as_str().into(), ..request.key.clone() };
    if key.name.is_empty() || store.find(&key).is_some() {
        let stem = truncate_stem(object::text(object, &["metadata", "generateName"]));
        for _ in 0..NAME_TRIES {
            if stem.is_empty() {
                break;
            }
            key.name = format!("{stem}{}", store.ids.suffix()).into();
            if store.find(&key).is_none() {
                break;
            }
        }
    }
    key.name
}

/// Sets the metadata that only the server may set on a new object.
fn set_server_metadata(store: &mut Store, request: &mut WriteRequest, object: &mut Value) {
    if request.first_attempt.uid.is_empty() {
        request.first_attempt.uid = store.ids.uid();
    }
    let request = &*request;
    let kind = &request.kind;
    let root = object::as_map(object);
    root.insert("kind", kind.kind.as_ref().into());
    root.insert("apiVersion", kind.api_version(&kind.storage).into());
    let drops_status = kind.stored().status && is_status_dropped(request);
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
    metadata.insert("uid", request.first_attempt.uid.as_str().into());
    metadata.insert("creationTimestamp", request.timestamp());
    match kind.generation {
        Generation::OnSpec => {
            metadata.insert("generation", 1.into());
        }
        Generation::None => {}
    }
}

/// Whether the status in the body of a new object is dropped. A node keeps it, because kubelets
/// register that way.
fn is_status_dropped(request: &WriteRequest) -> bool {
    request.kind.origin == Origin::Custom || !request.kind.is("", "Node")
}
