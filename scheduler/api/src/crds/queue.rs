//! Queue, `scheduling.run.ai/v2`: a share of the cluster in a tree of queues.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// Quotas, weights and limits of a queue.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.run.ai",
    version = "v2",
    kind = "Queue",
    doc = "A share of the cluster's GPUs, CPU and memory, in a tree of queues.",
    plural = "queues",
    status = "QueueStatus",
    derive = "PartialEq",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentQueue"),
    printcolumn(name = "Quota", type_ = "number", json_path = ".spec.resources.gpu.quota"),
    printcolumn(
        name = "Fair-Share",
        type_ = "string",
        json_path = r".status.fairShare.nvidia\.com/gpu"
    ),
    printcolumn(name = "Used", type_ = "string", json_path = r".status.allocated.nvidia\.com/gpu"),
    printcolumn(
        name = "Pending",
        type_ = "string",
        json_path = r".status.pending.nvidia\.com/gpu"
    ),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Children",
        type_ = "string",
        json_path = ".status.childQueues",
        priority = 1
    ),
    printcolumn(
        name = "DisplayName",
        type_ = "string",
        json_path = ".spec.displayName",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The parent queue; without it the queue is a top-level queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_queue: Option<String>,
    /// Resources above all quotas go to queues of higher priority first. 100 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long a workload of this queue is protected from preemption by higher priorities in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// How long a workload of this queue is protected from reclaim by other queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
    /// Shares by resource. An unset quota or limit is 0, so that nothing may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<QueueResources>,
}

/// Shares by resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueResources {
    /// Share of GPUs, in devices; fractions are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<QueueResource>,
    /// Share of CPU, in thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<QueueResource>,
    /// Share of memory, in millions of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<QueueResource>,
}

/// Shares of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResource {
    /// Deserved quota; -1: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// Weight of the queue in the division of the resources above all quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_quota_weight: Option<f64>,
    /// Upper limit; -1: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// Status of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Problems with the queue's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Names of the child queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_queues: Option<Vec<String>>,
    /// Used by bound pods of this queue and its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated: Option<BTreeMap<String, Quantity>>,
    /// The part of the allocated resources that non-preemptible workloads use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated_non_preemptible: Option<BTreeMap<String, Quantity>>,
    /// Allocated, plus requests of waiting pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub requested: Option<BTreeMap<String, Quantity>>,
    /// Requests of waiting pods: `requested` without `allocated`. KAI has no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub pending: Option<BTreeMap<String, Quantity>>,
    /// Fair share in the last cycle. KAI has it as a metric only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub fair_share: Option<BTreeMap<String, Quantity>>,
}
