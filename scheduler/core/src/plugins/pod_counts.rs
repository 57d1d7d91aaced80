//! Counts pods by topology domain: the nodes with one value of a label.

use std::collections::BTreeMap;

use crate::{
    framework::{Presence, Session},
    model::{Name, NodeId, PodId},
};

/// Pod counts by label key and value.
#[derive(Debug, Default)]
pub(super) struct PodCounts<'a>(BTreeMap<(&'a Name, &'a Name), i64>);

impl<'a> PodCounts<'a> {
    /// Adds `count` to the domain of `node` for label `key`, if the node has that label.
    pub(super) fn add(
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

    /// The count of the domain of `node`; `None` if the node lacks the label.
    pub(super) fn count_at(&self, session: &Session<'_>, node: NodeId, key: &Name) -> Option<i64> {
        let value = session.node(node).labels.get(key)?;
        Some(self.0.get(&(key, value)).copied().unwrap_or(0))
    }

    /// Whether no pod was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Those of `pods` that are allocated or pipelined, with the node and whether they stay.
pub(super) fn nodes_of<'a>(
    session: &'a Session<'_>,
    pods: impl Iterator<Item = PodId> + 'a,
) -> impl Iterator<Item = (PodId, NodeId, Presence)> + 'a {
    pods.flat_map(move |pod| {
        session.state(pod).nodes().map(move |(node, stays)| (pod, node, stays))
    })
}
