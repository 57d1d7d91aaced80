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
mod capacity_index;
mod constraint_index;
mod cycle_outcome;
mod empty_cluster;
mod evictable_capacity;
mod exclusion;
mod filter_results;
mod fit_errors;
mod group_placement;
mod group_states;
mod kept_session;
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
pub(crate) use capacity_index::CapacityIndex;
pub use cycle_outcome::{MinRuntimeProtection, ScenarioCounts};
pub use group_placement::{Assignment, GroupPlacement};
pub use kept_session::KeptSession;
pub(crate) use kept_session::NodesRevision;
pub use members::{Members, SubGroupMembers};
pub use node::{
    Availability, ChangeCursor, ChangedNodes, DeviceCandidate, DeviceOrder, DevicePreference, Fit,
    NodeInfo, NumaZoneCapacity, SharedDevice,
};
pub(crate) use node::{CapacityRequest, FreeCapacity, FreedCapacity, fraction_units_on};
pub use node_ranking::{FilterResults, ScoredNode};
pub use placement::PlacementFailure;
pub use pod::{NodePresence, PodState};
pub use profile::Profile;
pub use selector_cache::MatchingTerms;
pub use session::Session;
pub use statement::{Checkpoint, Statement};

/// The plugins of a scheduler at each extension point, in order.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// Plugins that decide whether a pod group can be considered at all.
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    /// The plugin that orders pod groups.
    pub queue_sort: Arc<dyn QueueSort>,
    /// Plugins that decide whether pods may be placed together, on whichever nodes.
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    /// Plugins that decide whether a pod fits on a node.
    pub filter: Vec<Arc<dyn Filter>>,
    /// Plugins that act when a pod found no node.
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    /// Plugins that rank nodes, with their weights.
    pub score: Vec<Scoring>,
    /// How the scores of the plugins are combined.
    pub ranking: Ranking,
    /// Plugins that take the capacity that was chosen for a pod.
    pub reserve: Vec<Arc<dyn Reserve>>,
    /// Plugins that decide whether placed pods may be bound now.
    pub permit: Vec<Arc<dyn Permit>>,
    /// On which nodes a pod may wait for capacity that is being released.
    pub pipeline_policy: PipelinePolicy,
    /// Which pods of a pod group are placed together, and in which topology domain.
    pub group_scheduling: GroupScheduling,
}

/// Which pods of a pod group are placed together, and in which topology domain.
#[derive(Clone, Debug)]
pub enum GroupScheduling {
    /// The pods that the group lacks of its minimum, then one more at a time, in the first domain
    /// that holds them (KAI).
    NextPods,
    /// All pending pods that find a node, in the domain with the highest score (kube-scheduler).
    Cycle {
        /// Plugins that rank placements, with their weights.
        score: Vec<PlacementScoring>,
    },
}

/// A placement score plugin and its weight.
#[derive(Clone, Debug)]
pub struct PlacementScoring {
    /// The plugin.
    pub plugin: Arc<dyn PlacementScore>,
    /// Factor for the normalized score of the plugin.
    pub weight: i64,
}

/// A score plugin and its weight.
#[derive(Clone, Debug)]
pub struct Scoring {
    /// The plugin.
    pub plugin: Arc<dyn Score>,
    /// Factor for the normalized score of the plugin.
    pub weight: i64,
}

/// How the scores of all plugins are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// Nodes are ranked by the sum of the weighted scores.
    Sum,
    /// Nodes are ranked by the sum of the weighted scores, with weights such that each score
    /// outranks all later ones and normalization keeps its order. The ranking can then be kept
    /// between pods.
    Bands,
}

/// On which nodes a pod may wait for capacity that is being released (be pipelined).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelinePolicy {
    /// A pod may wait on any node (KAI).
    AnyNode,
    /// A pod may wait on its nominated node only (kube-scheduler).
    NominatedNode,
}

/// What the result of a filter or score depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultInputs {
    /// The result depends on the pod's shape and on the node in the snapshot: it never changes
    /// within a cycle.
    Shape,
    /// The result depends on the pod's shape and on the node's free capacity.
    NodeCapacity,
    /// The result depends on more: on the pod itself, or on pods of other nodes.
    Cluster,
}

/// Decides on which terms a pod fits on a node (now, or after releases), or returns why the pod
/// does not fit.
pub type NodeFilter<'a> = Box<dyn Fn(NodeId) -> Result<Fit, FitError> + 'a>;

/// Computes the score of a node; higher is better.
pub type NodeScore<'a> = Box<dyn Fn(NodeId) -> i64 + 'a>;

/// Extension point PreEnqueue: decides whether a pod group can be considered at all.
pub trait PreEnqueue: Debug + Send + Sync {
    /// Returns the reason when the group cannot run even on an empty cluster.
    ///
    /// # Errors
    ///
    /// The group cannot run even on an empty cluster: for example, its queue or pods of its gang
    /// are missing.
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason>;
}

/// Extension point QueueSort: the order in which pod groups are placed.
pub trait QueueSort: Debug + Send + Sync {
    /// Creates a queue that contains all `groups`.
    fn new_queue(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn JobQueue>;
}

/// Pod groups in the order in which they are placed. The order changes while groups are placed.
pub trait JobQueue {
    /// The next first-in-queue job that would take its queue beyond its share. If it cannot be
    /// placed, the caller removes it so that the queue competes with its next job.
    fn next_over_share(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// Removes a group before its turn.
    fn remove_group(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Removes and returns the next group.
    fn pop_next_group(&mut self, session: &Session<'_>) -> Option<PodGroupId>;
    /// Adds a group that has more pods to place.
    fn push_group(&mut self, session: &Session<'_>, group: PodGroupId);
    /// Updates the order of the queues after pods of `group` were placed.
    fn on_allocated(&mut self, session: &Session<'_>, group: PodGroupId);
}

/// Extension point PreFilter for pods that are placed together: decides whether they may be placed,
/// on whichever nodes.
pub trait PreFilter: Debug + Send + Sync {
    /// Returns the reason when the pods may not be placed.
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

/// Extension points PreFilter and Filter for one pod.
pub trait Filter: Debug + Send + Sync {
    /// What the filter's results depend on.
    fn result_depends_on(&self) -> ResultInputs;
    /// Whether the filter rejects nodes because of other pods even where capacity is free, like pod
    /// anti-affinity.
    fn rejects_for_other_pods(&self) -> bool {
        false
    }
    /// The domains that the two pending pods cannot share, whichever other pods exist.
    fn exclusion_domains<'a>(
        &self,
        session: &'a Session<'_>,
        a: PodId,
        b: PodId,
    ) -> Vec<ExclusionDomain<'a>> {
        let _ = (session, a, b);
        Vec::new()
    }
    /// Prepares the filter for a pod. `None`: the plugin rejects no node for this pod.
    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>>;
}

/// A domain that two pods cannot share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionDomain<'a> {
    /// Each node is a domain.
    Node,
    /// Nodes with the same value of this label are one domain.
    Label(&'a Name),
}

/// Extension point PostFilter: acts when a pod found no node, for example by preemption.
pub trait PostFilter: Debug + Send + Sync {
    /// Changes the cluster state for the pod and commits, or returns the reason why it did not.
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason;
}

/// Extension points PreScore, Score and NormalizeScore.
pub trait Score: Debug + Send + Sync {
    /// What the plugin's scores depend on.
    fn result_depends_on(&self) -> ResultInputs;
    /// Whether the plugin scores nodes for this pod.
    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool;
    /// Prepares the score for a pod, given the nodes on which it fits.
    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a>;
    /// Brings the scores of all feasible nodes of a pod onto one scale.
    fn normalize_score(&self, scores: &mut [i64]) {
        let _ = scores;
    }
}

/// Extension points `PlacementScore` and `NormalizePlacementScore`: rank the domains in which a pod
/// group finds room.
pub trait PlacementScore: Debug + Send + Sync {
    /// The score of a placement whose assignments are not made yet.
    fn score_placement(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        placement: &GroupPlacement,
    ) -> i64;
    /// Brings the scores of all feasible placements of a group onto one scale.
    fn normalize_placement_score(&self, scores: &mut [i64]) {
        let _ = scores;
    }
}

/// Extension point Reserve: takes the chosen capacity. Undoing the statement gives it back.
pub trait Reserve: Debug + Send + Sync {
    /// Allocates the pod on `node`, or pipelines it, as `fits` says.
    fn reserve(&self, statement: &mut Statement<'_>, pod: PodId, node: NodeId, fits: Fit);
}

/// Extension point Permit: decides whether pods that were placed together may be bound now.
pub trait Permit: Debug + Send + Sync {
    /// Decides about the pods; called once all of them are placed.
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
