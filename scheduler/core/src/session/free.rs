//! What is free on a node, or will be, and how often a shape fits there.

use std::collections::BTreeMap;

use super::{Session, SharedDevice};
use crate::{
    model::{GpuGroup, Node, NodeId, PodShape, SharedGpu},
    resources::{PerResource, Resources},
};

/// What is free on a node when everything is released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Free {
    /// Whole devices among it.
    pub(crate) resources: Resources,
    /// What is taken of shared devices that are not free as a whole.
    taken: Vec<(GpuGroup, i64)>,
    /// How much there is of each device, in the unit of [`Node::gpu_units`].
    device_units: i64,
}

/// What is imagined to be gone from a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Freed {
    resources: Resources,
    parts: BTreeMap<GpuGroup, i64>,
}

/// What pods of one shape ask of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// For each.
    pub(crate) resources: &'a Resources,
    /// For their claims: once for all.
    pub(crate) once: &'a Resources,
    /// Units of one device of that node, and of how many devices.
    pub(crate) parts: Option<(i64, u32)>,
}

impl Free {
    /// On `node` now.
    pub(crate) fn of(session: &Session<'_>, node: NodeId) -> Self {
        let room = session.room(node);
        let taken = |device: &SharedDevice| (device.group.clone(), device.later());
        let shared = room.shared.iter().filter(|device| device.later() > 0).map(taken);
        Self {
            resources: room.free_later(),
            taken: shared.collect(),
            device_units: session.node(node).gpu_units(),
        }
    }

    /// On `node`, were nothing on it.
    pub(crate) fn of_empty(node: &Node) -> Self {
        let resources = node.room().into_owned();
        Self { resources, taken: Vec::new(), device_units: node.gpu_units() }
    }

    /// The part that queues account for, of devices whole ones.
    pub(crate) fn whole(&self) -> PerResource<i64> {
        self.resources.accounted().at_least_zero()
    }

    /// The part that queues account for, parts of devices included.
    pub(crate) fn accounted(&self) -> PerResource<i64> {
        let whole = self.whole();
        let units = i128::from(self.device_units.max(1));
        let parts = self.taken.iter().map(|(_, taken)| {
            let free = units - i128::from(*taken);
            i64::try_from((free * 1000 + units - 1) / units).unwrap_or(0).max(0)
        });
        PerResource { gpu: parts.fold(whole.gpu, i64::saturating_add), ..whole }
    }

    /// How many times what is asked for fits, with what is imagined gone.
    pub(crate) fn times(&self, freed: Option<&Freed>, asked: Asked<'_>) -> u32 {
        let mut least = self.times_whole(freed, asked);
        if let Some((units, devices)) = asked.parts {
            let slots = self.slots(freed, units) / u64::from(devices.max(1));
            least = least.min(i64::try_from(slots).unwrap_or(i64::MAX));
        }
        u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// One more pod takes what it asks for, which fits: of devices that are shared the fullest.
    pub(crate) fn take(&mut self, Asked { resources, parts, .. }: Asked<'_>) {
        self.resources.subtract(resources);
        let Some((units, devices)) = parts else { return };
        let limit = self.device_units.saturating_sub(units);
        self.taken.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
        let shared = self.taken.iter_mut().filter(|(_, taken)| *taken <= limit);
        let mut opened = devices;
        for (_, taken) in shared.take(devices as usize) {
            *taken += units;
            opened -= 1;
        }
        for _ in 0..opened {
            self.resources.gpu_milli -= 1000;
            self.taken.push((GpuGroup::default(), units));
        }
    }

    fn times_whole(&self, freed: Option<&Freed>, asked: Asked<'_>) -> i64 {
        let nothing = Resources::default();
        let (free, more) = (&self.resources, freed.map_or(&nothing, |freed| &freed.resources));
        let Asked { resources: each, once, .. } = asked;
        let fits = |free: i64, freed: i64, once: i64, each: i64| {
            let room = free.saturating_add(freed).saturating_sub(once);
            match (each > 0, once > 0 && room < 0) {
                (_, true) => 0,
                (true, false) => room.max(0) / each,
                (false, false) => i64::MAX,
            }
        };
        let asks_gpus = each.gpu_milli > 0 || once.gpu_milli > 0;
        let gpu_milli = if asks_gpus { self.whole_gpu_milli(freed) } else { 0 };
        let plain = [
            fits(gpu_milli, 0, once.gpu_milli, each.gpu_milli),
            fits(free.cpu_milli, more.cpu_milli, once.cpu_milli, each.cpu_milli),
            fits(free.memory_bytes, more.memory_bytes, once.memory_bytes, each.memory_bytes),
            fits(free.pods, more.pods, once.pods, each.pods),
        ];
        let extended = each.extended.keys().chain(once.extended.keys()).map(|name| {
            let of = |all: &Resources| all.extended_of(name);
            fits(of(free), of(more), of(once), of(each))
        });
        plain.into_iter().chain(extended).min().unwrap_or(0)
    }

    /// Whole devices: free ones, and shared ones that everybody leaves.
    fn whole_gpu_milli(&self, freed: Option<&Freed>) -> i64 {
        let gone = freed.map_or(0, |freed| freed.resources.gpu_milli);
        let emptied = self.taken.iter().filter(|(group, taken)| rest(freed, group, *taken) <= 0);
        let emptied = i64::try_from(emptied.count()).unwrap_or(0) * 1000;
        self.resources.gpu_milli.saturating_add(gone).saturating_add(emptied)
    }

    /// How many parts of `units` fit on all devices.
    fn slots(&self, freed: Option<&Freed>, units: i64) -> u64 {
        let times = |free: i64| if units <= 0 { 0 } else { free.max(0) / units };
        let whole = self.whole_gpu_milli(freed).max(0) / 1000;
        let left = self.taken.iter().map(|(group, taken)| rest(freed, group, *taken));
        let shared = left.filter(|left| *left > 0).map(|left| times(self.device_units - left));
        let new = whole.saturating_mul(times(self.device_units));
        u64::try_from(shared.fold(new, i64::saturating_add)).unwrap_or(0)
    }
}

/// What stays taken of a device.
fn rest(freed: Option<&Freed>, group: &GpuGroup, taken: i64) -> i64 {
    let gone = freed.and_then(|freed| freed.parts.get(group)).copied().unwrap_or(0);
    taken - gone
}

impl Freed {
    /// A pod of `shape` that shares the devices `groups` of `node` is gone.
    pub(crate) fn add(&mut self, node: &Node, shape: &PodShape, groups: &[GpuGroup]) {
        self.resources.add(&shape.requests_and_claims_on(node));
        if let Some(shared) = &shape.shared_gpu {
            for group in groups {
                *self.parts.entry(group.clone()).or_default() += shared.units_on(node);
            }
        }
    }
}

/// What a part of a device is on `node`; `None`: the pod asks for whole ones only.
pub(crate) fn parts_on(node: &Node, shared: Option<&SharedGpu>) -> Option<(i64, u32)> {
    shared.map(|shared| (shared.units_on(node), shared.devices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, model::Pod, testing::snapshot_of};

    fn first<T>(text: &str, look: impl Fn(&Free, &Freed, Asked<'_>) -> T) -> T {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let node = &snapshot.nodes[0];
        let shape = |pod: &Pod| &snapshot.shapes[pod.shape.0 as usize];
        let mut freed = Freed::default();
        for pod in snapshot.pods.iter().filter(|pod| pod.name.starts_with("gone")) {
            freed.add(node, shape(pod), &pod.gpu_groups);
        }
        let waiting = snapshot.pods.iter().find(|pod| pod.node.is_none()).map(shape);
        let nothing = PodShape::default();
        let asks = waiting.unwrap_or(&nothing);
        let parts = parts_on(node, asks.shared_gpu.as_ref());
        let once = &asks.new_claims_on(node);
        let asked = Asked { resources: &asks.requests, once, parts };
        look(&Free::of(&session, NodeId(0)), &freed, asked)
    }

    /// How often what the waiting pod asks for fits on the node once pods named `gone` are.
    fn times(text: &str) -> u32 {
        first(text, |free, freed, asked| free.times(Some(freed), asked))
    }

    /// What queues could account for of what is free on the node.
    fn accounted(text: &str) -> PerResource<i64> {
        first(text, |free, _, _| free.accounted())
    }

    #[test]
    fn a_shape_fits_as_often_as_the_scarcest_resource_lets_it() {
        let node = "node n1 gpus=8 cpu=12 memory=12Gi pods=11 extended nic=12";
        let often = |taken: &str, asks: &str| times(&format!("{node}\n{taken}\njob x {asks}"));
        assert_eq!(often("", "gpus=2"), 4);
        assert_eq!(often("job a gpus=3 on n1", "gpus=2"), 2);
        assert_eq!(often("job a cpu=1 on n1", "gpus=1 cpu=3"), 3);
        assert_eq!(often("job a memory=1Gi on n1", "gpus=1 memory=3Gi"), 3);
        assert_eq!(often("job a extended nic=1 on n1", "gpus=1 extended nic=3"), 3);
        assert_eq!(often("", ""), 11);
        assert_eq!(often("", "extended fpga=1"), 0);
    }

    #[test]
    fn a_shared_claim_is_taken_once_however_often_its_shape_fits() {
        let often = |asks: &str| times(&format!("node n1 gpus=4 by-claim cpu=6\njob x {asks}"));
        assert_eq!(often("claim c:4 cpu=2"), 3);
        assert_eq!(often("claim c:5 cpu=2"), 0);
        assert_eq!(often("claim c:5/n1 cpu=2"), 3, "it is allocated there");
        assert_eq!(often("claim c:all cpu=3"), 2);
    }

    #[test]
    fn what_is_imagined_gone_makes_room_for_more() {
        let node = "node n1 gpus=8 cpu=12 memory=12Gi pods=2 extended nic=12";
        let gone = "job gone gpus=4 cpu=6 memory=6Gi extended nic=6 on n1";
        let often = |asks: &str| times(&format!("{node}\n{gone}\njob x {asks}"));
        assert_eq!(often("gpus=4"), 2);
        assert_eq!(often("cpu=6"), 2);
        assert_eq!(often("memory=6Gi"), 2);
        assert_eq!(often("extended nic=6"), 2);
        assert_eq!(often("gpus=5"), 1);
        let overfull = "node n1 cpu=1\njob gone cpu=2 on n1\njob a cpu=2 on n1\njob x cpu=1";
        assert_eq!(times(overfull), 0);
    }

    #[test]
    fn parts_fit_on_shared_devices_and_on_whole_ones() {
        let often = |shared: &str, asks: &str| {
            times(&format!("node n1 gpus=3 gpu-memory=10\n{shared}\njob x {asks}"))
        };
        let some = "job a part=0.6 on n1/g1";
        assert_eq!(often("", "part=0.4"), 6);
        assert_eq!(often(some, "part=0.4"), 5);
        assert_eq!(often(some, "part=0.5"), 4);
        assert_eq!(often(some, "part=0.5 devices=2"), 2);
        assert_eq!(often(some, "part-memory=4"), 5);
        assert_eq!(often(some, "gpus=1"), 2);
        let two = "job a part=0.3 on n1/g1\njob gone part=0.3 on n1/g1";
        assert_eq!(often(two, "part=0.7"), 3);
        assert_eq!(often(two, "gpus=1"), 2);
        let all = "job gone-a part=0.3 on n1/g1\njob gone-b part=0.3 on n1/g1";
        assert_eq!(often(all, "part=0.5"), 6);
        assert_eq!(often(all, "gpus=1"), 3);
        let leaves = "job r part=0.6 releasing on n1/g1";
        assert_eq!((often(leaves, "gpus=1"), often(leaves, "part=0.5")), (3, 6));
    }

    #[test]
    fn queues_account_for_the_rest_of_shared_devices_rounded_up() {
        let free = accounted(
            "node n1 gpus=2 cpu=4 memory=1Gi gpu-memory=3\njob a part-memory=1 cpu=1 memory=0Gi on n1/g1",
        );
        assert_eq!(free, PerResource { gpu: 1667, cpu: 3000, memory: 1 << 30 });
        let half = accounted("node n1 gpus=1 cpu=1\njob a part=0.5 cpu=1 on n1/g1");
        assert_eq!(half.gpu, 500);
        let overfull = accounted("node n1 gpus=1 cpu=1\njob a cpu=2 memory=0Gi gpus=2 on n1");
        assert_eq!(overfull, PerResource { gpu: 0, cpu: 0, memory: 1 << 40 });
    }
}
