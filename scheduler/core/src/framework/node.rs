//! The capacity of a node, and the log of changed nodes.

mod claims;
mod device;
mod free_capacity;
mod numa;
mod states;

use super::pod::Occupancy;
use crate::{
    model::{FractionalGpu, Node, NodeId, PodId, PodShape},
    resources::Resources,
};
pub use device::{Device, DeviceChoice, DeviceOrder, SharedDevice};
pub(crate) use free_capacity::{CapacityRequest, FreeCapacity, FreedCapacity, fraction_on};
pub(in crate::framework) use numa::NumaShares;
pub use numa::{Availability, NumaZoneCapacity};
pub(in crate::framework) use states::NodeStates;

/// Capacity of a node, as in KAI's `NodeInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Not allocated. Negative when more is allocated than the node offers.
    pub idle: Resources,
    /// Being released, minus pipelined pods; negative when those also take idle capacity.
    pub releasing: Resources,
    /// Shared GPUs that pods use or are pipelined to.
    pub shared_devices: Vec<SharedDevice>,
    /// Shared claims that pods use, are pipelined with, or that are allocated unused; counted in
    /// pods.
    pub claims: Vec<SharedDevice>,
    /// Its NUMA zones, when they are published.
    pub numa_zones: Vec<NumaZoneCapacity>,
    /// Pods that are allocated here or pipelined to here.
    pub staying: Vec<PodId>,
    /// Pods that are releasing.
    pub leaving: Vec<PodId>,
    /// Releasing pods that do not terminate: no pod is pipelined to their capacity.
    pub stuck: Vec<PodId>,
}

/// When a pod fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Now.
    Now,
    /// Once releasing capacity is free.
    Later,
}

impl NodeInfo {
    /// Without any pods.
    pub fn empty(node: &Node) -> Self {
        let mut info = Self {
            idle: node.allocatable.clone(),
            releasing: Resources::default(),
            shared_devices: Vec::new(),
            claims: Vec::new(),
            numa_zones: NumaZoneCapacity::all_of(node),
            staying: Vec::new(),
            leaving: Vec::new(),
            stuck: Vec::new(),
        };
        info.allocate_unused_claims(node);
        info
    }

    /// When `request` fits; `None` when it does not fit even after release. Idle capacity that
    /// pipelined pods take does not count, unlike in KAI, where a later job may take it.
    pub fn fit(&self, request: &Resources) -> Option<Fit> {
        let releases = self.releasing != Resources::default();
        if releases && !request.fits_in(&self.free_later()) {
            return None;
        }
        if request.fits_in(&self.idle) {
            return Some(Fit::Now);
        }
        releases.then_some(Fit::Later)
    }

    /// Like [`Self::fit`], for everything that a pod of `shape` requests on `node`, GPU fractions
    /// included.
    pub fn fit_shape(&self, node: &Node, shape: &PodShape) -> Option<Fit> {
        self.fit_request(node, &self.requests_on(node, shape), shape.fractional_gpu.as_ref())
    }

    /// Like [`Self::fit`], for a request and GPU fractions.
    pub fn fit_request(
        &self,
        node: &Node,
        request: &Resources,
        fractional_gpu: Option<&FractionalGpu>,
    ) -> Option<Fit> {
        let fits = self.fit(request)?;
        match fractional_gpu {
            None => Some(fits),
            Some(fractional_gpu) => {
                self.fit_fraction(node, fractional_gpu).map(|parts| parts.max(fits))
            }
        }
    }

    /// Capacity for pipelined pods: idle plus releasing, not yet taken by others.
    pub fn free_later(&self) -> Resources {
        self.idle.plus(&self.releasing)
    }

    fn allocate(&mut self, pod: PodId, request: &Resources, occupancy: Occupancy) {
        occupancy.subtract_from(request, &mut self.idle, &mut self.releasing);
        self.pods(occupancy).push(pod);
    }

    fn release(&mut self, pod: PodId, request: &Resources, occupancy: Occupancy) {
        occupancy.return_to(request, &mut self.idle, &mut self.releasing);
        let pods = self.pods(occupancy);
        let at = pods.iter().rposition(|other| *other == pod);
        pods.swap_remove(at.expect("a pod that occupies the node is listed"));
    }

    fn pods(&mut self, occupancy: Occupancy) -> &mut Vec<PodId> {
        match occupancy {
            Occupancy::Allocated | Occupancy::Pipelined => &mut self.staying,
            Occupancy::Releasing => &mut self.leaving,
            Occupancy::Stuck => &mut self.stuck,
        }
    }
}

/// Log of changed nodes, in order. A reader keeps a [`ChangeCursor`] and reads what came after it.
#[derive(Clone, Debug, Default)]
pub struct ChangedNodes {
    epoch: u64,
    nodes: Vec<NodeId>,
}

/// Position of a reader in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    epoch: u64,
    at: usize,
}

impl ChangedNodes {
    /// The end of the log.
    pub const fn cursor(&self) -> ChangeCursor {
        ChangeCursor { epoch: self.epoch, at: self.nodes.len() }
    }

    /// Changes since `cursor`, with repetitions. `None` when the log was truncated: every node may
    /// have changed.
    pub fn since(&self, cursor: ChangeCursor) -> Option<&[NodeId]> {
        (cursor.epoch == self.epoch).then(|| &self.nodes[cursor.at..])
    }

    fn record(&mut self, node: NodeId, nodes: usize) {
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
    fn a_cursor_sees_later_changes_or_that_the_log_was_truncated() {
        let mut changed = ChangedNodes::default();
        changed.record(NodeId(0), 2);
        let cursor = changed.cursor();
        assert_eq!(changed.since(cursor), Some(&[][..]));
        changed.record(NodeId(1), 2);
        changed.record(NodeId(0), 2);
        assert_eq!(changed.since(cursor), Some(&[NodeId(1), NodeId(0)][..]));
        (0..10_000).for_each(|_| changed.record(NodeId(1), 2));
        assert_eq!(changed.since(cursor), None);
        let cursor = changed.cursor();
        changed.record(NodeId(0), 2);
        assert_eq!(changed.since(cursor), Some(&[NodeId(0)][..]));
    }
}
