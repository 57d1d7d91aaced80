//! The state of every pod: its nodes, its portions of them, and its rank in its group.

use super::{
    Occupancy, PodState, PortionIndices, PortionTable, portions::Portion, task_order::task_ranks,
};
use crate::{
    Snapshot,
    framework::{Profile, Session},
    model::{GpuGroup, PodId},
};

/// The current states of all pods, by position in the snapshot.
#[derive(Clone, Debug)]
pub(in crate::framework) struct PodStates {
    states: Vec<PodState>,
    portions: PortionTable,
    task_ranks: Vec<u32>,
}

impl PodStates {
    /// The states of all pods as in the snapshot.
    pub(in crate::framework) fn new(snapshot: &Snapshot, profile: &Profile) -> Self {
        let state_of = |pod| PodState::from_pod(pod, snapshot.now, profile.release_timeout);
        Self {
            states: snapshot.pods.iter().map(state_of).collect(),
            portions: PortionTable::new(snapshot),
            task_ranks: task_ranks(snapshot, &profile.task_order),
        }
    }

    pub(in crate::framework) fn state(&self, pod: PodId) -> PodState {
        self.states[pod.0 as usize]
    }

    pub(in crate::framework) const fn portion_table(&self) -> &PortionTable {
        &self.portions
    }

    pub(in crate::framework) fn task_rank(&self, pod: PodId) -> u32 {
        self.task_ranks[pod.0 as usize]
    }

    pub(in crate::framework) fn set_state(
        &mut self,
        pod: PodId,
        state: PodState,
        portions: PortionIndices,
    ) {
        self.states[pod.0 as usize] = state;
        self.portions.set_portions(pod, portions);
    }

    /// Stores a portion and returns its index.
    pub(in crate::framework) fn add_portion(&mut self, portion: Portion) -> u32 {
        self.portions.add_portion(portion)
    }
}

impl Session<'_> {
    pub(in crate::framework) fn portions_of(&self, pod: PodId) -> PortionIndices {
        self.pods.portion_table().of_pod(pod)
    }

    /// Whether the pod was allocated on a node before this cycle and still is, so that it can be
    /// evicted.
    pub fn can_evict(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Allocated(_)) && self.pod(pod).node.is_some()
    }

    /// The shared GPUs of the pod on the node where it is allocated or pipelined.
    pub fn gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        let portions = self.portions_of(pod);
        let promised = self.state(pod).is_pipelined();
        let portion = if promised { portions.pipelined } else { portions.allocated };
        &self.pods.portion_table().portion_at(portion).gpu_groups
    }

    /// The shared GPUs on which the pod is allocated, or was before it was evicted.
    pub fn allocated_gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        self.pods.portion_table().gpu_groups_of(pod, Occupancy::Allocated)
    }

    /// Whether the pod was evicted in this cycle and pipelined to exactly the capacity it had, down
    /// to the GPUs.
    pub fn is_pipelined_in_place(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Moving { from, to } if from == to)
            && self.pods.portion_table().is_pipelined_in_place(pod)
    }

    /// Current state of the pod.
    pub fn state(&self, pod: PodId) -> PodState {
        self.pods.state(pod)
    }

    /// Rank of a pod in its group: the lowest is placed first and evicted last.
    pub fn task_rank(&self, pod: PodId) -> u32 {
        self.pods.task_rank(pod)
    }
}
