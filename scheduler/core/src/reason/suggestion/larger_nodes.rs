//! Texts for nodes or GPUs that are too small or too few.

use std::fmt;

use crate::{
    model::Name,
    reason::{Quantity, fit_error::resource_label},
    resources::ResourceName,
};

pub(super) fn fmt_add_larger_nodes(
    f: &mut fmt::Formatter<'_>,
    short: &[ResourceName],
    gpu_classes: &[Name],
) -> fmt::Result {
    let name = |resource: &ResourceName| {
        let is_claimed = *resource == ResourceName::Gpu && !gpu_classes.is_empty();
        if is_claimed {
            device_classes_text(gpu_classes).into()
        } else {
            resource_label(resource.clone())
        }
    };
    let short: Vec<Name> = short.iter().map(name).collect();
    f.write_str("add a node that can hold one of its pods")?;
    if !short.is_empty() {
        write!(f, ", with more {}", short.join(", "))?;
    }
    f.write_str(", or request less per pod")
}

/// Names GPUs by their device classes. A claim on GPUs by device class is satisfied by nodes that
/// publish such devices in a `ResourceSlice`.
pub(super) fn device_classes_text(classes: &[Name]) -> String {
    format!("devices of class {}", classes.join(" and "))
}

pub(super) fn fmt_add_nodes(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    more: &Quantity,
    or_fewer: bool,
) -> fmt::Result {
    let more = more.with_unit();
    write!(f, "add nodes for {pods} more of its pods, {more} in total")?;
    f.write_str(if or_fewer { ", or lower its minimum" } else { "" })
}

pub(super) fn fmt_use_other_nodes(f: &mut fmt::Formatter<'_>, or_fewer: bool) -> fmt::Result {
    f.write_str(
        "let its pods select other nodes than the ones they name, which are too small even when \
         empty, or request less",
    )?;
    f.write_str(if or_fewer { ", or lower its minimum" } else { "" })
}

pub(super) fn fmt_use_larger_devices(f: &mut fmt::Formatter<'_>, mib: i64) -> fmt::Result {
    if mib == 0 {
        return f.write_str(
            "label nodes with nvidia.com/gpu.memory, the memory of each of their GPUs in MiB, \
             or request a fraction of a GPU",
        );
    }
    write!(
        f,
        "request at most {mib} MiB of GPU memory, the size of the largest GPU, or add a node with \
         larger GPUs"
    )
}
