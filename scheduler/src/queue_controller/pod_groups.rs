//! Writes `status.resourcesStatus` of PodGroups: allocated and requested resources of their pods.
//! A status is written only when it differs from the observed one.

use std::collections::BTreeMap;

use schedlab_api::{Value, api_versions, json, resources};
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Node, Pod, PodId, PodStatus},
    queues::{Charge, ChargeTable},
    resources::PerResource,
};

use crate::{
    api::{ApiClient, ApiError, Metadata, PatchKind, object_path},
    cache::{ClusterCache, GroupResources, PodGroupRecord},
    concurrency::WriteLimiter,
    parse::format_milli,
    records::ObjectKey,
};

/// Writes `status.resourcesStatus` of each PodGroup whose value changed. `plan` holds the decisions
/// that were just applied.
pub(crate) async fn write_group_resources(
    api: &ApiClient,
    cache: &mut ClusterCache,
    snapshot: &Snapshot,
    plan: Option<&Plan>,
    limiter: &mut WriteLimiter,
) -> Result<(), ApiError> {
    let uses = resources_by_group(snapshot, plan);
    let with_resources = snapshot.pod_groups.iter().zip(&uses);
    let of_group: BTreeMap<(&str, &str), GroupResources> =
        with_resources.map(|(group, uses)| ((&*group.namespace, &*group.name), *uses)).collect();
    // A group without pods in this node pool may have pods in another one.
    let is_ours = |key: &ObjectKey| {
        of_group.contains_key(&(&*key.namespace, &*key.name)) || !cache.has_foreign_pods(key)
    };
    let differs = |(key, group): (&ObjectKey, &PodGroupRecord)| {
        let now = of_group.get(&(&*key.namespace, &*key.name)).copied().unwrap_or_default();
        (now != group.reported.resources && is_ours(key))
            .then(|| (key.clone(), group.reported.version, now))
    };
    let changed: Vec<(ObjectKey, u64, GroupResources)> =
        cache.groups.iter().filter_map(differs).collect();
    let writes = changed.into_iter().map(|(key, version, now)| {
        let path = object_path(api_versions::POD_GROUP, &key.namespace, "podgroups", &key.name);
        // Only the version of the response is read, so without this precondition a change by
        // another writer would be missed.
        let change = json!({
            "metadata": { "resourceVersion": version.to_string() },
            "status": group_status(&now),
        });
        async move {
            let path = format!("{path}/status");
            (key, now, api.patch_metadata(&path, PatchKind::Merge, &change).await)
        }
    });
    let mut result = Ok(());
    let take = |(key, now, written): (ObjectKey, GroupResources, Result<Metadata, ApiError>)| {
        match written {
            Ok(metadata) => {
                if let Some(group) = cache.groups.get_mut(&key) {
                    group.reported.version = metadata.version();
                    group.reported.resources = now;
                }
            }
            // The group was deleted; a watch event will follow.
            Err(ApiError::NotFound(_)) => {}
            // After a conflict the next cycle retries, once the other write's watch event arrived.
            Err(error) => result = Err(error),
        }
    };
    limiter.run_all(writes, take).await;
    result
}

/// What the pods of a group use and request, while they are added up.
#[derive(Clone, Default)]
struct GroupCharges {
    requested: Charge,
    allocated: Charge,
    running: u32,
    pending: u32,
}

/// What the pods of each group use and request, by index of the group in the snapshot.
fn resources_by_group(snapshot: &Snapshot, plan: Option<&Plan>) -> Vec<GroupResources> {
    let prices = ChargeTable::new(snapshot);
    let bound: BTreeMap<PodId, &Node> = plan
        .into_iter()
        .flat_map(|plan| &plan.decisions)
        .filter_map(|decision| match decision {
            Decision::Bind { pod, node } => Some((*pod, &snapshot.nodes[node.0 as usize])),
            Decision::Evict { .. } | Decision::Pipeline { .. } => None,
        })
        .collect();
    let mut bills = vec![GroupCharges::default(); snapshot.pod_groups.len()];
    for (id, pod) in (0..).map(PodId).zip(&snapshot.pods) {
        let Some(group) = pod.group.filter(|_| is_alive(pod)) else { continue };
        let node = pod.node.map(|node| &snapshot.nodes[node.0 as usize]);
        let node = node.or_else(|| bound.get(&id).copied());
        let bill = node.map_or_else(
            || prices.charge_for_fair_share(pod.shape),
            |on| prices.charge_on_node(pod.shape, on),
        );
        let charges = &mut bills[group.0 as usize];
        if node.is_some() {
            charges.running += 1;
            charges.allocated.add_charge(bill.clone());
        } else {
            charges.pending += 1;
        }
        charges.requested.add_charge(bill);
    }
    for (group, charges) in snapshot.pod_groups.iter().zip(&mut bills) {
        for member in &group.unschedulable_members {
            charges.pending += 1;
            charges.requested.add_charge(prices.charge_for_fair_share(member.shape));
        }
    }
    let uses = snapshot.pod_groups.iter().zip(bills).map(|(group, charges)| {
        let allocated = charges.allocated.total();
        let allocated_non_preemptible =
            if group.preemptible { PerResource::default() } else { allocated };
        let requested = charges.requested.total();
        let (running, pending) = (charges.running, charges.pending);
        GroupResources { allocated, allocated_non_preemptible, requested, running, pending }
    });
    uses.collect()
}

fn is_alive(pod: &Pod) -> bool {
    match pod.status {
        PodStatus::Pending
        | PodStatus::Gated
        | PodStatus::Bound
        | PodStatus::Running
        | PodStatus::OnExcludedNode
        | PodStatus::Releasing => true,
        PodStatus::Succeeded | PodStatus::Failed => false,
    }
}

/// The status as a merge patch.
fn group_status(resources: &GroupResources) -> Value {
    let phase = match (resources.running, resources.pending) {
        (0, 0) => Value::Null,
        (0, _) => "Pending".into(),
        (_, _) => "Running".into(),
    };
    json!({
        "phase": phase,
        "running": resources.running,
        "pending": resources.pending,
        "resourcesStatus": resources_status(resources),
    })
}

/// `status.resourcesStatus` as a merge patch; unused resources are null.
fn resources_status(resources: &GroupResources) -> Value {
    let amounts = |of: PerResource<i64>| -> Value {
        let named = [
            ("cpu", of.cpu, format_milli(of.cpu)),
            ("memory", of.memory, of.memory.to_string()),
            (resources::GPU, of.gpu, format_milli(of.gpu)),
        ];
        let amount = |(name, amount, text): (&str, i64, String)| {
            (name.to_owned(), if amount == 0 { Value::Null } else { text.into() })
        };
        named.map(amount).into_iter().collect::<schedlab_api::Map>().into()
    };
    json!({
        "allocated": amounts(resources.allocated),
        "allocatedNonPreemptible": amounts(resources.allocated_non_preemptible),
        "requested": amounts(resources.requested),
    })
}
