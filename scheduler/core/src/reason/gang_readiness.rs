//! What exists of a gang of which too few pods can be scheduled.

use crate::model::Name;

/// Counts of the pods of a gang that has too few pods to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangReadiness {
    /// Name of the sub-group that the counts are about, when the gang has several.
    pub sub_group: Option<Name>,
    /// Name of the only sub-group, when it has a name: the minimum is set there.
    pub only_sub_group: Option<Name>,
    /// Minimum number of pods that must run together.
    pub required: u32,
    /// Pods that exist and are not finished.
    pub exist: u32,
    /// The part of `exist` that has scheduling gates.
    pub gated: u32,
    /// Pods that are invalid and cannot be scheduled; `None`: there are none.
    pub unschedulable: Option<UnschedulableMembers>,
}

/// Members of a gang that are invalid and cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulableMembers {
    /// Number of invalid pods.
    pub pods: u32,
    /// The part of `pods` that has scheduling gates.
    pub gated: u32,
    /// Whether the pods belong to no sub-group, and so do not count in `exist`.
    pub is_outside: bool,
    /// Namespace and name of the first invalid pod.
    pub first: Name,
    /// Why the first pod cannot be scheduled.
    pub problem: Name,
    /// How to fix the first pod.
    pub fix: Name,
}

impl GangReadiness {
    /// Creates the counts from pods that are alive or gated; `unschedulable` pods are added.
    pub(crate) fn new(
        sub_group: Option<Name>,
        required: u32,
        alive: u32,
        gated: u32,
        unschedulable: Option<UnschedulableMembers>,
    ) -> Self {
        let exist = alive + gated;
        let besides =
            Self { sub_group, only_sub_group: None, required, exist, gated, unschedulable };
        let (pods, gated_too) = besides.count_unschedulable_of_existing();
        Self { exist: besides.exist + pods, gated: gated + gated_too, ..besides }
    }

    /// Number of pods that can be scheduled once all gates are removed.
    pub(crate) fn schedulable_once_ungated(&self) -> u32 {
        self.exist.saturating_sub(self.count_unschedulable_of_existing().0)
    }

    /// Number of pods that can be scheduled now.
    pub(crate) fn schedulable_now(&self) -> u32 {
        let (_, gated_too) = self.count_unschedulable_of_existing();
        self.schedulable_once_ungated().saturating_sub(self.gated.saturating_sub(gated_too))
    }

    /// Number of invalid pods among those that exist, and how many of these have scheduling gates.
    fn count_unschedulable_of_existing(&self) -> (u32, u32) {
        let inside = self.unschedulable.as_ref().filter(|unschedulable| !unschedulable.is_outside);
        inside.map_or((0, 0), |inside| (inside.pods, inside.gated))
    }
}
