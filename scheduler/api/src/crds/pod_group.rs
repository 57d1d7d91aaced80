//! PodGroup, `scheduling.run.ai/v2alpha2`: pods that are scheduled together or not at all.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// The minimum of pods that run together, and the queue that is charged.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.run.ai",
    version = "v2alpha2",
    kind = "PodGroup",
    doc = "Pods that are placed together or not at all, and the queue that pays for them.",
    plural = "podgroups",
    shortname = "pg",
    namespaced,
    status = "PodGroupStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "MinMember", type_ = "integer", json_path = ".spec.minMember"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.running"),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queue"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.schedulingConditions[0].reason"
    ),
    printcolumn(
        name = "Priority",
        type_ = "string",
        json_path = ".spec.priorityClassName",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.schedulingConditions[0].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// Pods that must run together. Excludes `minSubGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// Sub-groups that must run together. Excludes `minMember`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// The leaf queue that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Name of the PriorityClass, which orders workloads inside a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Whether other workloads may evict the group. Unset: if its priority is below 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<Preemptibility>,
    /// The topology domain that the pods of the group must or should share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Parts of the group with minimums of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_groups: Option<Vec<SubGroup>>,
    /// Whether the pods of the group get a condition and an event while they do not fit; `true` if
    /// unset. The group gets them in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_unschedulable: Option<bool>,
    /// 1: once found unschedulable on a node pool, it is skipped there; -1 or unset: it is tried in
    /// every cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [-1, 1]))]
    pub scheduling_backoff: Option<i32>,
    /// The group evicts no other workloads until it is this old, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_delay: Option<String>,
    /// How long the group may stay below its minimum before its remaining pods are evicted;
    /// negative: forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_grace_period: Option<String>,
}

/// Whether a workload may be evicted for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preemptibility {
    /// The workload may be evicted. It may use more than the quota of its queue.
    #[serde(rename = "preemptible")]
    Preemptible,
    /// The workload is never evicted for others. It stays within the quota of its queue.
    #[serde(rename = "non-preemptible")]
    NonPreemptible,
    /// The priority decides: below 100 the workload is preemptible.
    #[serde(rename = "")]
    ByPriority,
}

/// The topology domains of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// Name of a Topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// All pods must be in one domain of this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// All pods should be in one domain of this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
}

/// A part of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubGroup {
    /// Unique in its group; pods name it in label `kai.scheduler/subgroup-name`.
    pub name: String,
    /// Minimum of its pods that run together (leaf sub-groups).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// Minimum of its children that run together (inner sub-groups).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// Name of the parent sub-group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The topology domain that the pods of the sub-group must or should share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// Status of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// `Pending` while none of its pods has a node, `Running` when one has. KAI does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Number of waiting pods. KAI does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// Number of pods with a node that have not ended. KAI does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// Number of succeeded pods; set by other controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Number of failed pods; set by other controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// Problems with the configuration of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodGroupCondition>>,
    /// Why the group waits, by node pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_conditions: Option<Vec<SchedulingCondition>>,
    /// Resources that the pods of the group use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_status: Option<PodGroupResources>,
}

/// A condition of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// The common fields of a condition.
    #[serde(flatten)]
    pub condition: Condition,
    /// Number of changes of the condition.
    #[serde(default, rename = "transitionID", skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
}

/// Why a pod group waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingCondition {
    /// `UnschedulableOnNodePool`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The node pool that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// Reason in `CamelCase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// All reasons why the group waits, in detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<SchedulingReason>>,
    /// `True` while the group waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Number of changes of this condition.
    #[serde(default, rename = "transitionID", skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When this condition last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// A reason to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingReason {
    /// Reason in `CamelCase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Details for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<SchedulingDetails>,
}

/// Details of a reason to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingDetails {
    /// The state of the queue, for reasons `OverLimit` and `NonPreemptibleOverQuota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_details: Option<QueueDetails>,
}

/// A queue that a pod group did not fit into. Unlimited resources are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueDetails {
    /// Name of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Allocated, plus requests of waiting pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_requested_resources: Option<BTreeMap<String, Quantity>>,
    /// The quota of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_deserved_resources: Option<BTreeMap<String, Quantity>>,
    /// Resources allocated to pods of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// The part of the allocated resources that non-preemptible pods use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_allocated_non_preemptible_resources: Option<BTreeMap<String, Quantity>>,
    /// The limit of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_resource_limits: Option<BTreeMap<String, Quantity>>,
    /// The request of the pod group, of the resource that is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub pod_group_requested_resources: Option<BTreeMap<String, Quantity>>,
    /// The request of the pod group, of the resource that is short, if the group is
    /// non-preemptible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub pod_group_requested_non_preemptible_resources: Option<BTreeMap<String, Quantity>>,
}

/// Resources that the pods of a group use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupResources {
    /// Used by bound pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated: Option<BTreeMap<String, Quantity>>,
    /// Used by bound pods, if the group is non-preemptible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated_non_preemptible: Option<BTreeMap<String, Quantity>>,
    /// Allocated, plus requests of waiting pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub requested: Option<BTreeMap<String, Quantity>>,
}
