//! Texts for reasons that pass by themselves, and what shortens the wait.

use std::fmt;

use crate::{model::Name, reason::DelayStart};

pub(super) fn fmt_raise_queue_depth(f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    write!(
        f,
        "delete pending jobs of its queue that come first, or raise \
         queueDepthPerAction.allocate above {depth}"
    )
}

pub(super) fn fmt_wait_for_release(f: &mut fmt::Formatter<'_>, nodes: &[Name]) -> fmt::Result {
    if nodes.is_empty() {
        return f.write_str("nothing to do: it runs once terminating pods are gone");
    }
    write!(f, "nothing to do: it runs once pods have terminated on {}", nodes.join(", "))
}

pub(super) fn fmt_wait_for_preemption_delay(
    f: &mut fmt::Formatter<'_>,
    seconds: u64,
    since: DelayStart,
) -> fmt::Result {
    write!(f, "wait until {seconds} s after {since}, or lower its preemption delay")
}

pub(super) fn fmt_raise_preemption_limit(f: &mut fmt::Formatter<'_>, limit: usize) -> fmt::Result {
    f.write_str(if limit > 0 { "wait for another cycle, or " } else { "" })?;
    write!(f, "raise preemptionPolicy.maxPreemptionsPerCycle above {limit}")
}

pub(super) fn fmt_wait_for_min_runtime(
    f: &mut fmt::Formatter<'_>,
    victim: &str,
    field: &str,
    seconds: u64,
) -> fmt::Result {
    let runs = format!("{victim} has run for {seconds} s");
    write!(f, "wait until {runs}, or lower the {field} that protects it")
}
