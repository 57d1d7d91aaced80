//! Prefers nodes in the emptier domains of the preferred topology level if pods are placed in a
//! wider domain, so that they use few of the preferred domains.

use crate::{
    framework::{NodeScore, ResultInputs, Score, Session},
    model::{NodeId, PodId},
};

/// Scores nodes by the rank of their topology domain among the preferred domains.
#[derive(Debug)]
pub(super) struct TopologyDomains;

impl Score for TopologyDomains {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, _: PodId) -> bool {
        session.preferred_nodes().is_some()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, _: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let nodes = session.preferred_nodes();
        Box::new(move |node| nodes.and_then(|nodes| nodes.get(&node)).copied().unwrap_or(0))
    }
}
