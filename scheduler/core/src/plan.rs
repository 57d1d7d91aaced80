//! The result of a cycle, to be applied by the crate `schedlab-scheduler`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Snapshot,
    model::{GpuGroup, Name, NodeId, NumaAllocation, PodGroupId, PodId, QueueId},
    reason::Reason,
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

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Bind the pod to the node in this cycle.
    Bind {
        /// The pending pod.
        pod: PodId,
        /// The node it is bound to.
        node: NodeId,
    },
    /// Evict the pod with its grace period.
    Evict {
        /// The victim.
        pod: PodId,
        /// Why it is evicted, and its preemptor.
        cause: EvictionCause,
    },
    /// Pipeline the pod: it is to get capacity that is still being released. Only an event survives
    /// the cycle; the next cycle decides again.
    Pipeline {
        /// The pod that waits.
        pod: PodId,
        /// The node whose capacity it waits for.
        node: NodeId,
    },
}

/// Why a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// Another queue reclaims its share.
    Reclaim {
        /// The pod group that reclaims.
        preemptor: PodGroupId,
        /// Two lines for the victim's event: usage of the victim's queue and of the reclaimer's
        /// queue.
        usage: Name,
    },
    /// A job of higher priority preempts it: in the same queue (profile `kai`) or on the node
    /// (profile `kube`).
    Preempt {
        /// The pod group that preempts.
        preemptor: PodGroupId,
    },
    /// It is moved to make contiguous capacity and is pipelined to another node.
    Consolidate {
        /// The pod group that gets the capacity.
        preemptor: PodGroupId,
    },
    /// Its gang stayed below its minimum for longer than its grace.
    StaleGang {
        /// The gang's minimum number of pods.
        min_member: u32,
    },
}

impl EvictionCause {
    /// The pod group that gets the capacity; `None` for a stale gang.
    pub const fn preemptor(&self) -> Option<PodGroupId> {
        match self {
            Self::Reclaim { preemptor, .. }
            | Self::Preempt { preemptor }
            | Self::Consolidate { preemptor } => Some(*preemptor),
            Self::StaleGang { .. } => None,
        }
    }

    /// The name of the action that KAI writes on the pod group.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Reclaim { .. } => "reclaim",
            Self::Preempt { .. } => "preempt",
            Self::Consolidate { .. } => "consolidation",
            Self::StaleGang { .. } => "stalegangeviction",
        }
    }
}

/// Message of the eviction event: the preemptor and the cause.
pub fn eviction_message(snapshot: &Snapshot, pod: PodId, cause: &EvictionCause) -> String {
    let pod = &snapshot.pods[pod.0 as usize];
    let pod = format!("{}/{}", pod.namespace, pod.name);
    let workload = |group: &PodGroupId| {
        let group = &snapshot.pod_groups[group.0 as usize];
        format!("{}/{}", group.namespace, group.name)
    };
    match cause {
        EvictionCause::Reclaim { preemptor, usage } => {
            format!("Pod {pod} was preempted by workload {}.\n{usage}", workload(preemptor))
        }
        EvictionCause::Preempt { preemptor } => {
            format!("Pod {pod} was preempted by higher priority workload {}", workload(preemptor))
        }
        EvictionCause::Consolidate { preemptor } => format!(
            "Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) \
             procedure, to make room for workload {}",
            workload(preemptor)
        ),
        EvictionCause::StaleGang { min_member } => format!(
            "Workload doesn't meet the minimum required number of pods ({min_member}), \
             evicting remaining pod: {pod}"
        ),
    }
}
