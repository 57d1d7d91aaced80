//! Pods of a pod's own gang on a node: no pod of a gang is evicted for another of the same gang.

use super::{CapacityRequest, FreeCapacity, Session, fraction_on};
use crate::{
    model::{NodeId, PodId},
    reason::{EvenWhenEmpty, FitError},
    resources::Resources,
};

impl Session<'_> {
    /// Pods of its own group that are allocated on or pipelined to the node.
    pub fn peers_on(&self, pod: PodId, node: NodeId) -> impl Iterator<Item = PodId> + '_ {
        let group = self.pod(pod).group;
        let staying = self.node_info(node).staying.iter().copied();
        staying.filter(move |peer| group.is_some() && self.pod(*peer).group == group)
    }

    /// Whether pods of its own group cause the error, so that it would remain if all others left:
    /// they use the capacity, or exclude the pod.
    pub(super) fn is_caused_by_peers(
        &self,
        pod: PodId,
        node: NodeId,
        fit_error: &FitError,
    ) -> bool {
        let is_full = matches!(
            fit_error,
            FitError::InsufficientResources { even_when_empty: EvenWhenEmpty::No, .. }
        );
        let has_peers = || self.peers_on(pod, node).next().is_some();
        (is_full || fit_error.requires_separate_nodes())
            && has_peers()
            && (!is_full || !self.fits_beside_peers(pod, node))
    }

    fn fits_beside_peers(&self, pod: PodId, node: NodeId) -> bool {
        let mut free = FreeCapacity::of_empty_node(self.node(node));
        self.peers_on(pod, node).chain([pod]).all(|pod| self.take_if_fits(&mut free, pod, node))
    }

    /// Takes the pod's requests from `free` if they fit.
    pub(crate) fn take_if_fits(&self, free: &mut FreeCapacity, pod: PodId, node: NodeId) -> bool {
        let (shape, of) = (self.shape_of(pod), self.node(node));
        let resources = &shape.requests.plus(&shape.new_claims_on(of));
        let fraction = fraction_on(of, shape.fractional_gpu.as_ref());
        let request = CapacityRequest { resources, once_per_node: &Resources::default(), fraction };
        let fits = free.count_fits(None, request) > 0;
        if fits {
            free.take(request);
        }
        fits
    }
}
