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
    /// The leaf queue it is charged to, or why there is none. `Ok(None)` in profile `kube`.
    pub queue: Result<Option<QueueId>, QueueProblem>,
    /// Value of its priority class.
    pub priority: i32,
    /// Its pods may be evicted for others, and it may exceed its queue's quota. From the explicit
    /// field, otherwise true for priorities below 100.
    pub preemptible: bool,
    /// Its sub-groups, at least one; pods refer to theirs by position. A group without sub-groups
    /// has one named `default`.
    pub sub_groups: Vec<SubGroup>,
    /// Number of top-level sub-groups that must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Topology constraint for all of its pods.
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
    /// Start of its staleness (annotation `kai.scheduler/stale-podgroup-timestamp`).
    pub stale_since: Option<Time>,
    /// How long it may be stale before it is evicted; `None`: the profile's default.
    pub staleness_grace: Option<StalenessGrace>,
    /// It evicts no other pods until this long after its creation or last eviction.
    pub preemption_delay: Duration,
    /// None of its pods is scheduled: it was unschedulable on this node pool and its
    /// `spec.schedulingBackoff` is 1, or its object is malformed.
    pub is_skipped: bool,
    /// Members that are not among the snapshot's pods because they are invalid; by name.
    pub unschedulable_members: Vec<UnschedulableMember>,
}

/// A pending pod that is invalid and cannot be scheduled. It counts as existing, but not towards
/// the minimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulableMember {
    /// `metadata.name`.
    pub pod: Name,
    /// Position of its sub-group; `None` when it belongs to none.
    pub sub_group: Option<usize>,
    /// It is behind scheduling gates as well.
    pub gated: bool,
    /// What it requests, as far as that can be read.
    pub shape: ShapeId,
    /// Why it cannot be scheduled.
    pub problem: Name,
    /// How to fix it.
    pub fix: Name,
}

/// A sub-group with a minimum of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroup {
    /// `spec.subGroups[].name`.
    pub name: Name,
    /// Number of its pods that must run together; 0 for an inner node of the tree.
    pub min_member: u32,
    /// Position of its parent; `None`: the group itself.
    pub parent: Option<usize>,
    /// For inner nodes: number of children that must be satisfied; `None`: all.
    pub min_sub_group: Option<u32>,
    /// Topology constraint for all of its pods, within that of its parent.
    pub topology: Option<TopologyConstraint>,
}

impl SubGroup {
    /// A sub-group of pods below the group itself.
    pub fn leaf(name: &str, min_member: u32) -> Self {
        let name = name.into();
        Self { name, min_member, parent: None, min_sub_group: None, topology: None }
    }
}

impl PodGroup {
    /// Name of the only sub-group of a group without sub-groups.
    pub const DEFAULT_SUB_GROUP: &str = "default";

    /// A preemptible gang of `min_member` pods without sub-groups. Its uid is its name.
    pub fn gang(namespace: &str, name: &str, queue: QueueId, min_member: u32) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
            queue: Ok(Some(queue)),
            priority: 0,
            preemptible: true,
            sub_groups: vec![SubGroup::leaf(Self::DEFAULT_SUB_GROUP, min_member)],
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

    /// Its queue, if that is usable.
    pub fn queue_id(&self) -> Option<QueueId> {
        self.queue.as_ref().ok().copied().flatten()
    }

    /// Its pods are placed together, or in one topology domain.
    pub fn is_gang(&self) -> bool {
        self.has_topology_constraint()
            || self.sub_groups.len() > 1
            || self.sub_groups.iter().any(|sub_group| sub_group.min_member > 1)
    }

    /// It or one of its sub-groups has a topology constraint.
    pub fn has_topology_constraint(&self) -> bool {
        self.topology.is_some()
            || self.sub_groups.iter().any(|sub_group| sub_group.topology.is_some())
    }

    /// The topology constraint of the sub-group; `None` means the group itself.
    pub fn topology_constraint(&self, sub_group: Option<usize>) -> Option<&TopologyConstraint> {
        sub_group.map_or(&self.topology, |sub_group| &self.sub_groups[sub_group].topology).as_ref()
    }

    /// The sub-group is `whole` or a descendant of it; `None` means the group itself.
    pub fn is_in_sub_group(&self, sub_group: usize, ancestor: Option<usize>) -> bool {
        ancestor.is_none_or(|ancestor| self.path_to_root(sub_group).any(|at| at == ancestor))
    }

    /// The sub-group and its ancestors, without the group itself.
    pub fn path_to_root(&self, sub_group: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(sub_group), |at| self.sub_groups[*at].parent)
    }
}

/// How long a gang may stay below its minimum before its other pods are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalenessGrace {
    /// This long.
    After(Duration),
    /// It is never evicted for staleness (a negative duration in the API).
    Never,
}
