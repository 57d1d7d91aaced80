//! The extension points of a cycle, named as Kubernetes names them. A [`Plugins`] lists, in
//! order, what is asked at each point; two lists are built in (see [`crate::plugins`]), and
//! anybody can make another. PreBind, Bind and PostBind are the shell's.
//!
//! A filter or score is asked about many nodes for one pod: its PreFilter or PreScore looks at
//! the pod once and answers with a closure for nodes, or with `None` when it has no say. What an
//! answer depends on ([`DependsOn`]) decides for how long [`crate::session`] may remember it.

use std::{fmt::Debug, sync::Arc};

use crate::{
    decision::{Misfit, Reason},
    model::{Name, NodeId, PodGroupId, PodId},
    session::{Fits, Session},
};

/// The plugins of a scheduler at each extension point, in order.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// Is the pod group fit to be looked at at all?
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    /// In which order pod groups are served.
    pub queue_sort: Arc<dyn QueueSort>,
    /// May these pods get room together, wherever it is?
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    /// May this pod get room on this node?
    pub filter: Vec<Arc<dyn Filter>>,
    /// What to do at once for a pod without a node.
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    /// Which node is best: a weighted sum.
    pub score: Vec<Scoring>,
    /// How scores add up.
    pub ranking: Ranking,
    /// Takes the chosen room.
    pub reserve: Vec<Arc<dyn Reserve>>,
    /// May pods that got room go there now?
    pub permit: Vec<Arc<dyn Permit>>,
    /// On which nodes a pod may wait for room that is being released.
    pub waiting: WaitingRoom,
}

/// A score and its weight.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// Who scores.
    pub plugin: Arc<dyn Score>,
    /// What its (normalized) score is multiplied with.
    pub weight: i64,
}

/// How the scores of a list add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// They are added.
    Sum,
    /// They are added, and weights are such that a score always outranks all after it; none is
    /// normalized in a way that changes its order. Then the best node can be looked up.
    Bands,
}

/// On which nodes a pod may wait for room that is being released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitingRoom {
    /// On any node (KAI).
    AnyNode,
    /// On the node for which it was nominated (kube-scheduler).
    NominatedNode,
}

/// On what an answer about a pod and a node depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependsOn {
    /// On the pod's shape and the node as it stands in the snapshot: it never changes.
    Shape,
    /// On the pod's shape and the room of that node.
    Room,
    /// On more: the pod itself, or pods on other nodes.
    Cluster,
}

/// When the pod fits on a node, or why not.
pub type NodeFilter<'a> = Box<dyn Fn(NodeId) -> Result<Fits, Misfit> + 'a>;

/// The score of a node, more is better.
pub type NodeScore<'a> = Box<dyn Fn(NodeId) -> i64 + 'a>;

/// PreEnqueue: is the pod group fit to be looked at at all?
pub trait PreEnqueue: Debug + Send + Sync {
    /// Why it has to wait, whatever room there is.
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason>;
}

/// QueueSort: in which order pod groups are served.
pub trait QueueSort: Debug + Send + Sync {
    /// All of `groups`, in a line.
    fn line_up(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn Line>;
}

/// Pod groups in the order in which they are served, which changes as they are.
pub trait Line {
    /// The next of those that speak badly for their queues: where there is no room for one, it
    /// should be taken out, so that the queue's next one speaks.
    fn reaching(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// It steps aside.
    fn remove(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Who is next.
    fn pop(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// It has more to ask for.
    fn push(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Pods of it got room.
    fn served(&mut self, session: &Session<'_>, group: PodGroupId);
}

/// PreFilter for pods that are placed together: may they get room, wherever it is?
pub trait PreFilter: Debug + Send + Sync {
    /// Why they may not.
    fn pre_filter(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Result<(), Reason>;
}

/// PreFilter and Filter for one pod.
pub trait Filter: Debug + Send + Sync {
    /// On what its answers depend.
    fn depends_on(&self) -> DependsOn;
    /// It refuses nodes for the pods that are there, or elsewhere, whatever room there is.
    fn keeps_apart(&self) -> bool {
        false
    }
    /// What two pods that come cannot have in common, whoever else is there.
    fn parts<'a>(&self, session: &'a Session<'_>, pods: (PodId, PodId)) -> Vec<Apart<'a>> {
        let _ = (session, pods);
        Vec::new()
    }
    /// Looks at the pod. `None`: no node is refused.
    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>>;
}

/// What two pods cannot have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart<'a> {
    /// Their node.
    Node,
    /// The value of this label of their nodes.
    Label(&'a Name),
}

/// PostFilter: what to do at once for a pod without a node.
pub trait PostFilter: Debug + Send + Sync {
    /// Changes the session and commits, or answers why it did not.
    fn post_filter(&self, session: &mut Session<'_>, pod: PodId, reason: Reason) -> Reason;
}

/// PreScore, Score and NormalizeScore.
pub trait Score: Debug + Send + Sync {
    /// On what its answers depend.
    fn depends_on(&self) -> DependsOn;
    /// It has a say about this pod.
    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool;
    /// Looks at the pod and at the nodes on which it fits.
    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a>;
    /// Brings the scores of all nodes on which the pod fits onto one scale.
    fn normalize_score(&self, scores: &mut [i64]) {
        let _ = scores;
    }
}

/// Reserve: takes the chosen room. Undone with the session.
pub trait Reserve: Debug + Send + Sync {
    /// The pod is to have this room, at once or later.
    fn reserve(&self, session: &mut Session<'_>, pod: PodId, node: NodeId, fits: Fits);
}

/// Permit: may pods that got room together go there now?
pub trait Permit: Debug + Send + Sync {
    /// Asked when all have room.
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> Permission;
}

/// The answer to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Whoever can, goes.
    Go,
    /// All wait until all can go.
    WaitTogether,
}
