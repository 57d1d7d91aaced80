//! BindRequest, `scheduling.run.ai/v1alpha2`: the order from scheduler to binder, as KAI has it.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pod goes to which node, with which devices.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.run.ai",
    version = "v1alpha2",
    kind = "BindRequest",
    doc = "Which pod goes to which node with which GPUs: KAI's order from its scheduler to its binder.",
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
    /// The pod.
    pub pod_name: String,
    /// The node.
    pub selected_node: String,
    /// `Regular` or `Fraction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_resource_type: Option<String>,
    /// GPUs and parts of GPUs.
    #[serde(default, rename = "receivedGPU", skip_serializing_if = "Option::is_none")]
    pub received_gpu: Option<ReceivedGpu>,
    /// Shared GPUs.
    #[serde(default, rename = "selectedGPUGroups", skip_serializing_if = "Option::is_none")]
    pub selected_gpu_groups: Option<Vec<String>>,
    /// Shared GPUs, as newer versions of KAI name them; taken in place of those where both stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_fractional_gpu_groups: Option<Vec<FractionalGpuGroup>>,
    /// Devices for the pod's resource claims, as KAI's scheduler leaves them to the binder. Our
    /// scheduler allocates them itself, before it asks for the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "whatever_stands_there")]
    pub resource_claim_allocations: Option<Vec<schedlab_json::Value>>,
    /// Devices for extended resources of a `DeviceClass`, as KAI's scheduler allocates them: the
    /// binder makes a claim of them. Our scheduler asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub extended_resource_claim_allocation: Option<schedlab_json::Value>,
    /// What the pod is foretold to have of its node's NUMA zones: names of zones and amounts.
    #[serde(default, rename = "predictedNUMAZones", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "whatever_stands_there")]
    pub predicted_numa_zones: Option<Vec<schedlab_json::Value>>,
    /// Binding is given up after so many failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Labels that the pod gets with the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// A list of objects of whose fields nothing is lost.
fn whatever_stands_there(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// An object of whose fields nothing is lost.
fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// A GPU that pods share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FractionalGpuGroup {
    /// Its name among the shared GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `time-slicing` or `sm-sharing`; pods are bound alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_sharing_mode: Option<String>,
}

/// GPUs that a pod receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReceivedGpu {
    /// How many devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Which part of each, with two decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<String>,
}

/// How far the binding is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindRequestStatus {
    /// `Pending`, `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_attempts: Option<i32>,
}
