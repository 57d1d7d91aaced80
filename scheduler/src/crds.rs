//! The kinds that the scheduler brings along, as Kubernetes needs to know them: KAI's Queue,
//! PodGroup, BindRequest and Topology, and the four priority classes its users expect.

#[expect(clippy::duplicated_attributes, reason = "columns differ by name only")]
mod bind_request;
#[expect(clippy::duplicated_attributes, reason = "columns differ by name only")]
mod pod_group;
#[expect(clippy::duplicated_attributes, reason = "columns differ by name only")]
mod queue;
mod topology;

use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use bind_request::{BindRequest, BindRequestSpec, BindRequestStatus, ReceivedGpu};
pub use pod_group::{
    PodGroup, PodGroupResources, PodGroupSpec, PodGroupStatus, Preemptibility, SchedulingCondition,
    SchedulingReason, SubGroup, TopologyConstraint,
};
pub use queue::{Queue, QueueResource, QueueResources, QueueSpec, QueueStatus};
pub use topology::{Topology, TopologyLevel, TopologySpec, TopologyStatus};

/// `status.conditions[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is told.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    #[serde(default)]
    pub reason: String,
    /// One sentence.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The generation that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The `CustomResourceDefinition`s, by name.
pub fn all() -> Vec<Value> {
    let mut definitions = [BindRequest::crd(), PodGroup::crd(), Queue::crd(), Topology::crd()]
        .map(|definition| serde_json::to_value(definition).expect("a derived CRD is JSON"));
    definitions.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
    definitions.into()
}

/// KAI's priority classes, by value. Below 100 a workload is preemptible.
pub fn priority_classes() -> Vec<Value> {
    let classes = [("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)];
    let class = |(name, value)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": name },
            "value": value,
            "globalDefault": false,
        })
    };
    classes.map(class).into()
}
