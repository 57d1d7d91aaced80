//! Groups of kinds that a Karta describes. Evaluating the Karta is left to `crate::karta`.

use schedlab_scheduler_core::model::SubGroup;

use super::{
    GroupingInput,
    sub_groups::{GroupShape, leaf_sub_group},
};
use crate::{karta::SubGroupSpec, parse::Malformed};

/// Maximum length of an object name.
const NAME_MAX: usize = 253;
const NAME_SUFFIX_RULE: &str = "letters a-z, digits, - and ., each dot-separated part starting and \
                                ending with a letter or digit, in a name of at most 253 characters";

pub(super) fn karta_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let Some((karta, pod)) = input.context.karta else {
        return Ok(GroupShape::without_sub_groups(1));
    };
    let grouped = karta.assign_group(input.top.object, pod, input.context.cycle_budget)?;
    let tail = (!grouped.name_suffixes.is_empty()).then(|| grouped.name_suffixes.join("-"));
    if let Some(tail) = tail.as_deref().filter(|tail| !can_end_a_name(input, tail)) {
        return Err(Malformed::new(grouped.field, tail, NAME_SUFFIX_RULE));
    }
    let part = |SubGroupSpec { name, min_member: minimum, topology }| SubGroup {
        topology,
        ..leaf_sub_group(name, u64::from(minimum))
    };
    let sub_groups: Vec<SubGroup> = grouped.sub_groups.into_iter().map(part).collect();
    // All sub-groups are required.
    let all = u32::try_from(sub_groups.len()).unwrap_or(u32::MAX);
    Ok(GroupShape {
        min_sub_group: (all > 0).then_some(all),
        sub_groups,
        sub_group: grouped.sub_group,
        name_suffix: tail,
        topology: grouped.topology,
        ..GroupShape::without_sub_groups(u64::from(grouped.min_member))
    })
}

/// Whether a group name with this suffix is a valid object name.
fn can_end_a_name(input: &GroupingInput<'_>, tail: &str) -> bool {
    let is_edge = |at: u8| at.is_ascii_lowercase() || at.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|at| is_edge(*at))
            && bytes.last().is_some_and(|at| is_edge(*at))
            && bytes.iter().all(|at| is_edge(*at) || *at == b'-')
    };
    let name = format!("pg-{}-{tail}", input.top.owner.uid);
    name.len() <= NAME_MAX && name.split('.').all(is_label)
}
