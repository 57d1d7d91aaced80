//! The capacity of all nodes, as pods come and go.

use super::{
    ChangedNodes, NodeInfo,
    numa::{assign_unknown_use, max_numa_zones},
};
use crate::{
    Snapshot,
    framework::pod::{Occupancy, PodStates},
    model::{NodeId, PodId, PodShape},
    resources::Resources,
};

/// The capacity of all nodes, and the log of changed ones.
#[derive(Clone, Debug)]
pub(in crate::framework) struct NodeStates {
    infos: Vec<NodeInfo>,
    changed: ChangedNodes,
    numa_zones_max: usize,
}

impl NodeStates {
    /// The nodes of the snapshot with its pods.
    pub(in crate::framework) fn new(snapshot: &Snapshot, pods: &PodStates) -> Self {
        let count = u32::try_from(snapshot.pods.len()).expect("pod ids are 32 bits");
        let mut nodes = Self::with_pods(snapshot, pods, (0..count).map(PodId));
        nodes.apply_published_numa(snapshot, pods);
        nodes
    }

    /// The nodes with only the pods `present`, without published NUMA usage.
    pub(in crate::framework) fn with_pods(
        snapshot: &Snapshot,
        pods: &PodStates,
        present: impl Iterator<Item = PodId>,
    ) -> Self {
        let mut nodes = Self {
            infos: snapshot.nodes.iter().map(NodeInfo::empty).collect(),
            changed: ChangedNodes::default(),
            numa_zones_max: max_numa_zones(snapshot),
        };
        for pod in present {
            nodes.add_pod(snapshot, pods, pod);
        }
        nodes.changed = ChangedNodes::default();
        nodes
    }

    pub(in crate::framework) fn info(&self, node: NodeId) -> &NodeInfo {
        &self.infos[node.0 as usize]
    }

    pub(in crate::framework) const fn changed(&self) -> &ChangedNodes {
        &self.changed
    }

    /// The maximum number of NUMA zones of a node; 0 when none are published.
    pub(in crate::framework) const fn numa_zones_max(&self) -> usize {
        self.numa_zones_max
    }

    /// Takes what the pod occupies in its current state.
    pub(in crate::framework) fn add_pod(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        pod: PodId,
    ) {
        let shape = shape_of(snapshot, pod);
        for (node, occupancy) in pods.state(pod).occupied_nodes() {
            let (info, of) = (&mut self.infos[node.0 as usize], &snapshot.nodes[node.0 as usize]);
            info.allocate(pod, &shape.requests, occupancy);
            info.change_claims(of, shape, occupancy, 1);
            if let Some(shared) = &shape.fractional_gpu {
                let groups = pods.portions().gpu_groups_of(pod, occupancy);
                info.change_device_use(groups, occupancy, shared.units_on(of));
            }
            info.allocate_numa(pods.portions().numa_of(pod, occupancy), occupancy);
            self.changed.record(node, snapshot.nodes.len());
        }
    }

    /// Returns what the pod occupies in its current state.
    pub(in crate::framework) fn remove_pod(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        pod: PodId,
    ) {
        let shape = shape_of(snapshot, pod);
        for (node, occupancy) in pods.state(pod).occupied_nodes() {
            let (info, of) = (&mut self.infos[node.0 as usize], &snapshot.nodes[node.0 as usize]);
            info.release(pod, &shape.requests, occupancy);
            info.change_claims(of, shape, occupancy, -1);
            if let Some(shared) = &shape.fractional_gpu {
                let groups = pods.portions().gpu_groups_of(pod, occupancy);
                info.change_device_use(groups, occupancy, -shared.units_on(of));
            }
            info.release_numa(pods.portions().numa_of(pod, occupancy), occupancy);
            self.changed.record(node, snapshot.nodes.len());
        }
    }

    /// Attributes published usage that no known pod explains to pods with unknown alignment. Other
    /// differences mean that the publication is behind or ahead of the known state.
    fn apply_published_numa(&mut self, snapshot: &Snapshot, states: &PodStates) {
        for (info, of) in self.infos.iter_mut().zip(&snapshot.nodes) {
            let Some(numa) = &of.numa else { continue };
            let pods = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
            let mut unknown = Resources::default();
            for pod in
                pods.filter(|pod| states.portions().numa_of(**pod, Occupancy::Allocated).is_empty())
            {
                let shape = shape_of(snapshot, *pod);
                unknown.add(&numa.alignable(shape, &shape.requests));
            }
            if unknown != Resources::default() {
                assign_unknown_use(&mut info.numa_zones, numa, unknown);
            }
        }
    }
}

fn shape_of(snapshot: &Snapshot, pod: PodId) -> &PodShape {
    &snapshot.shapes[snapshot.pods[pod.0 as usize].shape.0 as usize]
}
