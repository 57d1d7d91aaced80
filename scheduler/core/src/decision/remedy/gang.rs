//! What cures that too few pods of a gang can be scheduled.

use std::fmt;

use super::{Remedy, counted};
use crate::{
    model::Name,
    session::{NotReady, Unusable},
};

/// Gates first: behind them are pods that can be scheduled when they are open.
pub(super) fn of(not_ready: &NotReady) -> Remedy {
    let NotReady { sub_group, required, exist, unusable, .. } = not_ready;
    let sub_group = sub_group.clone();
    let outside = unusable.as_ref().filter(|unusable| unusable.is_outside);
    let there = exist + outside.map_or(0, |outside| outside.pods);
    let missing = required.saturating_sub(there);
    if missing > 0 {
        let sub_group = sub_group.or_else(|| not_ready.only_part.clone());
        return Remedy::AddMembers { pods: missing, sub_group };
    }
    let to_mend = required.saturating_sub(not_ready.without_gates());
    if let (1.., Some(Unusable { first, cure, .. })) = (to_mend, unusable) {
        let (first, cure) = (Name::clone(first), Name::clone(cure));
        return Remedy::MendMembers { pods: to_mend, first, cure };
    }
    let pods = required.saturating_sub(not_ready.schedulable()).max(1);
    Remedy::OpenGates { pods, sub_group }
}

/// A Job, say, has no more pods than its size allows. What stands on the owner of a pod group is for
/// groups that are yet to be made; their own minimum holds at once.
pub(super) fn add(f: &mut fmt::Formatter<'_>, pods: u32, sub_group: Option<&Name>) -> fmt::Result {
    write!(f, "create {}{}, or lower ", counted(pods, "more pod"), inside(sub_group))?;
    let whose = if sub_group.is_some() { "its minMember" } else { "the pod group's minMember" };
    write!(f, "{whose} by {pods}")
}

pub(super) fn open(f: &mut fmt::Formatter<'_>, pods: u32, part: Option<&Name>) -> fmt::Result {
    write!(f, "remove the scheduling gates of {}{}", counted(pods, "pod"), inside(part))
}

pub(super) fn mend(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    (first, cure): (&Name, &Name),
) -> fmt::Result {
    match pods {
        1 => write!(f, "mend pod {first}: {cure}"),
        _ => write!(f, "mend {pods} pods, such as {first}: {cure}"),
    }
}

fn inside(sub_group: Option<&Name>) -> String {
    sub_group.map_or_else(String::new, |name| format!(" of sub-group {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_no_sub_group_are_mended_before_more_are_created() {
        let cured = |required: u32, outside: u32| {
            let unusable = Unusable {
                pods: outside,
                gated: 0,
                is_outside: true,
                first: "ns/a-0".into(),
                problem: "no SubGroup".into(),
                cure: "label it".into(),
            };
            of(&NotReady {
                sub_group: Some("part".into()),
                only_part: None,
                required,
                exist: 1,
                gated: 0,
                unusable: Some(unusable),
            })
        };
        assert!(matches!(cured(4, 2), Remedy::AddMembers { pods: 1, .. }));
        assert!(matches!(cured(3, 2), Remedy::MendMembers { pods: 2, .. }));
    }
}
