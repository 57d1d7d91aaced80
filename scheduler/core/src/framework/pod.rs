//! State of a pod during a cycle. What a state means for nodes, queues and gangs is derived from
//! it, so that undoing a change restores the former state.

mod portions;
mod states;
mod task_order;

use std::time::Duration;

use crate::{
    model::{NodeId, Pod, PodStatus, Time},
    resources::Resources,
};
pub(in crate::framework) use portions::{PodPortions, Portions};
pub(in crate::framework) use states::PodStates;

/// Current state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Without a node.
    Pending,
    /// Behind scheduling gates.
    Gated,
    /// Allocated on the node: bound, running, or placed in this cycle.
    Allocated(NodeId),
    /// Being evicted from the node; pods can be pipelined to its capacity.
    Releasing(NodeId),
    /// Being evicted from the node for too long; no pods can be pipelined to its capacity.
    Stuck(NodeId),
    /// Pipelined to the node in this cycle.
    Pipelined(NodeId),
    /// Evicted in this cycle and pipelined to another node, or to the same.
    Moving {
        /// The node it is leaving.
        from: NodeId,
        /// The node it is pipelined to.
        to: NodeId,
    },
    /// Bound to a node that is excluded from scheduling: its queue is charged, and it counts for
    /// its gang.
    OnExcludedNode,
    /// Bound to a node that no longer exists: its queue is charged until it is deleted.
    OnMissingNode,
    /// Succeeded or failed.
    Finished,
}

/// How a pod occupies capacity of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupancy {
    /// It has it.
    Allocated,
    /// It has it and releases it.
    Releasing,
    /// It has it and does not release it in time.
    Stuck,
    /// It takes it from what is idle or being released.
    Pipelined,
}

impl Occupancy {
    /// Subtracts an amount from idle and releasing capacity, of a node or a NUMA zone.
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

    /// The reverse of [`Self::subtract_from`].
    pub(super) fn return_to(
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

/// Whether a pod remains on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It remains there, or will come there.
    Staying,
    /// It is leaving.
    Leaving,
}

impl PodState {
    /// State in the snapshot. A pod that takes longer than `release_max` to terminate is stuck.
    fn from_pod(pod: &Pod, now: Time, release_timeout: Option<Duration>) -> Self {
        match (pod.status, pod.node) {
            (PodStatus::Pending, _) => Self::Pending,
            (PodStatus::Gated, _) => Self::Gated,
            (PodStatus::Bound | PodStatus::Running, Some(node)) => Self::Allocated(node),
            (PodStatus::Bound | PodStatus::Running, None) => Self::OnMissingNode,
            (PodStatus::OnExcludedNode, _) => Self::OnExcludedNode,
            (PodStatus::Releasing, Some(node)) => {
                let since = pod.releasing_since.unwrap_or(now);
                if release_timeout.is_some_and(|max| now.since(since) > max) {
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

    /// The nodes that it occupies, and how.
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

    /// The nodes on which it is or will be, and whether it remains there.
    pub fn nodes(self) -> impl Iterator<Item = (NodeId, Presence)> {
        self.occupied_nodes().map(|(node, occupancy)| match occupancy {
            Occupancy::Allocated | Occupancy::Stuck | Occupancy::Pipelined => {
                (node, Presence::Staying)
            }
            Occupancy::Releasing => (node, Presence::Leaving),
        })
    }

    /// It is pipelined to a node in this cycle.
    pub const fn is_pipelined(self) -> bool {
        matches!(self, Self::Pipelined(_) | Self::Moving { .. })
    }

    /// The node for whose capacity its queue is charged.
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
