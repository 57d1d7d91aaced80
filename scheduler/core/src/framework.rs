//! What a cycle works with. A [`Session`] is the state of the cluster in the cycle: nodes, pods,
//! pod groups, queue accounts. A [`Statement`] changes it: pods are placed, evicted and restored,
//! and the changes are committed to the plan or undone.
//!
//! The extension points are named after those of Kubernetes. [`Plugins`] lists the plugins of each
//! point in order; two sets are built in (see [`crate::plugins`]). PreBind, Bind and PostBind
//! belong to the crate that applies plans.
//!
//! A filter or score checks many nodes for one pod: its PreFilter or PreScore looks at the pod once
//! and returns a closure for nodes, or `None` when it does not apply. [`ResultInputs`] says for how
//! long the session may cache the result.

mod caches;
mod constraint_index;
mod cycle_outcome;
mod empty_cluster;
mod evictable_capacity;
mod exclusion;
mod fit_errors;
mod members;
mod node;
mod node_ranking;
mod placement;
mod pod;
mod profile;
mod queue_state;
mod selector_cache;
mod session;
mod statement;
mod topology;

use std::{fmt::Debug, sync::Arc};

use crate::{
    model::{Name, NodeId, PodGroupId, PodId},
    reason::{FitError, Reason},
};
pub use cycle_outcome::{MinRuntimeProtection, ScenarioCounts};
pub use members::{Members, SubGroupMembers};
pub use node::{
    Availability, ChangeCursor, ChangedNodes, Device, DeviceChoice, DeviceOrder, Fit, NodeInfo,
    NumaZoneCapacity, SharedDevice,
};
pub(crate) use node::{CapacityRequest, FreeCapacity, FreedCapacity, fraction_on};
pub use node_ranking::{FilterResults, ScoredNode};
pub use placement::PlacementFailure;
pub use pod::{PodState, Presence};
pub use profile::Profile;
pub use selector_cache::MatchingTerms;
pub use session::Session;
pub use statement::{Checkpoint, Statement};

/// The plugins of a scheduler at each extension point, in order.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// Whether a pod group can be considered at all.
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    /// The order in which pod groups are served.
    pub queue_sort: Arc<dyn QueueSort>,
    /// Whether pods may be placed together, on whichever nodes.
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    /// Whether a pod fits on a node.
    pub filter: Vec<Arc<dyn Filter>>,
    /// What to do at once for a pod without a node.
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    /// Weighted scores that rank nodes.
    pub score: Vec<Scoring>,
    /// How scores are combined.
    pub ranking: Ranking,
    /// Takes the chosen capacity.
    pub reserve: Vec<Arc<dyn Reserve>>,
    /// Whether placed pods may be bound now.
    pub permit: Vec<Arc<dyn Permit>>,
    /// On which nodes a pod may wait for capacity that is being released.
    pub pipeline_policy: PipelinePolicy,
}

/// A score plugin and its weight.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// The plugin.
    pub plugin: Arc<dyn Score>,
    /// Factor for its normalized score.
    pub weight: i64,
}

/// How the scores of all plugins are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// By their sum.
    Sum,
    /// By their sum, with weights such that each score outranks all later ones and normalization
    /// keeps its order. Nodes can then be kept ranked.
    Bands,
}

/// On which nodes a pod may wait for capacity that is being released (be pipelined).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelinePolicy {
    /// Any node (KAI).
    AnyNode,
    /// The nominated node only (kube-scheduler).
    NominatedNode,
}

/// What the result of a filter or score depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultInputs {
    /// The pod's shape and the node in the snapshot: it never changes.
    Shape,
    /// The pod's shape and the node's free capacity.
    NodeCapacity,
    /// More: the pod itself, or pods on other nodes.
    Cluster,
}

/// When the pod fits on a node, or why it does not.
pub type NodeFilter<'a> = Box<dyn Fn(NodeId) -> Result<Fit, FitError> + 'a>;

/// Score of a node; higher is better.
pub type NodeScore<'a> = Box<dyn Fn(NodeId) -> i64 + 'a>;

/// PreEnqueue: whether a pod group can be considered at all.
pub trait PreEnqueue: Debug + Send + Sync {
    /// Returns the reason when the group cannot run even on an empty cluster.
    ///
    /// # Errors
    ///
    /// The group cannot run even on an empty cluster: for example, its queue or pods of its gang are
    /// missing.
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason>;
}

/// QueueSort: the order in which pod groups are served.
pub trait QueueSort: Debug + Send + Sync {
    /// A queue of all `groups`.
    fn new_queue(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn JobQueue>;
}

/// Pod groups in the order in which they are served. The order changes while they are served.
pub trait JobQueue {
    /// The next first-in-queue job that would take its queue beyond its share. If it cannot be
    /// placed, the caller removes it so that the queue competes with its next job.
    fn next_over_share(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// Removes a group before its turn.
    fn remove(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Removes and returns the next group.
    fn pop(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// Adds a group that has more pods to place.
    fn push(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Updates the order after pods of `group` were placed.
    fn on_allocated(&mut self, session: &Session<'_>, group: PodGroupId);
}

/// PreFilter for pods that are placed together: whether they may be placed, on whichever nodes.
pub trait PreFilter: Debug + Send + Sync {
    /// Returns the reason when they may not.
    ///
    /// # Errors
    ///
    /// The pods may run on no node: they would exceed a limit of their queue, for example.
    fn pre_filter(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Result<(), Reason>;
}

/// PreFilter and Filter for one pod.
pub trait Filter: Debug + Send + Sync {
    /// What its results depend on.
    fn result_depends_on(&self) -> ResultInputs;
    /// Whether it rejects nodes because of other pods, also where capacity is free.
    fn is_anti_affinity(&self) -> bool {
        false
    }
    /// What two pending pods cannot share, whichever other pods exist.
    fn exclusion_domains<'a>(
        &self,
        session: &'a Session<'_>,
        a: PodId,
        b: PodId,
    ) -> Vec<ExclusionDomain<'a>> {
        let _ = (session, a, b);
        Vec::new()
    }
    /// Checks the pod. `None`: it rejects no node.
    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>>;
}

/// What two pods cannot share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionDomain<'a> {
    /// Their node.
    Node,
    /// Nodes with the same value of this label.
    Label(&'a Name),
}

/// PostFilter: what to do at once for a pod without a node.
pub trait PostFilter: Debug + Send + Sync {
    /// Changes the state and commits, or returns why it did not.
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason;
}

/// PreScore, Score and NormalizeScore.
pub trait Score: Debug + Send + Sync {
    /// What its results depend on.
    fn result_depends_on(&self) -> ResultInputs;
    /// Whether it scores nodes for this pod.
    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool;
    /// Checks the pod and the nodes on which it fits.
    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a>;
    /// Brings the scores of all feasible nodes onto one scale.
    fn normalize_score(&self, scores: &mut [i64]) {
        let _ = scores;
    }
}

/// Reserve: takes the chosen capacity. Undone with the statement.
pub trait Reserve: Debug + Send + Sync {
    /// Allocates the pod on `node`, or pipelines it, as `fits` says.
    fn reserve(&self, statement: &mut Statement<'_>, pod: PodId, node: NodeId, fits: Fit);
}

/// Permit: whether pods that were placed together may be bound now.
pub trait Permit: Debug + Send + Sync {
    /// Called once all pods are placed.
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> PermitStatus;
}

/// Result of a permit plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitStatus {
    /// Pods that fit now are bound now.
    Allow,
    /// All pods wait (are pipelined) until all can be bound.
    Wait,
}
