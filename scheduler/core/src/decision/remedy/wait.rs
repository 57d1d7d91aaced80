//! What comes by itself, and what brings it nearer.

use std::fmt;

use crate::{decision::Since, model::Name};

pub(super) fn for_turn(f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    write!(
        f,
        "end jobs of its queue that wait before it, or raise queueDepthPerAction.allocate above \
         {depth}"
    )
}

pub(super) fn for_room(f: &mut fmt::Formatter<'_>, nodes: &[Name]) -> fmt::Result {
    if nodes.is_empty() {
        return f.write_str("nothing to do: pods are leaving, and then it runs");
    }
    write!(f, "nothing to do: it runs when pods have left {}", nodes.join(", "))
}

pub(super) fn longer(f: &mut fmt::Formatter<'_>, seconds: u64, since: Since) -> fmt::Result {
    write!(f, "wait until {seconds} s after {since}, or lower its preemption delay")
}

pub(super) fn for_cycle(f: &mut fmt::Formatter<'_>, most: usize) -> fmt::Result {
    f.write_str(if most > 0 { "wait for another cycle, or " } else { "" })?;
    write!(f, "raise preemptionPolicy.maxPreemptionsPerCycle above {most}")
}

pub(super) fn outlast(
    f: &mut fmt::Formatter<'_>,
    victim: &str,
    field: &str,
    seconds: u64,
) -> fmt::Result {
    let runs = format!("{victim} has run for {seconds} s");
    write!(f, "wait until {runs}, or lower the {field} that protects it")
}
