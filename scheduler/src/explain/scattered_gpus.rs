//! A note about free GPUs that a pending pod cannot use, because they are on several nodes, and about
//! the pods that stay there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use schedlab_explain::{NodeGroup, NodeReport};
use schedlab_scheduler_core::{
    Snapshot,
    model::{Pod, PodStatus},
    reason::{FitError, Quantity},
    resources::ResourceName,
};

/// Maximum number of pods that a note names.
const NAMED_PODS_MAX: usize = 8;

/// The note, if the matching nodes have enough free GPUs together and none has enough alone.
pub(super) fn scattered_gpus_note(snapshot: &Snapshot, report: &NodeReport) -> Option<String> {
    let requested = report.request.gpu_milli;
    let matching: Vec<&NodeGroup> =
        report.groups.iter().filter(|group| lacks_only_resources(group)).collect();
    let largest = matching.iter().max_by_key(|group| group.free.gpu_milli)?;
    let count = |group: &NodeGroup| i64::try_from(group.nodes.len()).unwrap_or(i64::MAX);
    let free: i64 =
        matching.iter().map(|group| group.free.gpu_milli.max(0).saturating_mul(count(group))).sum();
    if requested <= 0 || free < requested || largest.free.gpu_milli >= requested {
        return None;
    }
    let nodes: usize = matching.iter().map(|group| group.nodes.len()).sum();
    let amount = |milli| Quantity { resource: ResourceName::Gpu, amount: milli }.amount_in_unit();
    let (free, block) = (amount(free), amount(largest.free.gpu_milli));
    let name = largest.nodes.first()?;
    let needed = amount(requested);
    let mut note = format!(
        "Free GPUs are scattered: {nodes} nodes match and have {free} free GPUs together, but at most \
         {block} on one node ({name}), and a pod needs {needed}."
    );
    let names = matching.iter().flat_map(|group| &group.nodes).map(|name| &**name).collect();
    let held = held_gpus(snapshot, &names);
    if let Some(first) = held.first() {
        let shown: Vec<String> = held
            .iter()
            .take(NAMED_PODS_MAX)
            .map(|(pod, node)| format!("{}/{} on {node}", pod.namespace, pod.name))
            .collect();
        let more = if held.len() > shown.len() { ", …" } else { "" };
        let pods = match held.len() {
            1 => format!("Pod {}/{} on {} is", first.0.namespace, first.0.name, first.1),
            count => format!("{count} pods ({}{more}) are", shown.join(", ")),
        };
        let _ = write!(note, " {pods} non-preemptible, so that no GPU of theirs can be freed.");
    }
    Some(note)
}

/// Whether each filter that rejects the nodes does so for want of resources.
fn lacks_only_resources(group: &NodeGroup) -> bool {
    group.rejections.iter().all(|(_, error)| {
        error.as_ref().is_none_or(|error| matches!(error, FitError::InsufficientResources { .. }))
    })
}

/// Running pods with GPUs of these nodes that no other pod may displace, with their nodes.
fn held_gpus<'s>(snapshot: &'s Snapshot, nodes: &BTreeSet<&str>) -> Vec<(&'s Pod, &'s str)> {
    let of_node = |pod: &'s Pod| {
        let node = &*snapshot.nodes[pod.node?.0 as usize].name;
        let group = &snapshot.pod_groups[pod.group?.0 as usize];
        let gpus = snapshot.shapes[pod.shape.0 as usize].requests.gpu_milli;
        let is_held = pod.status == PodStatus::Running && !group.preemptible && gpus > 0;
        (is_held && nodes.contains(node)).then_some((pod, node))
    };
    snapshot.pods.iter().filter_map(of_node).collect()
}
