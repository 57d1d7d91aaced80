//! The read side of a cycle: the snapshot, and the state that the changes since have led to. A
//! [`super::Statement`] makes the changes.

use super::{
    ChangedNodes, Members, NodeInfo, PodState, Profile,
    caches::Caches,
    constraint_index::ConstraintIndex,
    cycle_outcome::CycleOutcome,
    node::NodeStates,
    node_ranking::NodePreferences,
    pod::{PodStates, PortionIndices},
    queue_state::QueueState,
};
use crate::{
    Snapshot,
    model::{Node, NodeId, Pod, PodGroup, PodGroupId, PodId, PodShape},
};

/// One cycle's view of the cluster: the snapshot and the changes since. Only a
/// [`super::Statement`] changes it.
#[derive(Clone, Debug)]
pub struct Session<'s> {
    /// The cluster at the start of the cycle.
    pub snapshot: &'s Snapshot,
    /// The configuration of the scheduler.
    pub profile: &'s Profile,
    pub(super) nodes: NodeStates,
    pub(super) pods: PodStates,
    /// Members of the pod groups, by position of the pod group in the snapshot.
    members: Vec<Members>,
    pub(super) queues: QueueState,
    pub(super) constraints: ConstraintIndex,
    pub(super) preferences: NodePreferences,
    pub(super) caches: Caches,
    pub(super) outcome: CycleOutcome,
}

impl<'s> Session<'s> {
    /// Starts a cycle with the cluster as it is in the snapshot.
    pub fn new(snapshot: &'s Snapshot, profile: &'s Profile) -> Self {
        let pods = PodStates::new(snapshot, profile);
        let mut session = Self {
            snapshot,
            profile,
            nodes: NodeStates::new(snapshot, &pods),
            pods,
            members: snapshot.pod_groups.iter().map(Members::new).collect(),
            queues: QueueState::new(snapshot, profile),
            constraints: ConstraintIndex::new(snapshot),
            preferences: NodePreferences::default(),
            caches: Caches::default(),
            outcome: CycleOutcome::default(),
        };
        for pod in session.pod_ids() {
            session.add_member(pod);
        }
        session
    }

    /// Sets the state of a pod and updates everything that follows from it: node capacity, queue
    /// accounts and group members.
    pub(super) fn set_state(&mut self, pod: PodId, after: PodState, portions: PortionIndices) {
        let before = self.state(pod);
        self.nodes.remove_pod(self.snapshot, &self.pods, pod);
        self.remove_member(pod);
        self.pods.set_state(pod, after, portions);
        self.nodes.add_pod(self.snapshot, &self.pods, pod);
        self.add_member(pod);
        self.update_charge(pod, before.charged_node(), after.charged_node());
    }

    fn add_member(&mut self, pod: PodId) {
        let (of, rank, state) = (self.pod(pod), self.task_rank(pod), self.state(pod));
        if let Some(group) = of.group {
            self.members[group.0 as usize].add_pod(pod, rank, of, state);
        }
    }

    fn remove_member(&mut self, pod: PodId) {
        let (of, rank, state) = (self.pod(pod), self.task_rank(pod), self.state(pod));
        if let Some(group) = of.group {
            self.members[group.0 as usize].remove_pod(pod, rank, of, state);
        }
    }

    /// Current capacity of a node.
    pub fn node_info(&self, node: NodeId) -> &NodeInfo {
        self.nodes.node_info(node)
    }

    /// Current members of a pod group.
    pub fn members(&self, group: PodGroupId) -> &Members {
        &self.members[group.0 as usize]
    }

    /// Log of the nodes whose capacity changed, for caches of values derived from nodes.
    pub const fn changed_nodes(&self) -> &ChangedNodes {
        self.nodes.changed_nodes()
    }

    /// The node in the snapshot.
    pub fn node(&self, node: NodeId) -> &'s Node {
        &self.snapshot.nodes[node.0 as usize]
    }

    /// The pod in the snapshot.
    pub fn pod(&self, pod: PodId) -> &'s Pod {
        &self.snapshot.pods[pod.0 as usize]
    }

    /// What the pod requests and where it may run.
    pub fn shape_of(&self, pod: PodId) -> &'s PodShape {
        &self.snapshot.shapes[self.pod(pod).shape.0 as usize]
    }

    /// The pod group in the snapshot.
    pub fn group(&self, group: PodGroupId) -> &'s PodGroup {
        &self.snapshot.pod_groups[group.0 as usize]
    }

    /// The pods of the group to place next: see [`Members::next_chunk`].
    pub fn next_chunk(&self, group: PodGroupId) -> Vec<PodId> {
        self.members(group).next_chunk(self.group(group))
    }

    /// All pod groups, in name order.
    pub fn groups(&self) -> impl Iterator<Item = PodGroupId> + use<> {
        let count = u32::try_from(self.snapshot.pod_groups.len());
        (0..count.expect("pod group ids are 32 bits")).map(PodGroupId)
    }

    /// All pods, in name order.
    pub fn pod_ids(&self) -> impl Iterator<Item = PodId> + use<> {
        let count = u32::try_from(self.snapshot.pods.len()).expect("pod ids are 32 bits");
        (0..count).map(PodId)
    }

    /// All nodes, in name order.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = u32::try_from(self.snapshot.nodes.len()).expect("node ids are 32 bits");
        (0..count).map(NodeId)
    }
}
