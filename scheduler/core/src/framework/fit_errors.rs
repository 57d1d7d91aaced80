//! Why a pod fits on no node, and what an added node must be like for it.

use std::collections::{BTreeMap, BTreeSet};

use super::{CapacityRequest, FreeCapacity, Session, fraction_units_on};
use crate::{
    model::{HOSTNAME, Name, Node, NodeId, NodeSelection, PodId, PodShape, WhenUnsatisfiable},
    reason::{
        EvenWhenEmpty, ExcludedNodeCounts, FitError, FitErrors, NodeRequirements, PinnedLabel,
        TopologyFitError,
    },
    resources::Resources,
};

impl Session<'_> {
    /// Why the pod fits on no node: the errors of all nodes (`within` a set of nodes, if given).
    /// Nodes on which the pod fits are not counted.
    pub fn fit_errors(&self, pod: PodId, within: Option<&BTreeSet<NodeId>>) -> FitErrors {
        self.fit_errors_with_topology(pod, within, &BTreeMap::new())
    }

    /// Like [`Self::fit_errors`], with topology errors for nodes that are `outside` the pod's
    /// domains.
    pub(super) fn fit_errors_with_topology(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
        outside: &BTreeMap<NodeId, TopologyFitError>,
    ) -> FitErrors {
        let mut survey = NodeSurvey::new(self, pod);
        let node_selection = self.shape_of(pod).node_selection();
        let is_by_name = node_selection == NodeSelection::Names;
        let group = self.pod(pod).group;
        let has_peers = group.is_some_and(|group| self.members(group).active_count() > 0);
        let is_of_all_nodes = within.is_none() && outside.is_empty();
        let is_plain = survey.is_none() && !is_by_name;
        if is_of_all_nodes && is_plain && self.fit_depends_on_shape_only(pod) {
            return self.fit_errors_of_shape(pod);
        }
        let filters = self.all_filters(pod);
        let mut fit_errors = FitErrors { node_selection, ..FitErrors::default() };
        let is_by_own_gang =
            |node, worst: &FitError| has_peers && self.is_caused_by_gang_peers(pod, node, worst);
        let mut is_any_for_it = within.is_some();
        for node in self.nodes_within(within) {
            let topology_error = outside.get(&node).cloned().map(FitError::Topology);
            let against: Vec<FitError> =
                filters.iter().filter_map(|filter| filter(node).err()).collect();
            is_any_for_it |= !against.iter().any(FitError::is_worker_role_mismatch);
            if let Some(survey) = &mut survey {
                survey.survey_node(self.node(node), &against, topology_error.is_some());
                let more = self.capacity_ignoring_spread(pod, node, &against);
                survey.requirements.capacity_ignoring_spread =
                    survey.requirements.capacity_ignoring_spread.saturating_add(more);
            }
            if is_by_name && !against.iter().any(FitError::is_selection_mismatch) {
                let is_small = against.iter().any(FitError::is_node_too_small);
                fit_errors.named_nodes_too_small =
                    Some(is_small && fit_errors.named_nodes_too_small != Some(false));
            }
            fit_errors.count_node(against.into_iter().chain(topology_error), |worst| {
                is_by_own_gang(node, worst)
            });
        }
        fit_errors.node_requirements = survey.map(|survey| Box::new(survey.into_requirements()));
        if !is_any_for_it {
            fit_errors.excluded_nodes = self.excluded_nodes_for(pod);
        }
        fit_errors
    }

    /// Number of pods of this shape that the node would hold, if topology spread alone excludes the
    /// pod; otherwise 0.
    fn capacity_ignoring_spread(&self, pod: PodId, node: NodeId, fit_errors: &[FitError]) -> u32 {
        if !matches!(fit_errors, [only] if only.is_topology_spread()) {
            return 0;
        }
        self.count_fits_on(node, pod)
    }

    /// Number of pods of this shape that the node's free capacity holds, ignoring all other
    /// filters.
    pub(super) fn count_fits_on(&self, node: NodeId, pod: PodId) -> u32 {
        let (shape, of) = (self.shape_of(pod), self.node(node));
        let (once_per_node, fraction) =
            (&shape.new_claims_on(of), fraction_units_on(of, shape.fractional_gpu.as_ref()));
        FreeCapacity::of_node(self, node).count_fitting_pods(
            None,
            CapacityRequest { resources: &shape.requests, once_per_node, fraction },
        )
    }

    /// Excluded nodes, counted by their label mismatches for the pod; `None` when no nodes are
    /// excluded.
    pub(super) fn excluded_nodes_for(&self, pod: PodId) -> Option<Box<ExcludedNodeCounts>> {
        let mut lacking = ExcludedNodeCounts::default();
        for excluded in &self.snapshot.excluded_nodes {
            let nodes = u32::try_from(excluded.nodes.len()).expect("node ids are 32 bits");
            let Some(first) = excluded.nodes.iter().min() else { continue };
            let mismatches = excluded.mismatches_for(self.shape_of(pod));
            let (all, name) =
                lacking.0.entry(mismatches).or_insert_with(|| (0, Name::clone(first)));
            *all += nodes;
            if first < name {
                *name = Name::clone(first);
            }
        }
        (!lacking.0.is_empty()).then(|| Box::new(lacking))
    }

    /// Topology keys over which the required anti-affinity of existing pods excludes this pod.
    fn labels_of_opposing_anti_affinity(&self, pod: PodId) -> BTreeSet<Name> {
        let terms = self.terms_selecting_pod(pod);
        let there = terms.anti_affinity.iter();
        let there = there.filter(|(other, _)| {
            *other != pod && self.state(*other).nodes_with_presence().next().is_some()
        });
        let term = |(other, at): &(PodId, usize)| {
            Name::clone(&self.shape_of(*other).pod_anti_affinity[*at].topology_key)
        };
        there.map(term).collect()
    }
}

/// Queries about pods of the same gang: none of them is evicted for another.
impl Session<'_> {
    /// Pods of the pod's own group that are allocated on or pipelined to the node.
    pub fn gang_peers_on(&self, pod: PodId, node: NodeId) -> impl Iterator<Item = PodId> + '_ {
        let group = self.pod(pod).group;
        let staying = self.node_info(node).staying.iter().copied();
        staying.filter(move |peer| group.is_some() && self.pod(*peer).group == group)
    }

    /// Whether pods of the same group cause the error, so that evicting all other pods would not
    /// resolve it: the group's pods use the capacity, or exclude the pod.
    pub(super) fn is_caused_by_gang_peers(
        &self,
        pod: PodId,
        node: NodeId,
        fit_error: &FitError,
    ) -> bool {
        let is_full = matches!(
            fit_error,
            FitError::InsufficientResources { even_when_empty: EvenWhenEmpty::No, .. }
        );
        let has_peers = || self.gang_peers_on(pod, node).next().is_some();
        (is_full || fit_error.requires_separate_nodes())
            && has_peers()
            && (!is_full || !self.fits_beside_gang_peers(pod, node))
    }

    fn fits_beside_gang_peers(&self, pod: PodId, node: NodeId) -> bool {
        let mut free = FreeCapacity::of_empty_node(self.node(node));
        self.gang_peers_on(pod, node)
            .chain([pod])
            .all(|pod| self.take_if_fits(&mut free, pod, node))
    }

    /// Takes the pod's requests from `free` if they fit.
    pub(crate) fn take_if_fits(&self, free: &mut FreeCapacity, pod: PodId, node: NodeId) -> bool {
        let (shape, of) = (self.shape_of(pod), self.node(node));
        let resources = &shape.requests.plus(&shape.new_claims_on(of));
        let fraction = fraction_units_on(of, shape.fractional_gpu.as_ref());
        let request = CapacityRequest { resources, once_per_node: &Resources::default(), fraction };
        let fits = free.count_fitting_pods(None, request) > 0;
        if fits {
            free.take_request(request);
        }
        fits
    }
}

/// Collects, over all nodes, what an added node must be like for the pod.
struct NodeSurvey<'a> {
    shape: &'a PodShape,
    requirements: NodeRequirements,
    /// Values of relevant labels that existing nodes have. The second map below has those on nodes
    /// that anti-affinity excludes.
    known_domains: BTreeMap<Name, BTreeSet<Name>>,
    exhausted_domains: BTreeMap<Name, BTreeSet<Name>>,
}

impl<'a> NodeSurvey<'a> {
    /// Creates a survey. `None` when neither the placement of other pods nor the source of GPUs
    /// matters to the pod.
    fn new(session: &'a Session<'_>, pod: PodId) -> Option<Self> {
        let (shape, shunned) =
            (session.shape_of(pod), session.labels_of_opposing_anti_affinity(pod));
        let hard = shape.topology_spread.iter();
        let hard =
            hard.filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        let spread: Vec<&Name> = hard.map(|spread| &spread.topology_key).collect();
        let needs_own_node = shape.may_exclude_neighbors();
        let cares = needs_own_node
            || !(shunned.is_empty() && spread.is_empty() && shape.pod_affinity.is_empty())
            || !shape.gpu_classes.is_empty();
        let mut exclusion_labels = shape.anti_affinity_labels();
        exclusion_labels.extend(shunned.into_iter().filter(|label| **label != *HOSTNAME));
        let spread = spread.into_iter().filter(|label| ***label != *HOSTNAME);
        let spread_domains = spread.map(|label| (Name::clone(label), BTreeSet::new())).collect();
        let (requests, gpu_classes) = (shape.requests_on_new_node(1), shape.gpu_classes.clone());
        cares.then(|| Self {
            shape,
            requirements: NodeRequirements {
                requests,
                gpu_classes,
                exclusion_labels,
                spread_domains,
                needs_own_node,
                ..NodeRequirements::default()
            },
            known_domains: BTreeMap::new(),
            exhausted_domains: BTreeMap::new(),
        })
    }

    fn survey_node(&mut self, node: &Node, fit_errors: &[FitError], is_outside_domain: bool) {
        let requirements = &mut self.requirements;
        let of_place = fit_errors.iter().filter(|fit_error| fit_error.placement_need().is_some());
        if let Some(nearest) = of_place.min_by_key(|fit_error| placement_error_rank(fit_error))
            && requirements
                .placement_error
                .as_ref()
                .is_none_or(|kept| placement_error_rank(nearest) < placement_error_rank(kept))
        {
            requirements.placement_error = Some(nearest.clone());
        }
        let is_shut = fit_errors.iter().any(FitError::is_anti_affinity);
        for label in requirements.exclusion_labels.iter().chain(requirements.spread_domains.keys())
        {
            let Some(value) = node.labels.get(label) else { continue };
            if is_shut {
                insert_value(&mut self.exhausted_domains, label, value);
            }
            insert_value(&mut self.known_domains, label, value);
        }
        if let (1, Some(label)) =
            (requirements.exclusion_labels.len(), requirements.exclusion_labels.first())
            && !is_outside_domain
            && fit_errors.iter().all(FitError::is_node_too_full)
        {
            requirements.full_domains.extend(node.labels.get(label).cloned());
        }
        if fit_errors.iter().any(FitError::is_selection_mismatch) {
            return;
        }
        for (label, values) in &mut requirements.spread_domains {
            if !fit_errors.iter().any(|fit_error| fit_error.is_topology_spread_over(label)) {
                values.extend(node.labels.get(label).cloned());
            }
        }
        let is_far = |fit_error| {
            matches!(fit_error, &FitError::PodAffinity | &FitError::PodAffinityToOwnGang)
        };
        if requirements.affinity_labels.is_none() && !fit_errors.iter().any(is_far) {
            let keys = self.shape.pod_affinity.iter().map(|term| &term.topology_key);
            let value_of =
                |label: &Name| Some((Name::clone(label), node.labels.get(label)?.clone()));
            let near: BTreeMap<Name, Name> = keys.filter_map(value_of).collect();
            requirements.affinity_labels = Some(near.into_iter().collect());
        }
    }

    fn into_requirements(self) -> NodeRequirements {
        let Self { shape, mut requirements, known_domains: values, exhausted_domains: shut } = self;
        let all_of = |label: &Name, among: &BTreeMap<Name, BTreeSet<Name>>| {
            let wanted = shape.selected_values(label)?;
            wanted.is_subset(among.get(label)?).then_some(wanted)
        };
        let labels: BTreeSet<&Name> = requirements
            .exclusion_labels
            .iter()
            .chain(requirements.spread_domains.keys())
            .collect();
        let pinned = labels.into_iter().filter(|label| all_of(label, &values).is_some());
        requirements.pinned_labels = pinned.cloned().collect();
        let mut apart = requirements.exclusion_labels.iter();
        requirements.exhausted_label = apart.find_map(|label| {
            Some(PinnedLabel { label: Name::clone(label), values: all_of(label, &shut)? })
        });
        requirements
    }
}

/// Inserts a label value. Checks before cloning, because most values are known already.
fn insert_value(values: &mut BTreeMap<Name, BTreeSet<Name>>, label: &Name, value: &Name) {
    match values.get_mut(label) {
        Some(known) if known.contains(value) => {}
        Some(known) => drop(known.insert(Name::clone(value))),
        None => drop(values.insert(Name::clone(label), BTreeSet::from([Name::clone(value)]))),
    }
}

/// Sort key of placement errors: what satisfies the first error also satisfies the later ones.
fn placement_error_rank(fit_error: &FitError) -> (bool, bool) {
    (!fit_error.requires_separate_nodes(), !fit_error.is_topology_spread())
}
