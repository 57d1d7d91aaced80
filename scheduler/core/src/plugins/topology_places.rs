//! Where pods are put together in a place that is wider than they would like, the emptier places
//! of the level that they prefer come first, so that they use few of those.

use crate::{
    framework::{DependsOn, NodeScore, Score},
    model::{NodeId, PodId},
    session::Session,
};

/// Nodes of the emptier places.
#[derive(Debug)]
pub(super) struct TopologyPlaces;

impl Score for TopologyPlaces {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn applies(&self, session: &Session<'_>, _: PodId) -> bool {
        session.preferred_nodes().is_some()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, _: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let nodes = session.preferred_nodes();
        Box::new(move |node| nodes.and_then(|nodes| nodes.get(&node)).copied().unwrap_or(0))
    }
}
