//! A job whose pods exclude each other from one domain (a node, or the nodes with one value of a
//! label), as far as a search can count: the job needs as many domains with capacity as it has
//! pods, and in each domain capacity for one pod.

use std::collections::BTreeSet;

use super::{CapacityIndex, EvictableUnit, Preemptor};
use crate::{
    framework::Session,
    model::{NodeId, ShapeId},
};

/// The domains that pods of the job cannot share, and which of them have capacity for one of its
/// pods.
pub(crate) struct OpenDomains {
    shape: ShapeId,
    /// The domain of each node, by node index.
    domain_of_node: Vec<usize>,
    with_room: BTreeSet<usize>,
    needed: usize,
}

impl OpenDomains {
    /// Returns `None` if pods of the job may share a domain, or if the pods differ in shape.
    pub(super) fn new(
        session: &Session<'_>,
        capacity: &CapacityIndex,
        preemptor: &Preemptor,
    ) -> Option<Self> {
        let shape = session.pod(*preemptor.pods.first()?).shape;
        if preemptor.pods.iter().any(|pod| session.pod(*pod).shape != shape) {
            return None;
        }
        let domain_of_node = session.exclusive_domain_of_nodes(&preemptor.pods)?;
        let with_room = capacity
            .nodes_with_room(shape)
            .iter()
            .map(|node| domain_of_node[node.0 as usize])
            .collect();
        Some(Self { shape, domain_of_node, with_room, needed: preemptor.pods.len() })
    }

    /// Adds the domains in which the eviction of `unit` frees capacity for a pod.
    pub(super) fn assume_evicted(&mut self, capacity: &CapacityIndex, unit: &EvictableUnit) {
        for (_, node) in &unit.pods {
            if capacity.count_fitting_on(self.shape, *node) > 0 {
                self.with_room.insert(self.domain_of(*node));
            }
        }
    }

    /// Whether at least as many domains have capacity as there are pods.
    pub(super) fn has_enough_domains(&self) -> bool {
        self.with_room.len() >= self.needed
    }

    pub(super) fn domain_of(&self, node: NodeId) -> usize {
        self.domain_of_node[node.0 as usize]
    }
}
