//! NUMA alignment: rejects nodes whose kubelet would reject the pod, and prefers nodes on which the
//! pod spans fewer NUMA zones.

use crate::{
    framework::{Availability, Filter, Fit, NodeFilter, NodeScore, ResultInputs, Score, Session},
    model::{NodeId, NumaPolicy, PodId, PodShape},
    reason::{EvenWhenEmpty, FitError},
};

/// Filters and scores nodes by their published NUMA zones.
#[derive(Debug)]
pub(super) struct Numa;

impl Filter for Numa {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        needs_alignment(session, shape).then(|| {
            let filter = |node| check_alignment(session, shape, node);
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

fn check_alignment(session: &Session<'_>, shape: &PodShape, node: NodeId) -> Result<Fit, FitError> {
    if session.can_align(node, shape, Availability::Idle) {
        return Ok(Fit::Now);
    }
    if session.can_align(node, shape, Availability::AfterRelease) {
        return Ok(Fit::Later);
    }
    let fits_when_empty = session.can_align_when_empty(node, shape);
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Err(FitError::NumaMisaligned { even_when_empty })
}

/// Whether the kubelet of any node aligns resources of pods of this shape.
fn needs_alignment(session: &Session<'_>, shape: &PodShape) -> bool {
    session.numa_zones_max() > 0
        && session.snapshot.nodes.iter().filter_map(|node| node.numa.as_ref()).any(|numa| {
            let aligned = numa.alignable_requests(shape, &shape.requests);
            aligned.positive_amounts().next().is_some()
        })
}

impl Score for Numa {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        needs_alignment(session, session.shape_of(pod))
    }

    /// Scores nodes by the number of NUMA zones that the pod would span. A pod that is not aligned,
    /// or whose alignment is unknown, is assumed to span all zones.
    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shape = session.shape_of(pod);
        Box::new(move |node| {
            let zones = match &session.node(node).numa {
                None => session.numa_zones_max(),
                Some(numa) if numa.policy == NumaPolicy::None => numa.zones.len(),
                Some(numa) => match session.numa_zone_count(node, shape) {
                    None => return 0,
                    Some(0) => numa.zones.len(),
                    Some(zones) => zones,
                },
            };
            super::SCORE_POINT / i64::try_from(zones.max(1)).unwrap_or(i64::MAX)
        })
    }
}
