//! A new object is charged to the quotas of its namespace, or refused; so is what grows.
//!
//! A quota's status decides, as the quota controller keeps it. Where nobody has counted for the
//! quota yet, its objects are counted here.

use super::request::Request;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object;
use crate::quota::{self, Item};
use crate::store::{Change, Key, Store, Subresource};
use schedlab_json::Value;

/// The quotas that count an object, with it in their status; `old` is what it was, if it is not new.
///
/// # Errors
/// One of them does not let it in.
pub(super) fn charged(
    store: &Store,
    request: &Request,
    old: Option<&Value>,
    object: &Value,
) -> Result<Vec<Value>, ApiError> {
    let mut charged = Vec::new();
    if !request.kind.namespaced || (old.is_some() && !can_grow(request)) {
        return Ok(charged);
    }
    let item = |object| Item { resource: &request.key.resource, object, now: request.now };
    let (item, before) = (item(object), old.map(item));
    let quotas = store.list(&resource(), Some(&request.key.namespace));
    for quota in quotas.filter(|quota| quota::counts(quota, item)) {
        let mut quota = Value::clone(quota);
        if object::at(&quota, &["status", "hard"]).is_none() {
            let status = counted(store, request, &quota);
            object::set(&mut quota, &["status"], status);
        }
        let status = quota::charged(&quota, item, before)
            .map_err(|why| ApiError::forbidden(&request.key.resource, &request.key.name, &why))?;
        if quota.get("status") != Some(&status) {
            object::set(&mut quota, &["status"], status);
            charged.push(quota);
        }
    }
    Ok(charged)
}

/// Can a write of what is there already take more of a quota?
fn can_grow(request: &Request) -> bool {
    match request.subresource {
        Subresource::None => {
            request.kind.is("", "PersistentVolumeClaim") || request.kind.is("", "Service")
        }
        Subresource::Resize => true,
        Subresource::Status
        | Subresource::Scale
        | Subresource::Finalize
        | Subresource::EphemeralContainers => false,
    }
}

/// Writes what was charged, unless this is a dry run.
pub(super) fn publish(store: &mut Store, request: &Request, charged: Vec<Value>) {
    let manager = "kube-apiserver".into();
    for quota in charged.into_iter().filter(|_| !request.dry_run) {
        let key = Key {
            resource: resource(),
            namespace: request.key.namespace.clone(),
            name: object::name(&quota).into(),
        };
        let (object, now) = (Some(quota), request.now);
        let part = Subresource::Status;
        store.commit(Change { key: &key, object, now, manager: &manager, part });
    }
}

fn resource() -> Resource {
    Resource::new("", "resourcequotas")
}

/// The status of a quota for which nobody has counted yet.
fn counted(store: &Store, request: &Request, quota: &Value) -> Value {
    let collections = quota::collections(quota);
    let items = collections.iter().flat_map(|resource| {
        let objects = store.list(resource, Some(&request.key.namespace));
        objects.map(move |object| Item { resource, object, now: request.now })
    });
    quota::status(quota, items)
}
