//! Kinds that a Karta describes: what its components make of a pod, as a group.

use schedlab_scheduler_core::model::SubGroup;

use super::{
    Case,
    parts::{Parts, leaf},
};
use crate::{karta::Part, parse::Malformed};

/// The longest name of an object.
const NAME_MAX: usize = 253;
const WORD: &str = "words of a-z, 0-9, - and ., which begin and end with a letter or digit, \
                    and make a name of at most 253 characters";

pub(super) fn group(case: &Case<'_>) -> Result<Parts, Malformed> {
    let Some((karta, pod)) = case.around.karta else { return Ok(Parts::alike(1)) };
    let grouped = karta.group((case.top.object, pod), case.around.allowance)?;
    let tail = (!grouped.words.is_empty()).then(|| grouped.words.join("-"));
    if let Some(tail) = tail.as_deref().filter(|tail| !can_end_a_name(case, tail)) {
        return Err(Malformed::new(grouped.field, tail, WORD));
    }
    let part =
        |Part { name, minimum, topology }| SubGroup { topology, ..leaf(name, u64::from(minimum)) };
    let sub_groups: Vec<SubGroup> = grouped.parts.into_iter().map(part).collect();
    // All of them are needed.
    let all = u32::try_from(sub_groups.len()).unwrap_or(u32::MAX);
    Ok(Parts {
        min_sub_group: (all > 0).then_some(all),
        sub_groups,
        part: grouped.part,
        tail,
        topology: grouped.topology,
        ..Parts::alike(u64::from(grouped.minimum))
    })
}

/// The name of the group is one that an object may have.
fn can_end_a_name(case: &Case<'_>, tail: &str) -> bool {
    let is_edge = |at: u8| at.is_ascii_lowercase() || at.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|at| is_edge(*at))
            && bytes.last().is_some_and(|at| is_edge(*at))
            && bytes.iter().all(|at| is_edge(*at) || *at == b'-')
    };
    let name = format!("pg-{}-{tail}", case.top.owner.uid);
    name.len() <= NAME_MAX && name.split('.').all(is_label)
}
