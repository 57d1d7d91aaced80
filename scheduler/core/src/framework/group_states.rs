//! The pod groups in a cycle: their members, and what loops over all groups read of each.

use std::collections::BTreeMap;

use super::{
    Members, PodState,
    pod::{PodFacts, PodStates},
};
use crate::{
    Snapshot,
    model::{ListEdit, Pod, PodGroup, PodGroupId, PodId},
};

/// The current members of all pod groups, by position in the snapshot.
#[derive(Clone, Debug)]
pub(super) struct GroupStates {
    members: Vec<Members>,
    facts: Vec<GroupFacts>,
}

/// What loops over all groups read of each, stored apart: a few bytes, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupFacts {
    /// Number of pods that are pending.
    waiting: u32,
    /// Number of pods with scheduling gates.
    gated: u32,
    /// Number of pods that were pipelined in this cycle.
    pipelined: u32,
    has_unschedulable_members: bool,
    pub(super) has_topology_constraint: bool,
    /// Whether the group was below a minimum at the start of the cycle, or is marked as stale.
    may_be_stale: bool,
}

/// The pods of groups, in order of their positions.
pub(super) type PodsByGroup = BTreeMap<PodGroupId, Vec<PodId>>;

impl GroupStates {
    /// The groups with the pods of the snapshot.
    pub(super) fn new(snapshot: &Snapshot, pods: &PodStates) -> Self {
        let mut groups = Self {
            members: snapshot.pod_groups.iter().map(Members::new).collect(),
            facts: snapshot.pod_groups.iter().map(GroupFacts::new).collect(),
        };
        for ((id, pod), state) in (0..).map(PodId).zip(&snapshot.pods).zip(pods.states()) {
            groups.add_member(id, pod, pods.task_rank(id), *state);
        }
        for (at, group) in snapshot.pod_groups.iter().enumerate() {
            groups.facts[at].may_be_stale = groups.members[at].may_be_stale(group);
        }
        for facts in pods.facts().iter().filter(|facts| facts.binding_failed) {
            groups.mark_failed_binding(facts);
        }
        groups
    }

    /// Inserts and removes groups, and renumbers pods; then [`Self::rebuild`] fills the groups that
    /// changed.
    pub(super) fn edit(&mut self, edit: &ListEdit, pods: &[Option<u32>]) {
        edit.apply(&mut self.members, |_| Members::default());
        edit.apply(&mut self.facts, |_| GroupFacts::default());
        if !pods.is_empty() {
            let waiting = self.members.iter_mut().zip(&self.facts);
            for (members, _) in waiting.filter(|(_, facts)| facts.waiting > 0) {
                members.renumber_pods(pods);
            }
        }
    }

    /// Computes the groups with these pods anew.
    pub(super) fn rebuild(&mut self, snapshot: &Snapshot, pods: &PodStates, groups: &PodsByGroup) {
        for (id, group_pods) in groups {
            let (at, group) = (id.0 as usize, &snapshot.pod_groups[id.0 as usize]);
            (self.members[at], self.facts[at]) = (Members::new(group), GroupFacts::new(group));
            for pod in group_pods {
                let spec = &snapshot.pods[pod.0 as usize];
                self.add_member(*pod, spec, pods.task_rank(*pod), pods.state(*pod));
            }
            self.facts[at].may_be_stale = self.members[at].may_be_stale(group);
            let facts = group_pods.iter().map(|pod| &pods.facts()[pod.0 as usize]);
            facts
                .filter(|facts| facts.binding_failed)
                .for_each(|pod| self.mark_failed_binding(pod));
        }
    }

    fn mark_failed_binding(&mut self, pod: &PodFacts) {
        if let Some(group) = pod.group {
            self.facts[group.0 as usize].may_be_stale = true;
        }
    }

    pub(super) fn members(&self, group: PodGroupId) -> &Members {
        &self.members[group.0 as usize]
    }

    /// What loops over all groups read of them.
    pub(super) fn facts(&self) -> &[GroupFacts] {
        &self.facts
    }

    pub(super) fn add_member(&mut self, id: PodId, pod: &Pod, rank: u32, state: PodState) {
        let Some(group) = pod.group else { return };
        self.members[group.0 as usize].add_pod(id, rank, pod, state);
        self.facts[group.0 as usize].change_count(state, |count| *count += 1);
    }

    pub(super) fn remove_member(&mut self, id: PodId, pod: &Pod, rank: u32, state: PodState) {
        let Some(group) = pod.group else { return };
        self.members[group.0 as usize].remove_pod(id, rank, pod, state);
        self.facts[group.0 as usize].change_count(state, |count| *count -= 1);
    }

    /// Whether both hold the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.facts == other.facts && self.members == other.members
    }
}

impl GroupFacts {
    fn new(group: &PodGroup) -> Self {
        Self {
            has_unschedulable_members: !group.unschedulable_members.is_empty(),
            has_topology_constraint: group.has_topology_constraint(),
            ..Self::default()
        }
    }

    fn change_count(&mut self, state: PodState, change: impl Fn(&mut u32)) {
        match state {
            PodState::Pending => change(&mut self.waiting),
            PodState::Gated => change(&mut self.gated),
            PodState::Pipelined(_) | PodState::Moving { .. } => change(&mut self.pipelined),
            PodState::Allocated(_)
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished => {}
        }
    }

    /// Whether the group has pending pods.
    pub(super) const fn has_waiting(self) -> bool {
        self.waiting > 0
    }

    /// Whether the group has pods that are pending or were pipelined.
    pub(super) const fn is_incomplete(self) -> bool {
        self.waiting > 0 || self.pipelined > 0
    }

    /// Whether the group has pods without a node, invalid ones too.
    pub(super) const fn has_unplaced(self) -> bool {
        self.waiting > 0 || self.gated > 0 || self.has_unschedulable_members
    }

    /// Whether the group may be stale, unless its pods changed in this cycle.
    pub(super) const fn may_be_stale(self) -> bool {
        self.may_be_stale
    }
}
