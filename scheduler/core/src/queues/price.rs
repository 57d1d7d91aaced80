//! What queues pay for a pod: its requests, MIG instances as whole GPUs, and parts of GPUs as
//! such. Memory of a GPU is a part only of a device: of the one it has, else, while it waits, of
//! the smallest one of the cluster where shares are divided, of the largest one where limits and
//! quotas are checked.

use crate::{
    model::{Node, PodShape, ShapeId, SharedGpu, mig_gpus},
    resources::{PerResource, Resources},
    snapshot::Snapshot,
};

/// The price of every shape.
#[derive(Clone, Debug)]
pub struct Prices {
    shapes: Vec<Price>,
    smallest_mib: i64,
    largest_mib: i64,
}

#[derive(Clone, Copy, Debug)]
struct Price {
    fixed: PerResource<i64>,
    shared: Option<SharedGpu>,
}

impl Prices {
    /// Of the shapes of the snapshot, and of its devices.
    pub fn of(snapshot: &Snapshot) -> Self {
        let with_gpus = snapshot.nodes.iter().filter(|node| node.allocatable.gpu_milli > 0);
        let sizes = || with_gpus.clone().map(|node| node.gpu_memory_mib).filter(|mib| *mib > 0);
        Self {
            shapes: snapshot.shapes.iter().map(Price::of).collect(),
            smallest_mib: sizes().min().unwrap_or(0),
            largest_mib: sizes().max().unwrap_or(0),
        }
    }

    /// For a pod that has, or was promised, room on `node`.
    pub fn on(&self, shape: ShapeId, node: &Node) -> PerResource<i64> {
        self.with_devices_of(shape, node.gpu_memory_mib)
    }

    /// What a waiting pod asks for when limits and quotas are checked.
    pub fn to_keep_bounds(&self, shape: ShapeId) -> PerResource<i64> {
        self.with_devices_of(shape, self.largest_mib)
    }

    /// What a waiting pod asks for when shares are divided.
    pub fn to_share(&self, shape: ShapeId) -> PerResource<i64> {
        self.with_devices_of(shape, self.smallest_mib)
    }

    fn with_devices_of(&self, shape: ShapeId, device_mib: i64) -> PerResource<i64> {
        let Price { fixed, shared } = self.shapes[shape.0 as usize];
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
        Self { fixed: with_mig(&shape.requests_and_claims()), shared: shape.shared_gpu }
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
