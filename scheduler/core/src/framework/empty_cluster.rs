//! What the nodes would hold if nothing were running.

use std::{cell::RefCell, collections::BTreeMap};

use super::{CapacityRequest, FreeCapacity, Session, fraction_on};
use crate::{
    model::{Node, NodeId, PodGroupId, PodId, ShapeId},
    resources::Resources,
};

/// All nodes, as if nothing were running on them.
#[derive(Clone, Debug)]
pub(super) struct EmptyCluster {
    offered: Resources,
    /// Maximum number of pods by shape, cached.
    max_pods: RefCell<BTreeMap<ShapeId, u64>>,
}

impl EmptyCluster {
    pub(super) fn new(nodes: &[Node]) -> Self {
        let offered = nodes.iter().map(|node| &node.allocatable);
        let offered = offered.fold(Resources::default(), |sum, node| sum.plus(node));
        Self { offered, max_pods: RefCell::default() }
    }
}

impl Session<'_> {
    /// The empty cluster would hold the next pods of the group.
    pub fn fits_empty_cluster(&self, group: PodGroupId) -> bool {
        let pods = self.next_chunk(group);
        self.pods_fit_empty_cluster(&pods)
    }

    /// The empty cluster would hold these pods, as far as counting tells.
    pub fn pods_fit_empty_cluster(&self, pods: &[PodId]) -> bool {
        let mut request = Resources::default();
        let mut shapes: BTreeMap<ShapeId, (PodId, u64)> = BTreeMap::new();
        for &pod in pods {
            request.add(&self.shape_of(pod).requests);
            shapes.entry(self.pod(pod).shape).or_insert((pod, 0)).1 += 1;
        }
        request.fits_in(&self.caches.empty_cluster.offered)
            && shapes.into_values().all(|(pod, count)| count <= self.max_pods_like(pod))
    }

    /// Number of pods like this one that the empty cluster would hold.
    fn max_pods_like(&self, pod: PodId) -> u64 {
        let shape = self.pod(pod).shape;
        let known = self.caches.empty_cluster.max_pods.borrow().get(&shape).copied();
        if let Some(most) = known {
            return most;
        }
        let of = self.shape_of(pod);
        let nodes = self.snapshot.nodes.iter().zip(self.eligible_nodes(pod));
        let times = nodes.filter(|(_, eligible)| *eligible).map(|(node, _)| {
            let once_per_node = &of.new_claims_on(node);
            let fraction = fraction_on(node, of.fractional_gpu.as_ref());
            let request = CapacityRequest { resources: &of.requests, once_per_node, fraction };
            u64::from(FreeCapacity::of_empty_node(node).count_fits(None, request))
        });
        let most = times.sum();
        self.caches.empty_cluster.max_pods.borrow_mut().insert(shape, most);
        most
    }

    /// Those of the pods that the empty cluster would not hold next to the others.
    pub fn pods_beyond_empty_cluster(&self, pods: &[PodId]) -> Vec<ShapeId> {
        let of_shape: BTreeMap<ShapeId, PodId> =
            pods.iter().map(|pod| (self.pod(*pod).shape, *pod)).collect();
        let eligible: BTreeMap<ShapeId, Vec<bool>> =
            of_shape.into_iter().map(|(shape, pod)| (shape, self.eligible_nodes(pod))).collect();
        let may_be = |shape, node: NodeId| eligible[&shape][node.0 as usize];
        let nodes =
            self.node_ids().map(|node| (node, FreeCapacity::of_empty_node(self.node(node))));
        let left = self.count_left_over(pods, nodes, may_be).into_iter();
        left.flat_map(|(shape, left)| (0..left).map(move |_| shape)).collect()
    }

    /// Number of pods by shape that are left when each node takes as many as it holds, in order.
    pub(super) fn count_left_over(
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
                let fraction = fraction_on(self.node(node), shape.fractional_gpu.as_ref());
                let request =
                    CapacityRequest { resources: &shape.requests, once_per_node, fraction };
                let fitting = (*left).min(u64::from(free.count_fits(None, request)));
                (0..fitting).for_each(|_| free.take(request));
                *left -= fitting;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use schedlab_testkit::snapshot_of;

    /// Whether the empty cluster would hold the next pods of the last group.
    fn could_fit(text: &str) -> bool {
        let nodes = "node n1 gpus=8\nnode n2 gpus=8 label zone=z\nnode n3 gpus=1\n";
        let (snapshot, profile) = (snapshot_of(&format!("{nodes}{text}")), Profile::kai());
        let group = (0..).map(PodGroupId).zip(&snapshot.pod_groups).last().expect("a job").0;
        Session::new(&snapshot, &profile).fits_empty_cluster(group)
    }

    #[test]
    fn running_pods_do_not_affect_the_empty_cluster() {
        assert!(could_fit(
            "gang all pods=8 gpus=2 on n1 n1 n1 n1 n2 n2 n2 n2\ngang x pods=8 gpus=2"
        ));
        assert!(could_fit("job all gpus=8 on n1\njob x gpus=8"));
    }

    #[test]
    fn gangs_larger_than_the_empty_cluster_do_not_fit() {
        for never in ["gang x pods=9 gpus=2", "gang x pods=18 gpus=1", "job x gpus=9"] {
            assert!(!could_fit(never), "{never}");
        }
        assert!(could_fit("gang x pods=4 gpus=2 needs zone=z"));
        assert!(!could_fit("gang x pods=5 gpus=2 needs zone=z"));
        assert!(!could_fit("gang x pods=2 gpus=1 needs zone=y"));
        assert!(could_fit("node n4 gpus=2 by-claim\njob x pods=9 min=9 claim c:2"));
        assert!(!could_fit("node n4 gpus=2 by-claim\njob x pods=9 min=9 claim c:3"));
        assert!(could_fit("gang x\npart a pods=2 gpus=8\npart b pods=1 gpus=1"));
        assert!(!could_fit("gang x\npart a pods=2 gpus=8\npart b pods=1 gpus=2"));
    }
}
