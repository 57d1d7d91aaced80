//! Admission of a pod by the kubelet, and the assignment of GPUs. As on a real cluster, it rejects
//! pods if a scheduler overcommits the node.

use std::collections::BTreeSet;

use crate::api_types::kubelet_timing::unhealthy_gpus;
use crate::api_types::pod_requests::{Amounts, add_amounts, allocatable_amounts, pod_requests};
use crate::reconcile::InformerCache;
use crate::reconcile::pod_status::{is_finished, node_name};
use crate::store::Key;
use schedlab_api::{
    Value, annotations, json,
    object::{annotation, list, remove, set, text},
    quantity::Milli,
    resources,
};

/// The reason why a pod is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRejection {
    /// The `status.reason` of the rejected pod.
    pub(super) reason: String,
    /// The `status.message` of the rejected pod.
    pub(super) message: String,
}

/// What the pod requests of the node's resources: not what the devices of its claim serve.
fn pod_amounts_on_node(pod: &Value) -> Amounts {
    let mut requests = pod_requests(pod);
    let claim_status_path = ["status", "extendedResourceClaimStatus", "requestMappings"];
    for mapping in list(pod, &claim_status_path) {
        requests.remove(text(mapping, &["resourceName"]));
    }
    requests
}

/// Checks whether the kubelet admits a pod; returns the indexes of the GPUs that the pod gets.
pub(super) fn admitted_gpus(
    key: &Key,
    pod: &Value,
    node: &Value,
    cache: &InformerCache,
) -> Result<BTreeSet<u64>, PodRejection> {
    let requested = pod_amounts_on_node(pod);
    let capacity_of_node = allocatable_amounts(node);
    let mut used = Amounts::new();
    let mut taken = BTreeSet::new();
    for (other_key, other) in cache.pods_on(node_name(pod)) {
        if other_key == key || is_finished(other) {
            continue;
        }
        taken.extend(recorded_gpus(other));
        if !text(other, &["status", "startTime"]).is_empty() {
            add_amounts(&mut used, &pod_amounts_on_node(other));
        }
    }
    for (resource, amount) in &requested {
        let [capacity, in_use] = [&capacity_of_node, &used]
            .map(|amounts| amounts.get(resource).copied().unwrap_or_default());
        if *amount > 0 && amount.saturating_add(in_use) > capacity {
            return Err(insufficient_resource(resource, [*amount, in_use, capacity]));
        }
    }
    let amount = |amounts: &Amounts| {
        u64::try_from(amounts.get(resources::GPU).copied().unwrap_or_default() / 1000)
            .unwrap_or_default()
    };
    let unhealthy: BTreeSet<u64> = unhealthy_gpus(node).collect();
    let all = amount(&capacity_of_node)
        .saturating_add(u64::try_from(unhealthy.len()).unwrap_or(u64::MAX));
    taken.extend(unhealthy);
    pick_gpus(pod, &taken, [amount(&requested), all])
}

fn insufficient_resource(resource: &str, amounts: [Milli; 3]) -> PodRejection {
    // Kubernetes shows CPU in thousandths here and everything else in whole units.
    let scale = if resource == "cpu" { 1 } else { 1000 };
    let [requested, used, capacity] = amounts.map(|amount| amount / scale);
    PodRejection {
        reason: format!("OutOf{resource}"),
        message: format!(
            "Pod was rejected: Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}

/// The indexes of the GPUs that are recorded in a pod's annotation.
pub(super) fn recorded_gpus(pod: &Value) -> impl Iterator<Item = u64> + '_ {
    annotation(pod, annotations::GPU_DEVICES)
        .unwrap_or_default()
        .split(',')
        .filter_map(|index| index.parse().ok())
}

/// Picks the free GPUs with the lowest indexes. `taken` includes unhealthy GPUs. A pod keeps its
/// recorded GPUs if they are valid.
fn pick_gpus(
    pod: &Value,
    taken: &BTreeSet<u64>,
    [requested, all]: [u64; 2],
) -> Result<BTreeSet<u64>, PodRejection> {
    let held: BTreeSet<u64> = recorded_gpus(pod).collect();
    let is_valid = held.is_disjoint(taken) && held.iter().all(|index| *index < all);
    if is_valid && u64::try_from(held.len()) == Ok(requested) {
        return Ok(held);
    }
    let count = usize::try_from(requested).unwrap_or(usize::MAX);
    let picked: BTreeSet<u64> =
        (0..all).filter(|index| !taken.contains(index)).take(count).collect();
    if picked.len() < count {
        return Err(PodRejection {
            reason: "UnexpectedAdmissionError".to_owned(),
            message: format!(
                "Pod was rejected: Allocate failed due to requested number of devices unavailable for {}. Requested: {requested}, Available: {}, which is unexpected",
                resources::GPU,
                picked.len()
            ),
        });
    }
    Ok(picked)
}

/// Records the indexes of a pod's GPUs in an annotation, which a status update of a pod can also
/// change.
pub(super) fn record_gpus(pod: &mut Value, picked: &BTreeSet<u64>) {
    let all: Vec<String> = picked.iter().map(u64::to_string).collect();
    if picked.is_empty() {
        remove(pod, &["metadata", "annotations", annotations::GPU_DEVICES]);
    } else {
        set(pod, &["metadata", "annotations", annotations::GPU_DEVICES], json!(all.join(",")));
    }
}
