//! Topology, `kai.scheduler/v1alpha1`: which node labels name the levels of the network, from
//! the widest to the narrowest.

use kube::CustomResource;
use schedlab_json::{Value, json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Condition;

/// The levels, widest first.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kai.scheduler",
    version = "v1alpha1",
    kind = "Topology",
    doc = "Which node labels name the levels of the cluster's network, from the widest to the narrowest.",
    plural = "topologies",
    status = "TopologyStatus",
    derive = "PartialEq"
)]
pub struct TopologySpec {
    /// One to sixteen levels.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-validations" = level_rules()))]
    pub levels: Vec<TopologyLevel>,
}

/// A level is known by its label, what was placed by levels stays so, and a node is a domain of
/// its own, within which there is nothing.
fn level_rules() -> Value {
    /// Level `l` has an alias.
    const ALIASED: &str = "(has(l.alias) && l.alias != '')";
    let hostname = "l.nodeLabel == 'kubernetes.io/hostname'";
    json!([
        {
            "rule": "self.all(l, self.filter(m, m.nodeLabel == l.nodeLabel).size() == 1)",
            "message": "each nodeLabel stands once",
        },
        {
            "rule": format!("!self.exists(l, {hostname}) || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'"),
            "message": "kubernetes.io/hostname is the last level, if it is one",
        },
        {
            "rule": "self.map(l, l.nodeLabel) == oldSelf.map(l, l.nodeLabel)",
            "message": "levels cannot be changed, but for their aliases",
        },
        {
            "rule": format!("self.all(l, !{ALIASED} || self.filter(m, has(m.alias) && m.alias == l.alias).size() == 1)"),
            "message": "each alias stands once",
        },
        {
            "rule": format!("self.all(l, !{ALIASED} || !self.exists(m, m.nodeLabel == l.alias))"),
            "message": "an alias is no nodeLabel of the topology",
        },
    ])
}

/// What the key of a label looks like.
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                         (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// One level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Nodes with equal values of this label are one domain.
    #[schemars(length(min = 1, max = 316), regex(pattern = LABEL_KEY))]
    pub node_label: String,
    /// A shorter name for the level; no other level's alias, and no label of a level.
    #[schemars(length(max = 316))]
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
