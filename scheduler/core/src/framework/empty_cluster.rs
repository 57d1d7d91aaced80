//! What the nodes would hold if nothing were running.

use std::{collections::BTreeMap, sync::Arc};

use super::{CapacityRequest, FreeCapacity, Session, fraction_units_on};
use crate::{
    model::{NodeId, PodId, ShapeId},
    resources::Resources,
};

impl Session<'_> {
    /// Shapes of those of the pods that the empty cluster cannot hold next to the other pods, one
    /// entry per pod.
    pub fn shapes_beyond_empty_cluster(&self, pods: &[PodId]) -> Vec<ShapeId> {
        let of_shape: BTreeMap<ShapeId, PodId> =
            pods.iter().map(|pod| (self.pod(*pod).shape, *pod)).collect();
        let eligible: BTreeMap<ShapeId, Arc<[bool]>> =
            of_shape.into_iter().map(|(shape, pod)| (shape, self.eligible_nodes(pod))).collect();
        let may_be = |shape, node: NodeId| eligible[&shape][node.0 as usize];
        let nodes =
            self.node_ids().map(|node| (node, FreeCapacity::of_empty_node(self.node(node))));
        let left = self.count_unplaced_pods(pods, nodes, may_be).into_iter();
        left.flat_map(|(shape, left)| (0..left).map(move |_| shape)).collect()
    }

    /// Number of pods, by shape, that are left over when each node in turn takes as many of the
    /// pods as it holds.
    pub(super) fn count_unplaced_pods(
        &self,
        pods: &[PodId],
        nodes: impl Iterator<Item = (NodeId, FreeCapacity)>,
        may_be: impl Fn(ShapeId, NodeId) -> bool,
    ) -> Vec<(ShapeId, u64)> {
        let once_per_node = &Resources::default(); // others may have the claims there
        let mut left: Vec<(ShapeId, u64)> = Vec::new();
        for shape in pods.iter().map(|pod| self.pod(*pod).shape) {
            match left.iter_mut().find(|(known, _)| *known == shape) {
                Some((_, left)) => *left += 1,
                None => left.push((shape, 1)),
            }
        }
        for (node, mut free) in nodes {
            for (shape, left) in left.iter_mut().filter(|(shape, _)| may_be(*shape, node)) {
                let shape = &self.snapshot.shapes[shape.0 as usize];
                let fraction = fraction_units_on(self.node(node), shape.fractional_gpu.as_ref());
                let request =
                    CapacityRequest { resources: &shape.requests, once_per_node, fraction };
                let fitting = (*left).min(u64::from(free.count_fitting_pods(None, request)));
                (0..fitting).for_each(|_| free.take_request(request));
                *left -= fitting;
            }
        }
        left
    }
}
