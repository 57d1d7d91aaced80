//! Prefers the node on which a pod fragments free GPUs least. KAI has no such score; the measure
//! follows Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), extended so that it counts
//! GPUs as lost when cores or memory run out before them.
//!
//! The expected pods are taken from the snapshot: each shape counts as often as it has pods. Only
//! capacity is considered, not labels and tolerations.

use crate::{
    framework::{NodeInfo, NodeScore, Session, SharedDevice},
    model::{Node, PodId, PodShape},
};

/// Score of placing a pod when no GPU capacity becomes unusable by it; placements that make
/// capacity usable score higher.
const NEUTRAL_SCORE: i64 = 9 * super::SCORE_POINT / 2;
/// Score deducted for each thousandth of a GPU that becomes unusable on average.
const PENALTY_PER_MILLI: i64 = super::SCORE_POINT / 10_000;

/// The free GPU capacity of a node once all terminating pods are gone.
#[derive(Clone, Debug)]
struct UsableCapacity {
    cpu_milli: i64,
    memory_bytes: i64,
    devices: i64,
    /// Free thousandths of each shared GPU.
    shared_milli: Vec<i64>,
}

/// The GPU request of a pod: `milli_per_device` thousandths of each of `devices` GPUs.
#[derive(Clone, Copy, Debug)]
struct PodRequest {
    cpu_milli: i64,
    memory_bytes: i64,
    milli_per_device: i64,
    devices: i64,
}

/// The score of each node: higher if placing the pod loses less usable GPU capacity.
pub(super) fn fragmentation_score<'a>(session: &'a Session<'_>, pod: PodId) -> NodeScore<'a> {
    let shape = session.shape_of(pod);
    let demand = session.gpu_demand();
    let pods: i128 = demand.iter().map(|(_, count)| i128::from(*count)).sum();
    Box::new(move |node| {
        let (spec, info) = (session.node(node), session.node_info(node));
        let before = UsableCapacity::new(spec, info);
        let after = before.after_placing(PodRequest::new(spec, shape));
        let more_unusable = |(shape, count): &(&'a PodShape, i64)| {
            let request = PodRequest::new(spec, shape);
            i128::from(*count)
                * i128::from(after.unusable_milli_for(request) - before.unusable_milli_for(request))
        };
        let lost: i128 = demand.iter().map(more_unusable).sum();
        let penalty = lost * i128::from(PENALTY_PER_MILLI) / pods.max(1);
        let score = i128::from(NEUTRAL_SCORE) - penalty;
        i64::try_from(score.clamp(0, 9 * i128::from(super::SCORE_POINT))).unwrap_or(0)
    })
}

impl UsableCapacity {
    fn new(node: &Node, info: &NodeInfo) -> Self {
        let free = info.free_after_release();
        let units = node.units_per_gpu().max(1);
        let shared =
            info.shared_devices.iter().map(SharedDevice::used_later).filter(|taken| *taken > 0);
        Self {
            cpu_milli: free.cpu_milli,
            memory_bytes: free.memory_bytes,
            devices: free.gpu_milli.max(0) / 1000,
            shared_milli: shared.map(|taken| 1000 - units_to_milli(taken, units)).collect(),
        }
    }

    /// The capacity left after the pod is placed. Fractions are taken from the fullest GPUs, as the
    /// choice of devices does.
    fn after_placing(&self, request: PodRequest) -> Self {
        let mut remaining = self.clone();
        remaining.cpu_milli -= request.cpu_milli;
        remaining.memory_bytes -= request.memory_bytes;
        if request.milli_per_device >= 1000 {
            remaining.devices -= request.devices;
            return remaining;
        }
        let mut free: Vec<usize> = (0..remaining.shared_milli.len())
            .filter(|at| remaining.shared_milli[*at] >= request.milli_per_device)
            .collect();
        free.sort_by_key(|at| remaining.shared_milli[*at]);
        let mut devices = free.into_iter();
        for _ in 0..request.devices {
            if let Some(at) = devices.next() {
                remaining.shared_milli[at] -= request.milli_per_device;
            } else {
                remaining.devices -= 1;
                remaining.shared_milli.push(1000 - request.milli_per_device);
            }
        }
        remaining
    }

    /// Thousandths of free GPUs that pods with this request cannot use: shared GPUs with too little
    /// left, and the remainder once as many pods as possible are placed.
    fn unusable_milli_for(&self, request: PodRequest) -> i64 {
        let free = 1000 * self.devices + self.shared_milli.iter().sum::<i64>();
        let fitting = self.count_fitting(request);
        let too_small = if fitting == 0 {
            free
        } else {
            self.shared_milli
                .iter()
                .filter(|free_milli| **free_milli < request.milli_per_device)
                .sum()
        };
        too_small + free - fitting * request.milli_per_device * request.devices
    }

    /// Number of pods with this request that fit.
    fn count_fitting(&self, request: PodRequest) -> i64 {
        let slots = |free: i64| free / request.milli_per_device.max(1);
        let devices =
            slots(1000) * self.devices + self.shared_milli.iter().copied().map(slots).sum::<i64>();
        let bounds = [
            (devices, request.devices),
            (self.cpu_milli, request.cpu_milli),
            (self.memory_bytes, request.memory_bytes),
        ];
        let counts = bounds.into_iter().filter(|(_, requested)| *requested > 0);
        counts.map(|(free, requested)| free.max(0) / requested).min().unwrap_or(0)
    }
}

impl PodRequest {
    fn new(node: &Node, shape: &PodShape) -> Self {
        let units = node.units_per_gpu().max(1);
        let (milli_per_device, devices) = match &shape.fractional_gpu {
            Some(fraction) => {
                (units_to_milli(fraction.units_on(node), units), i64::from(fraction.devices))
            }
            None => (1000, shape.requests.gpu_milli.max(0) / 1000),
        };
        Self {
            cpu_milli: shape.requests.cpu_milli.max(0),
            memory_bytes: shape.requests.memory_bytes.max(0),
            milli_per_device,
            devices,
        }
    }
}

/// Converts units of a device to thousandths of the device, rounded up.
fn units_to_milli(taken: i64, units: i64) -> i64 {
    let milli = (i128::from(taken) * 1000 + i128::from(units) - 1) / i128::from(units);
    i64::try_from(milli).unwrap_or(i64::MAX).max(1)
}
