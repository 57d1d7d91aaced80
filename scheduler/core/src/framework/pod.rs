//! State of a pod during a cycle. What a state means for nodes, queues and gangs is derived from
//! it, so that undoing a change restores the former state.

mod facts;
mod portions;
mod states;
mod task_order;

use std::time::Duration;

use crate::{
    model::{NodeId, Pod, PodStatus, Time},
    resources::Resources,
};
pub(in crate::framework) use facts::PodFacts;
pub(in crate::framework) use portions::{PortionIndices, PortionTable};
pub(in crate::framework) use states::PodStates;

/// Current state of a pod in the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// The pod has no node.
    Pending,
    /// The pod has scheduling gates.
    Gated,
    /// The pod is allocated on the node: bound, running, or placed in this cycle.
    Allocated(NodeId),
    /// The pod is terminating on the node; pods can be pipelined to its capacity.
    Releasing(NodeId),
    /// The pod has been terminating for too long; no pods can be pipelined to its capacity.
    Stuck(NodeId),
    /// The pod was pipelined to the node in this cycle.
    Pipelined(NodeId),
    /// The pod was evicted in this cycle and pipelined to another node, or to the same.
    Moving {
        /// The node that the pod is leaving.
        from: NodeId,
        /// The node that the pod is pipelined to.
        to: NodeId,
    },
    /// The pod is bound to a node that is excluded from scheduling: its queue is charged, and the
    /// pod counts for its gang.
    OnExcludedNode,
    /// The pod is bound to a node that no longer exists: its queue is charged until the pod is
    /// deleted.
    OnMissingNode,
    /// The pod succeeded or failed.
    Finished,
}

/// How a pod occupies capacity of a node or NUMA zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupancy {
    /// The pod has the capacity.
    Allocated,
    /// The pod has the capacity and is releasing it.
    Releasing,
    /// The pod has the capacity and is not releasing it in time.
    Stuck,
    /// The pod is pipelined: it takes capacity that is idle or being released.
    Pipelined,
}

impl Occupancy {
    /// Subtracts what a pod occupies from the idle and releasing capacity of a node or a NUMA zone.
    pub(super) fn subtract_from(
        self,
        amount: &Resources,
        idle: &mut Resources,
        releasing: &mut Resources,
    ) {
        match self {
            Self::Allocated | Self::Stuck => idle.subtract(amount),
            Self::Releasing => {
                idle.subtract(amount);
                releasing.add(amount);
            }
            Self::Pipelined => releasing.subtract(amount),
        }
    }

    /// Adds back what [`Self::subtract_from`] subtracted.
    pub(super) fn add_back_to(
        self,
        amount: &Resources,
        idle: &mut Resources,
        releasing: &mut Resources,
    ) {
        match self {
            Self::Allocated | Self::Stuck => idle.add(amount),
            Self::Releasing => {
                idle.add(amount);
                releasing.subtract(amount);
            }
            Self::Pipelined => releasing.add(amount),
        }
    }
}

/// Whether a pod remains on a node or is leaving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePresence {
    /// The pod remains on the node, or is pipelined to it.
    Staying,
    /// The pod is leaving the node.
    Leaving,
}

impl PodState {
    /// State of the pod in the snapshot. A pod that takes longer than `release_timeout` to
    /// terminate is stuck.
    fn from_pod(pod: &Pod, now: Time, release_timeout: Option<Duration>) -> Self {
        match (pod.status, pod.node) {
            (PodStatus::Pending, _) => Self::Pending,
            (PodStatus::Gated, _) => Self::Gated,
            (PodStatus::Bound | PodStatus::Running, Some(node)) => Self::Allocated(node),
            (PodStatus::Bound | PodStatus::Running, None) => Self::OnMissingNode,
            (PodStatus::OnExcludedNode, _) => Self::OnExcludedNode,
            (PodStatus::Releasing, Some(node)) => {
                let since = pod.releasing_since.unwrap_or(now);
                if release_timeout.is_some_and(|max| now.elapsed_since(since) > max) {
                    Self::Stuck(node)
                } else {
                    Self::Releasing(node)
                }
            }
            (PodStatus::Releasing, None) | (PodStatus::Succeeded | PodStatus::Failed, _) => {
                Self::Finished
            }
        }
    }

    /// The nodes whose capacity the pod occupies, and how.
    pub(super) fn occupied_nodes(self) -> impl Iterator<Item = (NodeId, Occupancy)> {
        let holds = match self {
            Self::Allocated(node) => [Some((node, Occupancy::Allocated)), None],
            Self::Releasing(node) => [Some((node, Occupancy::Releasing)), None],
            Self::Stuck(node) => [Some((node, Occupancy::Stuck)), None],
            Self::Pipelined(node) => [Some((node, Occupancy::Pipelined)), None],
            Self::Moving { from, to } => {
                [Some((from, Occupancy::Releasing)), Some((to, Occupancy::Pipelined))]
            }
            Self::Pending
            | Self::Gated
            | Self::OnExcludedNode
            | Self::OnMissingNode
            | Self::Finished => [None, None],
        };
        holds.into_iter().flatten()
    }

    /// The nodes on which the pod is or will be, and whether it remains there.
    pub fn nodes_with_presence(self) -> impl Iterator<Item = (NodeId, NodePresence)> {
        self.occupied_nodes().map(|(node, occupancy)| match occupancy {
            Occupancy::Allocated | Occupancy::Stuck | Occupancy::Pipelined => {
                (node, NodePresence::Staying)
            }
            Occupancy::Releasing => (node, NodePresence::Leaving),
        })
    }

    /// Whether the pod was pipelined to a node in this cycle.
    pub const fn is_pipelined(self) -> bool {
        matches!(self, Self::Pipelined(_) | Self::Moving { .. })
    }

    /// The node for whose capacity the pod's queue is charged.
    pub const fn charged_node(self) -> Option<NodeId> {
        match self {
            Self::Allocated(node) | Self::Pipelined(node) | Self::Moving { to: node, .. } => {
                Some(node)
            }
            Self::Pending
            | Self::Gated
            | Self::Releasing(_)
            | Self::Stuck(_)
            | Self::OnExcludedNode
            | Self::OnMissingNode
            | Self::Finished => None,
        }
    }
}
