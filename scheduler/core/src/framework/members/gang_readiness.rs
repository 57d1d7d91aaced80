//! Gangs of which too few pods can be scheduled: what exists, what is wrong with the rest, and
//! which sub-group keeps the gang from being placed.

use super::{Members, SubGroupMembers, SubGroupTree};
use crate::{
    model::{Name, PodGroup, UnschedulableMember},
    reason::{GangReadiness, UnschedulableMembers},
};

impl Members {
    /// Counts of pods of the sub-group that keeps the gang from being ready: it has pending pods
    /// and cannot reach its minimum.
    pub fn gang_readiness(&self, group: &PodGroup) -> GangReadiness {
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
                members.alive_count(),
                members.gated,
                inside.or_else(outside),
            );
        }
        let alive = self.sub_groups.iter().map(SubGroupMembers::alive_count).sum();
        let minima = (0..group.sub_groups.len()).map(|at| self.remaining_minimum(group, at));
        let required = minima.sum();
        let whole = GangReadiness::new(
            None,
            required,
            alive,
            self.gated_count(),
            unschedulable_members(group, |_| true),
        );
        let only_sub_group = match group.sub_groups.as_slice() {
            [only] if &*only.name != PodGroup::DEFAULT_SUB_GROUP => Some(Name::clone(&only.name)),
            _ => None,
        };
        GangReadiness { only_sub_group, ..whole }
    }
}

/// Counts the invalid members for which the filter holds, and describes the first of them.
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

/// A sub-group that cannot reach its minimum. The smallest of several is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deficit {
    /// Whether the sub-group has no waiting pod, not even a gated or invalid one.
    is_idle: bool,
    /// Number of pods that the sub-group lacks until its waiting pods can be placed.
    missing: u32,
    leaf: usize,
}

impl SubGroupTree<'_> {
    /// The leaf sub-group to report: where all children are required, the first that cannot reach
    /// its minimum; otherwise one with waiting pods, of those the one that lacks fewest.
    fn deficient_leaf(&self) -> Option<usize> {
        self.deficit(None).map(|short| short.leaf)
    }

    fn deficit(&self, sub_group: Option<usize>) -> Option<Deficit> {
        let is_short = !self.can_be_satisfied(sub_group);
        let children = self.children(sub_group);
        if children.is_empty() {
            let leaf = sub_group.filter(|_| is_short)?;
            return Some(Deficit {
                is_idle: !self.has_waiting_pods(leaf),
                missing: self.missing_pods(leaf),
                leaf,
            });
        }
        let needs_all = self.required_children(sub_group, children.len()) >= children.len();
        let mut below = children
            .iter()
            .filter(|child| !is_short || !self.can_be_satisfied(Some(**child)))
            .filter_map(|child| self.deficit(Some(*child)));
        let found = if is_short && needs_all { below.next() } else { below.min() }?;
        Some(match sub_group.filter(|_| is_short) {
            Some(at) => Deficit {
                is_idle: !self.has_waiting_pods(at),
                missing: self.missing_pods(at),
                ..found
            },
            None => found,
        })
    }

    /// Whether the sub-group, or one below it, has pods that are pending, gated or invalid.
    fn has_waiting_pods(&self, sub_group: usize) -> bool {
        let members = &self.members.sub_groups[sub_group];
        let waits = !members.waiting.is_empty() || members.gated + members.unschedulable > 0;
        waits || self.children(Some(sub_group)).iter().any(|child| self.has_waiting_pods(*child))
    }

    /// Number of pods that the sub-group lacks until it can be satisfied.
    fn missing_pods(&self, sub_group: usize) -> u32 {
        let children = self.children(Some(sub_group));
        if children.is_empty() {
            return self
                .minimum_of_leaf(sub_group)
                .saturating_sub(self.members.sub_groups[sub_group].alive_count());
        }
        let mut missing: Vec<u32> =
            children.iter().map(|child| self.missing_pods(*child)).collect();
        missing.sort_unstable();
        missing
            .into_iter()
            .take(self.required_children(Some(sub_group), children.len()))
            .fold(0, u32::saturating_add)
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
        let short = session.members(PodGroupId(0)).gang_readiness(&snapshot.pod_groups[0]);
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
