//! What can be decided about a pod, and why. `Display` of these types is the only place where
//! their words live.

use crate::model::{Name, NodeId, PodGroupId, PodId, QueueProblem};

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Bind the pod to the node now.
    Bind {
        /// Which pod.
        pod: PodId,
        /// To which node.
        node: NodeId,
    },
    /// Ask the pod to leave, with its grace period.
    Evict {
        /// Which pod.
        pod: PodId,
        /// For whom and why.
        cause: EvictionCause,
    },
    /// The pod gets this room when it is free. Nothing of it survives the cycle but an event.
    Pipeline {
        /// Which pod.
        pod: PodId,
        /// On which node.
        node: NodeId,
    },
}

/// Why a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// Another queue takes back its share.
    Reclaim {
        /// For whom.
        preemptor: PodGroupId,
        /// One line on the victim's and one on the reclaimer's queue.
        usage: Name,
    },
    /// A higher priority in the same queue (profile `kai`), or on the node (profile `kube`).
    Preempt {
        /// For whom.
        preemptor: PodGroupId,
    },
    /// Moved to make contiguous room; it is placed elsewhere.
    Consolidate {
        /// For whom.
        preemptor: PodGroupId,
    },
    /// Its gang stayed below its minimum for longer than its grace.
    StaleGang {
        /// The minimum.
        min_member: u32,
    },
}

/// Why a pod group, or one pod, waits. One dominant reason that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its queue cannot be used.
    Queue(QueueProblem),
}
