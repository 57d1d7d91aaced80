//! The node on which a pod breaks up least of what the cluster's pods could still use. KAI has no
//! such score; the measure of loss follows Weng et al., "Beware of Fragmentation" (USENIX ATC
//! 2023), with a second part that sees cores and memory run out before the GPUs do.
//!
//! Which pods will come is read from those that are there: each shape counts as often as there are
//! pods of it. Where a shape may run by its labels and tolerations is not looked at, room alone is.

use crate::{
    framework::NodeScore,
    model::{Node, PodId, PodShape},
    session::{NodeRoom, Session, SharedDevice},
};

/// What pods get that change nothing; those that lose less GPUs get more.
const NOTHING_LOST: i64 = 9 * super::POINT / 2;
/// So much less for each thousandth of a GPU that is lost on average.
const PER_MILLI: i64 = super::POINT / 10_000;

/// What a node has left when everything is released.
#[derive(Clone, Debug)]
struct Left {
    cpu_milli: i64,
    memory_bytes: i64,
    devices: i64,
    /// Thousandths of each device that is shared.
    parts: Vec<i64>,
}

/// What a pod asks of it: thousandths of so many devices.
#[derive(Clone, Copy, Debug)]
struct Ask {
    cpu_milli: i64,
    memory_bytes: i64,
    milli: i64,
    devices: i64,
}

/// The less is lost by placing the pod, the better.
pub(super) fn score<'a>(session: &'a Session<'_>, pod: PodId) -> NodeScore<'a> {
    let shape = session.shape_of(pod);
    let demand = session.gpu_demand();
    let pods: i128 = demand.iter().map(|(_, count)| i128::from(*count)).sum();
    Box::new(move |node| {
        let (of, room) = (session.node(node), session.room(node));
        let before = Left::of(of, room);
        let after = before.less(Ask::of(of, shape));
        let lost_more = |(shape, count): &(&'a PodShape, i64)| {
            let ask = Ask::of(of, shape);
            i128::from(*count) * i128::from(after.lost_to(ask) - before.lost_to(ask))
        };
        let lost: i128 = demand.iter().map(lost_more).sum();
        let off = lost * i128::from(PER_MILLI) / pods.max(1);
        let score = i128::from(NOTHING_LOST) - off;
        i64::try_from(score.clamp(0, 9 * i128::from(super::POINT))).unwrap_or(0)
    })
}

impl Left {
    fn of(node: &Node, room: &NodeRoom) -> Self {
        let free = room.free_later();
        let units = node.gpu_units().max(1);
        let shared = room.shared.iter().map(SharedDevice::later).filter(|taken| *taken > 0);
        Self {
            cpu_milli: free.cpu_milli,
            memory_bytes: free.memory_bytes,
            devices: free.gpu_milli.max(0) / 1000,
            parts: shared.map(|taken| 1000 - thousandths(taken, units)).collect(),
        }
    }

    /// With the pod there: parts are taken of the fullest devices, as devices are chosen.
    fn less(&self, ask: Ask) -> Self {
        let mut left = self.clone();
        left.cpu_milli -= ask.cpu_milli;
        left.memory_bytes -= ask.memory_bytes;
        if ask.milli >= 1000 {
            left.devices -= ask.devices;
            return left;
        }
        let mut free: Vec<usize> =
            (0..left.parts.len()).filter(|at| left.parts[*at] >= ask.milli).collect();
        free.sort_by_key(|at| left.parts[*at]);
        let mut places = free.into_iter();
        for _ in 0..ask.devices {
            if let Some(at) = places.next() {
                left.parts[at] -= ask.milli;
            } else {
                left.devices -= 1;
                left.parts.push(1000 - ask.milli);
            }
        }
        left
    }

    /// Thousandths of its free GPUs that such pods cannot use: what is too small for one of them,
    /// and what is left when as many as fit are there.
    fn lost_to(&self, ask: Ask) -> i64 {
        let free = 1000 * self.devices + self.parts.iter().sum::<i64>();
        let times = self.times(ask);
        let useless = if times == 0 {
            free
        } else {
            self.parts.iter().filter(|part| **part < ask.milli).sum()
        };
        useless + free - times * ask.milli * ask.devices
    }

    /// How many such pods fit one after the other.
    fn times(&self, ask: Ask) -> i64 {
        let slots = |free: i64| free / ask.milli.max(1);
        let devices =
            slots(1000) * self.devices + self.parts.iter().copied().map(slots).sum::<i64>();
        let bounds = [
            (devices, ask.devices),
            (self.cpu_milli, ask.cpu_milli),
            (self.memory_bytes, ask.memory_bytes),
        ];
        let times = bounds.into_iter().filter(|(_, asked)| *asked > 0);
        times.map(|(left, asked)| left.max(0) / asked).min().unwrap_or(0)
    }
}

impl Ask {
    fn of(node: &Node, shape: &PodShape) -> Self {
        let units = node.gpu_units().max(1);
        let (milli, devices) = match &shape.shared_gpu {
            Some(part) => (thousandths(part.units_on(node), units), i64::from(part.devices)),
            None => (1000, shape.requests.gpu_milli.max(0) / 1000),
        };
        Self {
            cpu_milli: shape.requests.cpu_milli.max(0),
            memory_bytes: shape.requests.memory_bytes.max(0),
            milli,
            devices,
        }
    }
}

/// Of a device of so many units, rounded up.
fn thousandths(taken: i64, units: i64) -> i64 {
    let milli = (i128::from(taken) * 1000 + i128::from(units) - 1) / i128::from(units);
    i64::try_from(milli).unwrap_or(i64::MAX).max(1)
}
