//! The shared GPUs and NUMA shares of each pod, allocated and pipelined. Portions are stored once
//! and never change, so that a pod's state is two indices that can be logged and restored.

use super::{Occupancy, PodState};
use crate::{
    Snapshot,
    framework::{
        DeviceCandidate, DeviceOrder, DevicePreference, Fit, NodeInfo, Session, Statement,
        node::NumaShares,
    },
    model::{FractionalGpu, GpuGroup, ListEdit, Name, NodeId, Pod, PodId},
};

/// All portions of nodes' GPUs and NUMA zones, and which of them each pod has.
#[derive(Clone, Debug)]
pub(in crate::framework) struct PortionTable {
    portions: Vec<Portion>,
    pods: Vec<PortionIndices>,
}

/// The particular GPUs, and amounts of NUMA zones, that one pod has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::framework) struct Portion {
    pub(in crate::framework) gpu_groups: Vec<GpuGroup>,
    pub(in crate::framework) numa: NumaShares,
}

/// Positions of a pod's portions in the table; the portion at position 0 is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::framework) struct PortionIndices {
    /// The portion on the node where the pod is allocated.
    pub(in crate::framework) allocated: u32,
    /// The portion on the node to which the pod is pipelined.
    pub(in crate::framework) pipelined: u32,
}

impl PortionIndices {
    pub(in crate::framework) const fn pipeline_allocated(self) -> Self {
        Self { pipelined: self.allocated, ..self }
    }

    pub(in crate::framework) const fn without_pipelined(self) -> Self {
        Self { pipelined: 0, ..self }
    }
}

impl PortionTable {
    /// The portions that pods have in the snapshot. A pod with a GPU fraction that names no GPU
    /// group shares its GPU with no other pod.
    pub(in crate::framework) fn new(snapshot: &Snapshot) -> Self {
        let pods = vec![PortionIndices::default(); snapshot.pods.len()];
        let mut portions = Self { portions: vec![Portion::default()], pods };
        for (pod, at) in snapshot.pods.iter().zip(0..) {
            portions.set_initial(snapshot, pod, PodId(at));
        }
        portions
    }

    /// Sets the portion that the pod has in the snapshot.
    fn set_initial(&mut self, snapshot: &Snapshot, pod: &Pod, id: PodId) {
        let allocated = pod.node.map_or(0, |node| {
            let fractional_gpu = snapshot.shapes[pod.shape.0 as usize].fractional_gpu;
            if fractional_gpu.is_none() && pod.numa_allocations.is_empty() {
                return 0;
            }
            let gpu_groups = fractional_gpu
                .map_or_else(Vec::new, |fractional_gpu| initial_gpu_groups(pod, &fractional_gpu));
            let numa = initial_numa_shares(snapshot, pod, node);
            self.add_portion(Portion { gpu_groups, numa })
        });
        self.set_portions(id, PortionIndices { allocated, pipelined: 0 });
    }

    /// Follows the changes of the snapshot: inserts and removes pods, and sets the portions that
    /// the pods `changed` have in the snapshot.
    pub(in crate::framework) fn update(
        &mut self,
        snapshot: &Snapshot,
        edit: &ListEdit,
        changed: &[PodId],
    ) {
        if self.portions.len() > 2 * snapshot.pods.len() + 64 {
            // Most of them are portions that pods had in former cycles.
            *self = Self::new(snapshot);
            return;
        }
        edit.apply(&mut self.pods, |_| PortionIndices::default());
        for pod in changed {
            self.set_initial(snapshot, &snapshot.pods[pod.0 as usize], *pod);
        }
    }

    /// Number of portions.
    pub(in crate::framework) const fn count(&self) -> usize {
        self.portions.len()
    }

    /// Forgets all portions but the first `count`, which no pod has any more.
    pub(in crate::framework) fn truncate(&mut self, count: usize) {
        self.portions.truncate(count);
    }

    pub(in crate::framework) fn add_portion(&mut self, portion: Portion) -> u32 {
        if portion == Portion::default() {
            return 0;
        }
        self.portions.push(portion);
        u32::try_from(self.portions.len() - 1).expect("a cycle makes fewer than 2^32 portions")
    }

    pub(in crate::framework) fn of_pod(&self, pod: PodId) -> PortionIndices {
        self.pods[pod.0 as usize]
    }

    pub(in crate::framework) fn set_portions(&mut self, pod: PodId, portions: PortionIndices) {
        self.pods[pod.0 as usize] = portions;
    }

    pub(in crate::framework) fn portion_at(&self, index: u32) -> &Portion {
        &self.portions[index as usize]
    }

    /// The shared GPUs that the pod has by this kind of occupancy.
    pub(in crate::framework) fn gpu_groups_of(
        &self,
        pod: PodId,
        occupancy: Occupancy,
    ) -> &[GpuGroup] {
        &self.portion_of(pod, occupancy).gpu_groups
    }

    /// The shares of NUMA zones that the pod has by this kind of occupancy.
    pub(in crate::framework) fn numa_shares_of(
        &self,
        pod: PodId,
        occupancy: Occupancy,
    ) -> &NumaShares {
        &self.portion_of(pod, occupancy).numa
    }

    /// Whether the pod is pipelined to exactly the GPUs and zones that it has.
    pub(in crate::framework) fn is_pipelined_in_place(&self, pod: PodId) -> bool {
        self.portion_of(pod, Occupancy::Pipelined) == self.portion_of(pod, Occupancy::Allocated)
    }

    fn portion_of(&self, pod: PodId, occupancy: Occupancy) -> &Portion {
        let portions = self.of_pod(pod);
        match occupancy {
            Occupancy::Pipelined => self.portion_at(portions.pipelined),
            Occupancy::Allocated | Occupancy::Releasing | Occupancy::Stuck => {
                self.portion_at(portions.allocated)
            }
        }
    }
}

/// The names of the shared GPUs that the pod uses in the snapshot, one name for each GPU.
fn initial_gpu_groups(pod: &Pod, fractional_gpu: &FractionalGpu) -> Vec<GpuGroup> {
    let mut gpu_groups = pod.gpu_groups.clone();
    for unnamed in gpu_groups.len()..fractional_gpu.devices as usize {
        gpu_groups.push(format!("{}-{unnamed}", pod.uid).into());
    }
    gpu_groups
}

/// The shares of NUMA zones that the pod has in the snapshot. Shares of zones that the node no
/// longer has are left out.
fn initial_numa_shares(snapshot: &Snapshot, pod: &Pod, node: NodeId) -> NumaShares {
    let numa = snapshot.nodes[node.0 as usize].numa.as_ref();
    let zones = numa.map_or(&[][..], |numa| &numa.zones);
    let known = pod.numa_allocations.iter().filter_map(|share| {
        let at = zones.iter().position(|zone| zone.name == share.zone)?;
        Some((at, share.amount.clone()))
    });
    known.collect()
}

impl Statement<'_> {
    /// Pipelines a pending pod to its nominated node and to the GPUs that the snapshot names. Used
    /// for snapshots that were taken within a cycle, because between cycles no pod is pipelined.
    pub(crate) fn restore_pipelined(&mut self, pod: PodId) {
        let (of, shape) = (self.pod(pod), self.shape_of(pod));
        let Some(node) = of.nominated_node else { return };
        let gpu_groups = shape.fractional_gpu.map(|shared| initial_gpu_groups(of, &shared));
        let portion = Portion { gpu_groups: gpu_groups.unwrap_or_default(), ..Portion::default() };
        let pipelined = self.session.pods.add_portion(portion);
        let portions = PortionIndices { pipelined, ..PortionIndices::default() };
        self.change_state(pod, PodState::Pipelined(node), portions);
    }

    /// Chooses the GPUs and NUMA zones of `node` that the pod gets.
    pub(in crate::framework) fn choose_portion(
        &mut self,
        pod: PodId,
        node: NodeId,
        occupancy: Occupancy,
    ) -> PortionIndices {
        let (gpu_groups, numa) =
            (self.choose_gpu_groups(pod, node), self.choose_numa(pod, node, occupancy));
        let portions = self.portions_of(pod);
        let portion = self.session.pods.add_portion(Portion { gpu_groups, numa });
        match occupancy {
            Occupancy::Pipelined => PortionIndices { pipelined: portion, ..portions },
            Occupancy::Allocated | Occupancy::Releasing | Occupancy::Stuck => {
                PortionIndices { allocated: portion, ..portions }
            }
        }
    }
}

impl Session<'_> {
    /// How pods choose among the GPUs of a node.
    pub fn device_preference(&self) -> DevicePreference {
        let order =
            if self.looks_ahead() { DeviceOrder::AfterRelease } else { DeviceOrder::Present };
        DevicePreference { placement: self.profile.device_placement, order }
    }

    /// When the shared GPUs that the pod would get on the node are free.
    pub fn shared_device_fit(&self, pod: PodId, node: NodeId) -> Fit {
        let Some(fractional_gpu) = &self.shape_of(pod).fractional_gpu else { return Fit::Now };
        let (of, info) = (self.node(node), self.node_info(node));
        let chosen = info.choose_devices(of, fractional_gpu, self.device_preference());
        chosen.into_iter().flatten().map(|(_, fits)| fits).max().unwrap_or(Fit::Now)
    }

    fn choose_gpu_groups(&self, pod: PodId, node: NodeId) -> Vec<GpuGroup> {
        let Some(fractional_gpu) = &self.shape_of(pod).fractional_gpu else { return Vec::new() };
        let (of, info) = (self.node(node), self.node_info(node));
        let unfit = || vec![(DeviceCandidate::New, Fit::Now); fractional_gpu.devices as usize];
        let chosen = info.choose_devices(of, fractional_gpu, self.device_preference());
        let chosen = chosen.unwrap_or_else(unfit);
        let mut gpu_groups: Vec<GpuGroup> = Vec::new();
        for (device, _) in chosen {
            let group = match device {
                DeviceCandidate::Shared(at) => info.shared_devices[at].group.clone(),
                DeviceCandidate::New => new_gpu_group_name(&self.pod(pod).uid, info, &gpu_groups),
            };
            gpu_groups.push(group);
        }
        gpu_groups
    }
}

/// Name for a GPU that becomes shared: the uid of its first pod, made unique on the node.
fn new_gpu_group_name(uid: &Name, info: &NodeInfo, chosen: &[GpuGroup]) -> GpuGroup {
    let taken = |name: &GpuGroup| {
        chosen.contains(name) || info.shared_devices.iter().any(|device| device.group == *name)
    };
    let numbered = (1..).map(|number| GpuGroup::from(format!("{uid}-{number}")));
    let mut names = std::iter::once(uid.clone()).chain(numbered);
    names.find(|name| !taken(name)).expect("there are more numbers than devices")
}
