//! How many pods of a shape fit on each node, were some of the running ones gone. A count for
//! each node and their sum, corrected node by node: an upper bound that is exact for what nodes
//! offer, and leaves out what depends on other pods (affinity, ports).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{GpuGroup, Node, NodeId, PodId, PodShape, ShapeId},
    resources::{PerResource, Resources},
    session::{Asked, Free, Freed, parts_on},
};

/// Counts for the shapes asked about so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    /// Idle, or being released and not promised.
    free: Vec<Free>,
    free_in_all: PerResource<i64>,
    shapes: BTreeMap<ShapeId, ShapeRoom>,
    /// Shapes that the present search is about: only theirs follow what is imagined.
    focus: Vec<ShapeId>,
    /// What is imagined to be gone.
    freed: BTreeMap<NodeId, Freed>,
}

/// What is to be known of a shape.
pub(crate) struct About<'a> {
    pub(crate) shape: &'a PodShape,
    pub(crate) nodes: &'a [Node],
    /// On which of them its pods may run at all.
    pub(crate) eligible: Vec<bool>,
}

#[derive(Clone, Debug)]
struct ShapeRoom {
    requests: Resources,
    /// What claims take once, by node; empty where there are none.
    claims: Vec<Resources>,
    /// Parts of devices asked for, by node; empty where whole ones are.
    parts: Vec<Option<(i64, u32)>>,
    /// May pods of this shape run there at all?
    eligible: Vec<bool>,
    counts: Vec<u32>,
    nodes: BTreeSet<NodeId>,
    total: u64,
}

impl Rooms {
    /// With so much free on each node.
    pub(crate) fn new(free: Vec<Free>) -> Self {
        let free_in_all = free
            .iter()
            .fold(PerResource::default(), |sum: PerResource<i64>, free| sum.plus(free.accounted()));
        Self { free, free_in_all, ..Self::default() }
    }

    /// The sum over all nodes.
    pub(crate) const fn free_in_all(&self) -> PerResource<i64> {
        self.free_in_all
    }

    /// Follows the shapes of these pods from now on. Those that were never asked about are
    /// counted now; `about` says what a pod asks for and on which nodes it may run.
    pub(crate) fn focus<'a>(
        &mut self,
        pods: impl Iterator<Item = (PodId, ShapeId)>,
        about: impl Fn(PodId) -> About<'a>,
    ) {
        self.focus.clear();
        for (pod, shape) in pods {
            if self.focus.contains(&shape) {
                continue;
            }
            self.focus.push(shape);
            if !self.shapes.contains_key(&shape) {
                self.shapes.insert(shape, ShapeRoom::new(about(pod), &self.free));
            }
        }
    }

    /// So much is free on `node` now.
    pub(crate) fn set_free(&mut self, node: NodeId, free: Free) {
        let at = node.0 as usize;
        let before = std::mem::replace(&mut self.free[at], free);
        let (before, now) = (before.accounted(), self.free[at].accounted());
        self.free_in_all = self.free_in_all.minus(before).plus(now);
        for room in self.shapes.values_mut() {
            room.recount(at, &self.free[at], self.freed.get(&node));
        }
    }

    /// Imagines a pod of `shape` that shares the devices `groups` gone from `node`.
    pub(crate) fn imagine_gone(
        &mut self,
        (id, node): (NodeId, &Node),
        shape: &PodShape,
        groups: &[GpuGroup],
    ) {
        self.freed.entry(id).or_default().add(node, shape, groups);
        self.recount(id);
    }

    /// Nothing is imagined any more.
    pub(crate) fn forget(&mut self) {
        for node in std::mem::take(&mut self.freed).into_keys() {
            self.recount(node);
        }
    }

    /// How many pods of a watched shape fit.
    pub(crate) fn total(&self, shape: ShapeId) -> u64 {
        self.shapes[&shape].total
    }

    /// How many pods of a watched shape fit on `node`.
    pub(crate) fn on(&self, shape: ShapeId, node: NodeId) -> u32 {
        self.shapes[&shape].counts[node.0 as usize]
    }

    /// Whether a pod of a watched shape fits on `node` once this is gone from there.
    pub(crate) fn would_fit(&self, shape: ShapeId, node: NodeId, gone: &Freed) -> bool {
        let at = node.0 as usize;
        self.shapes[&shape].times(at, &self.free[at], Some(gone)) > 0
    }

    /// Nodes on which a pod of a watched shape fits.
    pub(crate) fn nodes(&self, shape: ShapeId) -> &BTreeSet<NodeId> {
        &self.shapes[&shape].nodes
    }

    fn recount(&mut self, node: NodeId) {
        let at = node.0 as usize;
        let freed = self.freed.get(&node);
        for shape in &self.focus {
            let room = self.shapes.get_mut(shape).expect("what is in focus was counted");
            room.recount(at, &self.free[at], freed);
        }
    }
}

impl ShapeRoom {
    fn new(about: About<'_>, free: &[Free]) -> Self {
        let About { shape, nodes, eligible } = about;
        let counts = vec![0; eligible.len()];
        let shared = shape.shared_gpu.as_ref();
        let parts = match shared {
            Some(_) => nodes.iter().map(|node| parts_on(node, shared)).collect(),
            None => Vec::new(),
        };
        let claims = match shape.claims.as_slice() {
            [] => Vec::new(),
            _ => nodes.iter().map(|node| shape.new_claims_on(node)).collect(),
        };
        let (requests, nodes) = (shape.requests.clone(), BTreeSet::new());
        let mut room = Self { requests, claims, parts, eligible, counts, nodes, total: 0 };
        for (at, free) in free.iter().enumerate() {
            room.recount(at, free, None);
        }
        room
    }

    fn times(&self, at: usize, free: &Free, freed: Option<&Freed>) -> u32 {
        let parts = self.parts.get(at).copied().flatten();
        let nothing = Resources::default();
        let once = self.claims.get(at).unwrap_or(&nothing);
        let asked = Asked { resources: &self.requests, once, parts };
        if self.eligible[at] { free.times(freed, asked) } else { 0 }
    }

    fn recount(&mut self, at: usize, free: &Free, freed: Option<&Freed>) {
        let count = self.times(at, free, freed);
        let before = std::mem::replace(&mut self.counts[at], count);
        self.total = self.total + u64::from(count) - u64::from(before);
        match (before, count) {
            (0, 0) => {}
            (0, _) => {
                self.nodes.insert(node_id(at));
            }
            (_, 0) => {
                self.nodes.remove(&node_id(at));
            }
            (_, _) => {}
        }
    }
}

fn node_id(at: usize) -> NodeId {
    NodeId(u32::try_from(at).expect("node ids are 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_what_is_free_and_what_is_imagined_gone() {
        let gpus = |gpu_milli| Resources { gpu_milli, pods: 110, ..Resources::default() };
        let of = |gpu_milli| Node { allocatable: gpus(gpu_milli), ..Node::default() };
        let nodes = [of(4000), of(1000)];
        let asks = |gpu_milli| PodShape {
            requests: Resources { gpu_milli, pods: 1, ..Resources::default() },
            ..PodShape::default()
        };
        let (shape, id, no_groups) = (asks(2000), ShapeId(0), &[][..]);
        let mut rooms = Rooms::new(nodes.iter().map(Free::of_empty).collect());
        assert_eq!(rooms.free_in_all().gpu, 5000);
        let about = |_| About { shape: &shape, nodes: &nodes, eligible: vec![true; 2] };
        rooms.focus([(PodId(0), id), (PodId(1), id)].into_iter(), about);
        let told = |rooms: &Rooms| {
            let on = [0, 1].map(|node| rooms.on(id, NodeId(node)));
            let nodes: Vec<u32> = rooms.nodes(id).iter().map(|node| node.0).collect();
            (on, rooms.total(id), nodes)
        };
        assert_eq!(told(&rooms), ([2, 0], 2, vec![0]));
        let gone = asks(1000);
        rooms.imagine_gone((NodeId(1), &nodes[1]), &gone, no_groups);
        assert_eq!(told(&rooms), ([2, 1], 3, vec![0, 1]));
        rooms.imagine_gone((NodeId(0), &nodes[0]), &gone, no_groups);
        assert_eq!(told(&rooms), ([2, 1], 3, vec![0, 1]), "half the room for one more");
        rooms.imagine_gone((NodeId(0), &nodes[0]), &gone, no_groups);
        assert_eq!(told(&rooms), ([3, 1], 4, vec![0, 1]));
        rooms.set_free(NodeId(0), Free::of_empty(&of(1000)));
        assert_eq!(told(&rooms), ([1, 1], 2, vec![0, 1]));
        assert_eq!(rooms.free_in_all().gpu, 2000);
        rooms.forget();
        assert_eq!(told(&rooms), ([0, 0], 0, vec![]));
    }
}
