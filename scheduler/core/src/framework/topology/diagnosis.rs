//! Why pods cannot be placed together in any topology domain.

use std::collections::{BTreeMap, BTreeSet};

use super::{PodSet, ResolvedLevels};
use crate::{
    framework::{PlacementFailure, Session, Statement},
    model::{HOSTNAME, Name, NodeId, NodeSelection, PodId, PodShape, ShapeId, TopologyConstraint},
    reason::{NoTopologyDomain, NodeRequirements, TopologyFitError},
};

/// Pods with a topology constraint, and the nodes of the surrounding domain in which they must be
/// placed.
#[derive(Clone, Copy, Debug)]
pub(in crate::framework) struct TopologyQuery<'a> {
    pub(in crate::framework) constraint: &'a TopologyConstraint,
    pub(in crate::framework) pod_set: PodSet<'a>,
    pub(in crate::framework) within: Option<&'a BTreeSet<NodeId>>,
}

impl Statement<'_> {
    /// Explains why no topology domain holds the pods. If no usable node can run a pod even after
    /// evictions, that error is reported first, because a domain would not help then.
    pub(in crate::framework) fn diagnose_no_domain(
        &mut self,
        query: TopologyQuery<'_>,
        no_domain: NoTopologyDomain,
    ) -> PlacementFailure {
        let TopologyQuery { constraint, pod_set, within } = query;
        if no_domain.invalid_level.is_some() {
            return PlacementFailure::for_no_domain(no_domain, pod_set);
        }
        if let Some(conflict) = self.diagnose_conflict(query) {
            return conflict;
        }
        let counted = self.count_fitting_by_domain(constraint, pod_set, within);
        let domains = counted.unwrap_or(no_domain.domains);
        let no_domain = NoTopologyDomain { domains, ..no_domain };
        let unconstrained = TopologyConstraint { required: None, ..constraint.clone() };
        let spread = self.try_in_domain(TopologyQuery { constraint: &unconstrained, ..query });
        let would_spread = spread.is_ok();
        let refused = match spread {
            Ok(()) => no_domain.domains.is_empty().then_some((pod_set.pods[0], 0)),
            Err(PlacementFailure { no_domain: Some(_), .. }) => None,
            Err(PlacementFailure { pod, found, .. }) => Some((pod, found)),
        };
        if let Some((pod, found)) = refused {
            let outside = self.nodes_outside_usable_domains(query, None);
            let inside = self.nodes_within(within).filter(|node| !outside.contains_key(node));
            if self.is_unresolvable_on_all(pod, inside) {
                let fit_errors = self.fit_errors_with_topology(pod, within, &outside);
                return PlacementFailure { pod, found, fit_errors, no_domain: None };
            }
        }
        let (selected, node_selection) = self.domains_selected_by_all(constraint, pod_set.pods);
        PlacementFailure::for_no_domain(
            NoTopologyDomain {
                selected_domains: selected,
                node_selection,
                would_fit_unconstrained: would_spread,
                ..no_domain
            },
            pod_set,
        )
    }

    /// Explains why placement failed in each topology domain that seemed to hold the pods.
    pub(in crate::framework) fn diagnose_failed_domains(
        &mut self,
        query: TopologyQuery<'_>,
        tried: Vec<(BTreeSet<NodeId>, PlacementFailure)>,
    ) -> PlacementFailure {
        if let Some(conflict) = self.diagnose_conflict(query) {
            return conflict;
        }
        let inside = self.nearest_domain_labels(query.constraint, &tried);
        let nodes_to_open = self.nodes_to_open(query.pod_set.pods, &tried);
        let nodes: BTreeSet<NodeId> = tried.iter().flat_map(|(nodes, _)| nodes).copied().collect();
        let all = tried.into_iter().map(|(_, why)| why).reduce(PlacementFailure::merge);
        let mut all = all.expect("a failed placement has tried a domain");
        let others = self.nodes_within(query.within).filter(|node| !nodes.contains(node));
        let others: BTreeSet<NodeId> = others.collect();
        let outside = self.nodes_outside_usable_domains(query, Some(&nodes));
        all.fit_errors.merge(self.fit_errors_with_topology(all.pod, Some(&others), &outside));
        let are_apart = self.exclusive_domain_of_nodes(query.pod_set.pods).is_some();
        // A sub-group may have to be in a domain of its own inside that.
        let of_part =
            |site: &NodeRequirements| !site.domain_labels.is_empty() || site.pods_in_one_domain > 0;
        let site = all.fit_errors.node_requirements.as_mut().filter(|site| !of_part(site));
        if let Some(site) = site {
            let is_shut =
                |label: &Name| **label == *HOSTNAME || site.exclusion_labels.contains(label);
            if !inside.iter().any(|(label, _)| is_shut(label)) {
                site.domain_labels = inside;
            } else if !are_apart {
                site.pods_in_one_domain =
                    NoTopologyDomain::new(query.constraint, query.pod_set.pods).pods;
            }
        }
        if let Some(nodes_to_open) = nodes_to_open {
            all.fit_errors.domain_requirements.get_or_insert_default().nodes_to_open =
                Some(nodes_to_open);
        }
        all
    }
}

impl Session<'_> {
    /// The domains of the required level that the pods' node selection allows, if they are only
    /// some of all domains; and how the pods select nodes.
    fn domains_selected_by_all(
        &self,
        constraint: &TopologyConstraint,
        pods: &[PodId],
    ) -> (Vec<Name>, NodeSelection) {
        let shapes: BTreeSet<ShapeId> = pods.iter().map(|pod| self.pod(*pod).shape).collect();
        let shapes = shapes.iter().map(|shape| &self.snapshot.shapes[shape.0 as usize]);
        let levels = self.resolve_levels(constraint).ok();
        let label = levels.as_ref().and_then(ResolvedLevels::required_label);
        let values = shapes.clone().filter_map(|shape| shape.selected_values(label?));
        let all = values.reduce(|one, other| one.intersection(&other).cloned().collect());
        let selections = shapes.map(PodShape::node_selection);
        let node_selection = selections.reduce(|one, other| {
            let is_same = one == other;
            if is_same { one } else { NodeSelection::Labels }
        });
        (all.into_iter().flatten().collect(), node_selection.unwrap_or_default())
    }

    /// Labels of the domain that comes nearest to holding all the pods.
    fn nearest_domain_labels(
        &self,
        constraint: &TopologyConstraint,
        tried: &[(BTreeSet<NodeId>, PlacementFailure)],
    ) -> Vec<(Name, Name)> {
        let levels = self.resolve_levels(constraint).ok().filter(ResolvedLevels::is_required);
        let nearest = tried.iter().rev().max_by_key(|(_, why)| why.found);
        let node = nearest.and_then(|(nodes, _)| nodes.first());
        let labels = levels.zip(node).map(|(levels, node)| levels.domain_labels_of(self, *node));
        labels.unwrap_or_default()
    }

    /// Nodes outside of all domains in which the pods that are placed together with `pod` could
    /// run.
    pub fn nodes_outside_domains(
        &self,
        pods: &[PodId],
        pod: PodId,
    ) -> BTreeMap<NodeId, TopologyFitError> {
        let mut out = BTreeMap::new();
        let Some(id) = self.pod(pod).group else { return out };
        let group = self.group(id);
        let parts = group.path_to_root(self.pod(pod).sub_group).map(Some).chain([None]);
        for (sub_group, constraint) in
            parts.filter_map(|sub_group| Some((sub_group, group.topology_constraint(sub_group)?)))
        {
            let is_inside =
                |pod: &PodId| group.is_in_sub_group(self.pod(*pod).sub_group, sub_group);
            let inside: Vec<PodId> = pods.iter().copied().filter(is_inside).collect();
            let pod_set = PodSet { group: id, sub_group, pods: &inside };
            let domains = self.candidate_domains(constraint, pod_set, None).unwrap_or_default();
            let holding: BTreeSet<NodeId> =
                domains.into_iter().flat_map(|domain| domain.nodes).collect();
            let query = TopologyQuery { constraint, pod_set, within: None };
            for (node, fit_error) in self.nodes_outside_usable_domains(query, Some(&holding)) {
                out.entry(node).or_insert(fit_error);
            }
        }
        out
    }

    /// Nodes that are in no usable domain. If `holding` names nodes, usable domains without one of
    /// those nodes are too full.
    fn nodes_outside_usable_domains(
        &self,
        TopologyQuery { constraint, pod_set, within }: TopologyQuery<'_>,
        holding: Option<&BTreeSet<NodeId>>,
    ) -> BTreeMap<NodeId, TopologyFitError> {
        let NoTopologyDomain { topology, level, pods, .. } =
            NoTopologyDomain::new(constraint, pod_set.pods);
        let too_full = TopologyFitError::DomainTooFull {
            topology: topology.clone(),
            level: level.clone(),
            pods,
        };
        let nodes = self.nodes_within(within);
        let Ok(levels) = self.resolve_levels(constraint) else {
            return nodes.map(|node| (node, too_full.clone())).collect();
        };
        let used = self.domains_of_placed_pods(levels, pod_set);
        let place_of = |node: &NodeId| levels.domain_of(self, *node);
        let holding: Option<BTreeSet<Vec<Name>>> = holding
            .filter(|_| levels.is_required())
            .map(|nodes| nodes.iter().filter_map(place_of).collect());
        let has = |domains: &Option<BTreeSet<Vec<Name>>>, domain: &Vec<Name>| {
            domains.as_ref().is_none_or(|domains| domains.contains(domain))
        };
        let fit_error = |node: &NodeId| match place_of(node) {
            None => Some(TopologyFitError::MissingLabels { topology: topology.clone() }),
            Some(domain) if !has(&used, &domain) => Some(TopologyFitError::OtherDomain {
                topology: topology.clone(),
                level: level.clone(),
            }),
            Some(domain) => (!has(&holding, &domain)).then(|| too_full.clone()),
        };
        nodes.filter_map(|node| Some((node, fit_error(&node)?))).collect()
    }

    /// The domains of the group's pods that are already placed; the other pods must be in them.
    /// `None` when any domain is usable.
    fn domains_of_placed_pods(
        &self,
        levels: ResolvedLevels<'_>,
        pod_set: PodSet<'_>,
    ) -> Option<BTreeSet<Vec<Name>>> {
        let in_use = self.nodes_in_use(pod_set);
        let keeps = levels.is_required() && !in_use.is_empty();
        keeps.then(|| in_use.into_iter().filter_map(|node| levels.domain_of(self, node)).collect())
    }
}
