//! Side effects of changes to a `CustomResourceDefinition`: registers, updates or removes its kind,
//! and deletes the custom objects with it.

use std::sync::Arc;

use super::request::WriteRequest;
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{self, Kind, schema};
use crate::api_types::resource::Resource;
use crate::store::{
    Commit, DeleteOptions, Key, Object, Op, Store, Subresource, Write, WriteOutcome,
};
use schedlab_api::{Value, json, object};

const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const API_SERVER: &str = "kube-apiserver";

/// Updates the registry of kinds after the write of a CRD or of a custom object.
pub(super) fn sync_kind_registry(
    store: &mut Store,
    request: &WriteRequest,
    written: &WriteOutcome,
) {
    if request.dry_run {
        return;
    }
    if is_crd(&request.kind) {
        if written.deleted {
            store.kinds_mut().unregister(&defined_resource(&written.object));
        } else {
            register_and_set_status(store, request);
        }
    } else if written.deleted {
        finish_crd_deletion(store, request);
    }
}

fn is_crd(kind: &Kind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn defined_resource(crd: &Value) -> Resource {
    let group = object::text(crd, &["spec", "group"]);
    Resource::new(group, object::text(crd, &["spec", "names", "plural"]))
}

/// Registers the kind that a CRD defines, and sets the status of the CRD.
fn register_and_set_status(store: &mut Store, request: &WriteRequest) {
    let Some(crd) = store.find(&request.key).cloned() else {
        return;
    };
    let (mut kind, _) = kinds::from_crd(&crd);
    kind.schema_revision = store.revision();
    let same = store.kinds().by_kind(&kind.resource.group, &kind.kind);
    let is_taken = same.is_some_and(|other| other.resource != kind.resource);
    if !is_taken {
        store.kinds_mut().register(kind);
    }
    let mut new = Value::clone(&crd);
    let status = established_status(request, &crd, is_taken);
    object::set(&mut new, &["status"], status);
    if new != *crd {
        let manager = Arc::from(API_SERVER);
        let change = Commit {
            key: &request.key,
            object: Some(new),
            now: request.now,
            manager: &manager,
            subresource: Subresource::Status,
        };
        store.commit(change);
    }
}

fn established_status(request: &WriteRequest, crd: &Value, is_kind_taken: bool) -> Value {
    let kind = object::text(crd, &["spec", "names", "kind"]);
    let condition = |name: &str, held: bool, (reason, message): (&str, String)| {
        let status = if held { "True" } else { "False" };
        let same = object::list(crd, &["status", "conditions"])
            .iter()
            .find(|earlier| earlier["type"] == name && earlier["status"] == status);
        same.cloned().unwrap_or_else(|| {
            json!({
                "type": name,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": request.timestamp(),
            })
        })
    };
    let (names, established) = if is_kind_taken {
        (
            ("KindConflict", format!("\"{kind}\" is already in use")),
            ("NotAccepted", "not all names are accepted"),
        )
    } else {
        (
            ("NoConflicts", "no conflicts found".to_owned()),
            ("InitialNamesAccepted", "the initial names have been accepted"),
        )
    };
    let mut versions = object::list(crd, &["status", "storedVersions"]).to_vec();
    for version in object::list(crd, &["spec", "versions"]) {
        if version["storage"] == true && !versions.contains(&version["name"]) {
            versions.push(version["name"].clone());
        }
    }
    let mut conditions = vec![
        condition("NamesAccepted", !is_kind_taken, names),
        condition("Established", !is_kind_taken, (established.0, established.1.to_owned())),
    ];
    let others = object::list(crd, &["status", "conditions"]).iter();
    conditions.extend(
        others
            .filter(|other| other["type"] != "NamesAccepted" && other["type"] != "Established")
            .cloned(),
    );
    json!({
        "acceptedNames": if is_kind_taken { json!({}) } else { crd["spec"]["names"].clone() },
        "conditions": conditions,
        "storedVersions": versions,
    })
}

/// Warns about unknown string formats in a CRD that its old state did not have.
pub(super) fn warn_unrecognized_formats(
    request: &mut WriteRequest,
    old: Option<&Value>,
    new: &Value,
) {
    if !is_crd(&request.kind) || request.subresource != Subresource::None {
        return;
    }
    let known: Vec<&str> = old.into_iter().flat_map(unrecognized_formats).collect();
    let odd = unrecognized_formats(new).into_iter().filter(|format| !known.contains(format));
    request.warnings.extend(odd.map(|format| format!("unrecognized format {format:?}")));
}

/// The unknown string formats in the schemas of all versions of a CRD. A schema that all versions
/// share counts once.
fn unrecognized_formats(crd: &Value) -> Vec<&str> {
    let versions = object::list(crd, &["spec", "versions"]).iter();
    let mut schemas: Vec<&Value> =
        versions.filter_map(|version| version["schema"].get("openAPIV3Schema")).collect();
    if schemas.iter().all(|schema| *schema == schemas[0]) {
        schemas.truncate(1);
    }
    schemas.into_iter().flat_map(schema::unrecognized_formats).collect()
}

/// Deletes the custom objects of a CRD that is being deleted. Returns `true` if some of them wait
/// for finalizers, so that the CRD must wait, too.
pub(super) fn delete_custom_objects(
    store: &mut Store,
    request: &WriteRequest,
) -> Result<bool, ApiError> {
    if !is_crd(&request.kind) || request.dry_run {
        return Ok(false);
    }
    let crd = store.get(&request.key)?;
    let resource = defined_resource(&crd);
    let objects: Vec<Object> = store.list(&resource, None).cloned().collect();
    for object in objects {
        let key = Key::new(resource.clone(), object::namespace(&object), object::name(&object));
        let delete = Op::Delete(DeleteOptions::default());
        store.write(Write::new(key, delete, API_SERVER), request.now)?;
    }
    Ok(store.count(&resource) > 0)
}

/// Adds the finalizer that keeps a CRD until its custom objects are gone.
pub(super) fn add_cleanup_finalizer(crd: &mut Value) {
    let mut finalizers = object::list(crd, &["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|name| name == CLEANUP_FINALIZER) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    object::set(crd, &["metadata", "finalizers"], finalizers.into());
}

/// Removes the cleanup finalizer of a deleted CRD when the last custom object is gone.
fn finish_crd_deletion(store: &mut Store, request: &WriteRequest) {
    let resource = &request.key.resource;
    let name = format!("{}.{}", resource.plural, resource.group);
    let definitions = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
    let key = Key::new(definitions, "", &name);
    let Some(crd) = store.find(&key).cloned() else {
        return;
    };
    if !object::is_deleting(&crd) || store.count(resource) > 0 {
        return;
    }
    let mut new = Value::clone(&crd);
    let mut finalizers = object::list(&crd, &["metadata", "finalizers"]).to_vec();
    finalizers.retain(|name| name != CLEANUP_FINALIZER);
    object::set(&mut new, &["metadata", "finalizers"], finalizers.into());
    let update = Op::Update(Subresource::None, new);
    // The definition may have other finalizers and stay: that is no error.
    drop(store.write(Write::new(key, update, API_SERVER), request.now));
}
