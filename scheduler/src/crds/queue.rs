//! Queue, `scheduling.run.ai/v2`: a share of the cluster, in a tree.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// What a queue deserves, may borrow, and must not exceed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.run.ai",
    version = "v2",
    kind = "Queue",
    doc = "A share of the cluster's GPUs, CPU and memory, in a tree of queues.",
    plural = "queues",
    status = "QueueStatus",
    derive = "PartialEq",
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentQueue"),
    printcolumn(name = "Children", type_ = "string", json_path = ".status.childQueues"),
    printcolumn(name = "DisplayName", type_ = "string", json_path = ".spec.displayName")
)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// Shown to people instead of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The queue above this one; without it the queue shares the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_queue: Option<String>,
    /// Higher queues are served first from what is left over quota. 100 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// For how long a workload of this queue is safe from higher priorities in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt_min_runtime: Option<String>,
    /// For how long a workload of this queue is safe from other queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_min_runtime: Option<String>,
    /// Shares by resource. What is unset is 0: nothing may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<QueueResources>,
}

/// Shares by resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueResources {
    /// In devices; fractions are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<QueueResource>,
    /// In thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<QueueResource>,
    /// In millions of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<QueueResource>,
}

/// One resource's shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueResource {
    /// What the queue deserves; -1: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// Its part of what is left when all quotas are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_quota_weight: Option<f64>,
    /// What it may use at most; -1: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// What a queue uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Troubles with the queue's set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Names of the queues below this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_queues: Option<Vec<String>>,
    /// Used by bound pods of this queue and those below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated: Option<BTreeMap<String, Quantity>>,
    /// Of that, by non-preemptible workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated_non_preemptible: Option<BTreeMap<String, Quantity>>,
    /// Used, and asked for by pending pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub requested: Option<BTreeMap<String, Quantity>>,
}
