//! A pod group: pods that are placed together or not at all.

use std::time::Duration;

use super::{Name, QueueId, QueueProblem, ShapeId, Time, TopologyConstraint};

/// A PodGroup (`scheduling.run.ai/v2alpha2`), or the implicit group of one pod where the
/// profile knows no groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// `metadata.namespace`.
    pub namespace: Name,
    /// `metadata.name`.
    pub name: Name,
    /// `metadata.uid`.
    pub uid: Name,
    /// The leaf queue it is charged to, or why there is none. Profile `kube`: `Ok(None)`.
    pub queue: Result<Option<QueueId>, QueueProblem>,
    /// Value of its priority class.
    pub priority: i32,
    /// May its pods be evicted for others, and may it use more than its queue's quota?
    /// The explicit field, else priority below 100.
    pub preemptible: bool,
    /// At least one; pods name theirs by position. Without sub-groups in the API: one, `default`.
    pub sub_groups: Vec<SubGroup>,
    /// How many of the root's children must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Where all of it runs.
    pub topology: Option<TopologyConstraint>,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// When its gang last began to run (annotation `kai.scheduler/last-start-timestamp`).
    pub last_start: Option<Time>,
    /// When a pod of it was last evicted (`kai.scheduler/last-eviction-timestamp`).
    pub last_eviction: Option<Time>,
    /// Since when it has been stale (`kai.scheduler/stale-podgroup-timestamp`).
    pub stale_since: Option<Time>,
    /// How long it may be stale; `None`: the profile's default.
    pub staleness_grace: Option<StalenessGrace>,
    /// It triggers no victim search until it is this old.
    pub preemption_delay: Duration,
    /// No pod of it is started, nor started anew: it was found unschedulable on this node pool, and
    /// one try is all it wants (`spec.schedulingBackoff` 1); or its object cannot be read.
    pub left_alone: bool,
    /// Members that are not among the pods of the snapshot, as they cannot be scheduled as they
    /// stand; by name.
    pub unusable: Vec<UnusableMember>,
}

/// A pod that waits and cannot be scheduled as it stands. It counts as there, and as no help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableMember {
    /// `metadata.name`.
    pub pod: Name,
    /// Position of its sub-group; `None`: it has no place among them.
    pub sub_group: Option<usize>,
    /// It is behind scheduling gates besides.
    pub gated: bool,
    /// What it asks for, as far as that can be read.
    pub shape: ShapeId,
    /// What keeps it from being scheduled.
    pub problem: Name,
    /// What cures that.
    pub cure: Name,
}

/// A part of a pod group with a minimum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroup {
    /// `spec.subGroups[].name`.
    pub name: Name,
    /// Pods of it that must run together; 0 for an inner node of the tree.
    pub min_member: u32,
    /// Position of its parent; `None`: the group itself.
    pub parent: Option<usize>,
    /// For inner nodes: how many children must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Where all of it runs, within where its parent runs.
    pub topology: Option<TopologyConstraint>,
}

impl PodGroup {
    /// The name of the only part of a group that has no sub-groups.
    pub const WHOLE: &str = "default";

    /// Its queue, if it names one that there is.
    pub fn known_queue(&self) -> Option<QueueId> {
        self.queue.as_ref().ok().copied().flatten()
    }

    /// It, or a part of it, keeps to places of a topology.
    pub fn is_placed(&self) -> bool {
        self.topology.is_some() || self.sub_groups.iter().any(|part| part.topology.is_some())
    }

    /// Where the part runs; `None`: the group itself.
    pub fn topology_of(&self, part: Option<usize>) -> Option<&TopologyConstraint> {
        part.map_or(&self.topology, |part| &self.sub_groups[part].topology).as_ref()
    }

    /// The part is `whole`, or inside of it; `None`: the group itself.
    pub fn is_within(&self, part: usize, whole: Option<usize>) -> bool {
        whole.is_none_or(|whole| self.lineage(part).any(|at| at == whole))
    }

    /// From `part` upward, without the group itself.
    pub fn lineage(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(part), |at| self.sub_groups[*at].parent)
    }
}

/// How long a gang may stay below its minimum before the rest of it is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalenessGrace {
    /// So long.
    After(Duration),
    /// It is never evicted for that (a negative duration in the API).
    Never,
}
