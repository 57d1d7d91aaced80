//! What-if over a snapshot: pods are placed, promised room, evicted; every change is written
//! down, can be undone back to a [`Checkpoint`], and reaches the plan only by
//! [`Session::commit`]. A change costs what it changes (one or two nodes, one pod group, the
//! queues above it), and so does undoing it. Which change to make is decided elsewhere.

mod apart;
mod at_odds;
mod candidates;
mod claims;
mod commit;
mod customs;
mod demand;
mod device;
mod fleet;
mod free;
mod mates;
mod members;
mod misfits;
mod next_cycle;
mod no_place;
mod node;
mod opening;
mod parts;
mod placing;
mod protected;
mod scenarios;
mod selected;
mod state;
mod task_order;
mod topology;
mod zones;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    Decision, Profile, Snapshot,
    model::{GpuGroup, Node, NodeId, Pod, PodGroup, PodGroupId, PodId, PodShape, QueueId, ShapeId},
    queues::{Bill, JobKey, Ledger, Prices, Shortfall, age_ranks},
    resources::PerResource,
};
pub use candidates::{ScoredNode, Verdicts};
use customs::Customs;
pub use device::{Choice, Device, SharedDevice};
pub(crate) use free::{Asked, Free, Freed, parts_on};
pub use members::{Members, NotReady, SubMembers, Unusable};
pub use no_place::{NoPlace, WrongLevel};
pub use node::{ChangedNodes, Fits, Mark, NodeRoom};
use parts::{Parts, PodParts};
pub use placing::Unplaced;
pub use protected::Protection;
pub use scenarios::Scenarios;
pub use selected::Minding;
use selected::Selected;
use state::Hold;
pub use state::{PodState, Stays};

pub use zones::{Counted, ZoneRoom};

/// One cycle's view of the cluster: the snapshot and what was decided since.
#[derive(Clone, Debug)]
pub struct Session<'s> {
    /// The cluster as it was when the cycle began.
    pub snapshot: &'s Snapshot,
    /// How the scheduler is set up.
    pub profile: &'s Profile,
    nodes: Vec<NodeRoom>,
    pods: Vec<PodState>,
    parts: Parts,
    prices: Prices,
    members: Vec<Members>,
    task_ranks: Vec<u32>,
    /// Taken when they are first asked for: many cycles have nobody in line.
    age_ranks: OnceCell<Vec<u32>>,
    /// Likewise: few set-ups ask.
    gpu_demand: OnceCell<Vec<(ShapeId, i64)>>,
    /// In which places of each topology nodes are.
    paths: OnceCell<topology::Paths>,
    ledger: Ledger,
    log: Vec<Change>,
    changed: ChangedNodes,
    candidates: candidates::Candidates,
    empty_fleet: fleet::EmptyFleet,
    customs: Customs,
    selected: Selected,
    looks_ahead: bool,
    /// The most zones of a node, where they are published.
    zones_max: usize,
    /// Pods of groups that keep to places of a topology.
    placed_pods: BTreeMap<PodGroupId, Vec<PodId>>,
    /// While pods are put together: which nodes are better, for the place's sake.
    preferred_nodes: Option<BTreeMap<NodeId, i64>>,
    decisions: Vec<Decision>,
    /// Workloads for which others had to leave.
    preemptions: usize,
    protections: BTreeMap<PodGroupId, Protection>,
    too_young: BTreeSet<PodGroupId>,
    /// For whom others would leave in another cycle.
    bounded: BTreeSet<PodGroupId>,
    scenarios: Scenarios,
}

/// A pod changed its state; this is the one it had.
#[derive(Clone, Copy, Debug)]
struct Change {
    pod: PodId,
    before: PodState,
    parts_before: PodParts,
}

/// A point to which everything later can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint(usize);

impl<'s> Session<'s> {
    /// The cluster as the snapshot shows it.
    pub fn new(snapshot: &'s Snapshot, profile: &'s Profile) -> Self {
        let state_of = |pod| PodState::of(pod, snapshot.now, profile.release_max);
        let prices = Prices::of(snapshot);
        let mut session = Self {
            snapshot,
            profile,
            nodes: snapshot.nodes.iter().map(NodeRoom::empty).collect(),
            pods: snapshot.pods.iter().map(state_of).collect(),
            members: snapshot.pod_groups.iter().map(Members::of).collect(),
            task_ranks: task_order::task_ranks(snapshot, &profile.task_order),
            age_ranks: OnceCell::new(),
            gpu_demand: OnceCell::new(),
            paths: OnceCell::new(),
            parts: Parts::of(snapshot),
            ledger: Ledger::open(snapshot, profile, &prices),
            prices,
            log: Vec::new(),
            changed: ChangedNodes::default(),
            candidates: candidates::Candidates::default(),
            empty_fleet: fleet::EmptyFleet::of(&snapshot.nodes),
            customs: Customs::of(snapshot),
            selected: Selected::default(),
            looks_ahead: false,
            zones_max: zones::most(snapshot),
            placed_pods: placed_pods(snapshot),
            preferred_nodes: None,
            decisions: Vec::new(),
            preemptions: 0,
            protections: BTreeMap::new(),
            too_young: BTreeSet::new(),
            bounded: BTreeSet::new(),
            scenarios: Scenarios::default(),
        };
        for at in 0..snapshot.pods.len() {
            let pod = PodId(u32::try_from(at).expect("pod ids are 32 bits"));
            session.take_room(pod, session.pods[at]);
        }
        session.heed_published_zones();
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
            let change = self.log.pop().expect("longer than the checkpoint");
            let Change { pod, before, parts_before } = change;
            self.set_state(pod, before, parts_before);
        }
    }

    /// The waiting pod takes idle room on `node` now.
    pub fn place(&mut self, pod: PodId, node: NodeId) {
        debug_assert_eq!(self.state(pod), PodState::Pending);
        let parts = self.choose_parts(pod, node, Hold::Has);
        self.step(pod, PodState::Holding(node), parts);
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
            | PodState::Away
            | PodState::Lost
            | PodState::Finished) => {
                debug_assert!(false, "promised room while {other:?}");
                return;
            }
        };
        let parts = self.choose_parts(pod, node, Hold::IsPromised);
        self.step(pod, after, parts);
    }

    /// The pod is asked to leave its node: its room is being released. See [`Self::can_evict`].
    pub fn evict(&mut self, pod: PodId) {
        debug_assert!(self.can_evict(pod));
        if let PodState::Holding(node) = self.state(pod) {
            self.step(pod, PodState::Releasing(node), self.parts.of_pod(pod));
        }
    }

    /// The pod, evicted since the last commit, stays where it is after all.
    pub fn restore(&mut self, pod: PodId) {
        if let PodState::Releasing(node) | PodState::Moving { from: node, .. } = self.state(pod) {
            self.step(pod, PodState::Holding(node), self.parts.of_pod(pod));
        }
    }

    /// What was promised to the pod in this cycle is promised no more. It waits, or leaves.
    pub fn withdraw(&mut self, pod: PodId) {
        let after = match self.state(pod) {
            PodState::Promised(_) => PodState::Pending,
            PodState::Moving { from, .. } => PodState::Releasing(from),
            PodState::Pending
            | PodState::Gated
            | PodState::Holding(_)
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::Away
            | PodState::Lost
            | PodState::Finished => return,
        };
        self.step(pod, after, self.parts.of_pod(pod).promise_nothing());
    }

    /// It holds a node, and did so before this cycle.
    pub fn can_evict(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Holding(_)) && self.pod(pod).node.is_some()
    }

    fn step(&mut self, pod: PodId, after: PodState, parts: PodParts) {
        let (before, parts_before) = (self.state(pod), self.parts.of_pod(pod));
        self.log.push(Change { pod, before, parts_before });
        self.set_state(pod, after, parts);
    }

    fn set_state(&mut self, pod: PodId, after: PodState, parts: PodParts) {
        let before = std::mem::replace(&mut self.pods[pod.0 as usize], after);
        self.give_room(pod, before);
        self.parts.set(pod, parts);
        self.take_room(pod, after);
        if let Some((queue, group)) = self.account_of(pod) {
            let (before, after) = (before.charged_on(), after.charged_on());
            let bill = |node| self.bill_on(pod, node);
            let (before, after) = (before.map(bill), after.map(bill));
            if before == after {
                return;
            }
            if let Some(bill) = before {
                self.ledger.refund(queue, &bill, group.preemptible);
            }
            if let Some(bill) = after {
                self.ledger.charge(queue, &bill, group.preemptible);
            }
        }
    }

    /// What its queue pays for the pod while it has, or was promised, room on `node`.
    pub fn bill_on(&self, pod: PodId, node: NodeId) -> Bill {
        self.prices.on(self.pod(pod).shape, self.node(node))
    }

    /// The shared devices of the pod where it is, or where it was promised room.
    pub fn gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        let parts = self.parts.of_pod(pod);
        let promised = self.state(pod).is_promised();
        &self.parts.portion(if promised { parts.promised } else { parts.held }).groups
    }

    /// The shared devices that the pod has, or had when it was evicted.
    pub fn held_gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        self.parts.held_by(pod, Hold::Has)
    }

    /// It was evicted in this cycle and promised the room where it is, down to the devices.
    pub fn is_promised_what_it_has(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Moving { from, to } if from == to)
            && self.parts.is_promised_what_is_held(pod)
    }

    fn take_room(&mut self, pod: PodId, state: PodState) {
        let shape = self.shape_of(pod);
        let PodShape { requests, shared_gpu, .. } = shape;
        for (node, hold) in state.holds() {
            let (room, of) =
                (&mut self.nodes[node.0 as usize], &self.snapshot.nodes[node.0 as usize]);
            room.take(pod, requests, hold);
            room.change_claims((of, shape), hold, 1);
            if let Some(shared) = shared_gpu {
                let units = shared.units_on(of);
                room.change_parts(self.parts.held_by(pod, hold), hold, units);
            }
            room.take_zones(self.parts.zones_held_by(pod, hold), hold);
            self.changed.note(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].enter((pod, rank), of, state);
        }
    }

    fn give_room(&mut self, pod: PodId, state: PodState) {
        let shape = self.shape_of(pod);
        let PodShape { requests, shared_gpu, .. } = shape;
        for (node, hold) in state.holds() {
            let (room, of) =
                (&mut self.nodes[node.0 as usize], &self.snapshot.nodes[node.0 as usize]);
            room.give(pod, requests, hold);
            room.change_claims((of, shape), hold, -1);
            if let Some(shared) = shared_gpu {
                let units = shared.units_on(of);
                room.change_parts(self.parts.held_by(pod, hold), hold, -units);
            }
            room.give_zones(self.parts.zones_held_by(pod, hold), hold);
            self.changed.note(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].leave((pod, rank), of, state);
        }
    }

    fn account_of(&self, pod: PodId) -> Option<(QueueId, &'s PodGroup)> {
        let group = self.group(self.pod(pod).group?);
        group.known_queue().map(|queue| (queue, group))
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

    /// Which nodes are better for the pods that are being put together, and by how much.
    pub const fn preferred_nodes(&self) -> Option<&BTreeMap<NodeId, i64>> {
        self.preferred_nodes.as_ref()
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

    /// The shapes of which most pods ask for GPUs, each with how many there are that have not ended.
    pub fn gpu_demand(&self) -> Vec<(&'s PodShape, i64)> {
        let demand = self.gpu_demand.get_or_init(|| demand::of_gpus(self.snapshot));
        let shape = |id: ShapeId| &self.snapshot.shapes[id.0 as usize];
        demand.iter().map(|(id, count)| (shape(*id), *count)).collect()
    }

    /// The group's place in its queue.
    pub fn waiting_key(&self, group: PodGroupId) -> JobKey {
        self.job_key(group, self.members(group).shortfall(self.group(group)))
    }

    /// The same, if it stood so to its minimum.
    pub fn job_key(&self, group: PodGroupId, shortfall: Shortfall) -> JobKey {
        let ranks = self.age_ranks.get_or_init(|| age_ranks(&self.snapshot.pod_groups));
        let (priority, age_rank) = (self.group(group).priority, ranks[group.0 as usize]);
        JobKey::new(&self.profile.job_order, priority, shortfall, age_rank, group)
    }

    /// The pods of the group to place next: see [`Members::next_chunk`].
    pub fn next_chunk(&self, group: PodGroupId) -> Vec<PodId> {
        self.members(group).next_chunk(self.group(group))
    }

    /// What the waiting pods of a job ask for together when it is asked whose turn it is, and what
    /// may be taken back for them: as when shares are divided.
    pub fn share_of(&self, pods: &[PodId]) -> PerResource<i64> {
        self.sum_of(pods, Prices::to_share)
    }

    /// What the waiting pods of a job ask for together when limits and quotas are checked.
    pub fn request_of(&self, pods: &[PodId]) -> PerResource<i64> {
        self.sum_of(pods, Prices::to_keep_bounds)
    }

    fn sum_of(&self, pods: &[PodId], bill: fn(&Prices, ShapeId) -> Bill) -> PerResource<i64> {
        let Some(first) = pods.first() else { return PerResource::default() };
        let bills = pods.iter().map(|pod| bill(&self.prices, self.pod(*pod).shape));
        self.due(*first, &bills.collect())
    }

    /// What the queue of the pod would pay for the bill, besides what it pays now. For work that
    /// cannot be preempted, claims count that only work that can be has.
    pub fn due(&self, pod: PodId, bill: &Bill) -> PerResource<i64> {
        let Some((queue, group)) = self.account_of(pod) else { return bill.total() };
        let due = self.ledger.due(queue, bill, group.preemptible);
        if group.preemptible { due.all } else { due.non_preemptible }
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

fn placed_pods(snapshot: &Snapshot) -> BTreeMap<PodGroupId, Vec<PodId>> {
    let mut placed: BTreeMap<PodGroupId, Vec<PodId>> = BTreeMap::new();
    let groups = (0..).map(PodGroupId).zip(&snapshot.pod_groups);
    placed.extend(groups.filter(|(_, group)| group.is_placed()).map(|(id, _)| (id, Vec::new())));
    if placed.is_empty() {
        return placed;
    }
    for (pod, id) in snapshot.pods.iter().zip(0..) {
        if let Some(pods) = pod.group.and_then(|group| placed.get_mut(&group)) {
            pods.push(PodId(id));
        }
    }
    placed
}
