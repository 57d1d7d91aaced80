//! The state of every pod: its nodes, its portions of them, and its rank in its group.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use super::{
    Occupancy, PodFacts, PodState, PortionIndices, PortionTable,
    portions::Portion,
    task_order::{rank_group, task_ranks},
};
use crate::{
    Snapshot,
    framework::{Profile, Session},
    model::{GpuGroup, ListEdit, PodGroupId, PodId, SnapshotChanges},
};

/// The current states of all pods, by position in the snapshot.
#[derive(Clone, Debug)]
pub(in crate::framework) struct PodStates {
    states: Vec<PodState>,
    portions: PortionTable,
    task_ranks: Arc<Vec<u32>>,
    facts: Arc<Vec<PodFacts>>,
    /// For each pod, whether it is in `touched`.
    is_touched: Vec<bool>,
    /// Pods whose state was set in this cycle, with what they had before.
    touched: Vec<InitialState>,
    /// Number of portions at the start of the cycle.
    initial_portions: usize,
}

/// State and portions of a pod at the start of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InitialState {
    pod: PodId,
    state: PodState,
    portions: PortionIndices,
}

impl PodStates {
    /// The states of all pods as in the snapshot.
    pub(in crate::framework) fn new(snapshot: &Snapshot, profile: &Profile) -> Self {
        let state_of = |pod| PodState::from_pod(pod, snapshot.now, profile.release_timeout);
        let facts: Vec<PodFacts> =
            snapshot.pods.iter().map(|pod| PodFacts::new(snapshot, pod)).collect();
        let portions = PortionTable::new(snapshot);
        Self {
            states: snapshot.pods.iter().map(state_of).collect(),
            initial_portions: portions.count(),
            portions,
            task_ranks: Arc::new(task_ranks(snapshot, &profile.task_order)),
            is_touched: vec![false; facts.len()],
            touched: Vec::new(),
            facts: Arc::new(facts),
        }
    }

    /// Inserts and removes pods. What is known of the inserted ones is set by [`Self::refresh`].
    pub(in crate::framework) fn edit(&mut self, pods: &ListEdit, groups: &[Option<u32>]) {
        debug_assert!(self.touched.is_empty(), "a cycle has ended when the next one is prepared");
        pods.apply(&mut self.states, |_| PodState::Finished);
        pods.apply(&mut self.is_touched, |_| false);
        pods.apply(Arc::make_mut(&mut self.task_ranks), |_| 0);
        let facts = Arc::make_mut(&mut self.facts);
        pods.apply(facts, |_| PodFacts::NONE);
        if !groups.is_empty() {
            for facts in facts {
                facts.group =
                    facts.group.and_then(|group| groups[group.0 as usize]).map(PodGroupId);
            }
        }
    }

    /// Sets facts, state and portions of pods as they are in the snapshot. The ranks within groups
    /// are set by [`Self::rank_groups`].
    pub(in crate::framework) fn refresh(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        changes: &SnapshotChanges,
        pods: &[PodId],
    ) {
        let (facts, ranks) = (Arc::make_mut(&mut self.facts), Arc::make_mut(&mut self.task_ranks));
        for id in pods {
            let pod = &snapshot.pods[id.0 as usize];
            ranks[id.0 as usize] = 0;
            facts[id.0 as usize] = PodFacts::new(snapshot, pod);
            self.states[id.0 as usize] =
                PodState::from_pod(pod, snapshot.now, profile.release_timeout);
        }
        self.portions.update(snapshot, &changes.pod_edit, pods);
        self.initial_portions = self.portions.count();
    }

    /// Ranks the pods of groups, given by group and in order of their positions.
    pub(in crate::framework) fn rank_groups(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        groups: &BTreeMap<PodGroupId, Vec<PodId>>,
    ) {
        let ranks = Arc::make_mut(&mut self.task_ranks);
        for pods in groups.values() {
            rank_group(snapshot, &profile.task_order, pods.clone(), ranks);
        }
    }

    /// Pods that terminate and whose state differs from that at the time of the snapshot.
    pub(in crate::framework) fn outdated_pods<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        profile: &'a Profile,
    ) -> impl Iterator<Item = PodId> + 'a {
        let terminating = (0..).map(PodId).zip(self.facts.iter());
        terminating.filter(|(_, facts)| facts.is_terminating).map(|(id, _)| id).filter(|id| {
            let pod = &snapshot.pods[id.0 as usize];
            let now = PodState::from_pod(pod, snapshot.now, profile.release_timeout);
            now != self.state(*id)
        })
    }

    pub(in crate::framework) fn state(&self, pod: PodId) -> PodState {
        self.states[pod.0 as usize]
    }

    /// The states of all pods at the start of the cycle.
    pub(in crate::framework) fn initial_states(&self) -> Cow<'_, [PodState]> {
        let mut states = Cow::Borrowed(self.states.as_slice());
        for initial in &self.touched {
            states.to_mut()[initial.pod.0 as usize] = initial.state;
        }
        states
    }

    /// What loops over all pods read of them.
    pub(in crate::framework) fn facts(&self) -> &[PodFacts] {
        &self.facts
    }

    /// The current states of all pods.
    pub(in crate::framework) fn states(&self) -> &[PodState] {
        &self.states
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
        let at = pod.0 as usize;
        if !std::mem::replace(&mut self.is_touched[at], true) {
            let initial = self.states[at];
            self.touched.push(InitialState {
                pod,
                state: initial,
                portions: self.portions.of_pod(pod),
            });
        }
        self.states[at] = state;
        self.portions.set_portions(pod, portions);
    }

    /// Pods whose state was set since the start of the cycle, in no particular order.
    pub(in crate::framework) fn touched_pods(&self) -> impl Iterator<Item = PodId> {
        self.touched.iter().map(|initial| initial.pod)
    }

    /// Restores the states of the start of the cycle.
    pub(in crate::framework) fn restore(&mut self) {
        for InitialState { pod, state, portions } in std::mem::take(&mut self.touched) {
            self.states[pod.0 as usize] = state;
            self.is_touched[pod.0 as usize] = false;
            self.portions.set_portions(pod, portions);
        }
        self.portions.truncate(self.initial_portions);
    }

    /// Stores a portion and returns its index.
    pub(in crate::framework) fn add_portion(&mut self, portion: Portion) -> u32 {
        self.portions.add_portion(portion)
    }

    /// Whether both hold the same at the start of a cycle, wherever portions are stored.
    pub(in crate::framework) fn is_same(&self, other: &Self) -> bool {
        let portion =
            |of: &Self, pod| of.portions.portion_at(of.portions.of_pod(pod).allocated).clone();
        let count = u32::try_from(self.states.len()).expect("pod ids are 32 bits");
        self.states == other.states
            && self.task_ranks == other.task_ranks
            && self.facts == other.facts
            && (0..count).map(PodId).all(|pod| portion(self, pod) == portion(other, pod))
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
