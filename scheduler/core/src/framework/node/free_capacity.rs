//! The free capacity of a node, now or later, and how often a shape fits in it.

use std::collections::BTreeMap;

use super::{NodeInfo, SharedDevice};
use crate::{
    framework::Session,
    model::{FractionalGpu, GpuGroup, Node, NodeId, PodShape},
    resources::{PerResource, Resources},
};

/// Free capacity of a node once everything is released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeCapacity {
    /// Free resources; GPUs count only when the whole GPU is free.
    pub(crate) resources: Resources,
    /// Used units of each shared GPU.
    device_use: Vec<(GpuGroup, i64)>,
    /// Units of one GPU: see [`Node::units_per_gpu`].
    device_units: i64,
}

/// Capacity of a node that is assumed to be freed by evictions.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreedCapacity {
    resources: Resources,
    device_use: BTreeMap<GpuGroup, i64>,
}

/// What pods of one shape request of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapacityRequest<'a> {
    /// Requests of each pod.
    pub(crate) resources: &'a Resources,
    /// Devices that the claims of the shape take once for all its pods on the node.
    pub(crate) once_per_node: &'a Resources,
    /// Requested GPU fraction: units of one GPU, and number of GPUs.
    pub(crate) fraction: Option<(i64, u32)>,
}

impl FreeCapacity {
    /// The free capacity of `node` in the current session.
    pub(crate) fn of_node(session: &Session<'_>, node: NodeId) -> Self {
        Self::of_info(session.node_info(node), session.node(node))
    }

    /// The free capacity of `node`, given its current info.
    pub(in crate::framework) fn of_info(info: &NodeInfo, node: &Node) -> Self {
        let taken = |device: &SharedDevice| (device.group.clone(), device.used_later());
        let fractional_gpu =
            info.shared_devices.iter().filter(|device| device.used_later() > 0).map(taken);
        Self {
            resources: info.free_after_release(),
            device_use: fractional_gpu.collect(),
            device_units: node.units_per_gpu(),
        }
    }

    /// The free capacity of `node` if no pod ran on it.
    pub(crate) fn of_empty_node(node: &Node) -> Self {
        let resources = node.capacity_when_empty().into_owned();
        Self { resources, device_use: Vec::new(), device_units: node.units_per_gpu() }
    }

    /// Whether the pods on the node, or pipelined to it, request more than it has.
    pub(crate) fn is_overcommitted(&self) -> bool {
        let Resources { gpu_milli, cpu_milli, memory_bytes, pods, extended } = &self.resources;
        let fixed = [gpu_milli, cpu_milli, memory_bytes, pods];
        fixed.into_iter().chain(extended.values()).any(|free| *free < 0)
    }

    /// Free GPUs, CPU and memory, each at least 0. Only wholly free GPUs count.
    pub(crate) fn free_with_whole_gpus(&self) -> PerResource<i64> {
        self.resources.accounted_amounts().at_least_zero()
    }

    /// Free GPUs, CPU and memory, each at least 0. Free fractions of shared GPUs count.
    pub(crate) fn free_with_gpu_fractions(&self) -> PerResource<i64> {
        let whole = self.free_with_whole_gpus();
        let units = i128::from(self.device_units.max(1));
        let fraction = self.device_use.iter().map(|(_, taken)| {
            let free = units - i128::from(*taken);
            i64::try_from((free * 1000 + units - 1) / units).unwrap_or(0).max(0)
        });
        PerResource { gpu: fraction.fold(whole.gpu, i64::saturating_add), ..whole }
    }

    /// Number of pods with this request that fit, given that `freed` capacity is free as well.
    pub(crate) fn count_fitting_pods(
        &self,
        freed: Option<&FreedCapacity>,
        requested: CapacityRequest<'_>,
    ) -> u32 {
        let mut least = self.count_fits_without_fractions(freed, requested);
        if let Some((units, devices)) = requested.fraction {
            let slots = self.count_fraction_slots(freed, units) / u64::from(devices.max(1));
            least = least.min(i64::try_from(slots).unwrap_or(i64::MAX));
        }
        u32::try_from(least).unwrap_or(u32::MAX)
    }

    /// Takes the request of one more pod, which must fit. Among shared GPUs, the fullest are used
    /// first.
    pub(crate) fn take_request(
        &mut self,
        CapacityRequest { resources, fraction, .. }: CapacityRequest<'_>,
    ) {
        self.resources.subtract(resources);
        let Some((units, devices)) = fraction else { return };
        let limit = self.device_units.saturating_sub(units);
        self.device_use.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
        let fractional_gpu = self.device_use.iter_mut().filter(|(_, taken)| *taken <= limit);
        let mut opened = devices;
        for (_, taken) in fractional_gpu.take(devices as usize) {
            *taken += units;
            opened -= 1;
        }
        for _ in 0..opened {
            self.resources.gpu_milli -= 1000;
            self.device_use.push((GpuGroup::default(), units));
        }
    }

    fn count_fits_without_fractions(
        &self,
        freed: Option<&FreedCapacity>,
        requested: CapacityRequest<'_>,
    ) -> i64 {
        let nothing = Resources::default();
        let (free, more) = (&self.resources, freed.map_or(&nothing, |freed| &freed.resources));
        let CapacityRequest { resources: each, once_per_node, .. } = requested;
        let fits = |free: i64, freed: i64, once_per_node: i64, each: i64| {
            let room = free.saturating_add(freed).saturating_sub(once_per_node);
            match (each > 0, once_per_node > 0 && room < 0) {
                (_, true) => 0,
                (true, false) => room.max(0) / each,
                (false, false) => i64::MAX,
            }
        };
        let asks_gpus = each.gpu_milli > 0 || once_per_node.gpu_milli > 0;
        let gpu_milli = if asks_gpus { self.whole_gpu_milli(freed) } else { 0 };
        let plain = [
            fits(gpu_milli, 0, once_per_node.gpu_milli, each.gpu_milli),
            fits(free.cpu_milli, more.cpu_milli, once_per_node.cpu_milli, each.cpu_milli),
            fits(
                free.memory_bytes,
                more.memory_bytes,
                once_per_node.memory_bytes,
                each.memory_bytes,
            ),
            fits(free.pods, more.pods, once_per_node.pods, each.pods),
        ];
        let extended = each.extended.keys().chain(once_per_node.extended.keys()).map(|name| {
            let of = |all: &Resources| all.extended_amount(name);
            fits(of(free), of(more), of(once_per_node), of(each))
        });
        plain.into_iter().chain(extended).min().unwrap_or(0)
    }

    /// Thousandths of whole GPUs that are free, including shared GPUs whose pods are all assumed
    /// evicted.
    fn whole_gpu_milli(&self, freed: Option<&FreedCapacity>) -> i64 {
        let gone = freed.map_or(0, |freed| freed.resources.gpu_milli);
        let emptied = self
            .device_use
            .iter()
            .filter(|(group, taken)| device_use_after_release(freed, group, *taken) <= 0);
        let emptied = i64::try_from(emptied.count()).unwrap_or(0) * 1000;
        self.resources.gpu_milli.saturating_add(gone).saturating_add(emptied)
    }

    /// Number of GPU fractions of `units` that fit on all GPUs.
    fn count_fraction_slots(&self, freed: Option<&FreedCapacity>, units: i64) -> u64 {
        let times = |free: i64| if units <= 0 { 0 } else { free.max(0) / units };
        let whole = self.whole_gpu_milli(freed).max(0) / 1000;
        let left = self
            .device_use
            .iter()
            .map(|(group, taken)| device_use_after_release(freed, group, *taken));
        let fractional_gpu =
            left.filter(|left| *left > 0).map(|left| times(self.device_units - left));
        let new = whole.saturating_mul(times(self.device_units));
        u64::try_from(fractional_gpu.fold(new, i64::saturating_add)).unwrap_or(0)
    }
}

/// Units of a shared GPU that stay in use after the assumed evictions.
fn device_use_after_release(freed: Option<&FreedCapacity>, group: &GpuGroup, taken: i64) -> i64 {
    let gone = freed.and_then(|freed| freed.device_use.get(group)).copied().unwrap_or(0);
    taken - gone
}

impl FreedCapacity {
    /// Assumes that a pod of `shape`, which uses the shared GPUs `groups` of `node`, is evicted.
    pub(crate) fn free_pod(&mut self, node: &Node, shape: &PodShape, groups: &[GpuGroup]) {
        self.resources.add(&shape.requests_and_claims_on(node));
        if let Some(fractional_gpu) = &shape.fractional_gpu {
            for group in groups {
                *self.device_use.entry(group.clone()).or_default() += fractional_gpu.units_on(node);
            }
        }
    }
}

/// The GPU fraction that a pod requests on `node`: units of one GPU and number of GPUs. `None` for
/// pods without a fraction.
pub(crate) fn fraction_units_on(
    node: &Node,
    fractional_gpu: Option<&FractionalGpu>,
) -> Option<(i64, u32)> {
    fractional_gpu.map(|fractional_gpu| (fractional_gpu.units_on(node), fractional_gpu.devices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, model::Pod};
    use schedlab_testkit::snapshot_of;

    fn first<T>(
        text: &str,
        look: impl Fn(&FreeCapacity, &FreedCapacity, CapacityRequest<'_>) -> T,
    ) -> T {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let node = &snapshot.nodes[0];
        let shape = |pod: &Pod| &snapshot.shapes[pod.shape.0 as usize];
        let mut freed = FreedCapacity::default();
        for pod in snapshot.pods.iter().filter(|pod| pod.name.starts_with("gone")) {
            freed.free_pod(node, shape(pod), &pod.gpu_groups);
        }
        let waiting = snapshot.pods.iter().find(|pod| pod.node.is_none()).map(shape);
        let nothing = PodShape::default();
        let asks = waiting.unwrap_or(&nothing);
        let fraction = fraction_units_on(node, asks.fractional_gpu.as_ref());
        let once_per_node = &asks.new_claims_on(node);
        let requested = CapacityRequest { resources: &asks.requests, once_per_node, fraction };
        look(&FreeCapacity::of_node(&session, NodeId(0)), &freed, requested)
    }

    /// How often the pending pod's request fits on the node once pods named `gone` are evicted.
    fn times(text: &str) -> u32 {
        first(text, |free, freed, requested| free.count_fitting_pods(Some(freed), requested))
    }

    /// The accounted free resources of the node.
    fn accounted(text: &str) -> PerResource<i64> {
        first(text, |free, _, _| free.free_with_gpu_fractions())
    }

    #[test]
    fn the_scarcest_resource_limits_how_often_a_shape_fits() {
        let node = "node n1 gpus=8 cpu=12 memory=12Gi pods=11 extended nic=12";
        let often = |taken: &str, shape: &str| times(&format!("{node}\n{taken}\njob x {shape}"));
        assert_eq!(often("", "gpus=2"), 4);
        assert_eq!(often("job a gpus=3 on n1", "gpus=2"), 2);
        assert_eq!(often("job a cpu=1 on n1", "gpus=1 cpu=3"), 3);
        assert_eq!(often("job a memory=1Gi on n1", "gpus=1 memory=3Gi"), 3);
        assert_eq!(often("job a extended nic=1 on n1", "gpus=1 extended nic=3"), 3);
        assert_eq!(often("", ""), 11);
        assert_eq!(often("", "extended fpga=1"), 0);
    }

    #[test]
    fn a_shared_claim_is_counted_once_per_node() {
        let often = |shape: &str| times(&format!("node n1 gpus=4 by-claim cpu=6\njob x {shape}"));
        assert_eq!(often("claim c:4 cpu=2"), 3);
        assert_eq!(often("claim c:5 cpu=2"), 0);
        assert_eq!(often("claim c:5/n1 cpu=2"), 3, "it is allocated there");
        assert_eq!(often("claim c:all cpu=3"), 2);
    }

    #[test]
    fn assumed_evictions_free_capacity() {
        let node = "node n1 gpus=8 cpu=12 memory=12Gi pods=2 extended nic=12";
        let gone = "job gone gpus=4 cpu=6 memory=6Gi extended nic=6 on n1";
        let often = |shape: &str| times(&format!("{node}\n{gone}\njob x {shape}"));
        assert_eq!(often("gpus=4"), 2);
        assert_eq!(often("cpu=6"), 2);
        assert_eq!(often("memory=6Gi"), 2);
        assert_eq!(often("extended nic=6"), 2);
        assert_eq!(often("gpus=5"), 1);
        let overfull = "node n1 cpu=1\njob gone cpu=2 on n1\njob a cpu=2 on n1\njob x cpu=1";
        assert_eq!(times(overfull), 0);
    }

    #[test]
    fn gpu_fractions_fit_on_shared_and_whole_devices() {
        let often = |fractional_gpu: &str, shape: &str| {
            times(&format!("node n1 gpus=3 gpu-memory=10\n{fractional_gpu}\njob x {shape}"))
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
    fn free_fractions_of_shared_devices_are_accounted_rounded_up() {
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
