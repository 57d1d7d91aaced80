//! What exists of a gang of which too few pods can be scheduled.

use crate::model::Name;

/// What exists of a gang that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangReadiness {
    /// The sub-group, when the gang has several.
    pub sub_group: Option<Name>,
    /// The only sub-group, when it has a name: the minimum is set there.
    pub only_sub_group: Option<Name>,
    /// Minimum number of pods.
    pub required: u32,
    /// Pods that exist and are not finished.
    pub exist: u32,
    /// Part of them behind scheduling gates.
    pub gated: u32,
    /// Pods that are invalid and cannot be scheduled.
    pub unschedulable: Option<UnschedulableMembers>,
}

/// Members of a gang that are invalid and cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnschedulableMembers {
    /// Number of pods.
    pub pods: u32,
    /// Part of them behind scheduling gates.
    pub gated: u32,
    /// They belong to no sub-group, and do not count as existing in this one.
    pub is_outside: bool,
    /// Namespace and name of the first.
    pub first: Name,
    /// Why it cannot be scheduled.
    pub problem: Name,
    /// How to fix it.
    pub fix: Name,
}

impl GangReadiness {
    /// From pods that are alive or gated, to which unschedulable ones are added.
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
        let (pods, gated_too) = besides.unschedulable_inside();
        Self { exist: besides.exist + pods, gated: gated + gated_too, ..besides }
    }

    /// Pods that can be scheduled once all gates are removed.
    pub(crate) fn schedulable_without_gates(&self) -> u32 {
        self.exist.saturating_sub(self.unschedulable_inside().0)
    }

    /// Pods that can be scheduled now.
    pub(crate) fn schedulable(&self) -> u32 {
        let (_, gated_too) = self.unschedulable_inside();
        self.schedulable_without_gates().saturating_sub(self.gated.saturating_sub(gated_too))
    }

    /// Unschedulable pods among those that exist, and the gated ones of them.
    fn unschedulable_inside(&self) -> (u32, u32) {
        let inside = self.unschedulable.as_ref().filter(|unschedulable| !unschedulable.is_outside);
        inside.map_or((0, 0), |inside| (inside.pods, inside.gated))
    }
}
