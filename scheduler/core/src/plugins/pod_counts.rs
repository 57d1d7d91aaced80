//! How many pods of some kind stand in each domain, a domain being the nodes with one value of a
//! label.

use std::collections::BTreeMap;

use crate::{
    model::{Name, NodeId, PodId},
    session::{Session, Stays},
};

/// Counts by label key and value.
#[derive(Debug, Default)]
pub(super) struct PodCounts<'a>(BTreeMap<(&'a Name, &'a Name), i64>);

impl<'a> PodCounts<'a> {
    /// Adds `count` to the domain of `node` under `key`, if it has that label.
    pub(super) fn add(
        &mut self,
        session: &'a Session<'_>,
        (node, key): (NodeId, &'a Name),
        count: i64,
    ) {
        if let Some(value) = session.node(node).labels.get(key) {
            *self.0.entry((key, value)).or_default() += count;
        }
    }

    /// The count of the domain in which `node` is; `None`: in none.
    pub(super) fn of(&self, session: &Session<'_>, node: NodeId, key: &Name) -> Option<i64> {
        let value = session.node(node).labels.get(key)?;
        Some(self.0.get(&(key, value)).copied().unwrap_or(0))
    }

    /// No pod was counted anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Those of `pods` that have, or were promised, room, with the node, and whether they stay.
pub(super) fn on_nodes<'a>(
    session: &'a Session<'_>,
    pods: impl Iterator<Item = PodId> + 'a,
) -> impl Iterator<Item = (PodId, NodeId, Stays)> + 'a {
    pods.flat_map(move |pod| {
        session.state(pod).places().map(move |(node, stays)| (pod, node, stays))
    })
}
