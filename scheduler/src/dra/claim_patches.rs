//! The JSON of changes to `ResourceClaim`s: finalizer, consumers, allocation.

use schedlab_api::{Value, api_versions, finalizers, json};
use schedlab_scheduler_core::model::{DeviceAccess, Name};

use super::{ClaimRecord, ObjectKey, PickedDevice, PickedDevices, ResourceClaims};
use crate::api::object_path;

pub(crate) fn claim_path(key: &ObjectKey) -> String {
    object_path("resource.k8s.io/v1", &key.namespace, "resourceclaims", &key.name)
}

/// Patch that adds the finalizer to a claim; `None` if the claim has the finalizer.
pub(crate) fn finalizer_patch(claim: &ClaimRecord) -> Option<Value> {
    let known = claim.finalizers.iter().map(|one| &**one);
    let finalizers: Vec<&str> = known.clone().chain([finalizers::DELETE_PROTECTION]).collect();
    let version = claim.version.to_string();
    let change = || json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
    known.clone().all(|one| one != finalizers::DELETE_PROTECTION).then(change)
}

/// An entry of `status.reservedFor`.
pub(crate) fn consumer_reference(name: &Name, uid: &Name) -> Value {
    json!({ "resource": "pods", "name": &**name, "uid": &**uid })
}

/// An entry of `status.reservedFor` for all pods of a PodGroup of Kubernetes.
pub(crate) fn group_reference(name: &Name, uid: &Name) -> Value {
    json!({ "apiGroup": api_versions::WORKLOAD_GROUP, "resource": "podgroups", "name": &**name, "uid": &**uid })
}

/// `AllocationResult` of these devices for a pod on the node.
pub(crate) fn allocation_result(
    claims: &ResourceClaims,
    claim: &ClaimRecord,
    node: &Name,
    picked: &PickedDevices,
) -> Value {
    let results: Vec<Value> = picked
        .iter()
        .map(|PickedDevice { request, device: id, access }| {
            let mut result = json!({ "request": &**request, "driver": &*id.driver,
                                     "pool": &*id.pool, "device": &*id.device });
            if *access == DeviceAccess::Admin {
                result["adminAccess"] = json!(true);
            }
            result
        })
        .collect();
    let mut requests: Vec<&Name> = picked.iter().map(|one| &one.request).collect();
    requests.dedup();
    let mut devices = json!({ "results": results });
    let config = claims.driver_config(claim, &requests);
    if !config.is_empty() {
        devices["config"] = config.into_iter().collect();
    }
    let mut allocation = json!({ "devices": devices });
    if let Some(selector) = claims.node_selector(picked, node) {
        allocation["nodeSelector"] = selector;
    }
    allocation
}

/// A patch of a claim's status that fails if the claim changed since this resourceVersion.
pub(crate) fn status_patch_at_version(version: u64, status: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": version.to_string() }, "status": status })
}

/// A status without allocation, consumers and driver data.
pub(crate) fn released_status() -> Value {
    json!({ "allocation": null, "reservedFor": null, "devices": null })
}
