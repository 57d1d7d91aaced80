//! Requests of pods that the scheduler skips: their group was found unschedulable once
//! (`schedulingBackoff: 1`), or the pods themselves are unschedulable. They do not count for fair
//! shares, but `status.requested` of their queues includes them, like that of their PodGroups.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    QueueUsage, Snapshot,
    model::{Name, Pod, PodGroup, PodGroupId, PodStatus, QueueId, ShapeId},
    queues::{Charge, ChargeTable},
};

use crate::{
    cache::{ClusterCache, GroupMark},
    records::ObjectKey,
    snapshot_builder::{BuiltSnapshot, find_group, pods_of_group},
};

/// Adds the requests of the pods that the scheduler skips to the usage of their queues and all
/// ancestors of these.
pub(crate) fn add_skipped_requests(
    uses: &mut BTreeMap<Name, QueueUsage>,
    cache: &ClusterCache,
    built: &BuiltSnapshot,
) {
    let snapshot = &built.snapshot;
    let groups = groups_with_skipped_pods(cache, built);
    let pods = groups.iter().flat_map(|group| pods_of_group(cache, snapshot, *group));
    let left_alone =
        pods.filter_map(|pod| request_of_backed_off_pod(&snapshot.pods[pod.0 as usize], snapshot));
    let unusable = groups.iter().filter_map(|group| {
        let group = &snapshot.pod_groups[group.0 as usize];
        let queue = group.queue_id()?;
        // Gated pods request nothing yet, as everywhere.
        let ready = group.unschedulable_members.iter().filter(|member| !member.gated);
        Some(ready.map(move |member| (member.shape, queue)))
    });
    let mut waits = left_alone.chain(unusable.flatten()).peekable();
    if waits.peek().is_none() {
        return;
    }
    let prices = ChargeTable::new(snapshot);
    let mut bills: BTreeMap<QueueId, Charge> = BTreeMap::new();
    for (shape, queue) in waits {
        let above = |at: &QueueId| snapshot.queues[at.0 as usize].parent;
        for at in std::iter::successors(Some(queue), above) {
            bills.entry(at).or_default().add_charge(prices.charge_for_fair_share(shape));
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

/// The groups of which pods may be skipped.
fn groups_with_skipped_pods(cache: &ClusterCache, built: &BuiltSnapshot) -> BTreeSet<PodGroupId> {
    let of_pods = built.unschedulable.keys().filter_map(|pod| {
        let name = cache.pods.get(pod)?.group.clone()?;
        Some(ObjectKey { namespace: pod.namespace.clone(), name })
    });
    let keys = cache.groups.marked(GroupMark::Skipped).cloned().chain(of_pods);
    let found = keys.filter_map(|key| find_group(&built.snapshot.pod_groups, &key).ok());
    found.map(|at| PodGroupId(u32::try_from(at).expect("pod group ids are 32 bits"))).collect()
}

/// Request and queue of a pending pod whose group is in scheduling backoff.
fn request_of_backed_off_pod(pod: &Pod, snapshot: &Snapshot) -> Option<(ShapeId, QueueId)> {
    let group: &PodGroup = &snapshot.pod_groups[pod.group?.0 as usize];
    let counts = group.is_skipped && pod.status == PodStatus::Pending;
    Some((pod.shape, group.queue_id().filter(|_| counts)?))
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;
    use crate::{config::Flavor, snapshot_builder::SnapshotBuilder};

    /// The accounts of the core do not count gated pods either.
    #[test]
    fn gated_unschedulable_pods_are_not_counted_as_requested() {
        let pod = |name: &str, gates| {
            json!({ "kind": "Pod",
                    "metadata": { "namespace": "ns", "name": name, "uid": name,
                                  "annotations": { "pod-group-name": "g", "gpu-fraction": "1.5" } },
                    "spec": { "schedulerName": "kai-scheduler", "schedulingGates": gates,
                              "containers": [{ "resources": { "requests": { "cpu": 1 } } }] },
                    "status": { "phase": "Pending" } })
        };
        let mut cache = ClusterCache::from_objects(&[
            json!({ "kind": "Queue", "metadata": { "name": "q" } }),
            json!({ "kind": "PodGroup", "metadata": { "namespace": "ns", "name": "g" },
                    "spec": { "queue": "q" } }),
            pod("free", json!([])),
            pod("gated", json!([{ "name": "wait" }])),
        ]);
        let mut translator = SnapshotBuilder::new(Flavor::Kai, 0);
        translator.refresh(&mut cache);
        let (built, snapshot) = (&translator.built, &translator.built.snapshot);
        assert_eq!(snapshot.pod_groups[0].unschedulable_members.len(), 2);
        let mut uses = BTreeMap::new();
        add_skipped_requests(&mut uses, &cache, built);
        assert_eq!(uses["q"].requested.cpu_milli, 1000);
    }
}
