//! Pods that must be in one topology domain and exclude each other from it.

use super::{
    ExclusionDomain, PlacementFailure, Session, Statement,
    exclusion::COMPARED_MAX,
    topology::{Levels, PodSet},
    topology_diagnosis::TopologyQuery,
};
use crate::{
    model::{HOSTNAME, Name, PodId, TopologyConstraint},
    reason::{InvalidLevel, NoTopologyDomain},
};

/// Two pods that cannot be in one domain.
struct Conflict<'a> {
    pods: [PodId; 2],
    domain: ExclusionDomain<'a>,
    /// Depth of the widest level none of whose domains holds both.
    depth: usize,
}

impl Statement<'_> {
    /// Whether the level can never be satisfied: two of the pods, or one and a running pod of its
    /// group, exclude each other from every domain.
    pub(super) fn diagnose_conflict(
        &mut self,
        query: TopologyQuery<'_>,
    ) -> Option<PlacementFailure> {
        let TopologyQuery { constraint, pod_set, .. } = query;
        let levels = self.levels(constraint).ok().filter(Levels::is_required)?;
        let Conflict { pods, domain: exclusion, depth } = self.find_conflict(levels, pod_set)?;
        let over = match exclusion {
            ExclusionDomain::Node => None,
            ExclusionDomain::Label(label) => Some(Name::clone(label)),
        };
        let pods = pods.map(|pod| Name::clone(&self.pod(pod).name));
        let around = levels.parent_level(depth).map(Name::clone);
        let wider = around.filter(|level| {
            let required = Some(Name::clone(level));
            let constraint = TopologyConstraint { required, ..constraint.clone() };
            self.try_in_domain(TopologyQuery { constraint: &constraint, ..query }).is_ok()
        });
        let invalid_level = Some(Box::new(InvalidLevel::PodsConflict { pods, over, wider }));
        let no_domain =
            NoTopologyDomain { invalid_level, ..NoTopologyDomain::new(constraint, pod_set.pods) };
        Some(PlacementFailure::for_no_domain(no_domain, pod_set))
    }
}

impl Session<'_> {
    /// The conflict at the widest level.
    fn find_conflict<'a>(
        &'a self,
        levels: Levels<'a>,
        pod_set: PodSet<'_>,
    ) -> Option<Conflict<'a>> {
        let minds = |pod: &PodId| self.shape_of(*pod).may_exclude_neighbors();
        let there = self.pods_in_use(pod_set);
        if !pod_set.pods.iter().chain(&there).any(minds) {
            return None;
        }
        let coming = &pod_set.pods[..pod_set.pods.len().min(COMPARED_MAX)];
        let pairs = coming.iter().enumerate().flat_map(|(at, b)| {
            let others = coming[..at].iter().chain(there.iter().take(COMPARED_MAX));
            others.map(move |a| [*a, *b])
        });
        let conflict = pairs.flat_map(|pods| {
            let [a, b] = pods;
            let parts = self
                .pair_exclusion_domains(a, b)
                .into_iter()
                .chain(self.pair_exclusion_domains(b, a));
            parts.filter_map(move |exclusion| {
                let label = match exclusion {
                    ExclusionDomain::Node => HOSTNAME,
                    ExclusionDomain::Label(label) => label,
                };
                Some(Conflict { pods, domain: exclusion, depth: levels.required_depth(label)? })
            })
        });
        conflict.min_by_key(|conflict| conflict.depth)
    }
}
