//! Topologies: levels of domains, each given by a node label, and the constraints that refer to
//! them.

use super::{Labels, Name};

/// A Topology (`kai.scheduler/v1alpha1`), widest level first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// `metadata.name`.
    pub name: Name,
    /// Levels, widest first. A node that lacks one of the labels is in no domain.
    pub levels: Vec<TopologyLevel>,
}

/// A level of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyLevel {
    /// Label key of the level. Nodes with equal values of this label, and of the labels of wider
    /// levels, are one domain.
    pub label: Name,
    /// Another name by which constraints may refer to the level.
    pub alias: Option<Name>,
}

/// A constraint on the topology domains of a pod group or sub-group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyConstraint {
    /// Name of the topology.
    pub topology: Name,
    /// All pods run in one domain of this level, or none.
    pub required: Option<Name>,
    /// Pods run in as few domains of this level as possible.
    pub preferred: Option<Name>,
}

impl Topology {
    /// Depth of a level, which is given by label or alias, counted from 1; depth 0 is the whole
    /// topology.
    pub fn level_depth(&self, level: &str) -> Option<usize> {
        let is_called = |name: &Name| &**name == level;
        let is_named =
            |of: &TopologyLevel| is_called(&of.label) || of.alias.as_ref().is_some_and(is_called);
        self.levels.iter().position(is_named).map(|at| at + 1)
    }

    /// The path of domains of a node with these labels: the label value of each level. `None` when
    /// a label is missing.
    pub fn domain_path(&self, labels: &Labels) -> Option<Vec<Name>> {
        self.levels.iter().map(|level| labels.get(&level.label).cloned()).collect()
    }
}
