//! A queue of the tree that shares the cluster.

use std::time::Duration;

use super::{Name, QueueId, Time};
use crate::resources::{Amount, PerResource};

/// A Queue (`scheduling.run.ai/v2`). Unset API fields are already 0 here, `-1` is
/// [`Amount::Unlimited`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// `metadata.name`.
    pub name: Name,
    /// The queue above it; `None`: it shares the cluster's total.
    pub parent: Option<QueueId>,
    /// `spec.priority`, 100 when unset.
    pub priority: i32,
    /// What it deserves.
    pub quota: PerResource<Amount>,
    /// What it may use at most.
    pub limit: PerResource<Amount>,
    /// Its part of what is left over, in thousandths.
    pub over_quota_weight_milli: PerResource<i64>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// `spec.preemptMinRuntime`.
    pub preempt_min_runtime: Option<Duration>,
    /// `spec.reclaimMinRuntime`.
    pub reclaim_min_runtime: Option<Duration>,
    /// Used over the history window, as millionths of the cluster's capacity over that window.
    pub historical_usage_micro: PerResource<i64>,
}

/// Why a pod group's queue cannot be used. Such queues are not in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueProblem {
    /// No queue of that name exists.
    Missing {
        /// The name asked for.
        queue: Name,
    },
    /// The queue, or one above it, names a parent that does not exist.
    ParentMissing {
        /// The name asked for.
        queue: Name,
        /// The queue that names the parent.
        child: Name,
        /// The parent that is not there.
        parent: Name,
    },
    /// The queue's chain of parents is a circle.
    Cycle {
        /// The name asked for.
        queue: Name,
        /// The queues of the circle, each followed by its parent.
        circle: Vec<Name>,
    },
    /// Only leaf queues accept work.
    NotALeaf {
        /// The name asked for.
        queue: Name,
        /// One of its children.
        child: Name,
    },
    /// The object of the queue, or of one above it, cannot be read.
    Malformed {
        /// The name asked for.
        queue: Name,
        /// The queue whose object it is.
        whose: Name,
        /// Which field is wrong, what was found, what is allowed.
        detail: Name,
    },
    /// The queue, or one above it, is of another node pool: here it is as if it did not exist.
    OtherPool {
        /// What that comes to.
        seems: Box<Self>,
        /// The queue whose label says so.
        whose: Name,
        /// What is wrong with its label.
        detail: Name,
    },
}

impl QueueProblem {
    /// The name asked for.
    pub fn queue(&self) -> &Name {
        match self {
            Self::Missing { queue }
            | Self::ParentMissing { queue, .. }
            | Self::Cycle { queue, .. }
            | Self::NotALeaf { queue, .. }
            | Self::Malformed { queue, .. } => queue,
            Self::OtherPool { seems, .. } => seems.queue(),
        }
    }
}
