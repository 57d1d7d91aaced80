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

    /// What a waiting pod asks for when shares are divided.
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
