//! Pods that cannot run near each other: domains that hold at most one of them, and pods that must
//! be in one topology domain all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ExclusionDomain, FreeCapacity, PlacementFailure, Session, Statement,
    topology::{PodSet, ResolvedLevels, TopologyQuery},
};
use crate::{
    model::{HOSTNAME, Name, NodeId, PodGroupId, PodId, ShapeId, TopologyConstraint},
    reason::{FitError, InvalidLevel, MutualExclusion, NoTopologyDomain, PinnedLabel},
};

/// Maximum number of pods that are compared in pairs.
const COMPARED_PODS_MAX: usize = 64;

impl Session<'_> {
    /// For each node the number of its domain, where no two of the pods can share a domain; if pods
    /// exclude each other by several kinds of domains, the widest kind. `None` when two of the pods
    /// could share a node, or there are too many pods to compare.
    pub(crate) fn exclusive_domain_of_nodes(&self, pods: &[PodId]) -> Option<Vec<usize>> {
        let common = self.common_exclusion_domains(pods)?.into_iter();
        let numbered = common.filter_map(|exclusion| self.domain_number_of_nodes(exclusion));
        let count = |domains: &Vec<usize>| domains.iter().copied().collect::<BTreeSet<_>>().len();
        numbered.min_by_key(count)
    }

    /// The domains that no two of the pods can share; `None` as in
    /// [`Self::exclusive_domain_of_nodes`].
    fn common_exclusion_domains(&self, pods: &[PodId]) -> Option<Vec<ExclusionDomain<'_>>> {
        if pods.len() < 2 || pods.len() > COMPARED_PODS_MAX {
            return None;
        }
        let others = pods.iter().enumerate();
        let pairs = others.flat_map(|(at, a)| pods[..at].iter().map(move |b| (*a, *b)));
        let mut common: Option<Vec<ExclusionDomain<'_>>> = None;
        for (a, b) in pairs {
            let mut parts = self.pair_exclusion_domains(a, b);
            parts.extend(self.pair_exclusion_domains(b, a));
            let common = common.get_or_insert_with(|| parts.clone());
            common.retain(|exclusion| parts.contains(exclusion));
            if common.is_empty() {
                return None;
            }
        }
        common
    }

    /// Why these pods exclude each other, when there are too few nodes or domains for all of them,
    /// whichever pods are evicted.
    pub(crate) fn diagnose_mutual_exclusion(
        &self,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<MutualExclusion> {
        let shape = self.shape_of(*pods.first()?);
        let fit_error = match (shape.pod_anti_affinity.is_empty(), &shape.host_ports[..]) {
            (false, _) => FitError::PodAntiAffinity,
            (true, []) => return None,
            (true, ports) => {
                FitError::HostPort { port: (ports.len() == 1).then_some(ports[0].port) }
            }
        };
        if let Some(pinned) = self.pinned_exclusion(pods) {
            let (of, members) = (self.group(group), self.members(group));
            let is_all = of.sub_groups.len() == 1 && members.active_count() == 0;
            let fewer = u32::try_from(pinned.values.len()).ok().filter(|_| is_all);
            return Some(MutualExclusion { fit_error, pin: Some(pinned), fewer });
        }
        let domains = self.exclusive_domain_of_nodes(pods)?;
        let of_shape: BTreeMap<ShapeId, PodId> =
            pods.iter().map(|pod| (self.pod(*pod).shape, *pod)).collect();
        let open_to = |pod: &PodId| {
            let (pod, is_eligible) = (*pod, self.is_eligible_if_opened(*pod));
            let holds = move |node: NodeId| {
                is_eligible(node)
                    && self.take_if_fits(
                        &mut FreeCapacity::of_empty_node(self.node(node)),
                        pod,
                        node,
                    )
            };
            self.node_ids().zip(&domains).filter(move |(node, _)| holds(*node))
        };
        let mut open = BTreeSet::new();
        let has_enough = of_shape.values().flat_map(open_to).any(|(_, domain)| {
            open.insert(*domain);
            open.len() == pods.len()
        });
        (!has_enough).then_some(MutualExclusion { fit_error, pin: None, fewer: None })
    }

    /// A label over which the pods exclude each other, if they select fewer of its values than
    /// there are pods.
    fn pinned_exclusion(&self, pods: &[PodId]) -> Option<PinnedLabel> {
        let common = self.common_exclusion_domains(pods)?;
        let labels = common.into_iter().filter_map(|exclusion| match exclusion {
            ExclusionDomain::Label(label) => Some(label),
            ExclusionDomain::Node => None,
        });
        let mut labels = labels.filter(|label| ***label != *HOSTNAME);
        labels.find_map(|label| {
            let values = pods.iter().map(|pod| self.shape_of(*pod).selected_values(label));
            let values: Option<Vec<BTreeSet<Name>>> = values.collect();
            let values: BTreeSet<Name> = values?.into_iter().flatten().collect();
            (values.len() < pods.len()).then(|| PinnedLabel { label: Name::clone(label), values })
        })
    }

    fn pair_exclusion_domains(&self, pod: PodId, other: PodId) -> Vec<ExclusionDomain<'_>> {
        let filters = self.profile.plugins.filter.iter();
        filters.flat_map(|filter| filter.exclusion_domains(self, pod, other)).collect()
    }

    /// For each node the number of its domain. `None` when a node lacks the label: pods on that
    /// node exclude no others.
    fn domain_number_of_nodes(&self, exclusion: ExclusionDomain<'_>) -> Option<Vec<usize>> {
        let nodes = 0..self.snapshot.nodes.len();
        let ExclusionDomain::Label(label) = exclusion else { return Some(nodes.collect()) };
        let mut numbers: BTreeMap<&Name, usize> = BTreeMap::new();
        let nodes = self.snapshot.nodes.iter();
        let values = nodes.map(|node| node.labels.get(label));
        values
            .map(|value| {
                let next = numbers.len();
                Some(*numbers.entry(value?).or_insert(next))
            })
            .collect()
    }
}

/// Two pods that cannot be in one domain of a topology level.
struct Conflict<'a> {
    pods: [PodId; 2],
    domain: ExclusionDomain<'a>,
    /// Depth of the widest level that has no domain which can hold both pods.
    depth: usize,
}

impl Statement<'_> {
    /// Explains that the required level can never be satisfied, because two of the pods, or one and
    /// a running pod of their group, exclude each other from every domain. `None` if there are no
    /// such pods.
    pub(super) fn diagnose_conflict(
        &mut self,
        query: TopologyQuery<'_>,
    ) -> Option<PlacementFailure> {
        let TopologyQuery { constraint, pod_set, .. } = query;
        let levels = self.resolve_levels(constraint).ok().filter(ResolvedLevels::is_required)?;
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
    /// Finds two pods that exclude each other, at the widest level at which they do.
    fn find_conflict<'a>(
        &'a self,
        levels: ResolvedLevels<'a>,
        pod_set: PodSet<'_>,
    ) -> Option<Conflict<'a>> {
        let minds = |pod: &PodId| self.shape_of(*pod).may_exclude_neighbors();
        let there = self.pods_in_use(pod_set);
        if !pod_set.pods.iter().chain(&there).any(minds) {
            return None;
        }
        let coming = &pod_set.pods[..pod_set.pods.len().min(COMPARED_PODS_MAX)];
        let pairs = coming.iter().enumerate().flat_map(|(at, b)| {
            let others = coming[..at].iter().chain(there.iter().take(COMPARED_PODS_MAX));
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
