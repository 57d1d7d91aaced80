//! Writes `status.resourcesStatus` of PodGroups: allocated and requested resources of their pods.
//! A status is written only when it differs from the observed one.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, api_versions, json, resources};
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Node, Pod, PodGroup, PodGroupId, PodId, PodStatus},
    queues::{Charge, ChargeTable},
    resources::PerResource,
};

use crate::{
    api::{ApiClient, ApiError, Metadata, PatchKind, object_path},
    cache::{ClusterCache, GroupResources},
    concurrency::WriteLimiter,
    parse::format_milli,
    records::ObjectKey,
    snapshot_builder::{find_group, pods_of_group},
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
    let mut due = std::mem::take(&mut cache.groups_to_report);
    let uses = if due.everything {
        resources_of_all_groups(snapshot, plan)
    } else {
        due.keys.extend(groups_of_decisions(snapshot, plan));
        resources_of_groups(cache, snapshot, plan, &due.keys)
    };
    let checked: Box<dyn Iterator<Item = &ObjectKey> + Send> =
        if due.everything { Box::new(cache.groups.keys()) } else { Box::new(due.keys.iter()) };
    let mut changed: Vec<(ObjectKey, u64, GroupResources)> = Vec::new();
    let mut in_other_pools = BTreeSet::new();
    for key in checked {
        let Some(group) = cache.groups.get(key) else { continue };
        let now = uses.get(&(&*key.namespace, &*key.name)).copied();
        if now.unwrap_or_default() == group.reported.resources {
            continue;
        }
        // A group without pods in this node pool may have pods in another one.
        if now.is_none() && cache.has_foreign_pods(key) {
            in_other_pools.insert(key.clone());
        } else {
            changed.push((key.clone(), group.reported.version, now.unwrap_or_default()));
        }
    }
    cache.groups_to_report.keys = in_other_pools;
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
                if let Some(mut group) = cache.groups.get_mut(&key) {
                    group.reported.version = metadata.version();
                    group.reported.resources = now;
                }
            }
            // The group was deleted; a watch event will follow.
            Err(ApiError::NotFound(_)) => {}
            // After a conflict the next cycle retries, once the other write's watch event arrived.
            Err(error) => {
                cache.groups_to_report.keys.insert(key);
                result = Err(error);
            }
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

/// What the pods of groups use and request, by namespace and name of the group.
type ResourcesByGroup<'s> = BTreeMap<(&'s str, &'s str), GroupResources>;

/// The keys of the groups of pods that the plan places or evicts.
fn groups_of_decisions<'s>(
    snapshot: &'s Snapshot,
    plan: Option<&'s Plan>,
) -> impl Iterator<Item = ObjectKey> + 's {
    let decisions = plan.into_iter().flat_map(|plan| &plan.decisions);
    decisions.filter_map(|decision| {
        let (Decision::Bind { pod, .. }
        | Decision::Evict { pod, .. }
        | Decision::Pipeline { pod, .. }) = decision;
        let group = snapshot.pods[pod.0 as usize].group?;
        let PodGroup { namespace, name, .. } = &snapshot.pod_groups[group.0 as usize];
        Some(ObjectKey { namespace: namespace.clone(), name: name.clone() })
    })
}

/// The nodes that the plan binds pods to.
fn bound_nodes<'s>(snapshot: &'s Snapshot, plan: Option<&Plan>) -> BTreeMap<PodId, &'s Node> {
    let decisions = plan.into_iter().flat_map(|plan| &plan.decisions);
    let bound = decisions.filter_map(|decision| match decision {
        Decision::Bind { pod, node } => Some((*pod, &snapshot.nodes[node.0 as usize])),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    bound.collect()
}

fn resources_of_all_groups<'s>(
    snapshot: &'s Snapshot,
    plan: Option<&Plan>,
) -> ResourcesByGroup<'s> {
    let (prices, bound) = (ChargeTable::new(snapshot), bound_nodes(snapshot, plan));
    let mut bills = vec![GroupCharges::default(); snapshot.pod_groups.len()];
    for (id, pod) in (0..).map(PodId).zip(&snapshot.pods) {
        if let Some(group) = pod.group {
            let bound = bound.get(&id).copied();
            bills[group.0 as usize].add_pod(snapshot, &prices, pod, bound);
        }
    }
    let groups = snapshot.pod_groups.iter().zip(bills);
    groups
        .map(|(group, charges)| {
            ((&*group.namespace, &*group.name), charges.into_resources(&prices, group))
        })
        .collect()
}

fn resources_of_groups<'s>(
    cache: &ClusterCache,
    snapshot: &'s Snapshot,
    plan: Option<&Plan>,
    keys: &BTreeSet<ObjectKey>,
) -> ResourcesByGroup<'s> {
    let (prices, bound) = (ChargeTable::new(snapshot), bound_nodes(snapshot, plan));
    let of_group = |key: &ObjectKey| {
        let at = find_group(&snapshot.pod_groups, key).ok()?;
        let id = PodGroupId(u32::try_from(at).expect("pod group ids are 32 bits"));
        let group = &snapshot.pod_groups[at];
        let mut charges = GroupCharges::default();
        for pod in pods_of_group(cache, snapshot, id) {
            let bound = bound.get(&pod).copied();
            charges.add_pod(snapshot, &prices, &snapshot.pods[pod.0 as usize], bound);
        }
        Some(((&*group.namespace, &*group.name), charges.into_resources(&prices, group)))
    };
    keys.iter().filter_map(of_group).collect()
}

impl GroupCharges {
    /// Adds a pod that is bound to a node, or was just bound to `bound`.
    fn add_pod(
        &mut self,
        snapshot: &Snapshot,
        prices: &ChargeTable,
        pod: &Pod,
        bound: Option<&Node>,
    ) {
        if !is_alive(pod) {
            return;
        }
        let node = pod.node.map(|node| &snapshot.nodes[node.0 as usize]).or(bound);
        let bill = node.map_or_else(
            || prices.charge_for_fair_share(pod.shape),
            |on| prices.charge_on_node(pod.shape, on),
        );
        if node.is_some() {
            self.running += 1;
            self.allocated.add_charge(bill.clone());
        } else {
            self.pending += 1;
        }
        self.requested.add_charge(bill);
    }

    /// The resources of the group, with those of its unschedulable members.
    fn into_resources(mut self, prices: &ChargeTable, group: &PodGroup) -> GroupResources {
        for member in &group.unschedulable_members {
            self.pending += 1;
            self.requested.add_charge(prices.charge_for_fair_share(member.shape));
        }
        let allocated = self.allocated.total();
        let allocated_non_preemptible =
            if group.preemptible { PerResource::default() } else { allocated };
        let (running, pending) = (self.running, self.pending);
        let requested = self.requested.total();
        GroupResources { allocated, allocated_non_preemptible, requested, running, pending }
    }
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
