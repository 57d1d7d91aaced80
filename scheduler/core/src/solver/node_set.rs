//! A set of nodes that many units are compared with.

use crate::model::NodeId;

/// Some of the nodes of the cluster.
pub(super) struct NodeSet {
    is_member: Vec<bool>,
    count: usize,
}

impl NodeSet {
    /// The empty set, for a cluster of `nodes` nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self { is_member: vec![false; nodes], count: 0 }
    }

    pub(super) fn insert(&mut self, node: NodeId) {
        let is_member = &mut self.is_member[node.0 as usize];
        self.count += usize::from(!std::mem::replace(is_member, true));
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.is_member[node.0 as usize]
    }

    /// Number of nodes in the set.
    pub(super) const fn len(&self) -> usize {
        self.count
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| self.insert(node));
    }
}
