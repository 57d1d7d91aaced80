//! What can be decided about a pod, and why. `Display` of these types is the only place where
//! their words live.

mod device_misfit;
mod left_out;
mod misfit;
mod obstacle;
mod place_misfit;
mod reason;
mod remedy;
mod site;
mod volume_misfit;
mod words;

use crate::model::{Name, NodeId, PodGroupId, PodId};
pub use device_misfit::DeviceMisfit;
pub use misfit::{EvenWhenEmpty, Lacking, Misfit, Misfits, Opening, PlaceWants, Refusal};
pub(crate) use obstacle::{has_more, worst};
pub use place_misfit::PlaceMisfit;
pub use reason::{Deallocation, Preemption, Reason, ReasonKind, Since};
pub(crate) use remedy::Batch;
pub use remedy::{Added, Bound, InOne, KeptFrom, Places, Remedy, Room};
pub(crate) use site::PlaceNeed;
pub use site::{KeptApart, Pin, Site};
pub use volume_misfit::VolumeMisfit;
pub(crate) use words::Decimal;
pub use words::Quantity;

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

impl EvictionCause {
    /// For whom; `None`: for nobody.
    pub const fn preemptor(&self) -> Option<PodGroupId> {
        match self {
            Self::Reclaim { preemptor, .. }
            | Self::Preempt { preemptor }
            | Self::Consolidate { preemptor } => Some(*preemptor),
            Self::StaleGang { .. } => None,
        }
    }

    /// The action, as KAI names it on the pod group.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Reclaim { .. } => "reclaim",
            Self::Preempt { .. } => "preempt",
            Self::Consolidate { .. } => "consolidation",
            Self::StaleGang { .. } => "stalegangeviction",
        }
    }
}
