//! What changed in a snapshot since it was last read, so that a reader can keep what it derived
//! from the rest.

use std::collections::BTreeSet;

use super::{ListEdit, NodeId, PodGroupId, PodId};

/// The changes of a snapshot between two cycles. The time, the usage history of queues, budgets and
/// namespaces may change besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotChanges {
    /// The changes are not listed one by one: anything may differ.
    pub everything: bool,
    /// Nodes that changed.
    pub nodes: BTreeSet<NodeId>,
    /// Pod groups that were inserted and removed.
    pub group_edit: ListEdit,
    /// Pod groups that changed or were inserted, by position after the edit.
    pub groups: BTreeSet<PodGroupId>,
    /// Pods that were inserted and removed.
    pub pod_edit: ListEdit,
    /// Pods that changed or were inserted, by position after the edit. A pod whose group only moved
    /// to another position has not changed.
    pub pods: BTreeSet<PodId>,
}

impl SnapshotChanges {
    /// Changes that are not listed one by one.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Adds changes that came later. Positions of two edits cannot be told apart, so these are no
    /// longer listed one by one.
    pub fn add(&mut self, later: Self) {
        if *self == Self::default() {
            *self = later;
        } else if later != Self::default() {
            *self = Self::everything();
        }
    }
}
