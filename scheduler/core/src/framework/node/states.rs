//! The capacity of all nodes, as pods come and go.

use super::{
    ChangedNodes, FreeCapacity, NodeInfo,
    numa::{assign_unaligned_use, max_numa_zones},
};
use crate::{
    Snapshot,
    framework::pod::{Occupancy, PodState, PodStates},
    model::{Node, NodeId, PodId, PodShape},
    resources::Resources,
};

/// The current capacity of all nodes, and the log of changed nodes.
#[derive(Clone, Debug)]
pub(in crate::framework) struct NodeStates {
    infos: Vec<NodeInfo>,
    changed: ChangedNodes,
    numa_zones_max: usize,
    /// For each node, whether it changed in this cycle. Lists of a node that changed and changed
    /// back may be in another order.
    is_touched: Vec<bool>,
}

impl NodeStates {
    /// The capacity of all nodes with the pods of the snapshot.
    pub(in crate::framework) fn new(snapshot: &Snapshot, pods: &PodStates) -> Self {
        let count = u32::try_from(snapshot.pods.len()).expect("pod ids are 32 bits");
        let mut nodes = Self::with_only_pods(snapshot, pods, (0..count).map(PodId));
        for (info, node) in nodes.infos.iter_mut().zip(&snapshot.nodes) {
            apply_published_numa(info, node, snapshot, pods);
        }
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
            is_touched: vec![false; snapshot.nodes.len()],
        };
        for pod in present {
            nodes.add_pod(snapshot, pods, pod);
        }
        nodes.changed = ChangedNodes::default();
        nodes.is_touched.fill(false);
        nodes
    }

    /// The free capacity of the `selected` nodes with only those pods for which `is_present` holds,
    /// in these states.
    pub(in crate::framework) fn free_with_only_pods(
        snapshot: &Snapshot,
        pods: &PodStates,
        states: &[PodState],
        selected: &[bool],
        is_present: impl Fn(PodId) -> bool,
    ) -> Vec<(NodeId, FreeCapacity)> {
        let selected_nodes = snapshot.nodes.iter().zip(selected);
        let infos = selected_nodes
            .map(|(node, is_selected)| is_selected.then(|| NodeInfo::without_pods(node)));
        let mut infos: Vec<Option<NodeInfo>> = infos.collect();
        let present = (0..).map(PodId).zip(states).filter(|(pod, _)| is_present(*pod));
        let occupied = present.flat_map(|(pod, state)| {
            state.occupied_nodes().map(move |(node, occupancy)| (pod, node, occupancy))
        });
        for (pod, node, occupancy) in occupied {
            if let Some(info) = &mut infos[node.0 as usize] {
                let of = &snapshot.nodes[node.0 as usize];
                info.add_pod_of_snapshot(snapshot, pods, pod, of, occupancy);
            }
        }
        let infos = (0..).map(NodeId).zip(infos).zip(&snapshot.nodes);
        infos
            .filter_map(|((id, info), node)| Some((id, FreeCapacity::of_info(&info?, node))))
            .collect()
    }

    /// For each node, whether it changed since the start of the cycle.
    pub(in crate::framework) fn touched(&self) -> &[bool] {
        &self.is_touched
    }

    /// Renumbers all pods. A removed pod gets no number; the nodes that have it are rebuilt after.
    pub(in crate::framework) fn renumber_pods(&mut self, positions: &[Option<u32>]) {
        let renumber = |pod: &mut PodId| {
            if let Some(at) = positions[pod.0 as usize] {
                pod.0 = at;
            }
        };
        for info in &mut self.infos {
            let lists = [&mut info.staying, &mut info.leaving, &mut info.stuck];
            lists.into_iter().flatten().for_each(renumber);
        }
    }

    /// Computes the capacity of the `outdated` nodes anew, with the pods of the snapshot: in the
    /// order in which [`Self::new`] adds them. A new cycle starts.
    pub(in crate::framework) fn rebuild(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        outdated: &[bool],
    ) {
        for (at, node) in snapshot.nodes.iter().enumerate().filter(|(at, _)| outdated[*at]) {
            self.infos[at] = NodeInfo::without_pods(node);
            let id = NodeId(u32::try_from(at).expect("node ids are 32 bits"));
            self.changed.record_change(id, snapshot.nodes.len());
        }
        for (pod, state) in (0..).map(PodId).zip(pods.states()) {
            if state.occupied_nodes().any(|(node, _)| outdated[node.0 as usize]) {
                self.add_pod(snapshot, pods, pod);
            }
        }
        let infos = self.infos.iter_mut().zip(&snapshot.nodes).zip(outdated);
        for ((info, node), _) in infos.filter(|(_, is_outdated)| **is_outdated) {
            apply_published_numa(info, node, snapshot, pods);
        }
        self.is_touched.fill(false);
    }

    /// Counts the NUMA zones again, after nodes changed.
    pub(in crate::framework) fn count_numa_zones(&mut self, snapshot: &Snapshot) {
        self.numa_zones_max = max_numa_zones(snapshot);
    }

    /// Whether both hold the same at the start of a cycle.
    pub(in crate::framework) fn is_same(&self, other: &Self) -> bool {
        self.infos == other.infos && self.numa_zones_max == other.numa_zones_max
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
        for (node, occupancy) in pods.state(pod).occupied_nodes() {
            let (info, of) = (&mut self.infos[node.0 as usize], &snapshot.nodes[node.0 as usize]);
            info.add_pod_of_snapshot(snapshot, pods, pod, of, occupancy);
            self.changed.record_change(node, snapshot.nodes.len());
            self.is_touched[node.0 as usize] = true;
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
            self.is_touched[node.0 as usize] = true;
        }
    }
}

impl NodeInfo {
    /// Takes from the node what the pod occupies.
    fn add_pod_of_snapshot(
        &mut self,
        snapshot: &Snapshot,
        pods: &PodStates,
        pod: PodId,
        node: &Node,
        occupancy: Occupancy,
    ) {
        let shape = shape_of(snapshot, pod);
        self.allocate_pod(pod, &shape.requests, occupancy);
        self.change_claim_users(node, shape, occupancy, 1);
        if let Some(shared) = &shape.fractional_gpu {
            let groups = pods.portion_table().gpu_groups_of(pod, occupancy);
            self.change_device_use(groups, occupancy, shared.units_on(node));
        }
        self.allocate_numa(pods.portion_table().numa_shares_of(pod, occupancy), occupancy);
    }
}

/// Attributes NUMA usage that a node publishes, and that no pod with known zones explains, to pods
/// whose zones are unknown. Other differences mean that the publication lags behind or runs ahead
/// of the known state.
fn apply_published_numa(info: &mut NodeInfo, node: &Node, snapshot: &Snapshot, states: &PodStates) {
    let Some(numa) = &node.numa else { return };
    let pods = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
    let mut unknown = Resources::default();
    for pod in pods
        .filter(|pod| states.portion_table().numa_shares_of(**pod, Occupancy::Allocated).is_empty())
    {
        let shape = shape_of(snapshot, *pod);
        unknown.add(&numa.alignable_requests(shape, &shape.requests));
    }
    if unknown != Resources::default() {
        assign_unaligned_use(&mut info.numa_zones, numa, unknown);
    }
}

fn shape_of(snapshot: &Snapshot, pod: PodId) -> &PodShape {
    &snapshot.shapes[snapshot.pods[pod.0 as usize].shape.0 as usize]
}
