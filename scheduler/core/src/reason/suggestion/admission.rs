//! Texts that tell how to make nodes accept a pod.

use std::fmt;

use super::{
    add_nodes::{AddedNodes, fmt_add_nodes},
    larger_nodes::device_classes_text,
};
use crate::{
    model::{CPU_WORKER, GPU_WORKER, HOSTNAME, Name},
    reason::{EvenWhenEmpty, FitError, format::join_list},
};

/// Suggestion for a pod that needs a later pod of its own gang: the pods of a gang are placed one
/// after the other.
const PLACE_PEERS_FIRST_TEXT: &str = "place the pods of its own gang that its pod affinity selects \
     first, by a higher label kai.scheduler/task-priority or a sub-group whose name sorts before \
     its own";

pub(super) fn fmt_admit_pods(
    f: &mut fmt::Formatter<'_>,
    fit_error: &FitError,
    added: &AddedNodes,
    nodes: u32,
    pods: u32,
) -> fmt::Result {
    if let Some(need) = fit_error.placement_need() {
        return fmt_add_nodes(f, need, added, pods);
    }
    fmt_admit_pods_to(f, fit_error, added, &up_to_pods_of_nodes_text(nodes, pods))
}

/// Writes how to open nodes, which are listed by name.
pub(super) fn fmt_open_nodes(
    f: &mut fmt::Formatter<'_>,
    fit_error: &FitError,
    nodes: &[Name],
) -> fmt::Result {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    fmt_admit_pods_to(f, fit_error, &AddedNodes::default(), &join_list(&names, "and"))
}

fn fmt_admit_pods_to(
    f: &mut fmt::Formatter<'_>,
    fit_error: &FitError,
    added: &AddedNodes,
    of: &str,
) -> fmt::Result {
    match fit_error {
        FitError::Taint { key, value, .. } => {
            write!(f, "tolerate taint {key}={value}, or remove it from {of}")
        }
        FitError::Unschedulable => write!(f, "uncordon {of}"),
        FitError::NotReady => write!(f, "bring {of} back to Ready"),
        FitError::NodeAffinity { label } => fmt_node_selection(f, label.as_ref(), added),
        FitError::PodAffinityToOwnGang => f.write_str(PLACE_PEERS_FIRST_TEXT),
        FitError::InsufficientResources { .. }
        | FitError::InsufficientGpuMemory { .. }
        | FitError::PodAffinity
        | FitError::PodAntiAffinity
        | FitError::ExistingPodsAntiAffinity
        | FitError::HostPort { .. }
        | FitError::TopologySpread(_)
        | FitError::TooFewDomains { .. } => write!(f, "free capacity on {of}"),
        FitError::TopologySpreadLabelMissing(key) => {
            write!(f, "label nodes with {key}, the topologyKey of its topology spread")
        }
        FitError::WholeGpusOnly => {
            f.write_str("request whole GPUs, or add a node that offers fractions")
        }
        FitError::MigDisabled => f.write_str("add a node that offers MIG instances"),
        FitError::MigInstancesOnly => {
            f.write_str("request MIG instances, or add a node that offers whole GPUs")
        }
        FitError::LegacyMig => f.write_str("request MIG instances as resources, not by annotation"),
        FitError::LegacyMigPodOnNode => {
            f.write_str("delete the pods that use MIG instances by annotation, or add a node")
        }
        FitError::QueueBoundExceeded(_) => f.write_str("raise the bound of the named queue"),
        FitError::ClaimOnOtherNode(claim) => {
            write!(f, "free capacity where claim {claim} is allocated, or delete its other pods")
        }
        FitError::ClaimUsersExhausted(claim) => {
            write!(f, "delete a pod that uses claim {claim}, or use a separate claim")
        }
        FitError::ClaimQueueMismatch { claim, .. } => {
            write!(f, "label claim {claim} with the queue of the workload")
        }
        FitError::NumaMisaligned { even_when_empty: EvenWhenEmpty::No } => {
            f.write_str("delete pods of one NUMA zone of a node, or add a node")
        }
        FitError::NumaMisaligned { even_when_empty: EvenWhenEmpty::Yes } => f.write_str(
            "request what the kubelet can align with the NUMA zones of a node, or add a node with \
             larger zones",
        ),
        FitError::GpusOnlyViaDra => {
            f.write_str("request GPUs by a resource claim, or add a node with a device plugin")
        }
        FitError::GpusNotViaDra => fmt_without_dra_driver(f, &added.gpu_classes),
        FitError::NotGpuWorker => {
            write!(f, "label {of} with {GPU_WORKER} if it is for GPU workloads")
        }
        FitError::NotCpuWorker => {
            write!(f, "label {of} with {CPU_WORKER} if it is for workloads without GPUs")
        }
        FitError::Topology(fit_error) => fit_error.fmt_suggestion(f),
        FitError::Volume(fit_error) => fit_error.fmt_suggestion(f),
        FitError::Devices(fit_error) => fit_error.fmt_suggestion(f),
    }
}

fn fmt_without_dra_driver(f: &mut fmt::Formatter<'_>, gpu_classes: &[Name]) -> fmt::Result {
    f.write_str("request GPUs as a resource, or add a node with a DRA driver")?;
    match gpu_classes {
        [] => Ok(()),
        classes => write!(f, " that publishes {}", device_classes_text(classes)),
    }
}

/// Appends that opening the nodes is not enough for those of them that have other errors.
pub(super) fn fmt_other_errors(
    f: &mut fmt::Formatter<'_>,
    fit_error: &FitError,
    nodes: u32,
    with_other_errors: u32,
) -> fmt::Result {
    match (fit_error, with_other_errors) {
        (_, 0) => Ok(()),
        _ if with_other_errors == nodes => f.write_str("; other errors remain there"),
        // Labelling a node includes making it suitable.
        (FitError::NodeAffinity { .. }, _) => Ok(()),
        _ => write!(f, "; other errors remain on {with_other_errors} of them"),
    }
}

/// Writes to tolerate a taint, which admits only the pod's own job, unlike removing the taint.
pub(super) fn fmt_tolerate_taint(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    value: &str,
) -> fmt::Result {
    write!(
        f,
        "tolerate taint {key}={value}; if it were removed, other jobs would use the capacity first"
    )
}

fn fmt_node_selection(
    f: &mut fmt::Formatter<'_>,
    label: Option<&Name>,
    added: &AddedNodes,
) -> fmt::Result {
    let node = label.and_then(|label| label.strip_prefix(HOSTNAME)?.strip_prefix('='));
    match (label, node) {
        (_, Some(node)) => write!(f, "add node {node}, which its node selector requires")?,
        (Some(label), None) => {
            write!(f, "label a node with {label}, as its node selector requires")?;
        }
        (None, None) if added.is_selected_by_name() => {
            f.write_str("add a node with a name that its node selector and affinity require")?;
        }
        (None, None) => f.write_str("label a node as its node selector and affinity require")?,
    }
    f.write_str(", or relax that")
}

fn up_to_pods_of_nodes_text(nodes: u32, pods: u32) -> String {
    match (nodes, pods) {
        (1, _) => "the node".to_owned(),
        (_, 0 | 1) => format!("one of {nodes} nodes"),
        (_, _) => format!("up to {} of {nodes} nodes", pods.min(nodes)),
    }
}
