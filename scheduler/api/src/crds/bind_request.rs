//! BindRequest, `scheduling.run.ai/v1alpha2`: the request of a scheduler to a binder to bind a pod,
//! as in KAI.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The pod to bind, with its node and devices.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.run.ai",
    version = "v1alpha2",
    kind = "BindRequest",
    doc = "A request of KAI's scheduler to its binder: the pod to bind, its node and its GPUs.",
    plural = "bindrequests",
    namespaced,
    status = "BindRequestStatus",
    derive = "PartialEq",
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.podName"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.selectedNode"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestSpec {
    /// Name of the pod.
    pub pod_name: String,
    /// Name of the node.
    pub selected_node: String,
    /// `Regular` or `Fraction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// GPUs and portions of GPUs.
    #[serde(default, rename = "receivedGPU", skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// GPU groups of the shared GPUs.
    #[serde(default, rename = "selectedGPUGroups", skip_serializing_if = "Option::is_none")]
    pub selected_gpu_groups: Option<Vec<String>>,
    /// Shared GPUs in the format of newer versions of KAI; it takes precedence over
    /// `selectedGPUGroups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_fractional_gpu_groups: Option<Vec<FractionalGpuGroup>>,
    /// Devices for the pod's resource claims, as KAI's scheduler leaves their allocation to the
    /// binder. Our scheduler allocates them itself, before it creates the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_objects")]
    pub resource_claim_allocations: Option<Vec<crate::Value>>,
    /// Devices for extended resources of a `DeviceClass`, as KAI's scheduler allocates them: the
    /// binder creates a claim for them. Our scheduler does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_object")]
    pub extended_resource_claim_allocation: Option<crate::Value>,
    /// The predicted placement of the pod in the NUMA zones of its node: names of zones and
    /// amounts.
    #[serde(default, rename = "predictedNUMAZones", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_objects")]
    pub predicted_numa_zones: Option<Vec<crate::Value>>,
    /// Number of failed attempts after which the binder gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Labels that the pod gets with the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// The schema of a list of objects whose fields are not declared, and are kept.
fn preserved_objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// The schema of an object whose fields are not declared, and are kept.
fn preserved_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A shared GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FractionalGpuGroup {
    /// Its GPU group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `time-slicing` or `sm-sharing`; pods are bound alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_sharing_mode: Option<String>,
}

/// GPUs that a pod receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceivedGpu {
    /// Number of devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Portion of each device, with two decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<String>,
}

/// Progress of the binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestStatus {
    /// `Pending`, `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of failed attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_attempts: Option<i32>,
}
