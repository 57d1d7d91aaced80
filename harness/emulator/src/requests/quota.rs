//! `ResourceQuota` admission: charges new and growing objects to the quotas of their namespace, or
//! refuses them.
//!
//! The quota's status decides; the quota controller maintains it. If the status is still missing,
//! the usage is computed here.

use super::request::WriteRequest;
use crate::admission::quota::{self, CountedObject};
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::store::{Commit, Key, Store, Subresource};
use schedlab_api::{Value, object};

/// The quotas that count the written object, with their new status. `old` is the previous state of
/// an updated object.
///
/// # Errors
/// 403 if a quota is exceeded.
pub(super) fn charged_quotas(
    store: &Store,
    request: &WriteRequest,
    old: Option<&Value>,
    object: &Value,
) -> Result<Vec<Value>, ApiError> {
    let mut charged = Vec::new();
    if !request.kind.namespaced || (old.is_some() && !can_usage_grow(request)) {
        return Ok(charged);
    }
    let item = |object| CountedObject { resource: &request.key.resource, object, now: request.now };
    let (item, before) = (item(object), old.map(item));
    let quotas = store.list(&quota_resource(), Some(&request.key.namespace));
    for quota in quotas.filter(|quota| quota::does_quota_count(quota, item)) {
        let mut quota = Value::clone(quota);
        if object::at(&quota, &["status", "hard"]).is_none() {
            let status = counted_status(store, request, &quota);
            object::set(&mut quota, &["status"], status);
        }
        let status = quota::charged_quota_status(&quota, item, before)
            .map_err(|why| ApiError::forbidden(&request.key.resource, &request.key.name, &why))?;
        if quota.get("status") != Some(&status) {
            object::set(&mut quota, &["status"], status);
            charged.push(quota);
        }
    }
    Ok(charged)
}

/// Whether an update can increase the usage of a quota.
fn can_usage_grow(request: &WriteRequest) -> bool {
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

/// Writes the charged quotas, unless this is a dry run.
pub(super) fn commit_charges(store: &mut Store, request: &WriteRequest, charged: Vec<Value>) {
    let manager = "kube-apiserver".into();
    for quota in charged.into_iter().filter(|_| !request.dry_run) {
        let key = Key {
            resource: quota_resource(),
            namespace: request.key.namespace.clone(),
            name: object::name(&quota).into(),
        };
        let (object, now) = (Some(quota), request.now);
        let part = Subresource::Status;
        store.commit(Commit { key: &key, object, now, manager: &manager, subresource: part });
    }
}

fn quota_resource() -> Resource {
    Resource::new("", "resourcequotas")
}

/// The status of a quota whose usage the quota controller has not counted yet.
fn counted_status(store: &Store, request: &WriteRequest, quota: &Value) -> Value {
    let collections = quota::counted_resources(quota);
    let items = collections.iter().flat_map(|resource| {
        let objects = store.list(resource, Some(&request.key.namespace));
        objects.map(move |object| CountedObject { resource, object, now: request.now })
    });
    quota::counted_quota_status(quota, items)
}
