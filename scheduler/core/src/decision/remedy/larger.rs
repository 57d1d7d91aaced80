//! What is to be added, or done without, where nodes or devices are too small or too few.

use std::fmt;

use crate::{
    decision::{Quantity, misfit::short_name},
    model::Name,
    resources::ResourceName,
};

pub(super) fn nodes(
    f: &mut fmt::Formatter<'_>,
    short: &[ResourceName],
    gpu_classes: &[Name],
) -> fmt::Result {
    let name = |resource: &ResourceName| {
        let is_claimed = *resource == ResourceName::Gpu && !gpu_classes.is_empty();
        if is_claimed { of_classes(gpu_classes).into() } else { short_name(resource.clone()) }
    };
    let short: Vec<Name> = short.iter().map(name).collect();
    f.write_str("add a node that can hold one of its pods")?;
    if !short.is_empty() {
        write!(f, ", which has more {}", short.join(", "))?;
    }
    f.write_str(", or ask for less a pod")
}

/// Who claims GPUs by these classes gets them where a `ResourceSlice` publishes some.
pub(super) fn of_classes(classes: &[Name]) -> String {
    format!("devices of class {}", classes.join(" and "))
}

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
