//! Gangs of which too few pods can be scheduled: what exists, what is wrong with the rest, and
//! which sub-group keeps the gang from being placed.

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
                self.remaining_minimum(group, leaf),
                members.alive(),
                members.gated,
                inside.or_else(outside),
            );
        }
        let alive = self.sub_groups.iter().map(SubGroupMembers::alive).sum();
        let minima = (0..group.sub_groups.len()).map(|at| self.remaining_minimum(group, at));
        let required = minima.sum();
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

/// A sub-group that cannot reach its minimum. The least of several is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deficit {
    /// No pod waits for it, not even a gated or unschedulable one.
    is_idle: bool,
    /// Number of pods it needs until those that wait for it can be placed.
    missing: u32,
    leaf: usize,
}

impl SubGroupTree<'_> {
    /// The leaf to report: the first deficient one where all children are required; otherwise one
    /// with waiting pods, of those the one that misses fewest.
    fn deficient_leaf(&self) -> Option<usize> {
        self.deficit(None).map(|short| short.leaf)
    }

    fn deficit(&self, at: Option<usize>) -> Option<Deficit> {
        let is_short = !self.can_be_satisfied(at);
        let children = self.children(at);
        if children.is_empty() {
            let leaf = at.filter(|_| is_short)?;
            return Some(Deficit { is_idle: !self.waits(leaf), missing: self.missing(leaf), leaf });
        }
        let needs_all = self.needed(at, children.len()) >= children.len();
        let mut below = children
            .iter()
            .filter(|child| !is_short || !self.can_be_satisfied(Some(**child)))
            .filter_map(|child| self.deficit(Some(*child)));
        let found = if is_short && needs_all { below.next() } else { below.min() }?;
        Some(match at.filter(|_| is_short) {
            Some(at) => Deficit { is_idle: !self.waits(at), missing: self.missing(at), ..found },
            None => found,
        })
    }

    /// It has pods that are pending, gated or unschedulable.
    fn waits(&self, at: usize) -> bool {
        let members = &self.members.sub_groups[at];
        let waits = !members.waiting.is_empty() || members.gated + members.unschedulable > 0;
        waits || self.children(Some(at)).iter().any(|child| self.waits(*child))
    }

    /// Number of pods it needs to be satisfiable.
    fn missing(&self, at: usize) -> u32 {
        let children = self.children(Some(at));
        if children.is_empty() {
            return self.minimum(at).saturating_sub(self.members.sub_groups[at].alive());
        }
        let mut missing: Vec<u32> = children.iter().map(|child| self.missing(*child)).collect();
        missing.sort_unstable();
        missing.into_iter().take(self.needed(Some(at), children.len())).fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use schedlab_testkit::snapshot_of;

    use crate::{Profile, framework::Session, model::PodGroupId};

    /// The sub-group of the first group that is reported as deficient.
    fn reported(parts: &str) -> String {
        let snapshot = snapshot_of(&format!("node n1\n{parts}"));
        let profile = Profile::kai();
        let session = Session::new(&snapshot, &profile);
        let short = session.members(PodGroupId(0)).readiness(&snapshot.pod_groups[0]);
        short.sub_group.map_or_else(|| "none".to_owned(), |name| name.to_string())
    }

    #[test]
    fn the_first_deficient_sub_group_is_reported_when_all_are_required() {
        assert_eq!(reported("gang a\npart l pods=0 min=2\npart r pods=1 min=2"), "l");
        assert_eq!(reported("gang a\npart l pods=2\npart r pods=1 min=2"), "r");
    }

    #[test]
    fn the_waiting_sub_group_missing_least_is_reported_when_some_are_optional() {
        assert_eq!(reported("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=4"), "r");
        assert_eq!(reported("gang a needs=1\npart l pods=1 min=4\npart r pods=1 min=2"), "r");
        assert_eq!(
            reported("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=2 gated=1"),
            "r"
        );
        let nobody_waits = "gang a needs=1\npart l pods=0 min=2\npart m pods=0 min=1";
        assert_eq!(reported(nobody_waits), "m");
    }

    #[test]
    fn a_sub_group_is_reported_when_its_siblings_wait() {
        let rack = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=2
              part head parent=rack pods=0 min=1
              part work parent=rack pods=2
        ";
        assert_eq!(reported(rack), "head");
        let grows = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=1
              part head parent=rack pods=1 on n1
              part work parent=rack pods=1 min=2
        ";
        assert_eq!(reported(grows), "work", "its rack has what it needs");
    }
}
