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
pub use device::{DeviceCandidate, DeviceOrder, DevicePreference, SharedDevice};
pub(crate) use free_capacity::{CapacityRequest, FreeCapacity, FreedCapacity, fraction_units_on};
pub(in crate::framework) use numa::NumaShares;
pub use numa::{Availability, NumaZoneCapacity};
pub(in crate::framework) use states::NodeStates;

/// Current capacity of a node and the pods on it, as in KAI's `NodeInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Resources that are not allocated. Negative when more is allocated than the node offers.
    pub idle: Resources,
    /// Resources of terminating pods minus those of pipelined pods; negative when pipelined pods
    /// also take idle capacity.
    pub releasing: Resources,
    /// Shared GPUs that pods of the node use or are pipelined to.
    pub shared_devices: Vec<SharedDevice>,
    /// Shared device claims that pods use or are pipelined with, and claims that are allocated but
    /// unused. Their use is counted in pods.
    pub claims: Vec<SharedDevice>,
    /// Capacity of the node's NUMA zones, when they are published.
    pub numa_zones: Vec<NumaZoneCapacity>,
    /// Pods that are allocated on the node or pipelined to it.
    pub staying: Vec<PodId>,
    /// Pods on the node that are terminating.
    pub leaving: Vec<PodId>,
    /// Pods whose termination takes too long: no pod is pipelined to their capacity.
    pub stuck: Vec<PodId>,
}

/// When a pod that fits on a node can start there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The pod fits into idle capacity.
    Now,
    /// The pod fits once terminating pods have released their capacity.
    Later,
}

impl NodeInfo {
    /// The capacity of the node without any pods.
    pub fn without_pods(node: &Node) -> Self {
        let mut info = Self {
            idle: node.allocatable.clone(),
            releasing: Resources::default(),
            shared_devices: Vec::new(),
            claims: Vec::new(),
            numa_zones: NumaZoneCapacity::zones_without_pods(node),
            staying: Vec::new(),
            leaving: Vec::new(),
            stuck: Vec::new(),
        };
        info.charge_unused_claims(node);
        info
    }

    /// When `request` fits; `None` when it does not fit even after all releases. Idle capacity that
    /// pipelined pods will take does not count as free, unlike in KAI, where a later job may take
    /// it.
    pub fn fit_resources(&self, request: &Resources) -> Option<Fit> {
        let releases = self.releasing != Resources::default();
        if releases && !request.fits_in(&self.free_after_release()) {
            return None;
        }
        if request.fits_in(&self.idle) {
            return Some(Fit::Now);
        }
        releases.then_some(Fit::Later)
    }

    /// Like [`Self::fit_resources`], for everything that a pod of `shape` requests on `node`, GPU
    /// fractions and NUMA zones included.
    pub fn fit_shape(&self, node: &Node, shape: &PodShape) -> Option<Fit> {
        self.fit_request(node, &self.requests_on(node, shape), shape.fractional_gpu.as_ref())
    }

    /// Like [`Self::fit_resources`], for a request of resources and a request of GPU fractions.
    pub fn fit_request(
        &self,
        node: &Node,
        request: &Resources,
        fractional_gpu: Option<&FractionalGpu>,
    ) -> Option<Fit> {
        let fits = self.fit_resources(request)?;
        match fractional_gpu {
            None => Some(fits),
            Some(fractional_gpu) => {
                self.fit_fraction(node, fractional_gpu).map(|parts| parts.max(fits))
            }
        }
    }

    /// Capacity for further pipelined pods: idle plus releasing resources, minus what pipelined
    /// pods take.
    pub fn free_after_release(&self) -> Resources {
        self.idle.plus(&self.releasing)
    }

    fn allocate_pod(&mut self, pod: PodId, request: &Resources, occupancy: Occupancy) {
        occupancy.subtract_from(request, &mut self.idle, &mut self.releasing);
        self.pods_mut(occupancy).push(pod);
    }

    fn release_pod(&mut self, pod: PodId, request: &Resources, occupancy: Occupancy) {
        occupancy.add_back_to(request, &mut self.idle, &mut self.releasing);
        let pods = self.pods_mut(occupancy);
        let at = pods.iter().rposition(|other| *other == pod);
        pods.swap_remove(at.expect("a pod that occupies the node is listed"));
    }

    fn pods_mut(&mut self, occupancy: Occupancy) -> &mut Vec<PodId> {
        match occupancy {
            Occupancy::Allocated | Occupancy::Pipelined => &mut self.staying,
            Occupancy::Releasing => &mut self.leaving,
            Occupancy::Stuck => &mut self.stuck,
        }
    }
}

/// A log of the nodes whose capacity changed, in order. A reader keeps a [`ChangeCursor`] and reads
/// what came after it.
#[derive(Clone, Debug, Default)]
pub struct ChangedNodes {
    epoch: u64,
    nodes: Vec<NodeId>,
}

/// Position of a reader in the log of changed nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    epoch: u64,
    at: usize,
}

impl ChangedNodes {
    /// The position at the end of the log.
    pub const fn end_cursor(&self) -> ChangeCursor {
        ChangeCursor { epoch: self.epoch, at: self.nodes.len() }
    }

    /// The nodes that changed since `cursor`; a node may occur repeatedly. `None` when the log was
    /// truncated: every node may have changed.
    pub fn changes_since(&self, cursor: ChangeCursor) -> Option<&[NodeId]> {
        (cursor.epoch == self.epoch).then(|| &self.nodes[cursor.at..])
    }

    fn record_change(&mut self, node: NodeId, node_count: usize) {
        if self.nodes.len() > 64 * (node_count + 64) {
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
        changed.record_change(NodeId(0), 2);
        let cursor = changed.end_cursor();
        assert_eq!(changed.changes_since(cursor), Some(&[][..]));
        changed.record_change(NodeId(1), 2);
        changed.record_change(NodeId(0), 2);
        assert_eq!(changed.changes_since(cursor), Some(&[NodeId(1), NodeId(0)][..]));
        (0..10_000).for_each(|_| changed.record_change(NodeId(1), 2));
        assert_eq!(changed.changes_since(cursor), None);
        let cursor = changed.end_cursor();
        changed.record_change(NodeId(0), 2);
        assert_eq!(changed.changes_since(cursor), Some(&[NodeId(0)][..]));
    }
}
