//! Gangs of which too few pods can be scheduled: what exists, and what is wrong with the rest.

use super::{Members, SubGroupMembers, SubGroupTree};
use crate::model::{Name, PodGroup, UnschedulableMember};

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

impl Members {
    /// The state of the deficient sub-group: one with pending pods that cannot reach its minimum.
    pub fn readiness(&self, group: &PodGroup) -> GangReadiness {
        let short = SubGroupTree { group, members: self }.deficient_leaf();
        if let Some(leaf) = short.filter(|_| group.sub_groups.len() > 1) {
            let (of, members) = (&group.sub_groups[leaf], &self.sub_groups[leaf]);
            let inside = unschedulable_members(group, |member| member.sub_group == Some(leaf));
            let outside = || unschedulable_members(group, |member| member.sub_group.is_none());
            let outside = || Some(UnschedulableMembers { is_outside: true, ..outside()? });
            let sub_group = Some(Name::clone(&of.name));
            return GangReadiness::new(
                sub_group,
                of.min_member,
                members.alive(),
                members.gated,
                inside.or_else(outside),
            );
        }
        let alive = self.sub_groups.iter().map(SubGroupMembers::alive).sum();
        let required = group.sub_groups.iter().map(|of| of.min_member).sum();
        let whole = GangReadiness::new(
            None,
            required,
            alive,
            self.gated(),
            unschedulable_members(group, |_| true),
        );
        let only_sub_group = match group.sub_groups.as_slice() {
            [only] if &*only.name != PodGroup::DEFAULT_SUB_GROUP => Some(Name::clone(&only.name)),
            _ => None,
        };
        GangReadiness { only_sub_group, ..whole }
    }
}

impl GangReadiness {
    /// From pods that are alive or gated, to which unschedulable ones are added.
    fn new(
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

/// Summary of the unschedulable members that are selected.
fn unschedulable_members(
    group: &PodGroup,
    is_selected: impl Fn(&UnschedulableMember) -> bool,
) -> Option<UnschedulableMembers> {
    let mut members =
        group.unschedulable_members.iter().filter(|member| is_selected(member)).peekable();
    let UnschedulableMember { pod, problem, fix, .. } = *members.peek()?;
    let none = UnschedulableMembers {
        pods: 0,
        gated: 0,
        is_outside: false,
        first: format!("{}/{pod}", group.namespace).into(),
        problem: Name::clone(problem),
        fix: Name::clone(fix),
    };
    Some(members.fold(none, |so_far, member| UnschedulableMembers {
        pods: so_far.pods + 1,
        gated: so_far.gated + u32::from(member.gated),
        ..so_far
    }))
}
