//! What a pod's own gang has of the nodes: nobody of it leaves for another of it.

use super::{Asked, Free, Session, parts_on};
use crate::{
    decision::{EvenWhenEmpty, Misfit},
    model::{NodeId, PodId},
    resources::Resources,
};

impl Session<'_> {
    /// Pods of its own group that have room on the node, or were promised some.
    pub fn mates_on(&self, pod: PodId, node: NodeId) -> impl Iterator<Item = PodId> + '_ {
        let group = self.pod(pod).group;
        let staying = self.room(node).staying.iter().copied();
        staying.filter(move |mate| group.is_some() && self.pod(*mate).group == group)
    }

    /// That would speak against the pod on the node though all others left: pods of its own group
    /// have the room, or it has to be apart from them.
    pub(super) fn is_for_mates(&self, pod: PodId, (node, misfit): (NodeId, &Misfit)) -> bool {
        let is_full =
            matches!(misfit, Misfit::TooLittle { even_when_empty: EvenWhenEmpty::No, .. });
        let has_mates = || self.mates_on(pod, node).next().is_some();
        (is_full || misfit.needs_a_node_each())
            && has_mates()
            && (!is_full || !self.fits_beside_mates(pod, node))
    }

    fn fits_beside_mates(&self, pod: PodId, node: NodeId) -> bool {
        let mut free = Free::of_empty(self.node(node));
        self.mates_on(pod, node).chain([pod]).all(|pod| self.takes_of(&mut free, pod, node))
    }

    /// The pod takes of what is free on the node, if it fits there.
    pub(crate) fn takes_of(&self, free: &mut Free, pod: PodId, node: NodeId) -> bool {
        let (shape, of) = (self.shape_of(pod), self.node(node));
        let resources = &shape.requests.plus(&shape.new_claims_on(of));
        let parts = parts_on(of, shape.shared_gpu.as_ref());
        let asked = Asked { resources, once: &Resources::default(), parts };
        let fits = free.times(None, asked) > 0;
        if fits {
            free.take(asked);
        }
        fits
    }
}
