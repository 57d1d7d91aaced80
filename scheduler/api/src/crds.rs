//! The `CustomResourceDefinition`s that the scheduler installs: KAI's Queue, PodGroup, BindRequest
//! and Topology, and KAI's four priority classes.

#[expect(clippy::duplicated_attributes, reason = "several printer columns have the same type")]
mod bind_request;
#[expect(clippy::duplicated_attributes, reason = "several printer columns have the same type")]
mod pod_group;
#[expect(clippy::duplicated_attributes, reason = "several printer columns have the same type")]
mod queue;
mod topology;

use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Value, json};

pub use bind_request::{BindRequest, BindRequestSpec, BindRequestStatus, ReceivedGpu};
pub use pod_group::{
    PodGroup, PodGroupCondition, PodGroupResources, PodGroupSpec, PodGroupStatus, Preemptibility,
    QueueDetails, SchedulingCondition, SchedulingDetails, SchedulingReason, SubGroup,
    TopologyConstraint,
};
pub use queue::{Queue, QueueResource, QueueResources, QueueSpec, QueueStatus};
pub use topology::{Topology, TopologyLevel, TopologySpec, TopologyStatus};

/// `status.conditions[]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in `CamelCase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last probed; the scheduler does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<String>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The generation of the object that the condition is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The `CustomResourceDefinition`s, ordered by name.
pub fn all_crds() -> Vec<Value> {
    let mut definitions = [BindRequest::crd(), PodGroup::crd(), Queue::crd(), Topology::crd()]
        .map(|definition| crate::to_value(&definition).expect("a derived CRD is JSON"));
    definitions.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
    definitions.into()
}

/// KAI's priority classes, ordered by value. A workload with a value below 100 is preemptible.
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

#[cfg(test)]
mod tests {
    use crate::Map;

    use super::*;

    /// The schema and all nested schemas.
    fn schemas(schema: &Value) -> Vec<&Value> {
        let inner = schema["properties"].as_object().into_iter().flat_map(Map::values);
        let inner = inner.chain(schema.get("items")).chain(schema.get("additionalProperties"));
        inner.flat_map(schemas).chain([schema]).collect()
    }

    #[test]
    fn schemas_are_structural_and_have_no_defaults() {
        for definition in all_crds() {
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            for part in schemas(schema) {
                let typed = part["type"].is_string()
                    || part["x-kubernetes-int-or-string"] == Value::Bool(true);
                assert!(typed, "{part}");
                assert!(part.get("default").is_none(), "{part}");
            }
        }
    }

    /// As shown by `kubectl explain`.
    #[test]
    fn every_kind_and_field_has_a_description() {
        for definition in all_crds() {
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let fields = |part: &Value| {
                let of = part["properties"].as_object().into_iter().flatten();
                of.map(|(name, field)| (name.clone(), field.clone())).collect::<Vec<_>>()
            };
            let all = schemas(schema).into_iter().flat_map(fields);
            for (name, field) in all.chain([("the kind".into(), schema.clone())]) {
                let words = field["description"].as_str().unwrap_or_default();
                assert!(!words.is_empty(), "{name} of {}", definition["metadata"]["name"]);
                assert!(!words.contains("Auto-generated"), "{words}");
            }
        }
    }

    #[test]
    fn the_definitions_have_the_names_and_versions_of_kai() {
        let rendered = |definition: &Value| {
            let version = &definition["spec"]["versions"][0];
            format!(
                "{} {} {} status={}",
                definition["metadata"]["name"].as_str().unwrap(),
                version["name"].as_str().unwrap(),
                definition["spec"]["scope"].as_str().unwrap(),
                version["subresources"]["status"].is_object(),
            )
        };
        let rendered: Vec<String> = all_crds().iter().map(rendered).collect();
        insta::assert_snapshot!(rendered.join("\n"), @r"
        bindrequests.scheduling.run.ai v1alpha2 Namespaced status=true
        podgroups.scheduling.run.ai v2alpha2 Namespaced status=true
        queues.scheduling.run.ai v2 Cluster status=true
        topologies.kai.scheduler v1alpha1 Cluster status=true
        ");
    }
}
