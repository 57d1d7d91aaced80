//! What follows from a change of a `CustomResourceDefinition`: its kind comes, changes or goes,
//! and its objects go with it.

use std::sync::Arc;

use super::request::Request;
use crate::error::ApiError;
use crate::kinds::{self, Kind, Resource, schema};
use crate::object;
use crate::store::{Change, DeleteOptions, Key, Object, Op, Store, Subresource, Write, Written};
use schedlab_json::{Value, json};

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const SERVER: &str = "kube-apiserver";

/// After any write: keeps the registry of kinds in step with the definitions.
pub(super) fn follow(store: &mut Store, request: &Request, written: &Written) {
    if request.dry_run {
        return;
    }
    if is_definition(&request.kind) {
        if written.deleted {
            store.kinds_mut().unregister(&defined(&written.object));
        } else {
            establish(store, request);
        }
    } else if written.deleted {
        finish(store, request);
    }
}

fn is_definition(kind: &Kind) -> bool {
    kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn defined(crd: &Value) -> Resource {
    let group = object::text(crd, &["spec", "group"]);
    Resource::new(group, object::text(crd, &["spec", "names", "plural"]))
}

/// Registers the kind and says so in the definition's status.
fn establish(store: &mut Store, request: &Request) {
    let Some(crd) = store.find(&request.key).cloned() else {
        return;
    };
    let (kind, _) = kinds::from_crd(&crd);
    let same = store.kinds().by_kind(&kind.resource.group, &kind.kind);
    let is_taken = same.is_some_and(|other| other.resource != kind.resource);
    if !is_taken {
        store.kinds_mut().register(kind);
    }
    let mut new = Value::clone(&crd);
    let status = status(request, &crd, is_taken);
    object::set(&mut new, &["status"], status);
    if new != *crd {
        let manager = Arc::from(SERVER);
        let change = Change {
            key: &request.key,
            object: Some(new),
            now: request.now,
            manager: &manager,
            part: Subresource::Status,
        };
        store.commit(change);
    }
}

fn status(request: &Request, crd: &Value, is_taken: bool) -> Value {
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
                "lastTransitionTime": request.time(),
            })
        })
    };
    let (names, established) = if is_taken {
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
        condition("NamesAccepted", !is_taken, names),
        condition("Established", !is_taken, (established.0, established.1.to_owned())),
    ];
    let others = object::list(crd, &["status", "conditions"]).iter();
    conditions.extend(
        others
            .filter(|other| other["type"] != "NamesAccepted" && other["type"] != "Established")
            .cloned(),
    );
    json!({
        "acceptedNames": if is_taken { json!({}) } else { crd["spec"]["names"].clone() },
        "conditions": conditions,
        "storedVersions": versions,
    })
}

/// Warns of formats that nobody looks at, and that were not there before.
pub(super) fn warn(request: &mut Request, old: Option<&Value>, new: &Value) {
    if !is_definition(&request.kind) || request.subresource != Subresource::None {
        return;
    }
    let known: Vec<&str> = old.into_iter().flat_map(odd_formats).collect();
    let odd = odd_formats(new).into_iter().filter(|format| !known.contains(format));
    request.warnings.extend(odd.map(|format| format!("unrecognized format {format:?}")));
}

/// Of each version's schema; one that all versions share counts once.
fn odd_formats(crd: &Value) -> Vec<&str> {
    let versions = object::list(crd, &["spec", "versions"]).iter();
    let mut schemas: Vec<&Value> =
        versions.filter_map(|version| version["schema"].get("openAPIV3Schema")).collect();
    if schemas.iter().all(|schema| *schema == schemas[0]) {
        schemas.truncate(1);
    }
    schemas.into_iter().flat_map(schema::unrecognized).collect()
}

/// Before a definition goes, its objects go. `true` when some wait for finalizers, and the
/// definition with them.
pub(super) fn waits_for_objects(store: &mut Store, request: &Request) -> Result<bool, ApiError> {
    if !is_definition(&request.kind) || request.dry_run {
        return Ok(false);
    }
    let crd = store.get(&request.key)?;
    let resource = defined(&crd);
    let objects: Vec<Object> = store.list(&resource, None).cloned().collect();
    for object in objects {
        let key = Key::new(resource.clone(), object::namespace(&object), object::name(&object));
        let delete = Op::Delete(DeleteOptions::default());
        store.write(Write::new(key, delete, SERVER), request.now)?;
    }
    Ok(store.count(&resource) > 0)
}

/// The finalizer that holds a definition while its objects go.
pub(super) fn hold(crd: &mut Value) {
    let mut finalizers = object::list(crd, &["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|name| name == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    object::set(crd, &["metadata", "finalizers"], finalizers.into());
}

/// The last object of a going definition has gone.
fn finish(store: &mut Store, request: &Request) {
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
    finalizers.retain(|name| name != CLEANUP);
    object::set(&mut new, &["metadata", "finalizers"], finalizers.into());
    let update = Op::Update(Subresource::None, new);
    // Other finalizers may still hold it: then it stays, and that is no error.
    drop(store.write(Write::new(key, update, SERVER), request.now));
}
