//! The scheduling signature of pods (KAI: `UseSchedulingSignatures`): pods with equal signatures
//! fit on the same nodes, so one result holds for all of them.

use std::collections::BTreeSet;

use crate::{
    framework::Session,
    model::{Labels, Name, PodGroupId, PodId, ShapeId, TopologyConstraint},
};

/// What decides whether pods fit, besides their number and the state of the cluster. Jobs with
/// equal signatures fit on the same nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SchedulingSignature {
    shapes: BTreeSet<ShapeId>,
    /// Namespace and labels of the pods that selectors of other pods may match.
    identities: BTreeSet<(Name, Labels)>,
    /// The topology constraints that apply to the pods.
    constraints: Vec<TopologyConstraint>,
}

impl SchedulingSignature {
    pub(super) const EMPTY: Self =
        Self { shapes: BTreeSet::new(), identities: BTreeSet::new(), constraints: Vec::new() };

    /// Returns `None` if other pods of the group matter, too: then no other job is equivalent.
    pub(super) fn for_pods(
        session: &Session<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<Self> {
        let constraints =
            session.topology_constraints_for(group, pods)?.into_iter().cloned().collect();
        let mut signature = Self { constraints, ..Self::EMPTY };
        for &id in pods {
            let pod = session.pod(id);
            signature.shapes.insert(pod.shape);
            if session.fit_depends_on_cluster(id) {
                signature.identities.insert((pod.namespace.clone(), pod.labels.clone()));
            }
        }
        Some(signature)
    }
}
