//! Placing pods together: all of them get room, or none.

use std::collections::BTreeSet;

use super::{Fits, PodState, Session};
use crate::{
    decision::Misfits,
    framework::Permission,
    model::{NodeId, PodId},
};

/// There was no node for one of several pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// For which.
    pub pod: PodId,
    /// For how many there was room before it.
    pub found: u32,
    /// Why not.
    pub misfits: Misfits,
}

impl Session<'_> {
    /// All of `pods` get room, at once or when it is free; all or none of them. What permit
    /// plugins say decides whether some may go before others.
    pub fn place_all(&mut self, pods: &[PodId]) -> Result<(), Unplaced> {
        let start = self.checkpoint();
        for (&pod, found) in pods.iter().zip(0..) {
            let Some((node, fits)) = self.best_node(pod, None) else {
                let misfits = self.misfits(pod);
                self.undo_to(start);
                return Err(Unplaced { pod, found, misfits });
            };
            self.reserve(pod, node, fits);
        }
        let permits = &self.profile.plugins.permit;
        if permits.iter().any(|permit| permit.permit(self, pods) == Permission::WaitTogether) {
            for pod in pods {
                self.wait_instead(*pod);
            }
        }
        Ok(())
    }

    /// All of `pods` (waiting, or evicted since the last commit) are promised room on nodes of
    /// `within` (`None`: on any), or none of them. Queue limits are the caller's to check.
    pub fn promise_all(&mut self, pods: &[PodId], within: Option<&BTreeSet<NodeId>>) -> bool {
        let start = self.checkpoint();
        for &pod in pods {
            let Some((node, _)) = self.best_node(pod, within) else {
                self.undo_to(start);
                return false;
            };
            self.promise(pod, node);
        }
        true
    }

    fn reserve(&mut self, pod: PodId, node: NodeId, fits: Fits) {
        for reserve in &self.profile.plugins.reserve {
            reserve.reserve(self, pod, node, fits);
        }
    }

    /// A pod that got room at once is promised the same room.
    fn wait_instead(&mut self, pod: PodId) {
        if let PodState::Holding(node) = self.state(pod) {
            let parts = self.parts.of_pod(pod).promise_what_is_held();
            self.step(pod, PodState::Promised(node), parts);
        }
    }
}
