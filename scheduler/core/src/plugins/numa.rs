//! Zones of nodes: none on which the kubelet would refuse the pod, and first those on which it is
//! spread over the fewest zones.

use crate::{
    decision::{EvenWhenEmpty, Misfit},
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{NodeId, NumaPolicy, PodId, PodShape},
    session::{Counted, Fits, Session},
};

/// Looks at what is published of nodes' zones.
#[derive(Debug)]
pub(super) struct Numa;

impl Filter for Numa {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        zones_matter(session, shape).then(|| {
            let filter = |node| verdict(session, shape, node);
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

fn verdict(session: &Session<'_>, shape: &PodShape, node: NodeId) -> Result<Fits, Misfit> {
    if session.aligns(node, shape, Counted::Idle) {
        return Ok(Fits::Now);
    }
    if session.aligns(node, shape, Counted::Later) {
        return Ok(Fits::Later);
    }
    let fits_when_empty = session.aligns_when_empty(node, shape);
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Err(Misfit::NotAligned { even_when_empty })
}

/// Some node's kubelet takes something from zones for pods of that shape.
fn zones_matter(session: &Session<'_>, shape: &PodShape) -> bool {
    session.zones_max() > 0
        && session.snapshot.nodes.iter().filter_map(|node| node.numa.as_ref()).any(|numa| {
            let aligned = numa.aligned(shape, &shape.requests);
            aligned.amounts().next().is_some()
        })
}

impl Score for Numa {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        zones_matter(session, session.shape_of(pod))
    }

    /// Where nobody aligns the pod, or nobody knows, it is taken to be on all zones.
    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shape = session.shape_of(pod);
        Box::new(move |node| {
            let zones = match &session.node(node).numa {
                None => session.zones_max(),
                Some(numa) if numa.policy == NumaPolicy::None => numa.zones.len(),
                Some(numa) => match session.span(node, shape) {
                    None => return 0,
                    Some(0) => numa.zones.len(),
                    Some(zones) => zones,
                },
            };
            super::POINT / i64::try_from(zones.max(1)).unwrap_or(i64::MAX)
        })
    }
}
