//! Gangs of which too few pods can be scheduled: what exists, and what is wrong with the rest.

use super::{Members, SubGroupMembers, SubGroupTree};
use crate::{
    model::{Name, PodGroup, UnschedulableMember},
    reason::{GangReadiness, UnschedulableMembers},
};

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
