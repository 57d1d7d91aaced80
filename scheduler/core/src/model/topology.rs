//! Where nodes stand: levels of places, each a node label, and which of them pods keep to.

use super::{Labels, Name};

/// A Topology (`kai.scheduler/v1alpha1`): from the widest level to the narrowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// `metadata.name`.
    pub name: Name,
    /// A node that lacks the label of one of them is nowhere.
    pub levels: Vec<TopologyLevel>,
}

/// One level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyLevel {
    /// Nodes with equal values of this label are in one place.
    pub label: Name,
    /// Another name for the level.
    pub alias: Option<Name>,
}

/// Which places the pods of a group, or of a part of it, keep to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyConstraint {
    /// Name of the topology.
    pub topology: Name,
    /// They all run in one place of this level, or not at all.
    pub required: Option<Name>,
    /// They run in as few places of this level as can be.
    pub preferred: Option<Name>,
}

impl Topology {
    /// How deep a level, named by label or alias, lies, counted from one; the whole topology is at zero.
    pub fn depth(&self, level: &str) -> Option<usize> {
        let is_called = |name: &Name| &**name == level;
        let is_meant =
            |of: &TopologyLevel| is_called(&of.label) || of.alias.as_ref().is_some_and(is_called);
        self.levels.iter().position(is_meant).map(|at| at + 1)
    }

    /// Where a node with such labels is: one value for each level.
    pub fn path(&self, labels: &Labels) -> Option<Vec<Name>> {
        self.levels.iter().map(|level| labels.get(&level.label).cloned()).collect()
    }
}
