//! Suggestions for gangs of which too few pods can be scheduled.

use std::fmt;

use super::{Suggestion, count_with_noun};
use crate::{
    model::Name,
    reason::{GangReadiness, UnschedulableMembers},
};

/// The suggestion for a gang with too few pods. Gates come before invalid pods: pods behind gates
/// can be scheduled once the gates are removed.
pub(super) fn suggestion_for_gang(not_ready: &GangReadiness) -> Suggestion {
    let GangReadiness { sub_group, required, exist, unschedulable, .. } = not_ready;
    let sub_group = sub_group.clone();
    let outside = unschedulable.as_ref().filter(|unschedulable| unschedulable.is_outside);
    let there = exist + outside.map_or(0, |outside| outside.pods);
    let missing = required.saturating_sub(there);
    if missing > 0 {
        let sub_group = sub_group.or_else(|| not_ready.only_sub_group.clone());
        return Suggestion::AddMembers { pods: missing, sub_group };
    }
    let to_mend = required.saturating_sub(not_ready.schedulable_once_ungated());
    if let (1.., Some(UnschedulableMembers { first, fix, .. })) = (to_mend, unschedulable) {
        let (first, fix) = (Name::clone(first), Name::clone(fix));
        return Suggestion::FixMembers { pods: to_mend, first, fix };
    }
    let pods = required.saturating_sub(not_ready.schedulable_now()).max(1);
    Suggestion::RemoveSchedulingGates { pods, sub_group }
}

/// Writes how a gang gets more pods, or a lower minimum. A Job, for example, creates no more pods
/// than its size allows. Annotations of the owner only apply to groups that are created later; the
/// minimum of an existing group applies at once.
pub(super) fn fmt_add_members(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    sub_group: Option<&Name>,
) -> fmt::Result {
    write!(
        f,
        "create {}{}, or lower ",
        count_with_noun(pods, "more pod"),
        in_sub_group_text(sub_group)
    )?;
    let whose = if sub_group.is_some() { "its minMember" } else { "the pod group's minMember" };
    write!(f, "{whose} by {pods}")
}

pub(super) fn fmt_remove_gates(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    part: Option<&Name>,
) -> fmt::Result {
    write!(
        f,
        "remove the scheduling gates of {}{}",
        count_with_noun(pods, "pod"),
        in_sub_group_text(part)
    )
}

pub(super) fn fmt_fix_members(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    first: &Name,
    fix: &Name,
) -> fmt::Result {
    match pods {
        1 => write!(f, "fix pod {first}: {fix}"),
        _ => write!(f, "fix {pods} pods, such as {first}: {fix}"),
    }
}

fn in_sub_group_text(sub_group: Option<&Name>) -> String {
    sub_group.map_or_else(String::new, |name| format!(" of sub-group {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_outside_sub_groups_are_fixed_before_more_are_created() {
        let changed = |required: u32, outside: u32| {
            let unschedulable = UnschedulableMembers {
                pods: outside,
                gated: 0,
                is_outside: true,
                first: "ns/a-0".into(),
                problem: "no SubGroup".into(),
                fix: "label it".into(),
            };
            suggestion_for_gang(&GangReadiness {
                sub_group: Some("part".into()),
                only_sub_group: None,
                required,
                exist: 1,
                gated: 0,
                unschedulable: Some(unschedulable),
            })
        };
        assert!(matches!(changed(4, 2), Suggestion::AddMembers { pods: 1, .. }));
        assert!(matches!(changed(3, 2), Suggestion::FixMembers { pods: 2, .. }));
    }
}
