//! Topology, `kai.scheduler/v1alpha1`: node labels of the levels of the network, from the widest to
//! the narrowest.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::{Value, json};

/// The levels, widest first.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kai.scheduler",
    version = "v1alpha1",
    kind = "Topology",
    doc = "The node labels of the levels of the cluster's network, from the widest to the narrowest.",
    plural = "topologies",
    status = "TopologyStatus",
    derive = "PartialEq"
)]
pub struct TopologySpec {
    /// One to sixteen levels.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-validations" = level_validation_rules()))]
    pub levels: Vec<TopologyLevel>,
}

/// The validation rules of `spec.levels`. Labels and order of levels are immutable, since placed
/// pods depend on them. `kubernetes.io/hostname` is the last level, since a node is a domain
/// without levels below.
fn level_validation_rules() -> Value {
    /// CEL expression: whether level `l` has an alias.
    const HAS_ALIAS: &str = "(has(l.alias) && l.alias != '')";
    let hostname = "l.nodeLabel == 'kubernetes.io/hostname'";
    json!([
        {
            "rule": "self.all(l, self.filter(m, m.nodeLabel == l.nodeLabel).size() == 1)",
            "message": "each nodeLabel must be unique",
        },
        {
            "rule": format!("!self.exists(l, {hostname}) || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'"),
            "message": "kubernetes.io/hostname must be the last level",
        },
        {
            "rule": "self.map(l, l.nodeLabel) == oldSelf.map(l, l.nodeLabel)",
            "message": "levels are immutable, except for their aliases",
        },
        {
            "rule": format!("self.all(l, !{HAS_ALIAS} || self.filter(m, has(m.alias) && m.alias == l.alias).size() == 1)"),
            "message": "each alias must be unique",
        },
        {
            "rule": format!("self.all(l, !{HAS_ALIAS} || !self.exists(m, m.nodeLabel == l.alias))"),
            "message": "an alias must not be a nodeLabel of the topology",
        },
    ])
}

/// Regular expression for label keys.
const LABEL_KEY_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                         (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Node label; nodes with equal values are in one domain.
    #[schemars(length(min = 1, max = 316), regex(pattern = LABEL_KEY_PATTERN))]
    pub node_label: String,
    /// A shorter name of the level, unlike any other alias or label of a level.
    #[schemars(length(max = 316))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// Status of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyStatus {
    /// Problems with the topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
