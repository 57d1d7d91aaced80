//! Places of a topology in which pods may be put together: first the narrowest ones, the preferred
//! level, then wider ones up to the required level; on one level the fullest first, seen from the
//! widest level down, so that wide places stay free for those who need them.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{Asked, Free, Session, parts_on};
use crate::{
    decision::Misfit,
    model::{Name, NodeId, PodGroupId, PodId, PodShape, Topology, TopologyConstraint},
    resources::{PerResource, Resources},
};

/// Nodes on which pods may be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) nodes: BTreeSet<NodeId>,
    /// Which of them are better, where the place is wider than preferred: those of the emptiest
    /// places of the preferred level, among all that there are of that level.
    pub(super) ranks: Option<BTreeMap<NodeId, i64>>,
}

/// There is no place for pods that are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlace {
    /// The topology that they keep to.
    pub topology: Name,
    /// The level on which they need one place; the topology's name where none is required.
    pub level: Name,
    /// How many there are.
    pub pods: u32,
    /// Places of that level, and how many of them fit there.
    pub places: Vec<(Name, u64)>,
    /// There is no such topology, or no such level in it.
    pub is_unknown: bool,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topology, level, pods, places, is_unknown } = self;
        if *is_unknown {
            return write!(f, "topology {topology} with level {level} does not exist");
        }
        for (place, fitting) in places.iter().take(TOLD_MAX) {
            write!(f, "node-group {place} can allocate only {fitting} of {pods} required pods. ")?;
        }
        if let Some(more) = places.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            write!(f, "So it is with {more} more. ")?;
        }
        write!(f, "topology {topology}, requirement {level} couldn't be satisfied")
    }
}

/// So many places are told one by one.
const TOLD_MAX: usize = 3;

/// Pods that are put together: `part` of a group (`None`: all of it).
#[derive(Clone, Copy, Debug)]
pub(super) struct Together<'a> {
    pub(super) group: PodGroupId,
    pub(super) part: Option<usize>,
    pub(super) pods: &'a [PodId],
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
    /// The places for `together`, best first; or why there is none.
    pub(super) fn places(
        &self,
        constraint: &TopologyConstraint,
        together: Together<'_>,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Result<Vec<Place>, NoPlace> {
        let unknown = || no_place(constraint, together, Vec::new(), true);
        let mut known = self.snapshot.topologies.iter();
        let topology = known.find(|topology| topology.name == constraint.topology);
        let topology = topology.ok_or_else(unknown)?;
        let depth = |level: &Option<Name>| match level {
            Some(level) => topology.depth(level).map(Some).ok_or_else(unknown),
            None => Ok(None),
        };
        let (required, preferred) = (depth(&constraint.required)?, depth(&constraint.preferred)?);
        let required = required.unwrap_or(0);
        let root = self.domains(topology, together.pods, within);
        let in_use = self.nodes_in_use(together);
        let mut may_be: Vec<&Domain> = root.at(required);
        if required > 0 && !in_use.is_empty() {
            may_be.retain(|domain| domain.nodes.iter().any(|node| in_use.contains(node)));
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
            places.extend(domains.filter(|domain| holds(domain)).map(|domain| Place {
                nodes: domain.nodes.iter().copied().collect(),
                ranks: (depth < deepest).then(|| ranks_of(domain)),
            }));
        }
        if places.is_empty() {
            let places = may_be.iter().map(|domain| (domain.name.clone(), domain.pods)).collect();
            return Err(no_place(constraint, together, places, false));
        }
        Ok(places)
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
        let mut known = self.snapshot.topologies.iter();
        let topology = known.find(|topology| topology.name == constraint.topology)?;
        let depth = topology.depth(constraint.required.as_ref()?)?;
        let root = self.domains(topology, pods, None);
        let in_use = self.nodes_in_use(together);
        let mut places: Vec<BTreeSet<NodeId>> =
            root.at(depth).into_iter().map(|place| place.nodes.iter().copied().collect()).collect();
        if !in_use.is_empty() {
            places.retain(|place| !place.is_disjoint(&in_use));
        }
        Some(places)
    }

    /// Nodes outside of all places in which those of `pods` could run that are put together with
    /// `pod`.
    pub fn out_of_place(&self, pods: &[PodId], pod: PodId) -> BTreeMap<NodeId, Misfit> {
        let mut out = BTreeMap::new();
        let Some(id) = self.pod(pod).group else { return out };
        let group = self.group(id);
        let parts = group.lineage(self.pod(pod).sub_group).map(Some).chain([None]);
        for (part, constraint) in parts.filter_map(|part| Some((part, group.topology_of(part)?))) {
            let is_inside = |pod: &PodId| group.is_within(self.pod(*pod).sub_group, part);
            let inside: Vec<PodId> = pods.iter().copied().filter(is_inside).collect();
            let together = Together { group: id, part, pods: &inside };
            let places = self.places(constraint, together, None).unwrap_or_default();
            let holding: BTreeSet<NodeId> =
                places.into_iter().flat_map(|place| place.nodes).collect();
            let NoPlace { topology, level, pods, .. } =
                no_place(constraint, together, Vec::new(), false);
            let misfit = Misfit::OutOfPlace { topology, level, pods };
            let others = self.node_ids().filter(|node| !holding.contains(node));
            others.for_each(|node| {
                out.entry(node).or_insert_with(|| misfit.clone());
            });
        }
        out
    }

    /// The tree of places, fullest first.
    fn domains(
        &self,
        topology: &Topology,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
    ) -> Domain {
        let nodes = self.node_ids().filter(|node| within.is_none_or(|nodes| nodes.contains(node)));
        let nodes = nodes.filter(|node| self.node(*node).ready);
        let placed = nodes.filter_map(|at| Some((topology.path(&self.node(at).labels)?, at)));
        let mut placed: Vec<(Vec<Name>, NodeId)> = placed.collect();
        placed.sort();
        let shape = pods.first().map(|pod| self.shape_of(*pod));
        let grow = Grow { session: self, request: self.request_of(pods), shape };
        grow.domain(&topology.name, &placed, 0, topology.levels.len())
    }

    /// Does a place hold all pods? Alike pods are counted node by node, others summed up.
    fn holding(&self, pods: &[PodId]) -> impl Fn(&Domain) -> bool {
        let request = self.request_of(pods);
        let shape = pods.first().map(|pod| self.shape_of(*pod));
        let alike = pods.iter().map(|pod| Some(self.shape_of(*pod))).all(|other| {
            let asks = |shape: &PodShape| (shape.requests.clone(), shape.shared_gpu);
            other.map(asks) == shape.map(asks)
        });
        let count = pods.len() as u64;
        move |domain| {
            let enough = request.values().into_iter().zip(domain.free.values());
            if alike { domain.pods >= count } else { enough.into_iter().all(|(a, b)| a <= b) }
        }
    }

    /// Where pods of the same part are, or were promised room.
    fn nodes_in_use(&self, together: Together<'_>) -> BTreeSet<NodeId> {
        let group = self.group(together.group);
        let pods = self.placed_pods.get(&together.group).into_iter().flatten();
        let staying = pods.filter(|pod| group.is_within(self.pod(**pod).sub_group, together.part));
        staying.filter_map(|pod| self.state(*pod).charged_on()).collect()
    }
}

fn no_place(
    constraint: &TopologyConstraint,
    together: Together<'_>,
    places: Vec<(Name, u64)>,
    is_unknown: bool,
) -> NoPlace {
    let levels = [&constraint.required, &constraint.preferred];
    let level = levels.into_iter().flatten().next().unwrap_or(&constraint.topology);
    NoPlace {
        topology: constraint.topology.clone(),
        level: level.clone(),
        pods: u32::try_from(together.pods.len()).expect("pod ids are 32 bits"),
        places,
        is_unknown,
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
        placed: &[(Vec<Name>, NodeId)],
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
