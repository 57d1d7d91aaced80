//! Places of a topology in which pods may be put together: first the narrowest ones, the preferred
//! level, then wider ones up to the required level; on one level the fullest first, seen from the
//! widest level down, so that wide places stay free for those who need them.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{Asked, Free, NoPlace, Session, WrongLevel, parts_on};
use crate::{
    model::{Name, NodeId, PodGroupId, PodId, PodShape, ShapeId, Topology, TopologyConstraint},
    resources::{PerResource, Resources},
};

/// By topology, nodes that are ready with the places that they are in, from the widest, in order.
pub(super) type Paths = BTreeMap<Name, Vec<(Vec<Name>, NodeId)>>;

/// Nodes on which pods may be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) nodes: BTreeSet<NodeId>,
    /// Which of them are better, where the place is wider than preferred: those of the emptiest
    /// places of the preferred level, among all that there are of that level.
    pub(super) ranks: Option<BTreeMap<NodeId, i64>>,
    /// No other place is around it: it is one of the required level, or all there is.
    pub(super) is_widest: bool,
}

/// Pods that are put together: `part` of a group (`None`: all of it).
#[derive(Clone, Copy, Debug)]
pub(super) struct Together<'a> {
    pub(super) group: PodGroupId,
    pub(super) part: Option<usize>,
    pub(super) pods: &'a [PodId],
}

/// A constraint, looked up in the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levels<'a> {
    topology: &'a Topology,
    /// How deep the required level lies; 0: none is required.
    required: usize,
    preferred: Option<usize>,
}

impl<'a> Levels<'a> {
    pub(super) const fn is_required(&self) -> bool {
        self.required > 0
    }

    /// The label of the required level.
    pub(super) fn required_label(&self) -> Option<&'a Name> {
        self.topology.levels.get(self.required.checked_sub(1)?).map(|level| &level.label)
    }

    /// The labels of the place of the required level in which the node is.
    pub(super) fn labels_of(&self, session: &Session<'_>, node: NodeId) -> Vec<(Name, Name)> {
        let labels = self.topology.levels.iter().map(|level| Name::clone(&level.label));
        labels.zip(self.place_of(session, node).unwrap_or_default()).collect()
    }

    /// How deep the level of that label lies. `None`: nodes of one place may have several values.
    pub(super) fn required_depth(&self, label: &str) -> Option<usize> {
        let mut levels = self.topology.levels.iter().take(self.required);
        levels.position(|level| *level.label == *label).map(|at| at + 1)
    }

    /// The level just around the one that lies so deep.
    pub(super) fn around(&self, depth: usize) -> Option<&'a Name> {
        self.topology.levels.get(depth.checked_sub(2)?).map(|level| &level.label)
    }

    /// The place of the required level in which the node is. `None`: it lacks a label.
    pub(super) fn place_of(&self, session: &Session<'_>, node: NodeId) -> Option<Vec<Name>> {
        let mut path = self.topology.path(&session.node(node).labels)?;
        path.truncate(self.required);
        Some(path)
    }
}

/// One place and those inside of it.
struct Domain {
    name: Name,
    nodes: Vec<NodeId>,
    /// Free room, rests of shared devices among it.
    free: PerResource<i64>,
    /// The same without those.
    whole: PerResource<i64>,
    /// How many of the pods fit.
    pods: u64,
    inner: Vec<Self>,
}

impl Session<'_> {
    pub(super) fn levels(&self, constraint: &TopologyConstraint) -> Result<Levels<'_>, WrongLevel> {
        let TopologyConstraint { topology, required, preferred } = constraint;
        let found = self.snapshot.topologies.iter().find(|known| known.name == *topology);
        let depth = |level: &Option<Name>| {
            let Some(level) = level else { return Ok(None) };
            let depth = found.and_then(|topology| topology.depth(level));
            depth.map(Some).ok_or_else(|| WrongLevel::Unknown { level: Name::clone(level) })
        };
        let unnamed = || WrongLevel::Unknown { level: Name::clone(topology) };
        let (required_at, preferred_at) = (depth(required)?, depth(preferred)?);
        let topology = found.ok_or_else(unnamed)?;
        if let (Some(required), Some(preferred)) = (required, preferred)
            && preferred_at < required_at
        {
            let [required, preferred] = [required, preferred].map(Name::clone);
            return Err(WrongLevel::PrefersWider { required, preferred });
        }
        Ok(Levels { topology, required: required_at.unwrap_or(0), preferred: preferred_at })
    }

    /// The places for `together`, best first; or why there is none. Where no level is required,
    /// the whole topology is one, whatever is free there.
    pub(super) fn places(
        &self,
        constraint: &TopologyConstraint,
        together: Together<'_>,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Result<Vec<Place>, NoPlace> {
        let levels = self.levels(constraint);
        let of = || NoPlace::of(constraint, together);
        let wrong = |wrong| NoPlace { wrong: Some(Box::new(wrong)), ..of() };
        let Levels { topology, required, preferred } = levels.map_err(wrong)?;
        let root = self.domains(topology, together.pods, within);
        let in_use = self.nodes_in_use(together);
        let are_in_use = required > 0 && !in_use.is_empty();
        let mut may_be = root.usable(required, &in_use);
        if required > 0 {
            may_be = self.selected(may_be, together.pods);
        }
        let deepest = preferred.unwrap_or(required).max(required);
        let holds = self.holding(together.pods);
        let ranks = preferred.map(|_| root.ranks(deepest)).unwrap_or_default();
        let ranks_of = |domain: &Domain| {
            domain.nodes.iter().map(|node| (*node, ranks.get(node).copied().unwrap_or(0))).collect()
        };
        let mut places = Vec::new();
        for depth in (required..=deepest).rev() {
            let domains = may_be.iter().flat_map(|domain| domain.at(depth - required));
            let may_hold = domains.filter(|domain| depth == 0 || holds(domain));
            places.extend(may_hold.map(|domain| Place {
                nodes: domain.nodes.iter().copied().collect(),
                ranks: (depth < deepest).then(|| ranks_of(domain)),
                is_widest: depth == required,
            }));
        }
        if places.is_empty() {
            let places = may_be.iter().map(|domain| (domain.name.clone(), domain.pods)).collect();
            return Err(NoPlace { places, are_in_use, ..NoPlace::of(constraint, together) });
        }
        Ok(places)
    }

    /// Of pods that ask for different things, how many have room beside each other in each place
    /// that they may use. (Looking for places knows how many of the first one's kind have.)
    pub(super) fn how_many_fit(
        &self,
        constraint: &TopologyConstraint,
        together: Together<'_>,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<Vec<(Name, u64)>> {
        if self.are_alike(together.pods) {
            return None;
        }
        let Levels { topology, required, .. } = self.levels(constraint).ok()?;
        let root = self.domains(topology, together.pods, within);
        let places = root.usable(required, &self.nodes_in_use(together));
        let places = self.selected(places, together.pods).into_iter();
        let count = |place: &Domain| {
            let nodes = place.nodes.iter().map(|node| (*node, Free::of(self, *node)));
            let left = self.left_over(together.pods, nodes, |_, _| true);
            together.pods.len() as u64 - left.into_iter().map(|(_, left)| left).sum::<u64>()
        };
        Some(places.map(|place| (place.name.clone(), count(place))).collect())
    }

    /// Those with nodes for each of the pods, as these select nodes.
    fn selected<'a>(&self, mut places: Vec<&'a Domain>, pods: &[PodId]) -> Vec<&'a Domain> {
        let shapes: BTreeSet<ShapeId> = pods.iter().map(|pod| self.pod(*pod).shape).collect();
        let shapes = shapes.iter().map(|shape| &self.snapshot.shapes[shape.0 as usize]);
        let is_choosy =
            |shape: &PodShape| !shape.node_selector.is_empty() || shape.node_affinity.is_some();
        for shape in shapes.filter(|shape| is_choosy(shape)) {
            let is_for_it = |node: &NodeId| shape.selects(self.node(*node));
            places.retain(|place| place.nodes.iter().any(is_for_it));
        }
        places
    }

    /// The places of the widest level that the pods of the group are required to keep to, each of
    /// which holds all of them or none. `None`: none is required.
    pub(crate) fn required_places(
        &self,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<Vec<BTreeSet<NodeId>>> {
        let together = Together { group, part: None, pods };
        let of = self.group(group);
        let first = self.pod(*pods.first()?).sub_group;
        let only = pods.iter().all(|pod| self.pod(*pod).sub_group == first);
        let constraint = of.topology_of(None).filter(|all| all.required.is_some());
        let constraint = constraint.or_else(|| of.topology_of(only.then_some(first)?.into()))?;
        let Levels { topology, required, .. } =
            self.levels(constraint).ok().filter(Levels::is_required)?;
        let root = self.domains(topology, pods, None);
        let in_use = self.nodes_in_use(together);
        let mut places: Vec<BTreeSet<NodeId>> = root
            .at(required)
            .into_iter()
            .map(|place| place.nodes.iter().copied().collect())
            .collect();
        if !in_use.is_empty() {
            places.retain(|place| !place.is_disjoint(&in_use));
        }
        Some(places)
    }

    /// What these pods of a group keep to, from their part to the group. `None`: it depends on more
    /// than on what they are and what is free, as others of the group have places already, or parts
    /// of it have places of their own.
    pub(crate) fn kept_to(
        &self,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Option<Vec<&TopologyConstraint>> {
        let of = self.group(group);
        if !of.is_placed() {
            return Some(Vec::new());
        }
        let part = self.pod(*pods.first()?).sub_group;
        let is_one_part = pods.iter().all(|pod| self.pod(*pod).sub_group == part);
        let is_free = self.nodes_in_use(Together { group, part: None, pods }).is_empty();
        let parts = of.lineage(part).map(Some).chain([None]);
        (is_one_part && is_free).then(|| parts.filter_map(|part| of.topology_of(part)).collect())
    }

    /// The tree of places, fullest first.
    fn domains(
        &self,
        topology: &Topology,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
    ) -> Domain {
        let paths = self.paths.get_or_init(|| self.all_paths());
        let placed = paths.get(&topology.name).into_iter().flatten();
        let placed = placed.filter(|(_, node)| within.is_none_or(|nodes| nodes.contains(node)));
        let placed: Vec<(&[Name], NodeId)> =
            placed.map(|(path, node)| (path.as_slice(), *node)).collect();
        let shape = pods.first().map(|pod| self.shape_of(*pod));
        let grow = Grow { session: self, request: self.request_of(pods), shape };
        grow.domain(&topology.name, &placed, 0, topology.levels.len())
    }

    fn all_paths(&self) -> Paths {
        let of = |topology: &Topology| {
            let nodes = self.node_ids().filter(|node| self.node(*node).ready);
            let placed = nodes.filter_map(|at| Some((topology.path(&self.node(at).labels)?, at)));
            let mut placed: Vec<(Vec<Name>, NodeId)> = placed.collect();
            placed.sort();
            (topology.name.clone(), placed)
        };
        self.snapshot.topologies.iter().map(of).collect()
    }

    /// Does a place hold all pods? Alike pods are counted node by node, others summed up.
    fn holding(&self, pods: &[PodId]) -> impl Fn(&Domain) -> bool {
        let (request, alike) = (self.request_of(pods), self.are_alike(pods));
        let count = pods.len() as u64;
        move |domain| {
            let enough = request.values().into_iter().zip(domain.free.values());
            if alike { domain.pods >= count } else { enough.into_iter().all(|(a, b)| a <= b) }
        }
    }

    /// They ask for the same.
    fn are_alike(&self, pods: &[PodId]) -> bool {
        let asks = |pod: &PodId| {
            let shape = self.shape_of(*pod);
            (&shape.requests, shape.shared_gpu)
        };
        pods.windows(2).all(|pair| asks(&pair[0]) == asks(&pair[1]))
    }

    /// Where pods of the same part are, or were promised room.
    pub(super) fn nodes_in_use(&self, together: Together<'_>) -> BTreeSet<NodeId> {
        let staying = self.pods_in_use(together).into_iter();
        staying.filter_map(|pod| self.state(pod).charged_on()).collect()
    }

    /// Those pods.
    pub(super) fn pods_in_use(&self, together: Together<'_>) -> Vec<PodId> {
        let group = self.group(together.group);
        let pods = self.placed_pods.get(&together.group).into_iter().flatten();
        let of_it = pods.filter(|pod| group.is_within(self.pod(**pod).sub_group, together.part));
        of_it.filter(|pod| self.state(**pod).charged_on().is_some()).copied().collect()
    }
}

/// How places are made of nodes.
struct Grow<'a> {
    session: &'a Session<'a>,
    request: PerResource<i64>,
    shape: Option<&'a PodShape>,
}

impl Grow<'_> {
    /// The place of nodes whose paths are equal up to `depth`.
    fn domain(
        &self,
        name: &Name,
        placed: &[(&[Name], NodeId)],
        depth: usize,
        depth_max: usize,
    ) -> Domain {
        let nodes: Vec<NodeId> = placed.iter().map(|(_, node)| *node).collect();
        if depth == depth_max {
            let free: Vec<Free> = nodes.iter().map(|node| Free::of(self.session, *node)).collect();
            let counts = nodes.iter().zip(&free).map(|(node, free)| self.times(*node, free));
            let pods = counts.sum();
            let sum = |of: fn(&Free) -> PerResource<i64>| {
                free.iter().map(of).fold(PerResource::default(), PerResource::plus)
            };
            let (free, whole) = (sum(Free::accounted), sum(Free::whole));
            return Domain { name: name.clone(), nodes, free, whole, pods, inner: Vec::new() };
        }
        let same = placed.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]);
        let mut inner: Vec<Domain> = same
            .map(|placed| self.domain(&placed[0].0[depth], placed, depth + 1, depth_max))
            .collect();
        inner.sort_by(|a, b| self.fuller(a, b).then_with(|| a.name.cmp(&b.name)));
        let sum = |of: fn(&Domain) -> PerResource<i64>| {
            inner.iter().map(of).fold(PerResource::default(), PerResource::plus)
        };
        let (free, whole) = (sum(|domain| domain.free), sum(|domain| domain.whole));
        let pods = inner.iter().map(|domain| domain.pods).sum();
        Domain { name: name.clone(), nodes, free, whole, pods, inner }
    }

    fn times(&self, node: NodeId, free: &Free) -> u64 {
        let Some(shape) = self.shape else { return 0 };
        let parts = parts_on(self.session.node(node), shape.shared_gpu.as_ref());
        let once = &Resources::default(); // others may have the claims there
        u64::from(free.times(None, Asked { resources: &shape.requests, once, parts }))
    }

    /// The one of whose free room the pods take the larger part comes first.
    fn fuller(&self, a: &Domain, b: &Domain) -> Ordering {
        let (a, b) = (self.part(a), self.part(b));
        (b.0 * a.1).cmp(&(a.0 * b.1))
    }

    /// The largest part of a resource that the pods take; more than all where nothing is free. As
    /// KAI, by whole devices.
    fn part(&self, domain: &Domain) -> (i128, i128) {
        let parts = self.request.values().into_iter().zip(domain.whole.values());
        let parts = parts.into_iter().filter(|(asked, _)| *asked > 0);
        let parts = parts.map(|(asked, free)| match free {
            ..=0 => (i128::from(i64::MAX), 1),
            free => (i128::from(asked), i128::from(free)),
        });
        parts.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap_or((0, 1))
    }
}

impl Domain {
    /// The places `depth` levels further in, in order.
    fn at(&self, depth: usize) -> Vec<&Self> {
        if depth == 0 {
            return vec![self];
        }
        self.inner.iter().flat_map(|domain| domain.at(depth - 1)).collect()
    }

    /// The places `depth` levels further in that pods may use of which some are on nodes `in_use`.
    fn usable(&self, depth: usize, in_use: &BTreeSet<NodeId>) -> Vec<&Self> {
        let is_used = |place: &&Self| place.nodes.iter().any(|node| in_use.contains(node));
        let all = self.at(depth).into_iter();
        all.filter(|place| depth == 0 || in_use.is_empty() || is_used(place)).collect()
    }

    /// Tenths, rounded down: how far back each node's place stands among those `depth` levels
    /// further in, the last one at 10.
    fn ranks(&self, depth: usize) -> BTreeMap<NodeId, i64> {
        let places = self.at(depth);
        let count = i64::try_from(places.len()).unwrap_or(i64::MAX).max(1);
        let ranked = (1_i64..).zip(places);
        ranked
            .flat_map(|(at, place)| place.nodes.iter().map(move |n| (*n, 10 * at / count)))
            .collect()
    }
}
