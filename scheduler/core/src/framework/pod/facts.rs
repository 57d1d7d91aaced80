//! What loops over all pods read of each pod, stored apart from the pods themselves: a few bytes
//! each, one after the other.

use crate::{
    Snapshot,
    model::{Pod, PodGroupId, PodStatus, ShapeId},
};

/// Facts about a pod of the snapshot.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, read one at a time")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::framework) struct PodFacts {
    pub(in crate::framework) group: Option<PodGroupId>,
    pub(in crate::framework) shape: ShapeId,
    /// Whether its termination was requested, so that its state depends on the time.
    pub(in crate::framework) is_terminating: bool,
    /// Whether it succeeded or failed.
    pub(in crate::framework) has_ended: bool,
    pub(in crate::framework) binding_failed: bool,
    /// Whether it belongs to a preemptible group.
    pub(in crate::framework) is_preemptible: bool,
}

impl PodFacts {
    /// Facts about no pod in particular, until those of a pod are known.
    pub(in crate::framework) const NONE: Self = Self {
        group: None,
        shape: ShapeId(0),
        is_terminating: false,
        has_ended: false,
        binding_failed: false,
        is_preemptible: false,
    };

    pub(in crate::framework) fn new(snapshot: &Snapshot, pod: &Pod) -> Self {
        let group = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]);
        Self {
            group: pod.group,
            shape: pod.shape,
            is_terminating: pod.status == PodStatus::Releasing,
            has_ended: matches!(pod.status, PodStatus::Succeeded | PodStatus::Failed),
            binding_failed: pod.binding_failed,
            is_preemptible: group.is_some_and(|group| group.preemptible),
        }
    }
}
