//! Topology domains in which pods may be placed together: the narrowest first (the preferred
//! level), then wider ones up to the required level; on one level the fullest first, from the
//! widest level down, so that wide domains stay free for jobs that need them.

mod diagnosis;
mod nodes_to_open;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{CapacityRequest, FreeCapacity, Session, fraction_units_on};
use crate::{
    model::{Name, NodeId, PodGroupId, PodId, PodShape, ShapeId, Topology, TopologyConstraint},
    reason::{InvalidLevel, NoTopologyDomain},
    resources::{PerResource, Resources},
};
pub(super) use diagnosis::TopologyQuery;

/// For each topology, the ready nodes with the path of their domains (widest level first), sorted
/// by path.
pub(super) type DomainPaths = BTreeMap<Name, Vec<(Vec<Name>, NodeId)>>;

/// A domain in which pods may be placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CandidateDomain {
    pub(super) nodes: BTreeSet<NodeId>,
    /// Preferred nodes if the domain is wider than the preferred level: the nodes in the emptiest
    /// domains of the preferred level, with a rank.
    pub(super) node_ranks: Option<BTreeMap<NodeId, i64>>,
    /// Whether no other candidate contains this domain: it is of the required level, or the whole
    /// topology.
    pub(super) is_widest: bool,
}

/// Pods that are placed together: pods of a sub-group, or of the whole group (`None`).
#[derive(Clone, Copy, Debug)]
pub(super) struct PodSet<'a> {
    pub(super) group: PodGroupId,
    pub(super) sub_group: Option<usize>,
    pub(super) pods: &'a [PodId],
}

/// A topology constraint with its levels looked up in the topology.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedLevels<'a> {
    topology: &'a Topology,
    /// Depth of the required level in the topology; 0 when no level is required.
    required: usize,
    preferred: Option<usize>,
}

impl<'a> ResolvedLevels<'a> {
    pub(super) const fn is_required(&self) -> bool {
        self.required > 0
    }

    /// Name of the topology, and depth of the required level.
    pub(super) const fn required_level(&self) -> (&'a Name, usize) {
        (&self.topology.name, self.required)
    }

    /// Label key of the required level.
    pub(super) fn required_label(&self) -> Option<&'a Name> {
        self.topology.levels.get(self.required.checked_sub(1)?).map(|level| &level.label)
    }

    /// Labels of the node's domain at the required level.
    pub(super) fn domain_labels_of(
        &self,
        session: &Session<'_>,
        node: NodeId,
    ) -> Vec<(Name, Name)> {
        let labels = self.topology.levels.iter().map(|level| Name::clone(&level.label));
        labels.zip(self.domain_of(session, node).unwrap_or_default()).collect()
    }

    /// Depth of the level with this label key. `None` when nodes of one required domain may differ
    /// in this label.
    pub(super) fn required_depth(&self, label: &str) -> Option<usize> {
        let mut levels = self.topology.levels.iter().take(self.required);
        levels.position(|level| *level.label == *label).map(|at| at + 1)
    }

    /// Label key of the level that directly contains the level at this depth.
    pub(super) fn parent_level(&self, depth: usize) -> Option<&'a Name> {
        self.topology.levels.get(depth.checked_sub(2)?).map(|level| &level.label)
    }

    /// The node's domain at the required level; `None` when the node lacks a label.
    pub(super) fn domain_of(&self, session: &Session<'_>, node: NodeId) -> Option<Vec<Name>> {
        let mut path = self.topology.domain_path(&session.node(node).labels)?;
        path.truncate(self.required);
        Some(path)
    }
}

/// A topology domain and the domains directly inside it.
struct Domain {
    name: Name,
    nodes: Vec<NodeId>,
    /// Free capacity of the domain's nodes, including fractions of shared GPUs.
    free: PerResource<i64>,
    /// Free capacity of the domain's nodes, counting whole GPUs only.
    whole: PerResource<i64>,
    /// Number of the pods to place that fit into the domain.
    pods: u64,
    inner: Vec<Self>,
}

impl Session<'_> {
    pub(super) fn resolve_levels(
        &self,
        constraint: &TopologyConstraint,
    ) -> Result<ResolvedLevels<'_>, InvalidLevel> {
        let TopologyConstraint { topology, required, preferred } = constraint;
        let found = self.snapshot.topologies.iter().find(|known| known.name == *topology);
        let depth = |level: &Option<Name>| {
            let Some(level) = level else { return Ok(None) };
            let depth = found.and_then(|topology| topology.level_depth(level));
            depth.map(Some).ok_or_else(|| InvalidLevel::Unknown { level: Name::clone(level) })
        };
        let unnamed = || InvalidLevel::Unknown { level: Name::clone(topology) };
        let (required_at, preferred_at) = (depth(required)?, depth(preferred)?);
        let topology = found.ok_or_else(unnamed)?;
        if let (Some(required), Some(preferred)) = (required, preferred)
            && preferred_at < required_at
        {
            let [required, preferred] = [required, preferred].map(Name::clone);
            return Err(InvalidLevel::PreferredIsWider { required, preferred });
        }
        Ok(ResolvedLevels { topology, required: required_at.unwrap_or(0), preferred: preferred_at })
    }

    /// The candidate domains for `pod_set`, best first, or why there is none. Without a required
    /// level, the whole topology is a candidate, however little is free there.
    pub(super) fn candidate_domains(
        &self,
        constraint: &TopologyConstraint,
        pod_set: PodSet<'_>,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Result<Vec<CandidateDomain>, NoTopologyDomain> {
        let levels = self.resolve_levels(constraint);
        let of = || NoTopologyDomain::new(constraint, pod_set.pods);
        let invalid_level = |invalid_level| NoTopologyDomain {
            invalid_level: Some(Box::new(invalid_level)),
            ..of()
        };
        let ResolvedLevels { topology, required, preferred } = levels.map_err(invalid_level)?;
        let root = self.domain_tree(topology, pod_set.pods, within);
        let in_use = self.nodes_in_use(pod_set);
        let are_in_use = required > 0 && !in_use.is_empty();
        let mut may_be = root.usable_domains_at_depth(required, &in_use);
        if required > 0 {
            may_be = self.selectable_domains(may_be, pod_set.pods);
        }
        let deepest = preferred.unwrap_or(required).max(required);
        let holds = self.domain_holds_all(pod_set.pods);
        let ranks = preferred.map(|_| root.node_ranks_at_depth(deepest)).unwrap_or_default();
        let ranks_of = |domain: &Domain| {
            domain.nodes.iter().map(|node| (*node, ranks.get(node).copied().unwrap_or(0))).collect()
        };
        let mut places = Vec::new();
        for depth in (required..=deepest).rev() {
            let domains =
                may_be.iter().flat_map(|domain| domain.domains_at_depth(depth - required));
            let may_hold = domains.filter(|domain| depth == 0 || holds(domain));
            places.extend(may_hold.map(|domain| CandidateDomain {
                nodes: domain.nodes.iter().copied().collect(),
                node_ranks: (depth < deepest).then(|| ranks_of(domain)),
                is_widest: depth == required,
            }));
        }
        if places.is_empty() {
            let places = may_be.iter().map(|domain| (domain.name.clone(), domain.pods)).collect();
            return Err(NoTopologyDomain {
                domains: places,
                are_in_use,
                ..NoTopologyDomain::new(constraint, pod_set.pods)
            });
        }
        Ok(places)
    }

    /// For pods with different requests: how many of them fit next to each other in each usable
    /// domain. `None` when all requests are equal, because [`Self::candidate_domains`] already
    /// counts those.
    pub(super) fn count_fitting_by_domain(
        &self,
        constraint: &TopologyConstraint,
        pod_set: PodSet<'_>,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<Vec<(Name, u64)>> {
        if self.have_equal_requests(pod_set.pods) {
            return None;
        }
        let ResolvedLevels { topology, required, .. } = self.resolve_levels(constraint).ok()?;
        let root = self.domain_tree(topology, pod_set.pods, within);
        let domains = root.usable_domains_at_depth(required, &self.nodes_in_use(pod_set));
        let domains = self.selectable_domains(domains, pod_set.pods).into_iter();
        let count = |domain: &Domain| {
            let nodes = domain.nodes.iter().map(|node| (*node, FreeCapacity::of_node(self, *node)));
            let left = self.count_unplaced_pods(pod_set.pods, nodes, |_, _| true);
            pod_set.pods.len() as u64 - left.into_iter().map(|(_, left)| left).sum::<u64>()
        };
        Some(domains.map(|domain| (domain.name.clone(), count(domain))).collect())
    }

    /// Those of the domains that have a node which each of the pods selects.
    fn selectable_domains<'a>(
        &self,
        mut domains: Vec<&'a Domain>,
        pods: &[PodId],
    ) -> Vec<&'a Domain> {
        let shapes: BTreeSet<ShapeId> = pods.iter().map(|pod| self.pod(*pod).shape).collect();
        let shapes = shapes.iter().map(|shape| &self.snapshot.shapes[shape.0 as usize]);
        let is_choosy =
            |shape: &PodShape| !shape.node_selector.is_empty() || shape.node_affinity.is_some();
        for shape in shapes.filter(|shape| is_choosy(shape)) {
            let is_for_it = |node: &NodeId| shape.selects_node(self.node(*node));
            domains.retain(|domain| domain.nodes.iter().any(is_for_it));
        }
        domains
    }

    /// The domains of the widest level that some constraint requires for all the pods. `None` when
    /// no level is required.
    pub(crate) fn required_domains(
        &self,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<Vec<BTreeSet<NodeId>>> {
        let pod_set = PodSet { group, sub_group: None, pods };
        let of = self.group(group);
        let first = self.pod(*pods.first()?).sub_group;
        let only = pods.iter().all(|pod| self.pod(*pod).sub_group == first);
        let constraint = of.topology_constraint(None).filter(|all| all.required.is_some());
        let constraint =
            constraint.or_else(|| of.topology_constraint(only.then_some(first)?.into()))?;
        let ResolvedLevels { topology, required, .. } =
            self.resolve_levels(constraint).ok().filter(ResolvedLevels::is_required)?;
        let root = self.domain_tree(topology, pods, None);
        let in_use = self.nodes_in_use(pod_set);
        let mut domains: Vec<BTreeSet<NodeId>> = root
            .domains_at_depth(required)
            .into_iter()
            .map(|domain| domain.nodes.iter().copied().collect())
            .collect();
        if !in_use.is_empty() {
            domains.retain(|domain| !domain.is_disjoint(&in_use));
        }
        Some(domains)
    }

    /// The topology constraints of these pods, from their sub-group up to the group. `None` when
    /// the placement of the pods depends on more than their requests and free capacity: other pods
    /// of the group are placed already, or the pods are of several sub-groups.
    pub(crate) fn topology_constraints_for(
        &self,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<Vec<&TopologyConstraint>> {
        let of = self.group(group);
        if !of.has_topology_constraint() {
            return Some(Vec::new());
        }
        let sub_group = self.pod(*pods.first()?).sub_group;
        let is_one_part = pods.iter().all(|pod| self.pod(*pod).sub_group == sub_group);
        let is_free = self.nodes_in_use(PodSet { group, sub_group: None, pods }).is_empty();
        let fraction = of.path_to_root(sub_group).map(Some).chain([None]);
        (is_one_part && is_free)
            .then(|| fraction.filter_map(|sub_group| of.topology_constraint(sub_group)).collect())
    }

    /// The tree of the topology's domains, the fullest domain first on each level.
    fn domain_tree(
        &self,
        topology: &Topology,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
    ) -> Domain {
        let paths = self.caches.domain_paths.get_or_init(|| self.domain_paths_by_topology());
        let placed = paths.get(&topology.name).into_iter().flatten();
        let placed = placed.filter(|(_, node)| within.is_none_or(|nodes| nodes.contains(node)));
        let placed: Vec<(&[Name], NodeId)> =
            placed.map(|(path, node)| (path.as_slice(), *node)).collect();
        let shape = pods.first().map(|pod| self.shape_of(*pod));
        let grow = DomainBuilder { session: self, request: self.bounds_request(pods), shape };
        grow.build_domain(&topology.name, &placed, 0, topology.levels.len())
    }

    /// The nodes of each domain of the required level.
    pub(super) fn nodes_by_domain(&self, levels: ResolvedLevels<'_>) -> Vec<Vec<NodeId>> {
        let (topology, depth) = levels.required_level();
        let paths = self.caches.domain_paths.get_or_init(|| self.domain_paths_by_topology());
        let placed = paths.get(topology).map_or(&[][..], Vec::as_slice);
        let domains = placed.chunk_by(|(a, _), (b, _)| a[..depth] == b[..depth]);
        domains.map(|domain| domain.iter().map(|(_, node)| *node).collect()).collect()
    }

    pub(super) fn domain_paths_by_topology(&self) -> DomainPaths {
        let of = |topology: &Topology| {
            let nodes = self.node_ids().filter(|node| self.node(*node).ready);
            let placed =
                nodes.filter_map(|at| Some((topology.domain_path(&self.node(at).labels)?, at)));
            let mut placed: Vec<(Vec<Name>, NodeId)> = placed.collect();
            placed.sort();
            (topology.name.clone(), placed)
        };
        self.snapshot.topologies.iter().map(of).collect()
    }

    /// Returns a function that tells whether a domain holds all the pods. Pods with equal requests
    /// are counted node by node, others by the sum of their requests.
    fn domain_holds_all(&self, pods: &[PodId]) -> impl Fn(&Domain) -> bool {
        let (request, alike) = (self.bounds_request(pods), self.have_equal_requests(pods));
        let count = pods.len() as u64;
        move |domain| {
            let enough = request.values().into_iter().zip(domain.free.values());
            if alike { domain.pods >= count } else { enough.into_iter().all(|(a, b)| a <= b) }
        }
    }

    /// Whether all the pods have the same requests.
    fn have_equal_requests(&self, pods: &[PodId]) -> bool {
        let asks = |pod: &PodId| {
            let shape = self.shape_of(*pod);
            (&shape.requests, shape.fractional_gpu)
        };
        pods.windows(2).all(|pair| asks(&pair[0]) == asks(&pair[1]))
    }

    /// Nodes on which pods of the same sub-group are allocated or to which they are pipelined.
    pub(super) fn nodes_in_use(&self, pod_set: PodSet<'_>) -> BTreeSet<NodeId> {
        let staying = self.pods_in_use(pod_set).into_iter();
        staying.filter_map(|pod| self.state(pod).charged_node()).collect()
    }

    /// Pods of the same sub-group that are allocated or pipelined.
    pub(super) fn pods_in_use(&self, pod_set: PodSet<'_>) -> Vec<PodId> {
        let group = self.group(pod_set.group);
        let pods = self.pods_of_topology_group(pod_set.group).iter();
        let of_it =
            pods.filter(|pod| group.is_in_sub_group(self.pod(**pod).sub_group, pod_set.sub_group));
        of_it.filter(|pod| self.state(**pod).charged_node().is_some()).copied().collect()
    }
}

/// Builds the tree of domains.
struct DomainBuilder<'a> {
    session: &'a Session<'a>,
    request: PerResource<i64>,
    shape: Option<&'a PodShape>,
}

impl DomainBuilder<'_> {
    /// Builds the domain of the nodes whose paths agree up to `depth`, with the domains inside it.
    fn build_domain(
        &self,
        name: &Name,
        placed: &[(&[Name], NodeId)],
        depth: usize,
        depth_max: usize,
    ) -> Domain {
        let nodes: Vec<NodeId> = placed.iter().map(|(_, node)| *node).collect();
        if depth == depth_max {
            let free: Vec<FreeCapacity> =
                nodes.iter().map(|node| FreeCapacity::of_node(self.session, *node)).collect();
            let counts = nodes.iter().zip(&free).map(|(node, free)| self.count_fits(*node, free));
            let pods = counts.sum();
            let sum = |of: fn(&FreeCapacity) -> PerResource<i64>| {
                free.iter().map(of).fold(PerResource::default(), PerResource::plus)
            };
            let (free, whole) = (
                sum(FreeCapacity::free_with_gpu_fractions),
                sum(FreeCapacity::free_with_whole_gpus),
            );
            return Domain { name: name.clone(), nodes, free, whole, pods, inner: Vec::new() };
        }
        let same = placed.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]);
        let mut inner: Vec<Domain> = same
            .map(|placed| self.build_domain(&placed[0].0[depth], placed, depth + 1, depth_max))
            .collect();
        inner.sort_by(|a, b| self.cmp_fullness(a, b).then_with(|| a.name.cmp(&b.name)));
        let sum = |of: fn(&Domain) -> PerResource<i64>| {
            inner.iter().map(of).fold(PerResource::default(), PerResource::plus)
        };
        let (free, whole) = (sum(|domain| domain.free), sum(|domain| domain.whole));
        let pods = inner.iter().map(|domain| domain.pods).sum();
        Domain { name: name.clone(), nodes, free, whole, pods, inner }
    }

    fn count_fits(&self, node: NodeId, free: &FreeCapacity) -> u64 {
        let Some(shape) = self.shape else { return 0 };
        let fraction = fraction_units_on(self.session.node(node), shape.fractional_gpu.as_ref());
        let once_per_node = &Resources::default(); // others may have the claims there
        u64::from(free.count_fitting_pods(
            None,
            CapacityRequest { resources: &shape.requests, once_per_node, fraction },
        ))
    }

    /// Compares two domains: the one of whose free capacity the pods take the larger share comes
    /// first.
    fn cmp_fullness(&self, left: &Domain, right: &Domain) -> Ordering {
        let (a, b) = (self.dominant_share(left), self.dominant_share(right));
        (b.0 * a.1).cmp(&(a.0 * b.1))
    }

    /// The largest share of a free resource that the pods take in the domain; more than 1 when
    /// nothing is free. As in KAI, only whole GPUs count as free.
    fn dominant_share(&self, domain: &Domain) -> (i128, i128) {
        let parts = self.request.values().into_iter().zip(domain.whole.values());
        let parts = parts.into_iter().filter(|(requested, _)| *requested > 0);
        let parts = parts.map(|(requested, free)| match free {
            ..=0 => (i128::from(i64::MAX), 1),
            free => (i128::from(requested), i128::from(free)),
        });
        parts.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap_or((0, 1))
    }
}

impl Domain {
    /// The domains `depth` levels further in, in the order of the tree.
    fn domains_at_depth(&self, depth: usize) -> Vec<&Self> {
        if depth == 0 {
            return vec![self];
        }
        self.inner.iter().flat_map(|domain| domain.domains_at_depth(depth - 1)).collect()
    }

    /// The domains `depth` levels further in. If any of them contain nodes `in_use`, only those.
    fn usable_domains_at_depth(&self, depth: usize, in_use: &BTreeSet<NodeId>) -> Vec<&Self> {
        let is_used = |domain: &&Self| domain.nodes.iter().any(|node| in_use.contains(node));
        let all = self.domains_at_depth(depth).into_iter();
        all.filter(|domain| depth == 0 || in_use.is_empty() || is_used(domain)).collect()
    }

    /// For each node, the rank of its domain among those `depth` levels further in, in tenths
    /// rounded down; the last domain has rank 10.
    fn node_ranks_at_depth(&self, depth: usize) -> BTreeMap<NodeId, i64> {
        let domains = self.domains_at_depth(depth);
        let count = i64::try_from(domains.len()).unwrap_or(i64::MAX).max(1);
        let ranked = (1_i64..).zip(domains);
        ranked
            .flat_map(|(at, domain)| domain.nodes.iter().map(move |n| (*n, 10 * at / count)))
            .collect()
    }
}
