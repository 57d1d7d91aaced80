//! What can be decided about a pod, and why. The texts of these types are written only in their
//! `Display` implementations.

mod device_fit_error;
mod excluded_nodes;
mod fit_error;
mod fit_error_rank;
mod format;
mod node_requirements;
mod reason;
mod suggestion;
mod topology_fit_error;
mod volume_fit_error;

use crate::model::{Name, NodeId, PodGroupId, PodId};
pub use device_fit_error::DeviceFitError;
pub use fit_error::{
    DomainRequirements, EvenWhenEmpty, ExcludedNodeCounts, FitError, FitErrors, NodeRefusal,
    NodesToOpen,
};
pub(crate) use fit_error_rank::{has_other_errors, worst_fit_error};
pub(crate) use format::Decimal;
pub use format::Quantity;
pub(crate) use node_requirements::PlacementNeed;
pub use node_requirements::{MutualExclusion, NodeRequirements, PinnedLabel};
pub use reason::{DeallocationOutcome, DelayStart, PreemptionOutcome, Reason, ReasonKind};
pub(crate) use suggestion::NodeBatch;
pub use suggestion::{
    AddedNodes, CapacityLocation, DomainHint, ExclusionSource, QueueBound, SingleDomain, Suggestion,
};
pub use topology_fit_error::TopologyFitError;
pub use volume_fit_error::VolumeFitError;

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
