//! Counts pods by topology domain: the nodes with one value of a label.

use std::collections::BTreeMap;

use crate::{
    framework::{NodePresence, Session},
    model::{Name, NodeId, PodId},
};

/// Numbers of pods by topology domain: by label key and label value of nodes.
#[derive(Debug, Default)]
pub(super) struct PodCounts<'a>(BTreeMap<(&'a Name, &'a Name), i64>);

impl<'a> PodCounts<'a> {
    /// Adds `count` to the domain of `node` for the label key `key`, if the node has that label.
    pub(super) fn add_to_domain(
        &mut self,
        session: &'a Session<'_>,
        node: NodeId,
        key: &'a Name,
        count: i64,
    ) {
        if let Some(value) = session.node(node).labels.get(key) {
            *self.0.entry((key, value)).or_default() += count;
        }
    }

    /// The number of pods counted in the domain of `node` for this label; `None` if the node lacks
    /// the label.
    pub(super) fn count_in_domain(
        &self,
        session: &Session<'_>,
        node: NodeId,
        label: &Name,
    ) -> Option<i64> {
        let value = session.node(node).labels.get(label)?;
        Some(self.0.get(&(label, value)).copied().unwrap_or(0))
    }

    /// Whether no pod was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The nodes on which `pods` are allocated or pipelined, each with the pod and whether it stays
/// there.
pub(super) fn placements_of<'a>(
    session: &'a Session<'_>,
    pods: impl Iterator<Item = PodId> + 'a,
) -> impl Iterator<Item = (PodId, NodeId, NodePresence)> + 'a {
    pods.flat_map(move |pod| {
        session.state(pod).nodes_with_presence().map(move |(node, stays)| (pod, node, stays))
    })
}
