//! What-if over a snapshot: pods are placed, promised room, evicted; every change is written
//! down, can be undone back to a [`Checkpoint`], and reaches the plan only by
//! [`Session::commit`]. A change costs what it changes (one or two nodes, one pod group, the
//! queues above it), and so does undoing it. Which change to make is decided elsewhere.

mod candidates;
mod commit;
mod members;
mod node;
mod placing;
mod state;

use crate::{
    Decision, Profile, Snapshot,
    model::{Node, NodeId, Pod, PodGroup, PodGroupId, PodId, PodShape, QueueId},
    queues::Ledger,
    resources::PerResource,
};
pub use members::{Members, NotReady, SubMembers};
pub use node::{ChangedNodes, Fits, Mark, NodeRoom};
pub use placing::Unplaced;
pub use state::{PodState, Stays};

/// One cycle's view of the cluster: the snapshot and what was decided since.
#[derive(Clone, Debug)]
pub struct Session<'s> {
    /// The cluster as it was when the cycle began.
    pub snapshot: &'s Snapshot,
    /// How the scheduler is set up.
    pub profile: &'s Profile,
    nodes: Vec<NodeRoom>,
    pods: Vec<PodState>,
    members: Vec<Members>,
    task_ranks: Vec<u32>,
    ledger: Ledger,
    log: Vec<Change>,
    changed: ChangedNodes,
    candidates: candidates::Candidates,
    customs: Customs,
    looks_ahead: bool,
    decisions: Vec<Decision>,
}

/// Pods that care for where others are, so that nobody else need be asked.
#[derive(Clone, Debug)]
struct Customs {
    shunning: Vec<PodId>,
    preferring: Vec<PodId>,
}

/// A pod changed its state; this is the one it had.
#[derive(Clone, Copy, Debug)]
struct Change {
    pod: PodId,
    before: PodState,
}

/// A point to which everything later can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint(usize);

impl<'s> Session<'s> {
    /// The cluster as the snapshot shows it.
    pub fn new(snapshot: &'s Snapshot, profile: &'s Profile) -> Self {
        let state_of = |pod| PodState::of(pod, snapshot.now, profile.release_max);
        let mut session = Self {
            snapshot,
            profile,
            nodes: snapshot.nodes.iter().map(NodeRoom::empty).collect(),
            pods: snapshot.pods.iter().map(state_of).collect(),
            members: snapshot.pod_groups.iter().map(Members::of).collect(),
            task_ranks: members::task_ranks(snapshot),
            ledger: Ledger::open(snapshot, profile),
            log: Vec::new(),
            changed: ChangedNodes::default(),
            candidates: candidates::Candidates::default(),
            customs: Customs::of(snapshot),
            looks_ahead: false,
            decisions: Vec::new(),
        };
        for at in 0..snapshot.pods.len() {
            let pod = PodId(u32::try_from(at).expect("pod ids are 32 bits"));
            session.take_room(pod, session.pods[at]);
        }
        session.changed = ChangedNodes::default();
        session
    }

    /// A point to come back to.
    pub const fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Takes back everything that was done since. A checkpoint from before the last commit
    /// takes back what was done since that commit.
    pub fn undo_to(&mut self, checkpoint: Checkpoint) {
        while self.log.len() > checkpoint.0 {
            let Change { pod, before } = self.log.pop().expect("longer than the checkpoint");
            self.set_state(pod, before);
        }
    }

    /// The waiting pod takes idle room on `node` now.
    pub fn place(&mut self, pod: PodId, node: NodeId) {
        debug_assert_eq!(self.state(pod), PodState::Pending);
        self.step(pod, PodState::Holding(node));
    }

    /// The pod is promised room on `node`: idle, or being released. It waits, or was evicted in
    /// this session and moves.
    pub fn promise(&mut self, pod: PodId, node: NodeId) {
        let after = match self.state(pod) {
            PodState::Pending => PodState::Promised(node),
            PodState::Releasing(from) => PodState::Moving { from, to: node },
            other @ (PodState::Gated
            | PodState::Holding(_)
            | PodState::Stuck(_)
            | PodState::Promised(_)
            | PodState::Moving { .. }
            | PodState::Lost
            | PodState::Finished) => {
                debug_assert!(false, "promised room while {other:?}");
                return;
            }
        };
        self.step(pod, after);
    }

    /// The pod is asked to leave its node: its room is being released. See [`Self::can_evict`].
    pub fn evict(&mut self, pod: PodId) {
        debug_assert!(self.can_evict(pod));
        if let PodState::Holding(node) = self.state(pod) {
            self.step(pod, PodState::Releasing(node));
        }
    }

    /// The pod, evicted since the last commit, stays where it is after all.
    pub fn restore(&mut self, pod: PodId) {
        if let PodState::Releasing(node) | PodState::Moving { from: node, .. } = self.state(pod) {
            self.step(pod, PodState::Holding(node));
        }
    }

    /// It holds a node, and did so before this cycle.
    pub fn can_evict(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Holding(_)) && self.pod(pod).node.is_some()
    }

    fn step(&mut self, pod: PodId, after: PodState) {
        self.log.push(Change { pod, before: self.state(pod) });
        self.set_state(pod, after);
    }

    fn set_state(&mut self, pod: PodId, after: PodState) {
        let before = std::mem::replace(&mut self.pods[pod.0 as usize], after);
        self.give_room(pod, before);
        self.take_room(pod, after);
        if let Some((queue, group)) = self.account_of(pod) {
            let amount = self.shape_of(pod).requests.accounted();
            match (before.is_charged(), after.is_charged()) {
                (false, true) => self.ledger.charge(queue, amount, group.preemptible),
                (true, false) => self.ledger.refund(queue, amount, group.preemptible),
                (true, true) | (false, false) => {}
            }
        }
    }

    fn take_room(&mut self, pod: PodId, state: PodState) {
        let request = &self.shape_of(pod).requests;
        for (node, hold) in state.holds() {
            self.nodes[node.0 as usize].take(pod, request, hold);
            self.changed.note(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].enter((pod, rank), of, state);
        }
    }

    fn give_room(&mut self, pod: PodId, state: PodState) {
        let request = &self.shape_of(pod).requests;
        for (node, hold) in state.holds() {
            self.nodes[node.0 as usize].give(pod, request, hold);
            self.changed.note(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].leave((pod, rank), of, state);
        }
    }

    fn account_of(&self, pod: PodId) -> Option<(QueueId, &'s PodGroup)> {
        let group = self.group(self.pod(pod).group?);
        group.queue.as_ref().ok().copied().flatten().map(|queue| (queue, group))
    }

    /// Where the pod is now.
    pub fn state(&self, pod: PodId) -> PodState {
        self.pods[pod.0 as usize]
    }

    /// The place of a pod among its group's; the first is served first and evicted last.
    pub fn task_rank(&self, pod: PodId) -> u32 {
        self.task_ranks[pod.0 as usize]
    }

    /// The room of a node now.
    pub fn room(&self, node: NodeId) -> &NodeRoom {
        &self.nodes[node.0 as usize]
    }

    /// The members of a pod group now.
    pub fn members(&self, group: PodGroupId) -> &Members {
        &self.members[group.0 as usize]
    }

    /// The accounts of all queues now.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Which nodes changed, in order, for whoever keeps something about them.
    pub const fn changed_nodes(&self) -> &ChangedNodes {
        &self.changed
    }

    /// From now on nodes are compared as they will be when everything is released (`true`), or
    /// with those first on which a pod fits at once. What is promised ahead is kept only if the
    /// next cycle, which finds the room free, would choose the same node.
    pub fn look_ahead(&mut self, ahead: bool) {
        self.looks_ahead = ahead;
        self.candidates = candidates::Candidates::default();
    }

    /// Nodes are compared as they will be when everything is released.
    pub const fn looks_ahead(&self) -> bool {
        self.looks_ahead
    }

    /// Pods that shun others, wherever they are.
    pub fn shunning_pods(&self) -> &[PodId] {
        &self.customs.shunning
    }

    /// Pods that would like, or need, to be near to or far from others, wherever they are.
    pub fn preferring_pods(&self) -> &[PodId] {
        &self.customs.preferring
    }

    /// The node as the snapshot shows it.
    pub fn node(&self, node: NodeId) -> &'s Node {
        &self.snapshot.nodes[node.0 as usize]
    }

    /// The pod as the snapshot shows it.
    pub fn pod(&self, pod: PodId) -> &'s Pod {
        &self.snapshot.pods[pod.0 as usize]
    }

    /// What the pod asks for and where it may run.
    pub fn shape_of(&self, pod: PodId) -> &'s PodShape {
        &self.snapshot.shapes[self.pod(pod).shape.0 as usize]
    }

    /// The pod group as the snapshot shows it.
    pub fn group(&self, group: PodGroupId) -> &'s PodGroup {
        &self.snapshot.pod_groups[group.0 as usize]
    }

    /// The pods of the group to place next: see [`Members::next_chunk`].
    pub fn next_chunk(&self, group: PodGroupId) -> Vec<PodId> {
        self.members(group).next_chunk(self.group(group))
    }

    /// What the pods ask for together.
    pub fn request_of(&self, pods: &[PodId]) -> PerResource<i64> {
        pods.iter().fold(PerResource::default(), |sum, pod| {
            sum.plus(self.shape_of(*pod).requests.accounted())
        })
    }

    /// All pod groups, by name.
    pub fn groups(&self) -> impl Iterator<Item = PodGroupId> + use<> {
        let count = u32::try_from(self.snapshot.pod_groups.len());
        (0..count.expect("pod group ids are 32 bits")).map(PodGroupId)
    }

    /// All pods, by name.
    pub fn pod_ids(&self) -> impl Iterator<Item = PodId> + use<> {
        let count = u32::try_from(self.snapshot.pods.len()).expect("pod ids are 32 bits");
        (0..count).map(PodId)
    }

    /// All nodes, by name.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        let count = u32::try_from(self.snapshot.nodes.len()).expect("node ids are 32 bits");
        (0..count).map(NodeId)
    }
}

impl Customs {
    fn of(snapshot: &Snapshot) -> Self {
        let with = |cares: fn(&PodShape) -> bool| {
            let shapes: Vec<bool> = snapshot.shapes.iter().map(cares).collect();
            let pods = snapshot.pods.iter().zip(0..);
            let caring = pods.filter(|(pod, _)| shapes[pod.shape.0 as usize]);
            caring.map(|(_, at)| PodId(at)).collect()
        };
        Self {
            shunning: with(|shape| !shape.pod_anti_affinity.is_empty()),
            preferring: with(|shape| {
                !shape.pod_preferences.is_empty() || !shape.pod_affinity.is_empty()
            }),
        }
    }
}
