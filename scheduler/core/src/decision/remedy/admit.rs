//! What lets nodes take a pod that they keep away, or that keeps away from them.

use std::fmt;

use super::{
    added::{Added, elsewhere},
    larger::of_classes,
};
use crate::{
    decision::{EvenWhenEmpty, Misfit, words::listing},
    model::{CPU_WORKER, GPU_WORKER, HOSTNAME, Name},
};

/// Of a gang, one pod is placed after the other.
const MATES_FIRST: &str = "let the pods of its own gang that its pod affinity asks for come first, by a higher label \
     kai.scheduler/task-priority or a sub-group whose name comes before its own";

pub(super) fn admit(
    f: &mut fmt::Formatter<'_>,
    (misfit, added): (&Misfit, &Added),
    (nodes, pods): (u32, u32),
) -> fmt::Result {
    if let Some(need) = misfit.place_need() {
        return elsewhere(f, (need, added), pods);
    }
    to_nodes(f, (misfit, added), &of_nodes(nodes, pods))
}

/// Nodes that are told by name.
pub(super) fn open(f: &mut fmt::Formatter<'_>, misfit: &Misfit, nodes: &[Name]) -> fmt::Result {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    to_nodes(f, (misfit, &Added::default()), &listing(&names, "and"))
}

fn to_nodes(
    f: &mut fmt::Formatter<'_>,
    (misfit, added): (&Misfit, &Added),
    of: &str,
) -> fmt::Result {
    match misfit {
        Misfit::Taint { key, value, .. } => {
            write!(f, "tolerate taint {key}={value}, or take it off {of}")
        }
        Misfit::Unschedulable => write!(f, "uncordon {of}"),
        Misfit::NotReady => write!(f, "bring {of} back to Ready"),
        Misfit::NodeAffinity { label } => selected(f, (label.as_ref(), added)),
        Misfit::AffinityToMates => f.write_str(MATES_FIRST),
        Misfit::TooLittle { .. }
        | Misfit::DeviceMemory { .. }
        | Misfit::PodAffinity
        | Misfit::PodAntiAffinity
        | Misfit::OthersAntiAffinity
        | Misfit::HostPort { .. }
        | Misfit::TopologySpread(_)
        | Misfit::TooFewDomains { .. } => write!(f, "make room on {of}"),
        Misfit::TopologySpreadLabel(key) => {
            write!(f, "label nodes with {key}, the key over which it is to be spread")
        }
        Misfit::WholeGpusOnly => f.write_str("ask for whole GPUs, or add a node that gives less"),
        Misfit::NotSplit => f.write_str("add a node that gives MIG instances"),
        Misfit::MigInstancesOnly => {
            f.write_str("ask for MIG instances, or add a node that gives whole GPUs")
        }
        Misfit::LegacyMig => f.write_str("ask for MIG instances as resources, not by annotation"),
        Misfit::LegacyMigThere => {
            f.write_str("end the pods that have MIG instances by annotation, or add a node")
        }
        Misfit::QueueBound(_) => f.write_str("raise the bound of the queue that is named"),
        Misfit::ClaimElsewhere(claim) => {
            write!(f, "make room where claim {claim} is allocated, or end its other users")
        }
        Misfit::ClaimFull(claim) => {
            write!(f, "end a pod that uses claim {claim}, or give it a claim of its own")
        }
        Misfit::ClaimOfQueue { claim, .. } => {
            write!(f, "label claim {claim} with the queue of the workload")
        }
        Misfit::NotAligned { even_when_empty: EvenWhenEmpty::No } => {
            f.write_str("end pods of one NUMA zone of a node, or add a node")
        }
        Misfit::NotAligned { even_when_empty: EvenWhenEmpty::Yes } => f.write_str(
            "ask for what the kubelet can take from the NUMA zones of a node together, or add a \
             node with larger ones",
        ),
        Misfit::GpusByClaim => {
            f.write_str("ask for GPUs by a resource claim, or add a node with a device plugin")
        }
        Misfit::GpusWithoutClaim => without_driver(f, &added.gpu_classes),
        Misfit::NoGpuWorker => write!(f, "label {of} {GPU_WORKER}, if it is for work with GPUs"),
        Misfit::NoCpuWorker => write!(f, "label {of} {CPU_WORKER}, if it is for work without GPUs"),
        Misfit::Place(misfit) => misfit.remedy(f),
        Misfit::Volume(misfit) => misfit.remedy(f),
        Misfit::Devices(misfit) => misfit.remedy(f),
    }
}

fn without_driver(f: &mut fmt::Formatter<'_>, gpu_classes: &[Name]) -> fmt::Result {
    f.write_str("ask for GPUs as a resource, or add a node with a driver for claims")?;
    match gpu_classes {
        [] => Ok(()),
        classes => write!(f, ", which publishes {}", of_classes(classes)),
    }
}

/// What is said of the nodes on which that is not all.
pub(super) fn more(
    f: &mut fmt::Formatter<'_>,
    (misfit, nodes, with_more): (&Misfit, u32, u32),
) -> fmt::Result {
    match (misfit, with_more) {
        (_, 0) => Ok(()),
        _ if with_more == nodes => f.write_str("; more than that keeps it from there"),
        // Whoever labels a node will see to it that it suits.
        (Misfit::NodeAffinity { .. }, _) => Ok(()),
        _ => write!(f, "; more than that keeps it from {with_more} of them"),
    }
}

/// A toleration is for its own pods alone.
pub(super) fn tolerate(f: &mut fmt::Formatter<'_>, key: &str, value: &str) -> fmt::Result {
    write!(f, "tolerate taint {key}={value}; were it taken off, others would have the room first")
}

fn selected(f: &mut fmt::Formatter<'_>, (label, added): (Option<&Name>, &Added)) -> fmt::Result {
    let node = label.and_then(|label| label.strip_prefix(HOSTNAME)?.strip_prefix('='));
    match (label, node) {
        (_, Some(node)) => write!(f, "add node {node}, which its node selector asks for")?,
        (Some(label), None) => write!(f, "label a node {label}, as its node selector asks")?,
        (None, None) if added.is_selected_by_name() => {
            f.write_str("add a node of a name that its node selector and affinity ask for")?;
        }
        (None, None) => f.write_str("label a node as its node selector and affinity ask")?,
    }
    f.write_str(", or ask for less")
}

fn of_nodes(nodes: u32, pods: u32) -> String {
    match (nodes, pods) {
        (1, _) => "the node".to_owned(),
        (_, 0 | 1) => format!("one of {nodes} nodes"),
        (_, _) => format!("up to {} of {nodes} nodes", pods.min(nodes)),
    }
}
