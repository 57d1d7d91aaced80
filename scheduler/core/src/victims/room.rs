//! How many pods of a shape fit on each node, were some of the running ones gone. A count for
//! each node and their sum, corrected node by node: an upper bound that is exact for what nodes
//! offer, and leaves out what depends on other pods (affinity, ports).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{NodeId, PodId, ShapeId},
    resources::{PerResource, Resources},
};

/// Counts for the shapes asked about so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms {
    /// Idle, or being released and not promised.
    free: Vec<Resources>,
    free_in_all: PerResource<i64>,
    shapes: BTreeMap<ShapeId, ShapeRoom>,
    /// Shapes that the present search is about: only theirs follow what is imagined.
    focus: Vec<ShapeId>,
    /// What is imagined to be gone.
    freed: BTreeMap<NodeId, Resources>,
}

#[derive(Clone, Debug)]
struct ShapeRoom {
    request: Resources,
    /// May pods of this shape run there at all?
    eligible: Vec<bool>,
    counts: Vec<u32>,
    nodes: BTreeSet<NodeId>,
    total: u64,
}

impl Rooms {
    /// With so much free on each node.
    pub(crate) fn new(free: Vec<Resources>) -> Self {
        let free_in_all =
            free.iter().fold(PerResource::default(), |sum: PerResource<i64>, free| {
                sum.plus(free.accounted().at_least_zero())
            });
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
        about: impl Fn(PodId) -> (&'a Resources, Vec<bool>),
    ) {
        self.focus.clear();
        for (pod, shape) in pods {
            if self.focus.contains(&shape) {
                continue;
            }
            self.focus.push(shape);
            if !self.shapes.contains_key(&shape) {
                let (request, eligible) = about(pod);
                self.shapes.insert(shape, ShapeRoom::new(request, eligible, &self.free));
            }
        }
    }

    /// So much is free on `node` now.
    pub(crate) fn set_free(&mut self, node: NodeId, free: Resources) {
        let at = node.0 as usize;
        let before = std::mem::replace(&mut self.free[at], free);
        let (before, now) = (before.accounted(), self.free[at].accounted());
        self.free_in_all = self.free_in_all.minus(before.at_least_zero()).plus(now.at_least_zero());
        for room in self.shapes.values_mut() {
            room.recount(at, &self.free[at], self.freed.get(&node));
        }
    }

    /// Imagines `amount` gone from `node`.
    pub(crate) fn imagine_gone(&mut self, node: NodeId, amount: &Resources) {
        self.freed.entry(node).or_default().add(amount);
        self.recount(node);
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
    fn new(request: &Resources, eligible: Vec<bool>, free: &[Resources]) -> Self {
        let counts = vec![0; eligible.len()];
        let (request, nodes) = (request.clone(), BTreeSet::new());
        let mut room = Self { request, eligible, counts, nodes, total: 0 };
        for (at, free) in free.iter().enumerate() {
            room.recount(at, free, None);
        }
        room
    }

    fn recount(&mut self, at: usize, free: &Resources, freed: Option<&Resources>) {
        let count = if self.eligible[at] { times(free, freed, &self.request) } else { 0 };
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

/// How many times `request` fits into `free` and `freed` together.
fn times(free: &Resources, freed: Option<&Resources>, request: &Resources) -> u32 {
    let fits = |free: i64, freed: Option<i64>, asked: i64| {
        let room = free.saturating_add(freed.unwrap_or(0)).max(0);
        if asked <= 0 { i64::MAX } else { room / asked }
    };
    let plain = [
        fits(free.gpu_milli, freed.map(|freed| freed.gpu_milli), request.gpu_milli),
        fits(free.cpu_milli, freed.map(|freed| freed.cpu_milli), request.cpu_milli),
        fits(free.memory_bytes, freed.map(|freed| freed.memory_bytes), request.memory_bytes),
        fits(free.pods, freed.map(|freed| freed.pods), request.pods),
    ];
    let extended = request.extended.iter().map(|(name, asked)| {
        let of = |resources: &Resources| resources.extended.get(name).copied().unwrap_or(0);
        fits(of(free), freed.map(of), *asked)
    });
    let least = plain.into_iter().chain(extended).min().unwrap_or(0);
    u32::try_from(least).unwrap_or(u32::MAX)
}
