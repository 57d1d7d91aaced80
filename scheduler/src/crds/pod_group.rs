//! PodGroup, `scheduling.run.ai/v2alpha2`: pods that are placed together or not at all.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// How many of which pods must run together, and who pays.
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
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queue"),
    printcolumn(name = "MinMember", type_ = "integer", json_path = ".spec.minMember"),
    printcolumn(name = "Priority", type_ = "string", json_path = ".spec.priorityClassName"),
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
    /// Its value orders workloads inside a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// May it be evicted for others? Unset: when its priority is below 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptibility: Option<Preemptibility>,
    /// Where in the topology it must or should stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Parts with minimums of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_groups: Option<Vec<SubGroup>>,
    /// Are its pods told, by a condition and an event, while they do not fit? `true` when unset.
    /// The group is told in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_unschedulable: Option<bool>,
    /// 1: once found unschedulable on a node pool it is left alone there; -1, or unset: it is tried
    /// in every cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [-1, 1]))]
    pub scheduling_backoff: Option<i32>,
    /// It takes nobody's place until it is this old, as in `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_delay: Option<String>,
    /// For how long it may stay below its minimum before the rest is evicted; negative: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_grace_period: Option<String>,
}

/// May a workload be evicted for others?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preemptibility {
    /// Yes; and it may use more than its queue's quota.
    #[serde(rename = "preemptible")]
    Preemptible,
    /// No; and it stays inside its queue's quota.
    #[serde(rename = "non-preemptible")]
    NonPreemptible,
    /// As its priority says.
    #[serde(rename = "")]
    ByPriority,
}

/// Where pods stand relative to each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// Name of a Topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// All pods within one domain of this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_topology_level: Option<String>,
    /// If possible, all pods within one domain of this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_topology_level: Option<String>,
}

/// A part of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubGroup {
    /// Unique in its group; pods name it in label `kai.scheduler/subgroup-name`.
    pub name: String,
    /// Pods of it that must run together (leaves).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// Children of it that must run together (inner nodes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_sub_group: Option<i32>,
    /// The sub-group above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Where in the topology it must or should stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
}

/// What became of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Where it stands, in one word of whoever says so; neither the scheduler nor KAI's does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Pods that wait; left to others, as the phase is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<i32>,
    /// Pods that run; left to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<i32>,
    /// Pods that ended well; left to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Pods that failed; left to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// Troubles with its set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodGroupCondition>>,
    /// Why it waits, for each pool of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_conditions: Option<Vec<SchedulingCondition>>,
    /// What its pods use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_status: Option<PodGroupResources>,
}

/// A condition of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// What every condition has.
    #[serde(flatten)]
    pub condition: Condition,
    /// Counts the changes.
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
    /// The pool of nodes that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// One word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The same, reason by reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<SchedulingReason>>,
    /// `True` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Counts the changes.
    #[serde(default, rename = "transitionID", skip_serializing_if = "Option::is_none")]
    pub transition_id: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// One reason to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingReason {
    /// One word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<SchedulingDetails>,
}

/// What stands behind a reason to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingDetails {
    /// With reasons `OverLimit` and `NonPreemptibleOverQuota`: how the queue stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_details: Option<QueueDetails>,
}

/// A queue when a pod group did not fit into it. A resource without a bound is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueDetails {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Used, and asked for by pods that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_requested_resources: Option<BTreeMap<String, Quantity>>,
    /// Its quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_deserved_resources: Option<BTreeMap<String, Quantity>>,
    /// Used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_allocated_resources: Option<BTreeMap<String, Quantity>>,
    /// Of that, by non-preemptible work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_allocated_non_preemptible_resources: Option<BTreeMap<String, Quantity>>,
    /// Its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub queue_resource_limits: Option<BTreeMap<String, Quantity>>,
    /// What the pod group asked for next, of the resource of which there is too little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub pod_group_requested_resources: Option<BTreeMap<String, Quantity>>,
    /// The same, where it is non-preemptible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub pod_group_requested_non_preemptible_resources: Option<BTreeMap<String, Quantity>>,
}

/// What the pods of a group use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupResources {
    /// Used by bound pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated: Option<BTreeMap<String, Quantity>>,
    /// Of that, when the group is non-preemptible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub allocated_non_preemptible: Option<BTreeMap<String, Quantity>>,
    /// Used, and asked for by pending pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, IntOrString>>")]
    pub requested: Option<BTreeMap<String, Quantity>>,
}
