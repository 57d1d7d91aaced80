//! Gangs of which too few pods can be scheduled: what is there of them, and what keeps the others.

use super::{Members, SubMembers, Tree};
use crate::model::{Name, PodGroup, UnusableMember};

/// A gang whose pods are not all there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// Which part of the gang, where it has several.
    pub sub_group: Option<Name>,
    /// The only part of the gang, where that is a sub-group: its minimum stands there.
    pub only_part: Option<Name>,
    /// How many pods it takes.
    pub required: u32,
    /// Pods that exist and are not finished.
    pub exist: u32,
    /// Of those, pods behind scheduling gates.
    pub gated: u32,
    /// Pods that cannot be scheduled as they stand.
    pub unusable: Option<Unusable>,
}

/// Members of a gang that cannot be scheduled as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// How many.
    pub pods: u32,
    /// Of those, pods behind scheduling gates.
    pub gated: u32,
    /// They are in no part of the gang, and do not count among those that exist of this one.
    pub is_outside: bool,
    /// Namespace and name of the first.
    pub first: Name,
    /// What keeps it from being scheduled.
    pub problem: Name,
    /// What cures that.
    pub cure: Name,
}

impl Members {
    /// What it takes and what is there, of the sub-group for which pods wait and that cannot reach
    /// its minimum.
    pub fn not_ready(&self, group: &PodGroup) -> NotReady {
        let short = Tree { group, members: self }.short_leaf();
        if let Some(leaf) = short.filter(|_| group.sub_groups.len() > 1) {
            let (of, members) = (&group.sub_groups[leaf], &self.sub_groups[leaf]);
            let inside = unusable(group, |member| member.sub_group == Some(leaf));
            let outside = || unusable(group, |member| member.sub_group.is_none());
            let outside = || Some(Unusable { is_outside: true, ..outside()? });
            let there = (members.alive(), members.gated);
            let part = Some(Name::clone(&of.name));
            return NotReady::of((part, of.min_member), there, inside.or_else(outside));
        }
        let alive = self.sub_groups.iter().map(SubMembers::alive).sum();
        let required = group.sub_groups.iter().map(|of| of.min_member).sum();
        let whole =
            NotReady::of((None, required), (alive, self.gated()), unusable(group, |_| true));
        let only_part = match group.sub_groups.as_slice() {
            [only] if &*only.name != PodGroup::WHOLE => Some(Name::clone(&only.name)),
            _ => None,
        };
        NotReady { only_part, ..whole }
    }
}

impl NotReady {
    /// With pods that are alive, and behind gates, besides those that cannot be scheduled.
    fn of(
        (sub_group, required): (Option<Name>, u32),
        (alive, gated): (u32, u32),
        unusable: Option<Unusable>,
    ) -> Self {
        let exist = alive + gated;
        let besides = Self { sub_group, only_part: None, required, exist, gated, unusable };
        let (pods, gated_too) = besides.inside();
        Self { exist: besides.exist + pods, gated: gated + gated_too, ..besides }
    }

    /// Pods that can be scheduled, or could be if there were no gates.
    pub(crate) fn without_gates(&self) -> u32 {
        self.exist.saturating_sub(self.inside().0)
    }

    /// Pods that can be scheduled.
    pub(crate) fn schedulable(&self) -> u32 {
        let (_, gated_too) = self.inside();
        self.without_gates().saturating_sub(self.gated.saturating_sub(gated_too))
    }

    /// Of those that exist, pods that cannot be scheduled, and of those, pods behind gates.
    fn inside(&self) -> (u32, u32) {
        let inside = self.unusable.as_ref().filter(|unusable| !unusable.is_outside);
        inside.map_or((0, 0), |inside| (inside.pods, inside.gated))
    }
}

/// Those of the group that cannot be scheduled and of which this is so.
fn unusable(group: &PodGroup, is_meant: impl Fn(&UnusableMember) -> bool) -> Option<Unusable> {
    let mut members = group.unusable.iter().filter(|member| is_meant(member)).peekable();
    let UnusableMember { pod, problem, cure, .. } = *members.peek()?;
    let none = Unusable {
        pods: 0,
        gated: 0,
        is_outside: false,
        first: format!("{}/{pod}", group.namespace).into(),
        problem: Name::clone(problem),
        cure: Name::clone(cure),
    };
    Some(members.fold(none, |so_far, member| Unusable {
        pods: so_far.pods + 1,
        gated: so_far.gated + u32::from(member.gated),
        ..so_far
    }))
}
