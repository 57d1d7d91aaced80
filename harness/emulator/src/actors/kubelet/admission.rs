//! Whether a kubelet takes a pod, and which GPUs it hands to it. A scheduler that promised more
//! than a node has is caught here, as it is on a real cluster.

use std::collections::BTreeSet;

use super::{is_finished, node_name};
use crate::actors::View;
use crate::object::{annotation, remove, set, text};
use crate::quantity::Milli;
use crate::requests::{Amounts, add, allocatable, requested};
use crate::store::Key;
use schedlab_json::{Value, json};

/// The annotation in which the kubelet records a pod's GPUs: `"0,3"`.
pub(crate) const DEVICES: &str = "schedlab.dev/gpu-devices";
const GPU: &str = "nvidia.com/gpu";

/// Why a pod is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `status.reason`.
    pub(super) reason: String,
    /// `status.message`.
    pub(super) message: String,
}

/// Takes a pod, with its GPUs by index, or says why not.
pub(super) fn admit(
    key: &Key,
    pod: &Value,
    node: &Value,
    view: &View,
) -> Result<BTreeSet<u64>, Refusal> {
    let asked = requested(pod);
    let has = allocatable(node);
    let mut used = Amounts::new();
    let mut taken = BTreeSet::new();
    for (other_key, other) in view.pods_on(node_name(pod)) {
        if other_key == key || is_finished(other) {
            continue;
        }
        taken.extend(devices(other));
        if !text(other, &["status", "startTime"]).is_empty() {
            add(&mut used, &requested(other));
        }
    }
    for (resource, amount) in &asked {
        let [capacity, in_use] =
            [&has, &used].map(|amounts| amounts.get(resource).copied().unwrap_or_default());
        if *amount > 0 && amount.saturating_add(in_use) > capacity {
            return Err(out_of(resource, [*amount, in_use, capacity]));
        }
    }
    let amount = |amounts: &Amounts| {
        u64::try_from(amounts.get(GPU).copied().unwrap_or_default() / 1000).unwrap_or_default()
    };
    pick(pod, &taken, [amount(&asked), amount(&has)])
}

fn out_of(resource: &str, amounts: [Milli; 3]) -> Refusal {
    // Kubernetes counts CPU in thousandths here and everything else in whole units.
    let scale = if resource == "cpu" { 1 } else { 1000 };
    let [requested, used, capacity] = amounts.map(|amount| amount / scale);
    Refusal {
        reason: format!("OutOf{resource}"),
        message: format!(
            "Pod was rejected: Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}

/// The GPUs a pod is recorded to hold.
pub(super) fn devices(pod: &Value) -> impl Iterator<Item = u64> + '_ {
    annotation(pod, DEVICES).unwrap_or_default().split(',').filter_map(|index| index.parse().ok())
}

/// The lowest free GPUs; those that a pod already holds stay with it.
fn pick(
    pod: &Value,
    taken: &BTreeSet<u64>,
    [asked, there]: [u64; 2],
) -> Result<BTreeSet<u64>, Refusal> {
    let held: BTreeSet<u64> = devices(pod).collect();
    let sound = held.is_disjoint(taken) && held.iter().all(|index| *index < there);
    if sound && u64::try_from(held.len()) == Ok(asked) {
        return Ok(held);
    }
    let wanted = usize::try_from(asked).unwrap_or(usize::MAX);
    let picked: BTreeSet<u64> =
        (0..there).filter(|index| !taken.contains(index)).take(wanted).collect();
    if picked.len() < wanted {
        return Err(Refusal {
            reason: "UnexpectedAdmissionError".to_owned(),
            message: format!(
                "Pod was rejected: Allocate failed due to requested number of devices unavailable for {GPU}. Requested: {asked}, Available: {}, which is unexpected",
                picked.len()
            ),
        });
    }
    Ok(picked)
}

/// Records a pod's GPUs. It goes with the pod's status, whose writes may change annotations.
pub(super) fn record(pod: &mut Value, picked: &BTreeSet<u64>) {
    let all: Vec<String> = picked.iter().map(u64::to_string).collect();
    if picked.is_empty() {
        remove(pod, &["metadata", "annotations", DEVICES]);
    } else {
        set(pod, &["metadata", "annotations", DEVICES], json!(all.join(",")));
    }
}
