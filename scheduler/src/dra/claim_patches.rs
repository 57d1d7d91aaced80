//! The JSON of changes to `ResourceClaim`s: finalizer, consumers, allocation.

use schedlab_api::{Value, api_versions, finalizers, json};
use schedlab_scheduler_core::model::{DeviceAccess, Name};

use super::{
    ClaimRecord, ObjectKey, PickedDevice, PickedDevices, ResourceClaims, capacity::to_quantities,
    device::BindingRules, multi_node::node_name_selector,
};
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

/// What an allocation has besides its devices.
#[derive(Clone, Debug)]
pub(crate) struct AllocationStamp {
    /// RFC 3339.
    pub(crate) allocated_at: String,
    /// A UUID for each device, for those that are shared.
    pub(crate) share_ids: Vec<String>,
}

/// `AllocationResult` of these devices for a pod on the node.
pub(crate) fn allocation_result(
    claims: &ResourceClaims,
    claim: &ClaimRecord,
    node: &Name,
    picked: &PickedDevices,
    stamp: &AllocationStamp,
) -> Value {
    let rules: Vec<BindingRules> = picked
        .iter()
        .map(|one| claims.device(&one.device).map(|device| device.binding.clone()))
        .map(Option::unwrap_or_default)
        .collect();
    let results = picked.iter().zip(&rules).zip(&stamp.share_ids);
    let results: Vec<Value> =
        results.map(|((one, rules), share)| device_result(claim, one, rules, share)).collect();
    let mut requests: Vec<&Name> = picked.iter().map(|one| &one.request).collect();
    requests.dedup();
    let mut devices = json!({ "results": results });
    let config = claims.driver_config(claim, &requests);
    if !config.is_empty() {
        devices["config"] = config.into_iter().collect();
    }
    let mut allocation = json!({ "devices": devices });
    if rules.iter().any(|rules| !rules.conditions.is_empty()) {
        allocation["allocationTimestamp"] = json!(stamp.allocated_at);
    }
    let selector = if rules.iter().any(|rules| rules.binds_to_node) {
        Some(node_name_selector(node))
    } else {
        claims.node_selector(picked, node)
    };
    if let Some(selector) = selector {
        allocation["nodeSelector"] = selector;
    }
    allocation
}

/// `DeviceRequestAllocationResult` of a device; `share_id`: of a share.
fn device_result(
    claim: &ClaimRecord,
    PickedDevice { request, device: id, access, consumed }: &PickedDevice,
    rules: &BindingRules,
    share_id: &str,
) -> Value {
    let mut result = json!({ "request": &**request, "driver": &*id.driver,
                             "pool": &*id.pool, "device": &*id.device });
    if *access == DeviceAccess::Admin {
        result["adminAccess"] = json!(true);
    }
    let tolerations = claim.tolerations_of(request);
    if !tolerations.is_empty() {
        result["tolerations"] = json!(tolerations);
    }
    if let Some(consumed) = consumed {
        result["shareID"] = json!(share_id);
        if !consumed.is_empty() {
            result["consumedCapacity"] = to_quantities(consumed);
        }
    }
    for (field, conditions) in [
        ("bindingConditions", &rules.conditions),
        ("bindingFailureConditions", &rules.failure_conditions),
    ] {
        if !conditions.is_empty() {
            result[field] = conditions.iter().map(|name| json!(&**name)).collect();
        }
    }
    result
}

/// A patch of a claim's status that fails if the claim changed since this resourceVersion.
pub(crate) fn status_patch_at_version(version: u64, status: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": version.to_string() }, "status": status })
}

/// A status without allocation, consumers and driver data.
pub(crate) fn released_status() -> Value {
    json!({ "allocation": null, "reservedFor": null, "devices": null })
}
