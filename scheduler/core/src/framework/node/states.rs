//! The capacity of all nodes, as pods come and go.

use super::{
    ChangedNodes, NodeInfo,
    numa::{assign_unaligned_use, max_numa_zones},
};
use crate::{
    Snapshot,
    framework::pod::{Occupancy, PodStates},
    model::{NodeId, PodId, PodShape},
    resources::Resources,
};

/// The current capacity of all nodes, and the log of changed nodes.
#[derive(Clone, Debug)]
pub(in crate::framework) struct NodeStates {
    infos: Vec<NodeInfo>,
    changed: ChangedNodes,
    numa_zones_max: usize,
}

impl NodeStates {
    /// The capacity of all nodes with the pods of the snapshot.
    pub(in crate::framework) fn new(snapshot: &Snapshot, pods: &PodStates) -> Self {
        let count = u32::try_from(snapshot.pods.len()).expect("pod ids are 32 bits");
        let mut nodes = Self::with_only_pods(snapshot, pods, (0..count).map(PodId));
        nodes.apply_published_numa(snapshot, pods);
        nodes
    }

    /// The capacity of all nodes with only the pods `present`, ignoring published NUMA usage.
    pub(in crate::framework) fn with_only_pods(
        snapshot: &Snapshot,
        pods: &PodStates,
        present: impl Iterator<Item = PodId>,
    ) -> Self {
        let mut nodes = Self {
            infos: snapshot.nodes.iter().map(NodeInfo::without_pods).collect(),
            changed: ChangedNodes::default(),
            numa_zones_max: max_numa_zones(snapshot),
        };
        for pod in present {
            nodes.add_pod(snapshot, pods, pod);
        }
        nodes.changed = ChangedNodes::default();
        nodes
    }

    pub(in crate::framework) fn node_info(&self, node: NodeId) -> &NodeInfo {
        &self.infos[node.0 as usize]
    }

    pub(in crate::framework) const fn changed_nodes(&self) -> &ChangedNodes {
        &self.changed
    }

    /// Maximum number of NUMA zones of any node; 0 when no node publishes zones.
    pub(in crate::framework) const fn numa_zones_max(&self) -> usize {
        self.numa_zones_max
    }

    /// Takes from the nodes what the pod occupies in its current state.
    pub(in crate::framework) fn add_pod(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        pod: PodId,
    ) {
        let shape = shape_of(snapshot, pod);
        for (node, occupancy) in pods.state(pod).occupied_nodes() {
            let (info, of) = (&mut self.infos[node.0 as usize], &snapshot.nodes[node.0 as usize]);
            info.allocate_pod(pod, &shape.requests, occupancy);
            info.change_claim_users(of, shape, occupancy, 1);
            if let Some(shared) = &shape.fractional_gpu {
                let groups = pods.portion_table().gpu_groups_of(pod, occupancy);
                info.change_device_use(groups, occupancy, shared.units_on(of));
            }
            info.allocate_numa(pods.portion_table().numa_shares_of(pod, occupancy), occupancy);
            self.changed.record_change(node, snapshot.nodes.len());
        }
    }

    /// Gives back to the nodes what the pod occupies in its current state.
    pub(in crate::framework) fn remove_pod(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        pod: PodId,
    ) {
        let shape = shape_of(snapshot, pod);
        for (node, occupancy) in pods.state(pod).occupied_nodes() {
            let (info, of) = (&mut self.infos[node.0 as usize], &snapshot.nodes[node.0 as usize]);
            info.release_pod(pod, &shape.requests, occupancy);
            info.change_claim_users(of, shape, occupancy, -1);
            if let Some(shared) = &shape.fractional_gpu {
                let groups = pods.portion_table().gpu_groups_of(pod, occupancy);
                info.change_device_use(groups, occupancy, -shared.units_on(of));
            }
            info.release_numa(pods.portion_table().numa_shares_of(pod, occupancy), occupancy);
            self.changed.record_change(node, snapshot.nodes.len());
        }
    }

    /// Attributes NUMA usage that a node publishes, and that no pod with known zones explains, to
    /// pods whose zones are unknown. Other differences mean that the publication lags behind or
    /// runs ahead of the known state.
    fn apply_published_numa(&mut self, snapshot: &Snapshot, states: &PodStates) {
        for (info, of) in self.infos.iter_mut().zip(&snapshot.nodes) {
            let Some(numa) = &of.numa else { continue };
            let pods = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
            let mut unknown = Resources::default();
            for pod in pods.filter(|pod| {
                states.portion_table().numa_shares_of(**pod, Occupancy::Allocated).is_empty()
            }) {
                let shape = shape_of(snapshot, *pod);
                unknown.add(&numa.alignable_requests(shape, &shape.requests));
            }
            if unknown != Resources::default() {
                assign_unaligned_use(&mut info.numa_zones, numa, unknown);
            }
        }
    }
}

fn shape_of(snapshot: &Snapshot, pod: PodId) -> &PodShape {
    &snapshot.shapes[snapshot.pods[pod.0 as usize].shape.0 as usize]
}
