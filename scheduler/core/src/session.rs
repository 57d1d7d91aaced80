//! What-if over a snapshot: pods are allocated, pipelined and evicted. Every change is logged, can
//! be undone back to a [`Checkpoint`], and reaches the plan only by [`Session::commit`]. A change,
//! and undoing it, costs what it touches: one or two nodes, one pod group, its queues. Which change
//! to make is decided elsewhere.

mod claims;
mod commit;
mod conflicting_pods;
mod constraint_index;
mod device;
mod empty_cluster;
mod exclusion;
mod fit_errors;
mod free_capacity;
mod gang_peers;
mod gpu_demand;
mod members;
mod next_cycle;
mod node;
mod node_ranking;
mod nodes_to_open;
mod numa;
mod placement;
mod portions;
mod preemption_blocks;
mod scenario_counts;
mod selector_cache;
mod state;
mod task_order;
mod topology;
mod topology_diagnosis;

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    Decision, Profile, Snapshot,
    model::{GpuGroup, Node, NodeId, Pod, PodGroup, PodGroupId, PodId, PodShape, QueueId, ShapeId},
    queues::{Charge, ChargeTable, JobKey, MinimumStatus, QueueAccounts, age_ranks},
    resources::PerResource,
};
use constraint_index::ConstraintIndex;
pub use device::{Device, DeviceChoice, SharedDevice};
pub(crate) use free_capacity::{CapacityRequest, FreeCapacity, FreedCapacity, fraction_on};
pub use members::{Members, SubGroupMembers};
pub use node::{ChangeCursor, ChangedNodes, Fit, NodeInfo};
pub use node_ranking::{FilterResults, ScoredNode};
pub use placement::PlacementFailure;
use portions::{PodPortions, Portions};
pub use preemption_blocks::MinRuntimeProtection;
pub use scenario_counts::ScenarioCounts;
pub use selector_cache::MatchingTerms;
use selector_cache::SelectorCache;
use state::Occupancy;
pub use state::{PodState, Presence};

pub use numa::{Availability, NumaZoneCapacity};

/// One cycle's view of the cluster: the snapshot and the changes since.
#[derive(Clone, Debug)]
pub struct Session<'s> {
    /// The cluster at the start of the cycle.
    pub snapshot: &'s Snapshot,
    /// The configuration of the scheduler.
    pub profile: &'s Profile,
    nodes: Vec<NodeInfo>,
    pods: Vec<PodState>,
    portions: Portions,
    charges: ChargeTable,
    members: Vec<Members>,
    task_ranks: Vec<u32>,
    /// Computed on first use: many cycles queue no jobs.
    age_ranks: OnceCell<Vec<u32>>,
    /// Computed on first use: few profiles need it.
    gpu_demand: OnceCell<Vec<(ShapeId, i64)>>,
    /// The domains of nodes, by topology.
    domain_paths: OnceCell<topology::DomainPaths>,
    accounts: QueueAccounts,
    log: Vec<StateChange>,
    changed: ChangedNodes,
    rankings: node_ranking::NodeRankings,
    empty_cluster: empty_cluster::EmptyCluster,
    constraints: ConstraintIndex,
    selectors: SelectorCache,
    looks_ahead: bool,
    /// The maximum number of NUMA zones of a node; 0 when none are published.
    numa_zones_max: usize,
    /// Pods of groups with topology constraints.
    topology_pods: BTreeMap<PodGroupId, Vec<PodId>>,
    /// While pods are placed in a domain: which of its nodes are preferred.
    preferred_nodes: Option<BTreeMap<NodeId, i64>>,
    decisions: Vec<Decision>,
    /// Number of jobs that evicted others.
    preemptions: usize,
    min_runtime_protections: BTreeMap<PodGroupId, MinRuntimeProtection>,
    blocked_by_delay: BTreeSet<PodGroupId>,
    /// Jobs that could evict others in a later cycle.
    blocked_by_limit: BTreeSet<PodGroupId>,
    scenarios: ScenarioCounts,
}

/// A pod's state and portions before a change.
#[derive(Clone, Copy, Debug)]
struct StateChange {
    pod: PodId,
    before: PodState,
    portions_before: PodPortions,
}

/// A point to which later changes can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint(usize);

impl<'s> Session<'s> {
    /// The cluster as in the snapshot.
    pub fn new(snapshot: &'s Snapshot, profile: &'s Profile) -> Self {
        let state_of = |pod| PodState::from_pod(pod, snapshot.now, profile.release_timeout);
        let charges = ChargeTable::new(snapshot);
        let mut session = Self {
            snapshot,
            profile,
            nodes: snapshot.nodes.iter().map(NodeInfo::empty).collect(),
            pods: snapshot.pods.iter().map(state_of).collect(),
            members: snapshot.pod_groups.iter().map(Members::new).collect(),
            task_ranks: task_order::task_ranks(snapshot, &profile.task_order),
            age_ranks: OnceCell::new(),
            gpu_demand: OnceCell::new(),
            domain_paths: OnceCell::new(),
            portions: Portions::new(snapshot),
            accounts: QueueAccounts::new(snapshot, profile, &charges),
            charges,
            log: Vec::new(),
            changed: ChangedNodes::default(),
            rankings: node_ranking::NodeRankings::default(),
            empty_cluster: empty_cluster::EmptyCluster::new(&snapshot.nodes),
            constraints: ConstraintIndex::new(snapshot),
            selectors: SelectorCache::default(),
            looks_ahead: false,
            numa_zones_max: numa::max_numa_zones(snapshot),
            topology_pods: pods_with_topology(snapshot),
            preferred_nodes: None,
            decisions: Vec::new(),
            preemptions: 0,
            min_runtime_protections: BTreeMap::new(),
            blocked_by_delay: BTreeSet::new(),
            blocked_by_limit: BTreeSet::new(),
            scenarios: ScenarioCounts::default(),
        };
        for at in 0..snapshot.pods.len() {
            let pod = PodId(u32::try_from(at).expect("pod ids are 32 bits"));
            session.add_to_node(pod, session.pods[at]);
        }
        session.apply_published_numa();
        session.changed = ChangedNodes::default();
        session
    }

    /// A point to return to.
    pub const fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Undoes all changes since `checkpoint`; one from before the last commit undoes the changes
    /// since that commit.
    pub fn undo_to(&mut self, checkpoint: Checkpoint) {
        while self.log.len() > checkpoint.0 {
            let change = self.log.pop().expect("the log is longer than the checkpoint");
            let StateChange { pod, before, portions_before } = change;
            self.set_state(pod, before, portions_before);
        }
    }

    /// Allocates the pending pod on idle capacity of `node`.
    pub fn allocate(&mut self, pod: PodId, node: NodeId) {
        debug_assert_eq!(self.state(pod), PodState::Pending);
        let portions = self.choose_portion(pod, node, Occupancy::Allocated);
        self.change_state(pod, PodState::Allocated(node), portions);
    }

    /// Pipelines the pod to idle or releasing capacity of `node`. The pod is pending, or was
    /// evicted in this session and moves.
    pub fn pipeline(&mut self, pod: PodId, node: NodeId) {
        let after = match self.state(pod) {
            PodState::Pending => PodState::Pipelined(node),
            PodState::Releasing(from) => PodState::Moving { from, to: node },
            other @ (PodState::Gated
            | PodState::Allocated(_)
            | PodState::Stuck(_)
            | PodState::Pipelined(_)
            | PodState::Moving { .. }
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished) => {
                debug_assert!(false, "cannot pipeline a pod in state {other:?}");
                return;
            }
        };
        let portions = self.choose_portion(pod, node, Occupancy::Pipelined);
        self.change_state(pod, after, portions);
    }

    /// Evicts the pod: its capacity becomes releasing. See [`Self::can_evict`].
    pub fn evict(&mut self, pod: PodId) {
        debug_assert!(self.can_evict(pod));
        if let PodState::Allocated(node) = self.state(pod) {
            self.change_state(pod, PodState::Releasing(node), self.portions.of_pod(pod));
        }
    }

    /// Cancels an eviction made since the last commit: the pod stays.
    pub fn cancel_eviction(&mut self, pod: PodId) {
        if let PodState::Releasing(node) | PodState::Moving { from: node, .. } = self.state(pod) {
            self.change_state(pod, PodState::Allocated(node), self.portions.of_pod(pod));
        }
    }

    /// Cancels the pod's pipelining. It is pending again, or releasing if it was evicted.
    pub fn cancel_pipeline(&mut self, pod: PodId) {
        let after = match self.state(pod) {
            PodState::Pipelined(_) => PodState::Pending,
            PodState::Moving { from, .. } => PodState::Releasing(from),
            PodState::Pending
            | PodState::Gated
            | PodState::Allocated(_)
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished => return,
        };
        self.change_state(pod, after, self.portions.of_pod(pod).without_pipelined());
    }

    /// It was allocated on a node before this cycle and still is.
    pub fn can_evict(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Allocated(_)) && self.pod(pod).node.is_some()
    }

    fn change_state(&mut self, pod: PodId, after: PodState, portions: PodPortions) {
        let (before, portions_before) = (self.state(pod), self.portions.of_pod(pod));
        self.log.push(StateChange { pod, before, portions_before });
        self.set_state(pod, after, portions);
    }

    fn set_state(&mut self, pod: PodId, after: PodState, portions: PodPortions) {
        let before = std::mem::replace(&mut self.pods[pod.0 as usize], after);
        self.remove_from_node(pod, before);
        self.portions.set(pod, portions);
        self.add_to_node(pod, after);
        if let Some((queue, group)) = self.queue_and_group(pod) {
            let (before, after) = (before.charged_node(), after.charged_node());
            let charge = |node| self.charge_on(pod, node);
            let (before, after) = (before.map(charge), after.map(charge));
            if before == after {
                return;
            }
            if let Some(charge) = before {
                self.accounts.refund(queue, &charge, group.preemptible);
            }
            if let Some(charge) = after {
                self.accounts.charge(queue, &charge, group.preemptible);
            }
        }
    }

    /// What its queue is charged while the pod is allocated on or pipelined to `node`.
    pub fn charge_on(&self, pod: PodId, node: NodeId) -> Charge {
        self.charges.on_node(self.pod(pod).shape, self.node(node))
    }

    /// The shared GPUs of the pod where it is allocated or pipelined.
    pub fn gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        let portions = self.portions.of_pod(pod);
        let promised = self.state(pod).is_pipelined();
        &self
            .portions
            .portion(if promised { portions.pipelined } else { portions.allocated })
            .gpu_groups
    }

    /// The shared GPUs that the pod has, or had before its eviction.
    pub fn allocated_gpu_groups(&self, pod: PodId) -> &[GpuGroup] {
        self.portions.gpu_groups_of(pod, Occupancy::Allocated)
    }

    /// It was evicted in this cycle and pipelined to the very capacity it had, down to the GPUs.
    pub fn is_pipelined_in_place(&self, pod: PodId) -> bool {
        matches!(self.state(pod), PodState::Moving { from, to } if from == to)
            && self.portions.is_pipelined_in_place(pod)
    }

    fn add_to_node(&mut self, pod: PodId, state: PodState) {
        let shape = self.shape_of(pod);
        let PodShape { requests, fractional_gpu, .. } = shape;
        for (node, occupancy) in state.occupied_nodes() {
            let (info, of) =
                (&mut self.nodes[node.0 as usize], &self.snapshot.nodes[node.0 as usize]);
            info.allocate(pod, requests, occupancy);
            info.change_claims(of, shape, occupancy, 1);
            if let Some(shared) = fractional_gpu {
                let units = shared.units_on(of);
                info.change_device_use(
                    self.portions.gpu_groups_of(pod, occupancy),
                    occupancy,
                    units,
                );
            }
            info.allocate_numa(self.portions.numa_of(pod, occupancy), occupancy);
            self.changed.record(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].add(pod, rank, of, state);
        }
    }

    fn remove_from_node(&mut self, pod: PodId, state: PodState) {
        let shape = self.shape_of(pod);
        let PodShape { requests, fractional_gpu, .. } = shape;
        for (node, occupancy) in state.occupied_nodes() {
            let (info, of) =
                (&mut self.nodes[node.0 as usize], &self.snapshot.nodes[node.0 as usize]);
            info.release(pod, requests, occupancy);
            info.change_claims(of, shape, occupancy, -1);
            if let Some(shared) = fractional_gpu {
                let units = shared.units_on(of);
                info.change_device_use(
                    self.portions.gpu_groups_of(pod, occupancy),
                    occupancy,
                    -units,
                );
            }
            info.release_numa(self.portions.numa_of(pod, occupancy), occupancy);
            self.changed.record(node, self.snapshot.nodes.len());
        }
        let (of, rank) = (self.pod(pod), self.task_ranks[pod.0 as usize]);
        if let Some(group) = of.group {
            self.members[group.0 as usize].remove(pod, rank, of, state);
        }
    }

    fn queue_and_group(&self, pod: PodId) -> Option<(QueueId, &'s PodGroup)> {
        let group = self.group(self.pod(pod).group?);
        group.queue_id().map(|queue| (queue, group))
    }

    /// Current state of the pod.
    pub fn state(&self, pod: PodId) -> PodState {
        self.pods[pod.0 as usize]
    }

    /// Rank of a pod in its group: the lowest is placed first and evicted last.
    pub fn task_rank(&self, pod: PodId) -> u32 {
        self.task_ranks[pod.0 as usize]
    }

    /// Current capacity of a node.
    pub fn node_info(&self, node: NodeId) -> &NodeInfo {
        &self.nodes[node.0 as usize]
    }

    /// Current members of a pod group.
    pub fn members(&self, group: PodGroupId) -> &Members {
        &self.members[group.0 as usize]
    }

    /// Current accounts of all queues.
    pub const fn accounts(&self) -> &QueueAccounts {
        &self.accounts
    }

    /// Log of changed nodes, for caches of what is derived from nodes.
    pub const fn changed_nodes(&self) -> &ChangedNodes {
        &self.changed
    }

    /// Whether nodes are compared as they will be when everything is released (`true`), or nodes
    /// where a pod fits now come first. A pod pipelined with look-ahead keeps its capacity only if
    /// the next cycle, which finds it free, chooses the same node.
    pub fn set_look_ahead(&mut self, ahead: bool) {
        self.looks_ahead = ahead;
        self.rankings = node_ranking::NodeRankings::default();
    }

    /// Whether nodes are compared as they will be when everything is released.
    pub const fn looks_ahead(&self) -> bool {
        self.looks_ahead
    }

    /// Preferred nodes for the pods being placed, with the size of the preference.
    pub const fn preferred_nodes(&self) -> Option<&BTreeMap<NodeId, i64>> {
        self.preferred_nodes.as_ref()
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

    /// The most frequent shapes that request GPUs, each with its number of unfinished pods.
    pub fn gpu_demand(&self) -> Vec<(&'s PodShape, i64)> {
        let demand = self.gpu_demand.get_or_init(|| gpu_demand::gpu_demand(self.snapshot));
        let shape = |id: ShapeId| &self.snapshot.shapes[id.0 as usize];
        demand.iter().map(|(id, count)| (shape(*id), *count)).collect()
    }

    /// The group's current position in its queue.
    pub fn current_job_key(&self, group: PodGroupId) -> JobKey {
        self.job_key(group, self.members(group).minimum_status(self.group(group)))
    }

    /// The group's position in its queue, for the given status.
    pub fn job_key(&self, group: PodGroupId, minimum_status: MinimumStatus) -> JobKey {
        let ranks = self.age_ranks.get_or_init(|| age_ranks(&self.snapshot.pod_groups));
        let (priority, age_rank) = (self.group(group).priority, ranks[group.0 as usize]);
        JobKey::new(&self.profile.job_order, priority, minimum_status, age_rank, group)
    }

    /// The pods of the group to place next: see [`Members::next_chunk`].
    pub fn next_chunk(&self, group: PodGroupId) -> Vec<PodId> {
        self.members(group).next_chunk(self.group(group))
    }

    /// What the pending pods of a job request together, as counted for fair shares, queue order and
    /// reclaim.
    pub fn fair_share_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::for_fair_share)
    }

    /// What the pending pods of a job request together, as counted for limits and quotas.
    pub fn bounds_request(&self, pods: &[PodId]) -> PerResource<i64> {
        self.additional_charge_for(pods, ChargeTable::for_bounds)
    }

    fn additional_charge_for(
        &self,
        pods: &[PodId],
        charge: fn(&ChargeTable, ShapeId) -> Charge,
    ) -> PerResource<i64> {
        let Some(first) = pods.first() else { return PerResource::default() };
        let charges = pods.iter().map(|pod| charge(&self.charges, self.pod(*pod).shape));
        self.additional_charge(*first, &charges.collect())
    }

    /// What the pod's queue would be charged in addition. For non-preemptible work, claims count
    /// that only preemptible work has.
    pub fn additional_charge(&self, pod: PodId, charge: &Charge) -> PerResource<i64> {
        let Some((queue, group)) = self.queue_and_group(pod) else { return charge.total() };
        let change = self.accounts.charge_change(queue, charge, group.preemptible);
        if group.preemptible { change.all } else { change.non_preemptible }
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

fn pods_with_topology(snapshot: &Snapshot) -> BTreeMap<PodGroupId, Vec<PodId>> {
    let mut placed: BTreeMap<PodGroupId, Vec<PodId>> = BTreeMap::new();
    let groups = (0..).map(PodGroupId).zip(&snapshot.pod_groups);
    placed.extend(
        groups.filter(|(_, group)| group.has_topology_constraint()).map(|(id, _)| (id, Vec::new())),
    );
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
