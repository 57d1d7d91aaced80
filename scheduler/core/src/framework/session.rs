//! The read side of a cycle: the snapshot, and the state that the changes since have led to. A
//! [`super::Statement`] makes the changes.

use std::collections::BTreeSet;

use super::{
    ChangedNodes, Members, NodeInfo, PodState, Profile,
    caches::Caches,
    constraint_index::ConstraintIndex,
    cycle_outcome::CycleOutcome,
    group_states::{GroupFacts, GroupStates},
    kept_session::{KeptSession, NodesRevision},
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
    pub(crate) nodes_revision: NodesRevision,
    pub(super) nodes: NodeStates,
    pub(super) pods: PodStates,
    pub(super) groups: GroupStates,
    pub(super) queues: QueueState,
    pub(super) constraints: ConstraintIndex,
    pub(super) preferences: NodePreferences,
    pub(super) caches: Caches,
    pub(super) outcome: CycleOutcome,
}

impl<'s> Session<'s> {
    /// Starts a cycle with the cluster as it is in the snapshot.
    pub fn new(snapshot: &'s Snapshot, profile: &'s Profile) -> Self {
        KeptSession::new(snapshot, profile).open(snapshot, profile)
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

    pub(super) fn add_member(&mut self, pod: PodId) {
        let (of, rank, state) = (self.pod(pod), self.task_rank(pod), self.state(pod));
        self.groups.add_member(pod, of, rank, state);
    }

    pub(super) fn remove_member(&mut self, pod: PodId) {
        let (of, rank, state) = (self.pod(pod), self.task_rank(pod), self.state(pod));
        self.groups.remove_member(pod, of, rank, state);
    }

    /// Current capacity of a node.
    pub fn node_info(&self, node: NodeId) -> &NodeInfo {
        self.nodes.node_info(node)
    }

    /// Current members of a pod group.
    pub fn members(&self, group: PodGroupId) -> &Members {
        self.groups.members(group)
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

    /// Pod groups with pending pods, in name order.
    pub fn waiting_groups(&self) -> impl Iterator<Item = PodGroupId> {
        self.groups_where(GroupFacts::has_waiting)
    }

    /// Pod groups with pods that are pending or were pipelined in this cycle, in name order.
    pub fn incomplete_groups(&self) -> impl Iterator<Item = PodGroupId> {
        self.groups_where(GroupFacts::is_incomplete)
    }

    /// Pod groups with pods without a node, invalid ones too, in name order.
    pub fn groups_with_unplaced_pods(&self) -> impl Iterator<Item = PodGroupId> {
        self.groups_where(GroupFacts::has_unplaced)
    }

    /// Pod groups of which some pod may be missing now, and those that are marked as stale, in name
    /// order: all stale groups are among them.
    pub fn possibly_stale_groups(&self) -> BTreeSet<PodGroupId> {
        let changed = self.pods.touched_pods().filter_map(|pod| self.pod(pod).group);
        self.groups_where(GroupFacts::may_be_stale).chain(changed).collect()
    }

    fn groups_where(
        &self,
        is_selected: fn(GroupFacts) -> bool,
    ) -> impl Iterator<Item = PodGroupId> {
        let groups = (0..).map(PodGroupId).zip(self.groups.facts());
        groups.filter(move |(_, facts)| is_selected(**facts)).map(|(group, _)| group)
    }

    /// Pods whose bindings failed so far, in name order.
    pub fn pods_with_failed_bindings(&self) -> impl Iterator<Item = PodId> {
        let pods = (0..).map(PodId).zip(self.pods.facts());
        pods.filter(|(_, facts)| facts.binding_failed).map(|(pod, _)| pod)
    }

    /// Pods whose termination was requested, in name order.
    pub fn terminating_pods(&self) -> impl Iterator<Item = PodId> {
        let pods = (0..).map(PodId).zip(self.pods.facts());
        pods.filter(|(_, facts)| facts.is_terminating).map(|(pod, _)| pod)
    }

    /// Pods that were pipelined in this cycle, in name order.
    pub fn pipelined_pods(&self) -> impl Iterator<Item = PodId> {
        let pods = (0..).map(PodId).zip(self.pods.states());
        pods.filter(|(_, state)| state.is_pipelined()).map(|(pod, _)| pod)
    }

    /// The pods of a group, in name order.
    pub fn pods_of_group(&self, group: PodGroupId) -> impl Iterator<Item = PodId> {
        let pods = (0..).map(PodId).zip(self.pods.facts());
        pods.filter(move |(_, facts)| facts.group == Some(group)).map(|(pod, _)| pod)
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
