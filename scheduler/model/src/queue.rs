//! A queue of the tree that shares the cluster.

use std::time::Duration;

use super::{Name, QueueId, Time};
use crate::resources::{Amount, PerResource};

/// A Queue (`scheduling.run.ai/v2`). Unset API fields are 0 here; `-1` is [`Amount::Unlimited`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// `metadata.name`.
    pub name: Name,
    /// The parent queue; `None`: it shares the cluster's total.
    pub parent: Option<QueueId>,
    /// `spec.priority`, 100 when unset.
    pub priority: i32,
    /// Amount that the queue deserves.
    pub quota: PerResource<Amount>,
    /// Maximum amount that the queue may use.
    pub limit: PerResource<Amount>,
    /// Weight of the queue for the surplus over all quotas, in thousandths.
    pub over_quota_weight_milli: PerResource<i64>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// `spec.preemptMinRuntime`.
    pub preempt_min_runtime: Option<Duration>,
    /// `spec.reclaimMinRuntime`.
    pub reclaim_min_runtime: Option<Duration>,
    /// Past usage of the queue over the usage window, in millionths of the cluster's capacity over
    /// that window.
    pub historical_usage_micro: PerResource<i64>,
}

impl Queue {
    /// Creates a top-level queue without quota and limit, which may use everything.
    pub fn without_bounds(name: &str) -> Self {
        let all = Amount::Unlimited;
        let all = PerResource { gpu: all, cpu: all, memory: all };
        Self {
            name: name.into(),
            parent: None,
            priority: 100,
            quota: all,
            limit: all,
            over_quota_weight_milli: PerResource::default(),
            created: Time::default(),
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
            historical_usage_micro: PerResource::default(),
        }
    }
}

/// Why a pod group's queue cannot be used. A queue with such a problem is not in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueProblem {
    /// No queue of that name exists.
    Missing {
        /// The queue that the pod group names.
        queue: Name,
    },
    /// The queue, or an ancestor, names a parent that does not exist.
    ParentMissing {
        /// The queue that the pod group names.
        queue: Name,
        /// The queue that names the parent.
        child: Name,
        /// The missing parent.
        parent: Name,
    },
    /// The queue's parents form a cycle.
    Cycle {
        /// The queue that the pod group names.
        queue: Name,
        /// The queues of the cycle, each followed by its parent.
        cycle: Vec<Name>,
    },
    /// The queue has children; only leaf queues accept jobs.
    NotALeaf {
        /// The queue that the pod group names.
        queue: Name,
        /// Name of one of the queue's children.
        child: Name,
    },
    /// The object of the queue, or of an ancestor, is malformed.
    Malformed {
        /// The queue that the pod group names.
        queue: Name,
        /// The queue whose object is malformed.
        faulty_queue: Name,
        /// The malformed field, its value, and what was expected.
        detail: Name,
    },
    /// The queue, or an ancestor, belongs to another node pool and is treated as missing.
    OtherNodePool {
        /// The problem that results from treating the queue as missing.
        apparent_problem: Box<Self>,
        /// Name of the queue that belongs to the other node pool.
        faulty_queue: Name,
        /// What is wrong with the queue's node pool label.
        detail: Name,
    },
}

impl QueueProblem {
    /// The queue that the pod group names.
    pub fn named_queue(&self) -> &Name {
        match self {
            Self::Missing { queue }
            | Self::ParentMissing { queue, .. }
            | Self::Cycle { queue, .. }
            | Self::NotALeaf { queue, .. }
            | Self::Malformed { queue, .. } => queue,
            Self::OtherNodePool { apparent_problem, .. } => apparent_problem.named_queue(),
        }
    }
}
