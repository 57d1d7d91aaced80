//! What the nodes would hold, were all gone that runs.

use std::collections::BTreeMap;

use super::{Asked, Free, Session, parts_on};
use crate::{
    model::{Node, NodeId, PodGroupId, PodId, ShapeId},
    resources::Resources,
};

/// All nodes, as if nothing ran on them.
#[derive(Clone, Debug)]
pub(super) struct EmptyFleet {
    offered: Resources,
    /// How many pods of a shape, of those asked about so far.
    pods: BTreeMap<ShapeId, u64>,
}

impl EmptyFleet {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let offered = nodes.iter().map(|node| &node.allocatable);
        let offered = offered.fold(Resources::default(), |sum, node| sum.plus(node));
        Self { offered, pods: BTreeMap::new() }
    }
}

impl Session<'_> {
    /// Nodes would hold the next pods of the group, were all gone that runs.
    pub fn could_fit(&mut self, group: PodGroupId) -> bool {
        let pods = self.next_chunk(group);
        self.fit_empty_fleet(&pods)
    }

    /// Nodes would hold these pods, were all gone that runs, as far as counts can tell.
    pub fn fit_empty_fleet(&mut self, pods: &[PodId]) -> bool {
        let mut asked = Resources::default();
        let mut shapes: BTreeMap<ShapeId, (PodId, u64)> = BTreeMap::new();
        for &pod in pods {
            asked.add(&self.shape_of(pod).requests);
            shapes.entry(self.pod(pod).shape).or_insert((pod, 0)).1 += 1;
        }
        asked.fits_in(&self.empty_fleet.offered)
            && shapes.into_values().all(|(pod, count)| count <= self.most_like(pod))
    }

    /// How many pods like this one the nodes would hold.
    fn most_like(&mut self, pod: PodId) -> u64 {
        let shape = self.pod(pod).shape;
        if let Some(most) = self.empty_fleet.pods.get(&shape) {
            return *most;
        }
        let of = self.shape_of(pod);
        let nodes = self.snapshot.nodes.iter().zip(self.eligible_nodes(pod));
        let times = nodes.filter(|(_, eligible)| *eligible).map(|(node, _)| {
            let once = &of.new_claims_on(node);
            let parts = parts_on(node, of.shared_gpu.as_ref());
            let asked = Asked { resources: &of.requests, once, parts };
            u64::from(Free::of_empty(node).times(None, asked))
        });
        let most = times.sum();
        self.empty_fleet.pods.insert(shape, most);
        most
    }

    /// Of these pods those that nodes would not hold beside the others, were all gone that runs.
    pub fn beyond_empty_fleet(&self, pods: &[PodId]) -> Vec<ShapeId> {
        let of_shape: BTreeMap<ShapeId, PodId> =
            pods.iter().map(|pod| (self.pod(*pod).shape, *pod)).collect();
        let eligible: BTreeMap<ShapeId, Vec<bool>> =
            of_shape.into_iter().map(|(shape, pod)| (shape, self.eligible_nodes(pod))).collect();
        let may_be = |shape, node: NodeId| eligible[&shape][node.0 as usize];
        let nodes = self.node_ids().map(|node| (node, Free::of_empty(self.node(node))));
        let left = self.left_over(pods, nodes, may_be).into_iter();
        left.flat_map(|(shape, left)| (0..left).map(move |_| shape)).collect()
    }

    /// Of these pods, how many of each shape are left when every node takes as many as it holds
    /// beside each other, first of the first.
    pub(super) fn left_over(
        &self,
        pods: &[PodId],
        nodes: impl Iterator<Item = (NodeId, Free)>,
        may_be: impl Fn(ShapeId, NodeId) -> bool,
    ) -> Vec<(ShapeId, u64)> {
        let once = &Resources::default(); // others may have the claims there
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
                let parts = parts_on(self.node(node), shape.shared_gpu.as_ref());
                let asked = Asked { resources: &shape.requests, once, parts };
                let fitting = (*left).min(u64::from(free.times(None, asked)));
                (0..fitting).for_each(|_| free.take(asked));
                *left -= fitting;
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, testing::snapshot_of};

    /// Would nodes hold the last pod group's next pods, were all gone that runs?
    fn could_fit(text: &str) -> bool {
        let nodes = "node n1 gpus=8\nnode n2 gpus=8 label zone=z\nnode n3 gpus=1\n";
        let (snapshot, profile) = (snapshot_of(&format!("{nodes}{text}")), Profile::kai());
        let group = (0..).map(PodGroupId).zip(&snapshot.pod_groups).last().expect("a job").0;
        Session::new(&snapshot, &profile).could_fit(group)
    }

    #[test]
    fn what_runs_does_not_matter() {
        assert!(could_fit(
            "gang all pods=8 gpus=2 on n1 n1 n1 n1 n2 n2 n2 n2\ngang x pods=8 gpus=2"
        ));
        assert!(could_fit("job all gpus=8 on n1\njob x gpus=8"));
    }

    #[test]
    fn what_nodes_could_never_hold_does() {
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
