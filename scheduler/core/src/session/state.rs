//! Where a pod is in the course of a cycle. What a state means for nodes, queues and gangs is
//! read off the state, so that undoing is going back to the former state.

use std::time::Duration;

use crate::{
    model::{NodeId, Pod, PodStatus, Time},
    resources::Resources,
};

/// Where a pod is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Waits for a node.
    Pending,
    /// Waits for its scheduling gates to go.
    Gated,
    /// Has room on the node: bound, running, or placed in this cycle.
    Holding(NodeId),
    /// Was asked to leave the node; its room can be promised.
    Releasing(NodeId),
    /// Was asked to leave the node long ago; its room cannot be promised.
    Stuck(NodeId),
    /// Waits for room on the node that was promised in this cycle.
    Promised(NodeId),
    /// Was evicted in this cycle and promised room elsewhere (or there again).
    Moving {
        /// Where it still is.
        from: NodeId,
        /// Where it was promised room.
        to: NodeId,
    },
    /// Bound to a node that is not looked at: its queue pays for it, and its gang has it.
    Away,
    /// Bound to a node that no longer exists: its queue pays until it goes, too.
    Lost,
    /// Succeeded or failed.
    Finished,
}

/// What a pod does with the room of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Has it.
    Has,
    /// Has it and gives it back soon.
    Releases,
    /// Has it; nobody knows until when.
    IsStuck,
    /// Gets it from what is idle or being released.
    IsPromised,
}

impl Hold {
    /// Takes an amount from what is idle and what is being released, of a node or a zone.
    pub(super) fn take(self, amount: &Resources, idle: &mut Resources, releasing: &mut Resources) {
        match self {
            Self::Has | Self::IsStuck => idle.subtract(amount),
            Self::Releases => {
                idle.subtract(amount);
                releasing.add(amount);
            }
            Self::IsPromised => releasing.subtract(amount),
        }
    }

    /// Gives it back.
    pub(super) fn give(self, amount: &Resources, idle: &mut Resources, releasing: &mut Resources) {
        match self {
            Self::Has | Self::IsStuck => idle.add(amount),
            Self::Releases => {
                idle.add(amount);
                releasing.subtract(amount);
            }
            Self::IsPromised => releasing.add(amount),
        }
    }
}

/// Whether a pod stays on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// It does, as far as we know, or will come.
    Yes,
    /// It was asked to leave.
    No,
}

impl PodState {
    /// A pod that takes longer than `release_max` to leave is stuck.
    pub(super) fn of(pod: &Pod, now: Time, release_max: Option<Duration>) -> Self {
        match (pod.status, pod.node) {
            (PodStatus::Pending, _) => Self::Pending,
            (PodStatus::Gated, _) => Self::Gated,
            (PodStatus::Bound | PodStatus::Running, Some(node)) => Self::Holding(node),
            (PodStatus::Bound | PodStatus::Running, None) => Self::Lost,
            (PodStatus::Away, _) => Self::Away,
            (PodStatus::Releasing, Some(node)) => {
                let since = pod.released_since.unwrap_or(now);
                if release_max.is_some_and(|max| now.since(since) > max) {
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

    /// Which nodes it concerns, and how.
    pub(super) fn holds(self) -> impl Iterator<Item = (NodeId, Hold)> {
        let holds = match self {
            Self::Holding(node) => [Some((node, Hold::Has)), None],
            Self::Releasing(node) => [Some((node, Hold::Releases)), None],
            Self::Stuck(node) => [Some((node, Hold::IsStuck)), None],
            Self::Promised(node) => [Some((node, Hold::IsPromised)), None],
            Self::Moving { from, to } => {
                [Some((from, Hold::Releases)), Some((to, Hold::IsPromised))]
            }
            Self::Pending | Self::Gated | Self::Away | Self::Lost | Self::Finished => [None, None],
        };
        holds.into_iter().flatten()
    }

    /// The nodes on which it is or will be, and whether it stays there.
    pub fn places(self) -> impl Iterator<Item = (NodeId, Stays)> {
        self.holds().map(|(node, hold)| match hold {
            Hold::Has | Hold::IsStuck | Hold::IsPromised => (node, Stays::Yes),
            Hold::Releases => (node, Stays::No),
        })
    }

    /// It waits for room that it was promised in this cycle.
    pub const fn is_promised(self) -> bool {
        matches!(self, Self::Promised(_) | Self::Moving { .. })
    }

    /// Its queue pays for what it has, or was promised, on this node.
    pub const fn charged_on(self) -> Option<NodeId> {
        match self {
            Self::Holding(node) | Self::Promised(node) | Self::Moving { to: node, .. } => {
                Some(node)
            }
            Self::Pending
            | Self::Gated
            | Self::Releasing(_)
            | Self::Stuck(_)
            | Self::Away
            | Self::Lost
            | Self::Finished => None,
        }
    }
}
