//! The room of a node, and which nodes changed.

use super::{device::SharedDevice, state::Hold, zones::ZoneRoom};
use crate::{
    model::{Node, NodeId, PodId, PodShape, SharedGpu},
    resources::Resources,
};

/// How much room a node has, and whose the rest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    /// Nobody has it. Negative where more is bound than the node offers.
    pub idle: Resources,
    /// On its way back, less what was promised: negative when promises also take what is idle.
    pub releasing: Resources,
    /// Devices of which pods have, or were promised, parts.
    pub shared: Vec<SharedDevice>,
    /// Claims that pods have, were promised, or that are held without any; counted in pods.
    pub claims: Vec<SharedDevice>,
    /// Its zones, where they are published.
    pub zones: Vec<ZoneRoom>,
    /// Pods that have room here, or were promised some.
    pub staying: Vec<PodId>,
    /// Pods that were asked to leave.
    pub leaving: Vec<PodId>,
    /// Of those, pods that do not go: what they hold cannot be promised.
    pub stuck: Vec<PodId>,
}

/// When a pod fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fits {
    /// At once.
    Now,
    /// When what is being released is free.
    Later,
}

impl NodeRoom {
    /// Nobody is there.
    pub fn empty(node: &Node) -> Self {
        let mut room = Self {
            idle: node.allocatable.clone(),
            releasing: Resources::default(),
            shared: Vec::new(),
            claims: Vec::new(),
            zones: ZoneRoom::all_empty(node),
            staying: Vec::new(),
            leaving: Vec::new(),
            stuck: Vec::new(),
        };
        room.take_held_claims(node);
        room
    }

    /// When `request` fits; `None`: not even when everything is released. What is idle but
    /// promised does not count: a promise is kept within its cycle (KAI lets a later job take it).
    pub fn fits(&self, request: &Resources) -> Option<Fits> {
        let releases = self.releasing != Resources::default();
        if releases && !request.fits_in(&self.free_later()) {
            return None;
        }
        if request.fits_in(&self.idle) {
            return Some(Fits::Now);
        }
        releases.then_some(Fits::Later)
    }

    /// The same for all that a pod of `shape` asks for on `node`, parts of GPUs included.
    pub fn fits_shape(&self, node: &Node, shape: &PodShape) -> Option<Fits> {
        self.fits_asking(node, &self.needed(node, shape), shape.shared_gpu.as_ref())
    }

    /// The same for what is asked for on `node`, and parts of GPUs besides.
    pub fn fits_asking(
        &self,
        node: &Node,
        request: &Resources,
        shared: Option<&SharedGpu>,
    ) -> Option<Fits> {
        let fits = self.fits(request)?;
        match shared {
            None => Some(fits),
            Some(shared) => self.fits_parts(node, shared).map(|parts| parts.max(fits)),
        }
    }

    /// What can be promised: idle or on its way back, and not promised.
    pub fn free_later(&self) -> Resources {
        self.idle.plus(&self.releasing)
    }

    pub(super) fn take(&mut self, pod: PodId, request: &Resources, hold: Hold) {
        hold.take(request, &mut self.idle, &mut self.releasing);
        self.pods(hold).push(pod);
    }

    pub(super) fn give(&mut self, pod: PodId, request: &Resources, hold: Hold) {
        hold.give(request, &mut self.idle, &mut self.releasing);
        let pods = self.pods(hold);
        let at = pods.iter().rposition(|other| *other == pod);
        pods.swap_remove(at.expect("it was put there when it took the room"));
    }

    fn pods(&mut self, hold: Hold) -> &mut Vec<PodId> {
        match hold {
            Hold::Has | Hold::IsPromised => &mut self.staying,
            Hold::Releases => &mut self.leaving,
            Hold::IsStuck => &mut self.stuck,
        }
    }
}

/// The nodes that changed, in order. Readers remember a [`Mark`] and ask what came after it.
#[derive(Clone, Debug, Default)]
pub struct ChangedNodes {
    epoch: u64,
    nodes: Vec<NodeId>,
}

/// How far somebody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    epoch: u64,
    at: usize,
}

impl ChangedNodes {
    /// Up to here everything is known.
    pub const fn mark(&self) -> Mark {
        Mark { epoch: self.epoch, at: self.nodes.len() }
    }

    /// What changed since, with repetitions. `None`: too much to tell, look at every node.
    pub fn since(&self, mark: Mark) -> Option<&[NodeId]> {
        (mark.epoch == self.epoch).then(|| &self.nodes[mark.at..])
    }

    pub(super) fn note(&mut self, node: NodeId, nodes: usize) {
        if self.nodes.len() > 64 * (nodes + 64) {
            self.epoch += 1;
            self.nodes.clear();
        }
        self.nodes.push(node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_told_what_changed_since_it_read_or_that_it_was_too_much() {
        let mut changed = ChangedNodes::default();
        changed.note(NodeId(0), 2);
        let mark = changed.mark();
        assert_eq!(changed.since(mark), Some(&[][..]));
        changed.note(NodeId(1), 2);
        changed.note(NodeId(0), 2);
        assert_eq!(changed.since(mark), Some(&[NodeId(1), NodeId(0)][..]));
        (0..10_000).for_each(|_| changed.note(NodeId(1), 2));
        assert_eq!(changed.since(mark), None);
        let mark = changed.mark();
        changed.note(NodeId(0), 2);
        assert_eq!(changed.since(mark), Some(&[NodeId(0)][..]));
    }
}
