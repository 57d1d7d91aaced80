//! What pods ask for that nobody tries to place, since their group was found unschedulable once
//! (`schedulingBackoff` 1), or since they cannot be scheduled as they stand. No share is divided
//! for it; the status of their queues tells it all the same, as that of their groups does.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    QueueUse, Snapshot,
    model::{Name, Pod, PodGroup, PodStatus, QueueId, ShapeId},
    queues::{Bill, Prices},
};

/// Adds it to the accounts of the queues and of those above them.
pub(crate) fn add(uses: &mut BTreeMap<Name, QueueUse>, snapshot: &Snapshot) {
    let left_alone = snapshot.pods.iter().filter_map(|pod| left_alone(pod, snapshot));
    let unusable = snapshot.pod_groups.iter().filter_map(|group| {
        let queue = group.known_queue()?;
        // As with other pods, what a gate keeps back is not asked for yet.
        let ready = group.unusable.iter().filter(|member| !member.gated);
        Some(ready.map(move |member| (member.shape, queue)))
    });
    let mut waits = left_alone.chain(unusable.flatten()).peekable();
    if waits.peek().is_none() {
        return;
    }
    let prices = Prices::of(snapshot);
    let mut bills: BTreeMap<QueueId, Bill> = BTreeMap::new();
    for (shape, queue) in waits {
        let above = |at: &QueueId| snapshot.queues[at.0 as usize].parent;
        for at in std::iter::successors(Some(queue), above) {
            bills.entry(at).or_default().add(prices.to_share(shape));
        }
    }
    for (queue, bill) in bills {
        let (name, more) = (&snapshot.queues[queue.0 as usize].name, bill.total());
        let requested = &mut uses.entry(Name::clone(name)).or_default().requested;
        requested.gpu_milli = requested.gpu_milli.saturating_add(more.gpu);
        requested.cpu_milli = requested.cpu_milli.saturating_add(more.cpu);
        requested.memory_bytes = requested.memory_bytes.saturating_add(more.memory);
    }
}

/// What a pod asks for that waits in a group that is left alone, and of which queue.
fn left_alone(pod: &Pod, snapshot: &Snapshot) -> Option<(ShapeId, QueueId)> {
    let group: &PodGroup = &snapshot.pod_groups[pod.group?.0 as usize];
    let counts = group.left_alone && pod.status == PodStatus::Pending;
    Some((pod.shape, group.known_queue().filter(|_| counts)?))
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;
    use crate::{config::Flavor, mirror::Mirror, translate::Translator};

    /// No account counts a pod whose gates keep it back either.
    #[test]
    fn a_pod_behind_a_gate_asks_for_nothing_though_it_cannot_be_scheduled_either() {
        let pod = |name: &str, gates| {
            json!({ "kind": "Pod",
                    "metadata": { "namespace": "ns", "name": name, "uid": name,
                                  "annotations": { "pod-group-name": "g", "gpu-fraction": "1.5" } },
                    "spec": { "schedulerName": "kai-scheduler", "schedulingGates": gates,
                              "containers": [{ "resources": { "requests": { "cpu": 1 } } }] },
                    "status": { "phase": "Pending" } })
        };
        let mut mirror = Mirror::of(&[
            json!({ "kind": "Queue", "metadata": { "name": "q" } }),
            json!({ "kind": "PodGroup", "metadata": { "namespace": "ns", "name": "g" },
                    "spec": { "queue": "q" } }),
            pod("free", json!([])),
            pod("gated", json!([{ "name": "wait" }])),
        ]);
        let mut translator = Translator::new(Flavor::Kai, 0);
        translator.refresh(&mut mirror);
        let snapshot = &translator.translation.snapshot;
        assert_eq!(snapshot.pod_groups[0].unusable.len(), 2);
        let mut uses = BTreeMap::new();
        add(&mut uses, snapshot);
        assert_eq!(uses["q"].requested.cpu_milli, 1000);
    }
}
