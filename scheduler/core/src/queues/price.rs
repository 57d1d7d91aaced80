//! What queues pay for a pod: its requests, MIG instances as whole GPUs, and parts of GPUs as
//! such. Memory of a GPU is a part only of a device: of the one it has, else, while it waits, of
//! the smallest one of the cluster where shares are divided, of the largest one where limits and
//! quotas are checked. All devices of a node are priced alike: of the node it has, else of the one
//! with the fewest, or the most, of those that have room for it when they are empty.

use std::collections::BTreeMap;

use crate::{
    model::{Node, PodShape, ShapeId, SharedGpu, mig_gpus},
    resources::{PerResource, Resources},
    snapshot::Snapshot,
};

/// The price of every shape.
#[derive(Clone, Debug)]
pub struct Prices {
    shapes: Vec<Price>,
    by_node: BTreeMap<ShapeId, PriceByNode>,
    smallest_mib: i64,
    largest_mib: i64,
}

#[derive(Clone, Copy, Debug)]
struct Price {
    fixed: PerResource<i64>,
    shared: Option<SharedGpu>,
}

/// Of a shape that takes every device of a node.
#[derive(Clone, Debug)]
struct PriceByNode {
    shape: PodShape,
    least: PerResource<i64>,
    most: PerResource<i64>,
}

impl Prices {
    /// Of the shapes of the snapshot, and of its devices.
    pub fn of(snapshot: &Snapshot) -> Self {
        let with_gpus = snapshot.nodes.iter().filter(|node| node.allocatable.gpu_milli > 0);
        let sizes = || with_gpus.clone().map(|node| node.gpu_memory_mib).filter(|mib| *mib > 0);
        Self {
            shapes: snapshot.shapes.iter().map(Price::of).collect(),
            by_node: PriceByNode::all(snapshot),
            smallest_mib: sizes().min().unwrap_or(0),
            largest_mib: sizes().max().unwrap_or(0),
        }
    }

    /// For a pod that has, or was promised, room on `node`.
    pub fn on(&self, shape: ShapeId, node: &Node) -> PerResource<i64> {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.on(node));
        self.with_devices_of((shape, fixed), node.gpu_memory_mib)
    }

    /// What a waiting pod asks for when limits and quotas are checked.
    pub fn to_keep_bounds(&self, shape: ShapeId) -> PerResource<i64> {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.most);
        self.with_devices_of((shape, fixed), self.largest_mib)
    }

    /// What a waiting pod asks for when shares are divided, and when it is asked whose turn it is
    /// and what may be taken back.
    pub fn to_share(&self, shape: ShapeId) -> PerResource<i64> {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.least);
        self.with_devices_of((shape, fixed), self.smallest_mib)
    }

    fn with_devices_of(
        &self,
        (shape, by_node): (ShapeId, Option<PerResource<i64>>),
        device_mib: i64,
    ) -> PerResource<i64> {
        let Price { fixed, shared } = self.shapes[shape.0 as usize];
        let fixed = by_node.unwrap_or(fixed);
        match shared {
            None => fixed,
            Some(shared) => {
                let gpu = fixed.gpu.saturating_add(shared.milli_of(device_mib));
                PerResource { gpu, ..fixed }
            }
        }
    }
}

impl Price {
    fn of(shape: &PodShape) -> Self {
        let like_nowhere = shape.requests_and_claims_on(&Node::default());
        Self { fixed: with_mig(&like_nowhere), shared: shape.shared_gpu }
    }
}

impl PriceByNode {
    fn all(snapshot: &Snapshot) -> BTreeMap<ShapeId, Self> {
        let shapes = snapshot.shapes.iter().zip(0..);
        let shapes = shapes.filter(|(shape, _)| shape.takes_every_device());
        shapes.map(|(shape, at)| (ShapeId(at), Self::of(shape, &snapshot.nodes))).collect()
    }

    fn of(shape: &PodShape, nodes: &[Node]) -> Self {
        let nowhere = Node::default();
        let fits = |node: &&Node| {
            shape.selects(node) && shape.requests_and_claims_on(node).fits_in(&node.room())
        };
        let gpus = |node: &&Node| shape.requests_and_claims_on(node).gpu_milli;
        let nodes = || nodes.iter().filter(fits);
        let least = nodes().min_by_key(gpus).unwrap_or(&nowhere);
        let most = nodes().max_by_key(gpus).unwrap_or(&nowhere);
        let on = |node| with_mig(&shape.requests_and_claims_on(node));
        Self { least: on(least), most: on(most), shape: shape.clone() }
    }

    fn on(&self, node: &Node) -> PerResource<i64> {
        with_mig(&self.shape.requests_and_claims_on(node))
    }
}

/// The part that queues account for, MIG instances included.
pub fn with_mig(resources: &Resources) -> PerResource<i64> {
    let instances = resources.extended.iter().filter_map(|(name, count)| {
        mig_gpus(name).map(|gpus| gpus.saturating_mul(*count).saturating_mul(1000))
    });
    let accounted = resources.accounted();
    PerResource { gpu: instances.fold(accounted.gpu, i64::saturating_add), ..accounted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::snapshot_of;

    /// GPUs, in thousandths, that queues pay for the waiting pod: while shares are divided, while
    /// bounds are checked, and on each node.
    fn gpus(text: &str) -> (i64, i64, Vec<i64>) {
        let snapshot = snapshot_of(text);
        let prices = Prices::of(&snapshot);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("one waits");
        let on = snapshot.nodes.iter().map(|node| prices.on(pod.shape, node).gpu);
        (prices.to_share(pod.shape).gpu, prices.to_keep_bounds(pod.shape).gpu, on.collect())
    }

    #[test]
    fn memory_is_a_part_of_the_device_it_is_on_and_of_the_least_or_most_while_it_waits() {
        let nodes = "
            node n1 gpus=8 gpu-memory=8000
            node n2 gpus=8 gpu-memory=16000
            node n3 gpus=8
            node n4 gpu-memory=1000
        ";
        let of = |asks: &str| gpus(&format!("{nodes}\njob x {asks}"));
        let (share, bounds, on) = of("part-memory=4000");
        assert_eq!((share, bounds, &on[..2]), (500, 250, &[500, 250][..]));
        let (share, bounds, _) = of("part-memory=4001 devices=2");
        assert_eq!((share, bounds), (1020, 520), "in whole hundredths, rounded up");
        assert_eq!(of("part=0.3 devices=2"), (600, 600, vec![600; 4]));
        assert_eq!(of("gpus=2"), (2000, 2000, vec![2000; 4]));
    }

    #[test]
    fn an_instance_costs_as_many_gpus_as_its_profile_has_slices() {
        let of = |asks: &str| gpus(&format!("\nnode n1\njob x {asks}")).0;
        assert_eq!(of("extended nvidia.com/mig-2g.10gb=3"), 6000);
        assert_eq!(of("gpus=1 extended nvidia.com/mig-1g.5gb=2"), 3000);
        assert_eq!(of("extended nic=3"), 0);
    }

    #[test]
    fn all_devices_cost_what_their_node_has_and_while_one_waits_the_least_or_most_that_may_be() {
        let nodes = "
            node n1 gpus=2 by-claim label kind=a
            node n2 gpus=4 by-claim label kind=a
            node n3 gpus=8 by-claim label kind=b
        ";
        let of = |asks: &str| gpus(&format!("{nodes}\njob x {asks}"));
        assert_eq!(of("claim c:all"), (2000, 8000, vec![2000, 4000, 8000]));
        assert_eq!(of("claim c:all needs kind=a"), (2000, 4000, vec![2000, 4000, 8000]));
        assert_eq!(of("claim c:1"), (1000, 1000, vec![1000; 3]));
    }
}
