//! What is to be added, or done without, where nodes or devices are too small or too few.

use std::fmt;

use crate::decision::Quantity;

pub(super) fn fleet(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    more: &Quantity,
    or_fewer: bool,
) -> fmt::Result {
    let more = more.counted();
    write!(f, "add nodes that hold {pods} more of its pods, {more} in all")?;
    f.write_str(if or_fewer { ", or let fewer pods suffice" } else { "" })
}

pub(super) fn other_nodes(f: &mut fmt::Formatter<'_>, or_fewer: bool) -> fmt::Result {
    f.write_str(
        "let its pods run on other nodes than those to whose names they are bound, which are too \
         small even when empty, or ask for less",
    )?;
    f.write_str(if or_fewer { ", or let fewer pods suffice" } else { "" })
}

pub(super) fn devices(f: &mut fmt::Formatter<'_>, mib: i64) -> fmt::Result {
    if mib == 0 {
        return f.write_str(
            "label nodes with nvidia.com/gpu.memory, the memory of each of their devices in MiB, \
             or ask for a fraction of a GPU",
        );
    }
    write!(
        f,
        "ask for at most {mib} MiB of GPU memory, which is what the largest device has, or add a \
         node with larger devices"
    )
}
