//! Counts how many pods of a shape would fit on each node if some running pods were evicted. Counts
//! and their sum are updated node by node. They are an upper bound: exact for node resources, and
//! without anything that depends on other pods (affinity, host ports).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    CapacityRequest, ChangeCursor, FreeCapacity, FreedCapacity, Session, fraction_units_on,
};
use crate::{
    model::{GpuGroup, Node, NodeId, PodId, PodShape, ShapeId},
    resources::{PerResource, Resources},
};

/// Counts how many pods of each tracked shape fit on each node, now and after assumed evictions. It
/// follows the log of changed nodes, from cycle to cycle as long as no node changes but in its pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityIndex {
    /// For each node the capacity that is idle, or releasing and not pipelined.
    free: Vec<FreeCapacity>,
    total_free: PerResource<i64>,
    shapes: BTreeMap<ShapeId, ShapeCapacity>,
    /// Shapes of the present search: only the counts of these follow the assumed evictions.
    tracked: Vec<ShapeId>,
    /// Capacity freed by assumed evictions, by node; empty without assumptions.
    assumed_freed: Vec<Option<FreedCapacity>>,
    /// The nodes with assumed evictions.
    assumed_nodes: Vec<NodeId>,
    /// For pairs of shapes that were compared: see [`Self::times_requested`].
    times_requested: BTreeMap<(ShapeId, ShapeId), u64>,
    /// Changes of nodes up to here are counted.
    updated_to: Option<ChangeCursor>,
}

/// A shape and the nodes on which its pods may run.
pub(crate) struct ShapeEligibility<'a> {
    pub(crate) shape: &'a PodShape,
    pub(crate) nodes: &'a [Node],
    /// Whether pods of the shape may run on each node, by node index.
    pub(crate) eligible: Arc<[bool]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShapeCapacity {
    requests: Resources,
    /// Resources that claims take once per node, by node; empty if there are none.
    claims: Vec<Resources>,
    /// Requested GPU fraction, by node; empty if whole GPUs are requested.
    fractions: Vec<Option<(i64, u32)>>,
    /// Whether pods of this shape may run on each node.
    eligible: Arc<[bool]>,
    counts: Vec<u32>,
    with_room: BTreeSet<NodeId>,
    total: u64,
    /// Like `requests`, without the number of pods.
    requests_without_pods: Resources,
    /// Like `counts`, for `requests_without_pods` and without assumed evictions.
    room: Vec<u32>,
    room_total: u64,
}

impl CapacityIndex {
    /// Creates an index with the given free capacity of each node.
    pub(crate) fn new(free: Vec<FreeCapacity>) -> Self {
        let total_free = free.iter().fold(PerResource::default(), |sum: PerResource<i64>, free| {
            sum.plus(free.free_with_gpu_fractions())
        });
        Self { free, total_free, ..Self::default() }
    }

    /// Creates an index with the present free capacity of all nodes.
    pub(super) fn of_nodes(session: &Session<'_>) -> Self {
        let free = session.node_ids().map(|node| FreeCapacity::of_node(session, node));
        let updated_to = Some(session.changed_nodes().end_cursor());
        Self { updated_to, ..Self::new(free.collect()) }
    }

    /// Follows the changes of nodes since the last call.
    pub(crate) fn follow_changes(&mut self, session: &Session<'_>) {
        let changed = session.changed_nodes();
        let since = self.updated_to.and_then(|cursor| changed.changes_since(cursor));
        let nodes: BTreeSet<NodeId> = match since {
            Some(nodes) => nodes.iter().copied().collect(),
            None => session.node_ids().collect(),
        };
        for node in nodes {
            self.set_free(node, FreeCapacity::of_node(session, node));
        }
        self.updated_to = Some(changed.end_cursor());
    }

    /// Whether the pods on the node, or pipelined to it, request more than it has.
    pub(crate) fn is_overcommitted(&self, node: NodeId) -> bool {
        self.free[node.0 as usize].is_overcommitted()
    }

    /// Free capacity of all nodes together.
    pub(crate) const fn total_free(&self) -> PerResource<i64> {
        self.total_free
    }

    /// Tracks the shapes of these pods from now on. New shapes are counted now; `eligibility`
    /// returns the shape of a pod and the nodes on which it may run.
    pub(crate) fn track_shapes<'a>(
        &mut self,
        pods: impl Iterator<Item = (PodId, ShapeId)>,
        eligibility: impl Fn(PodId) -> ShapeEligibility<'a>,
    ) {
        self.tracked.clear();
        for (pod, shape) in pods {
            if self.tracked.contains(&shape) {
                continue;
            }
            self.tracked.push(shape);
            self.count_shape(shape, || eligibility(pod));
        }
    }

    /// Counts the pods of a shape from now on, without assumed evictions.
    pub(crate) fn count_shape<'a>(
        &mut self,
        shape: ShapeId,
        eligibility: impl FnOnce() -> ShapeEligibility<'a>,
    ) {
        let free = &self.free;
        self.shapes.entry(shape).or_insert_with(|| ShapeCapacity::new(eligibility(), free));
    }

    /// Sets the free capacity of `node`.
    pub(crate) fn set_free(&mut self, node: NodeId, free: FreeCapacity) {
        let at = node.0 as usize;
        if self.free[at] == free {
            return;
        }
        let before = std::mem::replace(&mut self.free[at], free);
        let (before, now) =
            (before.free_with_gpu_fractions(), self.free[at].free_with_gpu_fractions());
        self.total_free = self.total_free.minus(before).plus(now);
        for capacity in self.shapes.values_mut() {
            capacity.recount_room_at(at, &self.free[at]);
            let freed = self.assumed_freed.get(at).and_then(Option::as_ref);
            capacity.recount_at(at, &self.free[at], freed);
        }
    }

    /// Assumes that a pod of `shape`, which uses the shared GPUs `groups`, is evicted from the
    /// node.
    pub(crate) fn assume_evicted(
        &mut self,
        id: NodeId,
        node: &Node,
        shape: &PodShape,
        groups: &[GpuGroup],
    ) {
        self.assumed_freed.resize(self.free.len(), None);
        let freed = &mut self.assumed_freed[id.0 as usize];
        if freed.is_none() {
            self.assumed_nodes.push(id);
        }
        freed.get_or_insert_default().free_pod(node, shape, groups);
        self.recount_node(id);
    }

    /// Drops all assumed evictions.
    pub(crate) fn clear_assumptions(&mut self) {
        for node in std::mem::take(&mut self.assumed_nodes) {
            self.assumed_freed[node.0 as usize] = None;
            self.recount_node(node);
        }
    }

    /// Number of pods of a tracked shape that fit on all nodes together.
    pub(crate) fn count_fitting_in_total(&self, shape: ShapeId) -> u64 {
        self.shapes[&shape].total
    }

    /// Number of pods of a tracked shape that fit on `node`.
    pub(crate) fn count_fitting_on(&self, shape: ShapeId, node: NodeId) -> u32 {
        self.shapes[&shape].counts[node.0 as usize]
    }

    /// Whether a pod of a tracked shape fits on `node` once `freed` is free there.
    pub(crate) fn would_fit(&self, shape: ShapeId, node: NodeId, freed: &FreedCapacity) -> bool {
        let at = node.0 as usize;
        self.shapes[&shape].fitting_pods_at(at, &self.free[at], Some(freed)) > 0
    }

    /// The nodes on which a pod of a tracked shape fits.
    pub(crate) fn nodes_with_room(&self, shape: ShapeId) -> &BTreeSet<NodeId> {
        &self.shapes[&shape].with_room
    }

    /// Whether pods of a counted shape may run on `node`.
    pub(crate) fn is_eligible(&self, shape: ShapeId, node: NodeId) -> bool {
        self.shapes[&shape].eligible[node.0 as usize]
    }

    /// Like [`Self::count_fitting_in_total`] for a counted shape once `freed` is free and nothing
    /// else is assumed evicted, whatever the number of pods that a node takes.
    pub(crate) fn count_room_once_freed(
        &self,
        shape: ShapeId,
        freed: &BTreeMap<NodeId, FreedCapacity>,
    ) -> u64 {
        let capacity = &self.shapes[&shape];
        freed.iter().fold(capacity.room_total, |total, (node, freed)| {
            let at = node.0 as usize;
            let then = capacity.room_at(at, &self.free[at], Some(freed));
            total + u64::from(then) - u64::from(capacity.room[at])
        })
    }

    /// How many pods of a counted shape have room on all nodes together, without assumed evictions.
    /// The maximum numbers of pods of the nodes do not count.
    pub(crate) fn room_total(&self, shape: ShapeId) -> u64 {
        self.shapes[&shape].room_total
    }

    /// Like [`Self::room_total`], on each node.
    pub(crate) fn room_by_node(&self, shape: ShapeId) -> &[u32] {
        &self.shapes[&shape].room
    }

    /// Like [`Self::room_total`], on `node` and with assumed evictions.
    pub(crate) fn room_once_evicted(&self, shape: ShapeId, node: NodeId) -> u32 {
        let at = node.0 as usize;
        let freed = self.assumed_freed.get(at).and_then(Option::as_ref);
        self.shapes[&shape].room_at(at, &self.free[at], freed)
    }

    /// How often a pod of the counted shape `larger` requests what a pod of `smaller` requests,
    /// except for the number of pods: wherever it is placed, it takes the room of that many. 0 if
    /// it may run on other nodes; claims and GPU fractions are not compared.
    pub(crate) fn times_requested(&mut self, larger: ShapeId, smaller: ShapeId) -> u64 {
        let shapes = &self.shapes;
        *self.times_requested.entry((larger, smaller)).or_insert_with(|| {
            let (larger, smaller) = (&shapes[&larger], &shapes[&smaller]);
            let is_plain = |capacity: &ShapeCapacity| {
                capacity.claims.is_empty() && capacity.fractions.is_empty()
            };
            let may_compare = is_plain(larger)
                && is_plain(smaller)
                && larger
                    .eligible
                    .iter()
                    .zip(smaller.eligible.iter())
                    .all(|(on, also)| !on || *also);
            if may_compare { larger.requests.times_of(&smaller.requests_without_pods) } else { 0 }
        })
    }

    /// Whether the index is small enough to be kept.
    pub(super) fn is_small(&self) -> bool {
        self.shapes.len() * self.free.len() <= KEPT_COUNTS_MAX
    }

    fn recount_node(&mut self, node: NodeId) {
        let at = node.0 as usize;
        let freed = self.assumed_freed.get(at).and_then(Option::as_ref);
        for shape in &self.tracked {
            let capacity = self.shapes.get_mut(shape).expect("tracked shapes have counts");
            capacity.recount_at(at, &self.free[at], freed);
        }
    }
}

/// Maximum number of counts, summed over all shapes, that are kept from cycle to cycle.
const KEPT_COUNTS_MAX: usize = 1 << 20;

impl Session<'_> {
    /// Takes the index of the present free capacity.
    pub(super) fn take_capacity(&mut self) -> CapacityIndex {
        match self.caches.capacity.0.take() {
            Some(mut capacity) => {
                capacity.follow_changes(self);
                capacity
            }
            None => CapacityIndex::of_nodes(self),
        }
    }

    /// Whether the index counts what an index of this session's nodes would count. `pods` are pods
    /// of each shape; other shapes are not compared.
    pub(super) fn has_equal_capacity(
        &self,
        index: &CapacityIndex,
        pods: &BTreeMap<ShapeId, PodId>,
    ) -> bool {
        let mut anew = CapacityIndex::of_nodes(self);
        let mut shapes =
            index.shapes.iter().filter_map(|(id, kept)| Some((id, kept, pods.get(id)?)));
        anew.free == index.free
            && anew.total_free == index.total_free
            && shapes.all(|(id, kept, pod)| {
                anew.count_shape(*id, || self.shape_eligibility(*pod));
                anew.shapes[id] == *kept
            })
    }
}

impl<'s> Session<'s> {
    /// The shape of the pod, and the nodes on which pods of this shape may run.
    pub(crate) fn shape_eligibility(&self, pod: PodId) -> ShapeEligibility<'s> {
        ShapeEligibility {
            shape: self.shape_of(pod),
            nodes: &self.snapshot.nodes,
            eligible: self.eligible_nodes(pod),
        }
    }
}

impl ShapeCapacity {
    fn new(eligibility: ShapeEligibility<'_>, free: &[FreeCapacity]) -> Self {
        let ShapeEligibility { shape, nodes, eligible } = eligibility;
        let counts = vec![0; eligible.len()];
        let shared = shape.fractional_gpu.as_ref();
        let fractions = match shared {
            Some(_) => nodes.iter().map(|node| fraction_units_on(node, shared)).collect(),
            None => Vec::new(),
        };
        let claims = match shape.claims.as_slice() {
            [] => Vec::new(),
            _ => nodes.iter().map(|node| shape.new_claims_on(node)).collect(),
        };
        let mut capacity = Self {
            requests: shape.requests.clone(),
            claims,
            fractions,
            eligible,
            requests_without_pods: Resources { pods: 0, ..shape.requests.clone() },
            room: counts.clone(),
            counts,
            with_room: BTreeSet::new(),
            total: 0,
            room_total: 0,
        };
        for (at, free) in free.iter().enumerate() {
            capacity.recount_room_at(at, free);
            capacity.recount_at(at, free, None);
        }
        capacity
    }

    fn fitting_pods_at(
        &self,
        node_index: usize,
        free: &FreeCapacity,
        freed: Option<&FreedCapacity>,
    ) -> u32 {
        self.count_at(node_index, free, freed, &self.requests)
    }

    fn room_at(
        &self,
        node_index: usize,
        free: &FreeCapacity,
        freed: Option<&FreedCapacity>,
    ) -> u32 {
        self.count_at(node_index, free, freed, &self.requests_without_pods)
    }

    fn count_at(
        &self,
        node_index: usize,
        free: &FreeCapacity,
        freed: Option<&FreedCapacity>,
        requests: &Resources,
    ) -> u32 {
        let fractions = self.fractions.get(node_index).copied().flatten();
        let nothing = Resources::default();
        let once = self.claims.get(node_index).unwrap_or(&nothing);
        let request =
            CapacityRequest { resources: requests, once_per_node: once, fraction: fractions };
        if self.eligible[node_index] { free.count_fitting_pods(freed, request) } else { 0 }
    }

    fn recount_room_at(&mut self, node_index: usize, free: &FreeCapacity) {
        let count = self.room_at(node_index, free, None);
        let before = std::mem::replace(&mut self.room[node_index], count);
        self.room_total = self.room_total + u64::from(count) - u64::from(before);
    }

    fn recount_at(
        &mut self,
        node_index: usize,
        free: &FreeCapacity,
        freed: Option<&FreedCapacity>,
    ) {
        let count = self.fitting_pods_at(node_index, free, freed);
        let before = std::mem::replace(&mut self.counts[node_index], count);
        self.total = self.total + u64::from(count) - u64::from(before);
        match (before, count) {
            (0, 0) => {}
            (0, _) => {
                self.with_room.insert(node_id_at(node_index));
            }
            (_, 0) => {
                self.with_room.remove(&node_id_at(node_index));
            }
            (_, _) => {}
        }
    }
}

fn node_id_at(index: usize) -> NodeId {
    NodeId(u32::try_from(index).expect("node ids are 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_free_capacity_and_assumed_evictions() {
        let gpus = |gpu_milli| Resources { gpu_milli, pods: 110, ..Resources::default() };
        let of = |gpu_milli| Node { allocatable: gpus(gpu_milli), ..Node::default() };
        let nodes = [of(4000), of(1000)];
        let pod_with = |gpu_milli| PodShape {
            requests: Resources { gpu_milli, pods: 1, ..Resources::default() },
            ..PodShape::default()
        };
        let (shape, id, no_groups) = (pod_with(2000), ShapeId(0), &[][..]);
        let mut index = CapacityIndex::new(nodes.iter().map(FreeCapacity::of_empty_node).collect());
        assert_eq!(index.total_free().gpu, 5000);
        let eligibility =
            |_| ShapeEligibility { shape: &shape, nodes: &nodes, eligible: [true; 2].into() };
        index.track_shapes([(PodId(0), id), (PodId(1), id)].into_iter(), eligibility);
        let counts = |index: &CapacityIndex| {
            let on = [0, 1].map(|node| index.count_fitting_on(id, NodeId(node)));
            let nodes: Vec<u32> = index.nodes_with_room(id).iter().map(|node| node.0).collect();
            (on, index.count_fitting_in_total(id), nodes)
        };
        assert_eq!(counts(&index), ([2, 0], 2, vec![0]));
        let evicted = pod_with(1000);
        index.assume_evicted(NodeId(1), &nodes[1], &evicted, no_groups);
        assert_eq!(counts(&index), ([2, 1], 3, vec![0, 1]));
        index.assume_evicted(NodeId(0), &nodes[0], &evicted, no_groups);
        assert_eq!(
            counts(&index),
            ([2, 1], 3, vec![0, 1]),
            "only half the capacity of one more pod"
        );
        index.assume_evicted(NodeId(0), &nodes[0], &evicted, no_groups);
        assert_eq!(counts(&index), ([3, 1], 4, vec![0, 1]));
        index.set_free(NodeId(0), FreeCapacity::of_empty_node(&of(1000)));
        assert_eq!(counts(&index), ([1, 1], 2, vec![0, 1]));
        assert_eq!(index.total_free().gpu, 2000);
        index.clear_assumptions();
        assert_eq!(counts(&index), ([0, 0], 0, vec![]));
    }

    #[test]
    fn a_pod_takes_the_room_of_as_many_smaller_ones_as_it_requests() {
        let gpus = |gpu_milli| Resources { gpu_milli, pods: 1, ..Resources::default() };
        let node = |gpu_milli| Node { allocatable: gpus(gpu_milli), ..Node::default() };
        let nodes = [node(4000), node(3000)];
        let pod_with = |gpu_milli| PodShape { requests: gpus(gpu_milli), ..PodShape::default() };
        let shapes = [pod_with(1000), pod_with(3000), pod_with(1000)];
        let mut index = CapacityIndex::new(nodes.iter().map(FreeCapacity::of_empty_node).collect());
        for (shape, eligible) in [[true, true], [true, true], [false, true]].iter().enumerate() {
            let id = ShapeId(u32::try_from(shape).expect("few shapes"));
            index.count_shape(id, || ShapeEligibility {
                shape: &shapes[shape],
                nodes: &nodes,
                eligible: Arc::from(&eligible[..]),
            });
        }
        let [small, large, on_one] = [0, 1, 2].map(ShapeId);
        assert_eq!(
            [(large, small), (small, large)].map(|(a, b)| index.times_requested(a, b)),
            [3, 0]
        );
        assert_eq!(index.times_requested(on_one, small), 1);
        assert_eq!(index.times_requested(small, on_one), 0, "it may run on the first node, too");
        let mut freed = FreedCapacity::default();
        freed.free_pod(&nodes[1], &shapes[1], &[]);
        let freed = BTreeMap::from([(NodeId(1), freed)]);
        let room = |shape, freed| index.count_room_once_freed(shape, freed);
        assert_eq!([small, large, on_one].map(|shape| room(shape, &freed)), [10, 3, 6]);
        assert_eq!(room(small, &BTreeMap::new()), 7);
    }
}
