//! What the pods of each group use and ask for, as `status.resourcesStatus` of their PodGroup.
//! Written only when it differs from what stands there.

use std::collections::BTreeMap;

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Node, Pod, PodId, PodStatus},
    queues::{Bill, Prices},
    resources::PerResource,
};

use crate::{
    api::{Api, ApiError, Merge, Metadata, path},
    mirror::{GroupRecord, GroupResources, Key, Mirror},
    pacing::Pacing,
    parse::milli,
};

/// Brings the status of every group up to date. `plan`: what was just carried out.
pub(crate) async fn write(
    api: &Api,
    mirror: &mut Mirror,
    (snapshot, plan): (&Snapshot, Option<&Plan>),
    pacing: &mut Pacing,
) -> Result<(), ApiError> {
    let uses = uses(snapshot, plan);
    let named = snapshot.pod_groups.iter().zip(&uses);
    let of_group: BTreeMap<(&str, &str), GroupResources> =
        named.map(|(group, uses)| ((&*group.namespace, &*group.name), *uses)).collect();
    // Of a group without pods here, those of another node pool may be alive.
    let is_ours = |key: &Key| {
        of_group.contains_key(&(&*key.namespace, &*key.name)) || !mirror.lives_elsewhere(key)
    };
    let differs = |(key, group): (&Key, &GroupRecord)| {
        let now = of_group.get(&(&*key.namespace, &*key.name)).copied().unwrap_or_default();
        (now != group.told.resources && is_ours(key))
            .then(|| (key.clone(), group.told.version, now))
    };
    let due: Vec<(Key, u64, GroupResources)> = mirror.groups.iter().filter_map(differs).collect();
    let writes = due.into_iter().map(|(key, version, now)| {
        let path = path("scheduling.run.ai/v2alpha2", &key.namespace, "podgroups", &key.name);
        // Of the answer only the version is read: without this condition, what somebody changed in
        // between would be taken for known.
        let change = json!({
            "metadata": { "resourceVersion": version.to_string() },
            "status": { "resourcesStatus": status(&now) },
        });
        async move {
            let path = format!("{path}/status");
            (key, now, api.patch_metadata(&path, Merge::Plain, &change).await)
        }
    });
    let mut ended = Ok(());
    let take =
        |(key, now, written): (Key, GroupResources, Result<Metadata, ApiError>)| match written {
            Ok(metadata) => {
                if let Some(group) = mirror.groups.get_mut(&key) {
                    group.told.version = metadata.version();
                    group.told.resources = now;
                }
            }
            // It is gone; the watch will tell.
            Err(ApiError::NotFound(_)) => {}
            // After a conflict the next cycle tells, when the watch has told of what came between.
            Err(error) => ended = Err(error),
        };
    pacing.all(writes, take).await;
    ended
}

/// By position of the group.
fn uses(snapshot: &Snapshot, plan: Option<&Plan>) -> Vec<GroupResources> {
    let prices = Prices::of(snapshot);
    let bound: BTreeMap<PodId, &Node> = plan
        .into_iter()
        .flat_map(|plan| &plan.decisions)
        .filter_map(|decision| match decision {
            Decision::Bind { pod, node } => Some((*pod, &snapshot.nodes[node.0 as usize])),
            Decision::Evict { .. } | Decision::Pipeline { .. } => None,
        })
        .collect();
    let mut bills = vec![(Bill::default(), Bill::default()); snapshot.pod_groups.len()];
    for (id, pod) in (0..).map(PodId).zip(&snapshot.pods) {
        let Some(group) = pod.group.filter(|_| is_alive(pod)) else { continue };
        let node = pod.node.map(|node| &snapshot.nodes[node.0 as usize]);
        let node = node.or_else(|| bound.get(&id).copied());
        let bill = node.map_or_else(|| prices.to_share(pod.shape), |on| prices.on(pod.shape, on));
        let (requested, allocated) = &mut bills[group.0 as usize];
        if node.is_some() {
            allocated.add(bill.clone());
        }
        requested.add(bill);
    }
    for (group, (requested, _)) in snapshot.pod_groups.iter().zip(&mut bills) {
        group.unusable.iter().for_each(|member| requested.add(prices.to_share(member.shape)));
    }
    let uses = snapshot.pod_groups.iter().zip(bills).map(|(group, (requested, allocated))| {
        let allocated = allocated.total();
        let allocated_non_preemptible =
            if group.preemptible { PerResource::default() } else { allocated };
        GroupResources { requested: requested.total(), allocated, allocated_non_preemptible }
    });
    uses.collect()
}

fn is_alive(pod: &Pod) -> bool {
    match pod.status {
        PodStatus::Pending
        | PodStatus::Gated
        | PodStatus::Bound
        | PodStatus::Running
        | PodStatus::Away
        | PodStatus::Releasing => true,
        PodStatus::Succeeded | PodStatus::Failed => false,
    }
}

/// For a merge patch: what is not used is taken away by `null`.
fn status(now: &GroupResources) -> Value {
    let amounts = |of: PerResource<i64>| -> Value {
        let named = [
            ("cpu", of.cpu, milli(of.cpu)),
            ("memory", of.memory, of.memory.to_string()),
            ("nvidia.com/gpu", of.gpu, milli(of.gpu)),
        ];
        let amount = |(name, amount, text): (&str, i64, String)| {
            (name.to_owned(), if amount == 0 { Value::Null } else { text.into() })
        };
        named.map(amount).into_iter().collect::<schedlab_json::Map>().into()
    };
    json!({
        "allocated": amounts(now.allocated),
        "allocatedNonPreemptible": amounts(now.allocated_non_preemptible),
        "requested": amounts(now.requested),
    })
}
