//! The write side of a cycle: pods are allocated, pipelined and evicted. Every change is logged,
//! can be undone back to a [`Checkpoint`], and becomes a decision of the plan only by
//! [`Statement::commit`]. A change, and undoing it, costs what it touches: one or two nodes, one
//! pod group, its queues. Which change to make is decided elsewhere.

use std::{collections::BTreeMap, ops::Deref};

use super::{
    CapacityIndex, PodState, Session,
    pod::{Occupancy, PortionIndices},
};
use crate::{
    Decision, EvictionCause,
    model::{NodeId, PodId},
};

/// A session that can be changed, with the log of its changes since the last commit, as in KAI.
#[derive(Clone, Debug)]
pub struct Statement<'s> {
    pub(super) session: Session<'s>,
    log: Vec<StateChange>,
}

/// State and portions of a pod before a change, to undo the change.
#[derive(Clone, Copy, Debug)]
struct StateChange {
    pod: PodId,
    before: PodState,
    portions_before: PortionIndices,
}

/// A position in the log of changes; changes after it can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint(usize);

/// A statement can be read like its session.
impl<'s> Deref for Statement<'s> {
    type Target = Session<'s>;

    fn deref(&self) -> &Session<'s> {
        &self.session
    }
}

impl<'s> Statement<'s> {
    /// Creates a statement without changes.
    pub const fn new(session: Session<'s>) -> Self {
        Self { session, log: Vec::new() }
    }

    /// Returns the session with all changes, committed or not.
    pub fn into_session(self) -> Session<'s> {
        self.session
    }

    /// Takes the index of the present free capacity, for a search.
    pub(crate) fn take_capacity(&mut self) -> CapacityIndex {
        self.session.take_capacity()
    }

    /// Gives back the index, for later searches.
    pub(crate) fn return_capacity(&mut self, capacity: CapacityIndex) {
        self.session.caches.capacity.0 = Some(capacity);
    }

    /// The present position in the log of changes, for [`Self::undo_to`].
    pub const fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Undoes all changes since `checkpoint`. If a commit came after the checkpoint, only the
    /// changes since that commit are undone.
    pub fn undo_to(&mut self, checkpoint: Checkpoint) {
        while self.log.len() > checkpoint.0 {
            let change = self.log.pop().expect("the log is longer than the checkpoint");
            let StateChange { pod, before, portions_before } = change;
            self.session.set_state(pod, before, portions_before);
        }
    }

    /// Allocates the pending pod on idle capacity of `node`.
    pub fn allocate(&mut self, pod: PodId, node: NodeId) {
        debug_assert_eq!(self.state(pod), PodState::Pending);
        let portions = self.choose_portion(pod, node, Occupancy::Allocated);
        self.change_state(pod, PodState::Allocated(node), portions);
    }

    /// Pipelines the pod to idle or releasing capacity of `node`. The pod is pending, or was
    /// evicted in this cycle and moves.
    pub fn pipeline(&mut self, pod: PodId, node: NodeId) {
        let after = match self.state(pod) {
            PodState::Pending => PodState::Pipelined(node),
            PodState::Releasing(from) => PodState::Moving { from, to: node },
            other @ (PodState::Gated
            | PodState::Allocated(_)
            | PodState::Stuck(_)
            | PodState::Pipelined(_)
            | PodState::Moving { .. }
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished) => {
                debug_assert!(false, "cannot pipeline a pod in state {other:?}");
                return;
            }
        };
        let portions = self.choose_portion(pod, node, Occupancy::Pipelined);
        self.change_state(pod, after, portions);
    }

    /// Evicts the pod: its capacity becomes releasing. The binding of a pod that was placed in this
    /// cycle is cancelled on commit: the pod is pending again.
    pub fn evict(&mut self, pod: PodId) {
        if let PodState::Allocated(node) = self.state(pod) {
            self.change_state(pod, PodState::Releasing(node), self.portions_of(pod));
        }
    }

    /// Cancels an eviction made since the last commit: the pod stays.
    pub fn cancel_eviction(&mut self, pod: PodId) {
        if let PodState::Releasing(node) | PodState::Moving { from: node, .. } = self.state(pod) {
            self.change_state(pod, PodState::Allocated(node), self.portions_of(pod));
        }
    }

    /// Cancels the pod's pipelining. It is pending again, or releasing if it was evicted.
    pub fn cancel_pipeline(&mut self, pod: PodId) {
        let after = match self.state(pod) {
            PodState::Pipelined(_) => PodState::Pending,
            PodState::Moving { from, .. } => PodState::Releasing(from),
            PodState::Pending
            | PodState::Gated
            | PodState::Allocated(_)
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished => return,
        };
        self.change_state(pod, after, self.portions_of(pod).without_pipelined());
    }

    pub(super) fn change_state(&mut self, pod: PodId, after: PodState, portions: PortionIndices) {
        let (before, portions_before) = (self.state(pod), self.portions_of(pod));
        self.log.push(StateChange { pod, before, portions_before });
        self.session.set_state(pod, after, portions);
    }

    /// Makes the pod pending again, without a node.
    pub fn reset_to_pending(&mut self, pod: PodId) {
        self.change_state(pod, PodState::Pending, PortionIndices::default());
    }

    /// Adds the pods allocated and pipelined since the last commit to the plan; they can no longer
    /// be undone. Panics if pods were evicted.
    pub fn commit(&mut self) {
        self.commit_evictions(|_| unreachable!("nothing was evicted"));
    }

    /// Like [`Self::commit`], for transactions with evictions; `cause` returns why a pod is
    /// evicted.
    pub fn commit_evictions(&mut self, cause: impl Fn(PodId) -> EvictionCause) {
        let log = std::mem::take(&mut self.log);
        let mut first = BTreeMap::new();
        for change in &log {
            first.entry(change.pod).or_insert(change.before);
        }
        for change in &log {
            if let Some(before) = first.remove(&change.pod) {
                self.record_decision(change.pod, before, &cause);
            }
        }
    }

    /// Removes the binding that this cycle made for a pod which was then evicted: the pod becomes
    /// pending, or stays pipelined.
    fn cancel_binding(&mut self, pod: PodId) {
        let (after, portions) = if let PodState::Moving { to, .. } = self.state(pod) {
            let pipelined = self.portions_of(pod).pipelined;
            (PodState::Pipelined(to), PortionIndices { pipelined, ..PortionIndices::default() })
        } else {
            (PodState::Pending, PortionIndices::default())
        };
        self.session.set_state(pod, after, portions);
        self.session.outcome.cancelled_bindings.insert(pod);
    }

    fn record_decision(
        &mut self,
        pod: PodId,
        before: PodState,
        cause: &impl Fn(PodId) -> EvictionCause,
    ) {
        let was_holding = matches!(before, PodState::Allocated(_));
        let leaves = matches!(self.state(pod), PodState::Releasing(_) | PodState::Moving { .. });
        if was_holding && leaves {
            if self.pod(pod).node.is_some() {
                self.session.outcome.decisions.push(Decision::Evict { pod, cause: cause(pod) });
            } else {
                self.cancel_binding(pod);
            }
        }
        let after = self.state(pod);
        if before == after {
            return;
        }
        match after {
            PodState::Allocated(node) if !was_holding => {
                self.session.outcome.decisions.push(Decision::Bind { pod, node });
            }
            PodState::Pipelined(node) | PodState::Moving { to: node, .. } => {
                self.session.outcome.decisions.push(Decision::Pipeline { pod, node });
            }
            PodState::Allocated(_)
            | PodState::Pending
            | PodState::Gated
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::OnExcludedNode
            | PodState::OnMissingNode
            | PodState::Finished => {}
        }
    }
}
