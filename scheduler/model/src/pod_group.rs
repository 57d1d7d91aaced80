//! A pod group: pods that are placed together or not at all (a gang).

use std::time::Duration;

use super::{Name, QueueId, QueueProblem, ShapeId, Time, TopologyConstraint};

/// A PodGroup (`scheduling.run.ai/v2alpha2`), or the implicit group of a single pod (profile
/// `kube`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// `metadata.namespace`.
    pub namespace: Name,
    /// `metadata.name`.
    pub name: Name,
    /// `metadata.uid`.
    pub uid: Name,
    /// The leaf queue that is charged for the group, or why the group has none. `Ok(None)` in
    /// profile `kube`.
    pub queue: Result<Option<QueueId>, QueueProblem>,
    /// Value of the group's priority class.
    pub priority: i32,
    /// Whether the group's pods may be evicted for others, and the group may exceed its queue's
    /// quota. Taken from the explicit field, otherwise true for priorities below 100.
    pub preemptible: bool,
    /// The group's sub-groups, at least one; pods refer to theirs by position. A group without
    /// sub-groups has one named `default`.
    pub sub_groups: Vec<SubGroup>,
    /// Number of top-level sub-groups that must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Topology constraint for all pods of the group.
    pub topology: Option<TopologyConstraint>,
    /// Its pods are evicted together, those above its minimum as well (`disruptionMode` `all` of
    /// the PodGroups of Kubernetes).
    pub evicted_together: bool,
    /// `metadata.creationTimestamp`.
    pub created: Time,
    /// When the gang was last started (annotation `kai.scheduler/last-start-timestamp`).
    pub last_start: Option<Time>,
    /// When one of its pods was last evicted (annotation `kai.scheduler/last-eviction-timestamp`).
    pub last_eviction: Option<Time>,
    /// Time since which the gang has been below its minimum (annotation
    /// `kai.scheduler/stale-podgroup-timestamp`).
    pub stale_since: Option<Time>,
    /// How long the gang may be stale before it is evicted; `None`: the profile's default.
    pub staleness_grace: Option<StalenessGrace>,
    /// How long after its creation, or its last eviction, the group evicts no other pods.
    pub preemption_delay: Duration,
    /// Whether none of the group's pods is scheduled, because the group was unschedulable on this
    /// node pool and its `spec.schedulingBackoff` is 1, or because its object is malformed.
    pub is_skipped: bool,
    /// Members of the group that are invalid and therefore not among the snapshot's pods, by name.
    pub unschedulable_members: Vec<UnschedulableMember>,
}

/// A pending pod that is invalid and cannot be scheduled. The pod counts as existing, but not
/// towards the minimum of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulableMember {
    /// `metadata.name`.
    pub pod: Name,
    /// Position of the pod's sub-group; `None` when the pod belongs to none.
    pub sub_group: Option<usize>,
    /// Whether the pod also has scheduling gates.
    pub gated: bool,
    /// What the pod requests, as far as that can be read.
    pub shape: ShapeId,
    /// Why the pod cannot be scheduled.
    pub problem: Name,
    /// How to fix the pod.
    pub fix: Name,
}

/// A sub-group with a minimum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroup {
    /// `spec.subGroups[].name`.
    pub name: Name,
    /// Number of pods of the sub-group that must run together; 0 for a sub-group with children.
    pub min_member: u32,
    /// Position of the parent sub-group; `None`: the group itself.
    pub parent: Option<usize>,
    /// For a sub-group with children: number of children that must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Topology constraint for all pods of the sub-group, within that of its parent.
    pub topology: Option<TopologyConstraint>,
}

impl SubGroup {
    /// Creates a sub-group of pods directly below the group.
    pub fn top_level_leaf(name: &str, min_member: u32) -> Self {
        let name = name.into();
        Self { name, min_member, parent: None, min_sub_group: None, topology: None }
    }
}

impl PodGroup {
    /// Name of the only sub-group of a group without sub-groups.
    pub const DEFAULT_SUB_GROUP: &str = "default";

    /// Creates a preemptible gang of `min_member` pods without sub-groups. Its uid is its name.
    pub fn gang(namespace: &str, name: &str, queue: QueueId, min_member: u32) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
            queue: Ok(Some(queue)),
            priority: 0,
            preemptible: true,
            sub_groups: vec![SubGroup::top_level_leaf(Self::DEFAULT_SUB_GROUP, min_member)],
            min_sub_group: None,
            topology: None,
            evicted_together: false,
            created: Time::default(),
            last_start: None,
            last_eviction: None,
            stale_since: None,
            staleness_grace: None,
            preemption_delay: Duration::ZERO,
            is_skipped: false,
            unschedulable_members: Vec::new(),
        }
    }

    /// The group's queue, if that is usable.
    pub fn queue_id(&self) -> Option<QueueId> {
        self.queue.as_ref().ok().copied().flatten()
    }

    /// Its pods are placed together, or in one topology domain.
    pub fn is_gang(&self) -> bool {
        self.has_topology_constraint()
            || self.sub_groups.len() > 1
            || self.sub_groups.iter().any(|sub_group| sub_group.min_member > 1)
    }

    /// Whether the group or one of its sub-groups has a topology constraint.
    pub fn has_topology_constraint(&self) -> bool {
        self.topology.is_some()
            || self.sub_groups.iter().any(|sub_group| sub_group.topology.is_some())
    }

    /// The topology constraint of the sub-group; `None` stands for the group itself.
    pub fn topology_constraint(&self, sub_group: Option<usize>) -> Option<&TopologyConstraint> {
        sub_group.map_or(&self.topology, |sub_group| &self.sub_groups[sub_group].topology).as_ref()
    }

    /// Whether the sub-group is `ancestor` or a descendant of it; `None` stands for the group
    /// itself.
    pub fn is_in_sub_group(&self, sub_group: usize, ancestor: Option<usize>) -> bool {
        ancestor.is_none_or(|ancestor| self.path_to_root(sub_group).any(|at| at == ancestor))
    }

    /// Positions of the sub-group and its ancestors, from the sub-group up, without the group
    /// itself.
    pub fn path_to_root(&self, sub_group: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(sub_group), |at| self.sub_groups[*at].parent)
    }
}

/// How long a gang may stay below its minimum before its other pods are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalenessGrace {
    /// The gang is evicted after this time.
    After(Duration),
    /// The gang is never evicted for staleness (a negative duration in the API).
    Never,
}
