//! The search for victims, shared by the actions that evict (consolidation, reclaim, preempt):
//! evictable units of running jobs ([`EvictionCandidates`]), the order in which they are considered
//! ([`VictimOrder`]), their minimum run times ([`min_runtime`]), how many pods would fit once they
//! are evicted ([`CapacityIndex`]), and the search for an acceptable set of victims
//! ([`solve_pending_jobs`]). The rules of each action are its [`EvictionPolicy`].

mod candidates;
mod evictable_unit;
mod exclusion;
mod failed_jobs;
mod memory;
pub(crate) mod min_runtime;
mod move_bound;
mod node_set;
mod pending;
mod relocation;
mod requeue_simulation;
mod scenario;
mod search;
mod search_inputs;
mod signature;
mod solve;
mod validation;
mod victim_order;

use std::collections::BTreeMap;

use crate::{
    Profile, Snapshot,
    framework::{CapacityIndex, Session, Statement},
    model::{PodGroup, PodGroupId, PodId, QueueId, ShapeId},
    queues::{JobKey, QueueAccounts, QueuedJob},
    resources::PerResource,
};

pub use evictable_unit::{EvictableUnit, PlacedPods, UnitPortion};
pub(crate) use failed_jobs::FailureScope;
pub use memory::SearchMemory;
pub(crate) use solve::{EvictionPolicy, NarrowerSearch, solve_pending_jobs};
pub use validation::{AcceptedSolutions, NextCycle};
pub use victim_order::{eviction_order, reclaim_candidates};

use candidates::EvictionCandidates;
use evictable_unit::UnitKey;
use exclusion::OpenDomains;
use memory::FailedSearch;
use node_set::NodeSet;
use pending::{JobClass, PendingJobs};
use search::{LimitCheck, Search};
use search_inputs::SearchInputs;
use signature::SchedulingSignature;
use victim_order::VictimOrder;

/// The cluster and the queue accounts at the start of a search for one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) profile: &'a Profile,
    /// Queue accounts before any pod is evicted for the job.
    pub(crate) accounts: &'a QueueAccounts,
    /// Idle plus releasing capacity, summed over all nodes.
    pub(crate) free: PerResource<i64>,
}

/// A pending job for which pods may be evicted.
#[derive(Clone, Debug)]
pub(crate) struct Preemptor {
    pub(crate) group: PodGroupId,
    pub(crate) queue: QueueId,
    /// Position of the job in the job order of its queue.
    pub(crate) key: JobKey,
    pub(crate) preemptible: bool,
    /// The pods to place next: the pods that a gang lacks of its minimum, or one elastic pod.
    pub(crate) pods: Vec<PodId>,
    /// Request of the `pods` as limits and quotas count it.
    pub(crate) request: PerResource<i64>,
    /// Request of the `pods` as fair shares count it.
    pub(crate) share_request: PerResource<i64>,
}

/// What happens to the pods that a search evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchMode {
    /// The pods are evicted for good, unless they fit elsewhere. A gang that moves is moved whole.
    Evict,
    /// The pods are moved to other nodes. Only the pods that must move do, even if that is a part
    /// of a gang.
    Move,
}

/// The evictions with which a job can be placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Solution {
    /// Units evicted for good, in the order in which they were considered.
    pub(crate) victims: Vec<EvictableUnit>,
    /// Units evicted here and pipelined onto other nodes.
    pub(crate) moved: Vec<EvictableUnit>,
    /// Jobs that come before this one and take part of the freed capacity, with the amount that
    /// each takes.
    pub(crate) jobs_ahead: Vec<(PodGroupId, PerResource<i64>)>,
}

impl<'a> SearchContext<'a> {
    fn new(session: &Session<'a>, accounts: &'a QueueAccounts, capacity: &CapacityIndex) -> Self {
        let (snapshot, profile) = (session.snapshot, session.profile);
        Self { snapshot, profile, accounts, free: capacity.total_free() }
    }

    pub(crate) fn group(&self, group: PodGroupId) -> &'a PodGroup {
        &self.snapshot.pod_groups[group.0 as usize]
    }
}

impl Preemptor {
    fn new(session: &Session<'_>, job: QueuedJob) -> Self {
        let (id, QueuedJob { queue, key, request: share_request }) = (job.key.group(), job);
        let group = session.group(id);
        let pods = session.members(id).next_chunk(group);
        let request = session.bounds_request(&pods);
        Self { group: id, queue, key, preemptible: group.preemptible, pods, request, share_request }
    }

    /// Pipelines the pods of the job. Returns `false`, without a change, if nodes lack the capacity
    /// or a queue on the path would exceed its limit.
    fn pipeline_pods(&self, statement: &mut Statement<'_>) -> bool {
        LimitCheck::default().allows_job(statement.accounts(), self)
            && statement.pipeline_all(&self.pods)
    }

    /// Numbers of the job's pods by shape.
    fn pods_by_shape(&self, session: &Session<'_>) -> BTreeMap<ShapeId, u64> {
        let mut pods = BTreeMap::new();
        for pod in &self.pods {
            *pods.entry(session.pod(*pod).shape).or_default() += 1;
        }
        pods
    }
}

impl Solution {
    /// All units that the solution evicts: victims, then moved units.
    pub(crate) fn evicted_units(&self) -> impl Iterator<Item = &EvictableUnit> {
        self.victims.iter().chain(&self.moved)
    }
}
