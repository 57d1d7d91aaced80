//! The result of a cycle, to be applied by the crate `schedlab-scheduler`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    decision::{Decision, Reason},
    model::{GpuGroup, NumaAllocation, PodGroupId, PodId, QueueId},
    resources::{PerResource, Resources},
};

/// What one cycle decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bindings, evictions and pipelined pods in the order of the decisions. Those of one
    /// transaction (a gang; victims with their preemptor) are adjacent.
    pub decisions: Vec<Decision>,
    /// Shared GPUs of the pods bound or pipelined above. A name that no pod of the snapshot has is
    /// a GPU that was not shared before.
    pub gpu_groups: BTreeMap<PodId, Vec<GpuGroup>>,
    /// What the pods bound or pipelined above get of their node's NUMA zones, if anything.
    pub numa_allocations: BTreeMap<PodId, Vec<NumaAllocation>>,
    /// The dominant reason of each pending pod group.
    pub waiting: BTreeMap<PodGroupId, Reason>,
    /// Pending groups that are blocked by an earlier job of their queue, which waits for capacity
    /// or its queue's share as well.
    pub blocked_by_head_of_line: BTreeSet<PodGroupId>,
    /// Reasons of single pods, where they differ from that of their group.
    pub waiting_pods: BTreeMap<PodId, Reason>,
    /// Pod groups that became stale (`true`) or recovered (`false`).
    pub staleness_changes: BTreeMap<PodGroupId, bool>,
    /// Total that the queues share, from which fair shares are divided: allocatable of ready nodes,
    /// with MIG instances as GPUs, minus pods of other schedulers.
    pub total_shared: PerResource<i64>,
    /// Accounts of the queues before the decisions.
    pub queues: BTreeMap<QueueId, QueueUsage>,
    /// Accounts of the queues after the decisions. Fair shares stay as they were; the next cycle
    /// divides them again.
    pub queues_after: BTreeMap<QueueId, QueueUsage>,
    /// When a deadline (a grace or minimum runtime) changes the result, in milliseconds from now;
    /// `None` when no deadline does.
    pub requeue_after_millis: Option<u64>,
}

/// Accounts of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// Its fair share, in the units of [`Resources`].
    pub fair_share: PerResource<i64>,
    /// Used by bound pods of the queue and its descendants.
    pub allocated: Resources,
    /// Part of it that non-preemptible pods use.
    pub allocated_non_preemptible: Resources,
    /// Allocated plus what pending pods request.
    pub requested: Resources,
}
