//! Topology, `kai.scheduler/v1alpha1`: which node labels name the levels of the network, from
//! the widest to the narrowest.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// The levels, widest first.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kai.scheduler",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    status = "TopologyStatus",
    derive = "PartialEq"
)]
pub struct TopologySpec {
    /// One to sixteen levels.
    #[schemars(length(min = 1, max = 16))]
    pub levels: Vec<TopologyLevel>,
}

/// One level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Nodes with equal values of this label are one domain.
    #[schemars(length(min = 1, max = 316))]
    pub node_label: String,
    /// A shorter name for the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// Troubles with a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyStatus {
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
