//! The result of a cycle, to be applied by the crate `schedlab-scheduler`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Snapshot,
    model::{GpuGroup, Name, NodeId, NumaAllocation, PodGroupId, PodId, QueueId},
    reason::Reason,
    resources::{PerResource, Resources},
};

/// The decisions of one cycle and their reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bindings, evictions and pipelined pods in the order of the decisions. Decisions of one
    /// transaction (a gang; victims with their preemptor) are adjacent.
    pub decisions: Vec<Decision>,
    /// Shared GPUs of the pods in `decisions` that are bound or pipelined. A name that no pod of
    /// the snapshot has denotes a GPU that was not shared before.
    pub gpu_groups: BTreeMap<PodId, Vec<GpuGroup>>,
    /// Allocations of NUMA zones for the pods in `decisions` that are bound or pipelined.
    pub numa_allocations: BTreeMap<PodId, Vec<NumaAllocation>>,
    /// The main reason of each pending pod group.
    pub waiting: BTreeMap<PodGroupId, Reason>,
    /// Pending groups that are blocked by an earlier job of their queue, which waits for capacity
    /// or its queue's share as well.
    pub blocked_by_head_of_line: BTreeSet<PodGroupId>,
    /// Reasons of single pods, where they differ from the reason of the pod's group.
    pub waiting_pods: BTreeMap<PodId, Reason>,
    /// Pod groups that became stale (`true`) or recovered (`false`).
    pub staleness_changes: BTreeMap<PodGroupId, bool>,
    /// Total amount that is divided among the queues: allocatable resources of ready nodes, with
    /// MIG instances counted as GPUs, minus pods of other schedulers.
    pub total_shared: PerResource<i64>,
    /// Usage and fair share of the queues before the decisions.
    pub queues: BTreeMap<QueueId, QueueUsage>,
    /// Usage of the queues after the decisions. Fair shares stay as they were, because the next
    /// cycle divides them again.
    pub queues_after: BTreeMap<QueueId, QueueUsage>,
    /// When a deadline (a grace period or minimum runtime) changes the result, in milliseconds from
    /// now; `None` when there is no such deadline.
    pub requeue_after_millis: Option<u64>,
}

/// Usage and fair share of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// Fair share of the queue, in the units of [`Resources`].
    pub fair_share: PerResource<i64>,
    /// Resources allocated to bound pods of the queue and its descendants.
    pub allocated: Resources,
    /// The part of `allocated` that non-preemptible pods use.
    pub allocated_non_preemptible: Resources,
    /// `allocated` plus what pending pods request.
    pub requested: Resources,
}

/// One decision of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Bind the pod to the node in this cycle.
    Bind {
        /// The pending pod.
        pod: PodId,
        /// The node that the pod is bound to.
        node: NodeId,
    },
    /// Evict the pod with its grace period.
    Evict {
        /// The victim, a running pod.
        pod: PodId,
        /// Why the victim is evicted, and for which pod group.
        cause: EvictionCause,
    },
    /// Pipeline the pod: it waits on the node for capacity that is still being released. Of this
    /// decision only an event survives the cycle; the next cycle decides again.
    Pipeline {
        /// The pod that waits.
        pod: PodId,
        /// The node whose capacity the pod waits for.
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
    /// A job of higher priority preempts the pod: in the same queue (profile `kai`) or on the node
    /// (profile `kube`).
    Preempt {
        /// The pod group that preempts.
        preemptor: PodGroupId,
    },
    /// The pod is moved to make contiguous capacity and is pipelined to another node.
    Consolidate {
        /// The pod group that gets the capacity.
        preemptor: PodGroupId,
    },
    /// The pod's gang stayed below its minimum for longer than its grace period.
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

    /// The action name that KAI writes on the pod group of the victim.
    pub const fn kai_action_name(&self) -> &'static str {
        match self {
            Self::Reclaim { .. } => "reclaim",
            Self::Preempt { .. } => "preempt",
            Self::Consolidate { .. } => "consolidation",
            Self::StaleGang { .. } => "stalegangeviction",
        }
    }
}

/// Message of the victim's eviction event, with the preemptor and the cause.
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
