//! Promises pods room for one trial.

use std::collections::BTreeSet;

use crate::{
    model::{NodeId, PodId, ShapeId},
    resources::Resources,
    session::Session,
};

/// What a shape asks for, and on which nodes its pods may run, whoever leaves.
pub(super) fn about<'s>(session: &Session<'s>, shape: ShapeId) -> (&'s Resources, Vec<bool>) {
    let nodes = &session.snapshot.nodes;
    let eligible = nodes.iter().map(|node| node.ready && !node.unschedulable).collect();
    (&session.snapshot.shapes[shape.0 as usize].requests, eligible)
}

/// Promises all of `pods` room on `nodes` (`None`: on any node), or none of them.
pub(super) fn promise_all(
    session: &mut Session<'_>,
    pods: &[PodId],
    nodes: Option<&BTreeSet<NodeId>>,
) -> bool {
    let start = session.checkpoint();
    for &pod in pods {
        let fits = |node: &NodeId| {
            session.shape_of(pod).requests.fits_in(&session.room(*node).free_later())
        };
        let found = match nodes {
            Some(nodes) => nodes.iter().copied().find(fits),
            None => session.node_ids().find(fits),
        };
        let Some(node) = found else {
            session.undo_to(start);
            return false;
        };
        session.promise(pod, node);
    }
    true
}
