//! Allocates the `ResourceClaim`s of pods before these are bound: devices and `reservedFor` are
//! written to the claim. Writes carry the resourceVersion of the claim, so that two schedulers
//! cannot both allocate it. Leftover allocations for pods that were not bound are released first;
//! with profile `kube` also unused claims that keep a pod off a node.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    Decision, Reason,
    model::{Name, Node, NodeId, PodGroupId, PodId},
    reason::DeallocationOutcome,
};

use super::{
    Applier, Cycle, fnv1a_hash, rfc3339,
    writes::{Write, WriteSequence},
};
use crate::{
    api::PatchKind,
    cache::ClusterCache,
    dra::claim_patches::{
        AllocationStamp, allocation_result, claim_path, consumer_reference, finalizer_patch,
        group_reference, released_status, status_patch_at_version,
    },
    dra::{ClaimRecord, PickedDevices},
    records::ObjectKey,
    watch::Kind,
};

/// The pods that will use a claim, with their nodes; never empty. The nodes differ only for
/// multi-node devices.
pub(super) type ClaimConsumers = Vec<(PodId, NodeId)>;

impl Applier {
    /// Allocates claims. Returns the pod groups that cannot be bound now, since a claim could not
    /// be allocated.
    pub(super) async fn allocate_claims(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let mut uses = claim_consumers(cache, cycle);
        self.deallocate_claims(cache, cycle, &uses).await;
        let mut given_up = self.give_up_devices(cache, cycle).await;
        given_up.extend(self.create_extended_resource_claims(cache, cycle).await);
        for users in uses.values_mut() {
            users.retain(|(pod, _)| !given_up.contains(&cycle.group(*pod)));
        }
        uses.retain(|_, users| !users.is_empty());
        if uses.is_empty() && !has_leftover_claims(cache) {
            return given_up;
        }
        self.release_leftover_claims(cache).await;
        let unprotected = uses.keys().filter(|key| !has_delete_protection(cache, key));
        let protect: Vec<WriteSequence> =
            unprotected.filter_map(|key| add_finalizer_sequence(cache, key)).collect();
        self.write(cache, protect).await;
        let picked = pick_devices(cache, cycle, &uses);
        let without = pods_without_devices(cache, &uses, &picked);
        for ((pod, node), claim) in &without {
            let (pod, node) = (cycle.key(*pod), &cycle.snapshot.nodes[node.0 as usize].name);
            let text = format!(
                "Waits on node {node}: no devices are left for ResourceClaim {claim} beside those that \
                 other claims get in this cycle"
            );
            self.held_messages.insert(pod, text);
        }
        // Groups are bound whole: no member's claim is allocated if another gets no devices.
        let unbindable: BTreeSet<_> = without.keys().map(|(pod, _)| cycle.group(*pod)).collect();
        let allocate: Vec<WriteSequence> = uses
            .iter()
            .filter_map(|(key, of)| {
                let with = of.iter().filter(|(pod, _)| !unbindable.contains(&cycle.group(*pod)));
                allocate_and_reserve(cache, cycle, key, &with.copied().collect(), &picked)
            })
            .collect();
        self.write(cache, allocate).await;
        let mut blocked = BTreeSet::new();
        for (key, pods) in &uses {
            let lacking = pods.iter().filter(|(pod, _)| !is_reserved(cache, cycle, key, *pod));
            blocked.extend(lacking.map(|(pod, _)| cycle.group(*pod)));
        }
        self.outcome.retry |= !blocked.is_empty();
        blocked.extend(self.wait_for_devices(cache, cycle, &uses));
        blocked.append(&mut given_up);
        blocked
    }

    /// Deallocates the claims that the plan wants free, unless a pod uses them by now.
    async fn deallocate_claims(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        uses: &BTreeMap<ObjectKey, ClaimConsumers>,
    ) {
        let free = released_status();
        let better_free = cycle.plan.waiting.values().filter_map(|reason| {
            let Reason::Unschedulable {
                deallocation: DeallocationOutcome::Deallocated(claim), ..
            } = reason
            else {
                return None;
            };
            ObjectKey::parse(claim)
        });
        let better_free: BTreeSet<ObjectKey> =
            better_free.filter(|key| !uses.contains_key(key)).collect();
        let chains = better_free.iter().filter_map(|key| {
            let claim =
                cache.resource_claims.claims.get(key).filter(|claim| claim.is_unreserved())?;
            Some(vec![claim_status_write(key, claim, &free)])
        });
        let chains = chains.collect();
        self.write(cache, chains).await;
    }

    async fn release_leftover_claims(&mut self, cache: &mut ClusterCache) {
        let free = released_status();
        let claims = cache.resource_claims.claims.iter();
        let left_over = claims.filter(|(key, claim)| claim.is_leftover(key, &cache.pods));
        let chains =
            left_over.map(|(key, claim)| vec![claim_status_write(key, claim, &free)]).collect();
        self.write(cache, chains).await;
    }
}

fn has_leftover_claims(cache: &ClusterCache) -> bool {
    cache.resource_claims.claims.iter().any(|(key, claim)| claim.is_leftover(key, &cache.pods))
}

/// The claims of all pods to bind, each with a pod and its node, in the order of the decisions.
fn claims_in_decision_order(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
) -> impl Iterator<Item = (ObjectKey, (PodId, NodeId))> {
    let placed = cycle.plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pod, node } => Some((*pod, *node)),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    placed.flat_map(|(pod, node)| {
        let key = cycle.key(pod);
        let claims = cache.pods.get(&key).into_iter().flat_map(|record| &record.claims);
        claims.filter_map(|one| one.claim.as_ref()).map(move |name| {
            let namespace = Name::clone(&key.namespace);
            (ObjectKey { namespace, name: Name::clone(name) }, (pod, node))
        })
    })
}

/// The pods to bind that use each claim.
fn claim_consumers(cache: &ClusterCache, cycle: &Cycle<'_>) -> BTreeMap<ObjectKey, ClaimConsumers> {
    let mut uses: BTreeMap<ObjectKey, ClaimConsumers> = BTreeMap::new();
    for (claim, user) in claims_in_decision_order(cache, cycle) {
        uses.entry(claim).or_default().push(user);
    }
    uses
}

fn has_delete_protection(cache: &ClusterCache, key: &ObjectKey) -> bool {
    cache.resource_claims.claims.get(key).is_some_and(|claim| finalizer_patch(claim).is_none())
}

fn add_finalizer_sequence(cache: &ClusterCache, key: &ObjectKey) -> Option<WriteSequence> {
    let claim = cache.resource_claims.claims.get(key)?;
    let change = finalizer_patch(claim)?;
    Some(vec![Write::patch(Kind::ResourceClaim, claim_path(key), PatchKind::Merge, change)])
}

/// Pods to bind with a claim that gets no devices now, and the first such claim of each. Their
/// other claims are not allocated either.
fn pods_without_devices<'u>(
    cache: &ClusterCache,
    uses: &'u BTreeMap<ObjectKey, ClaimConsumers>,
    picked: &BTreeMap<ObjectKey, PickedDevices>,
) -> BTreeMap<(PodId, NodeId), &'u ObjectKey> {
    let without =
        uses.iter().filter(|(key, _)| needs_allocation(cache, key) && !picked.contains_key(*key));
    without.flat_map(|(key, of)| of.iter().map(move |user| (*user, key))).collect()
}

/// Whether the claim is reserved for the pod, or for the PodGroup whose pods share it.
fn is_reserved(cache: &ClusterCache, cycle: &Cycle<'_>, claim: &ObjectKey, pod: PodId) -> bool {
    let group = cache.group_with_claim(&cycle.key(pod), &claim.name);
    let uid = group.map_or(&cycle.snapshot.pods[pod.0 as usize].uid, |(_, group)| &group.uid);
    cache.resource_claims.claims.get(claim).is_some_and(|claim| claim.is_reserved_for(uid))
}

/// Whether the claim is ready to be allocated and has no allocation yet.
fn needs_allocation(cache: &ClusterCache, key: &ObjectKey) -> bool {
    let claim = cache.resource_claims.claims.get(key).filter(|_| has_delete_protection(cache, key));
    claim.is_some_and(|claim| claim.allocation.is_none())
}

/// Picks devices for all claims of the pods to bind that have none.
fn pick_devices(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
    uses: &BTreeMap<ObjectKey, ClaimConsumers>,
) -> BTreeMap<ObjectKey, PickedDevices> {
    let node = |id: NodeId| &cycle.snapshot.nodes[id.0 as usize];
    // The first pod has the first choice, as in the search of the core.
    let mut known = BTreeSet::new();
    let ordered: Vec<ObjectKey> = claims_in_decision_order(cache, cycle)
        .map(|(key, _)| key)
        .filter(|key| needs_allocation(cache, key) && known.insert(key.clone()))
        .collect();
    let open: Vec<(&ObjectKey, Vec<&Node>)> = ordered
        .iter()
        .map(|key| (key, uses[key].iter().map(|(_, at)| node(*at)).collect()))
        .collect();
    cache.resource_claims.pick_for_nodes(&open)
}

/// Allocates a claim that has no devices yet, and reserves it for the pods that will use it.
fn allocate_and_reserve(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
    key: &ObjectKey,
    pods: &ClaimConsumers,
    picked: &BTreeMap<ObjectKey, PickedDevices>,
) -> Option<WriteSequence> {
    let claim =
        cache.resource_claims.claims.get(key).filter(|_| has_delete_protection(cache, key))?;
    let (_, at) = pods.first()?;
    let mut users = claim.reserved_others.clone();
    users.extend(claim.reserved_pods.iter().map(|(name, uid)| consumer_reference(name, uid)));
    for (pod, _) in pods {
        let of_group = cache.group_with_claim(&cycle.key(*pod), &key.name);
        let pod = &cycle.snapshot.pods[pod.0 as usize];
        let user = of_group.map_or_else(
            || consumer_reference(&pod.name, &pod.uid),
            |(name, group)| group_reference(name, &group.uid),
        );
        if users.iter().all(|known| known["uid"] != user["uid"]) {
            users.push(user);
        }
    }
    let mut change = json!({ "reservedFor": users });
    if claim.allocation.is_none() {
        let node = &cycle.snapshot.nodes[at.0 as usize].name;
        let picked = picked.get(key)?;
        let stamp = AllocationStamp {
            allocated_at: rfc3339(cycle.now),
            share_ids: (0..picked.len()).map(|at| share_id(claim, at)).collect(),
        };
        change["allocation"] =
            allocation_result(&cache.resource_claims, claim, node, picked, &stamp);
    }
    Some(vec![claim_status_write(key, claim, &change)])
}

pub(super) fn claim_status_write(key: &ObjectKey, claim: &ClaimRecord, status: &Value) -> Write {
    let path = format!("{}/status", claim_path(key));
    Write::patch(
        Kind::ResourceClaim,
        path,
        PatchKind::Merge,
        status_patch_at_version(claim.version, status),
    )
}

/// A UUID that no other share of a device has. It follows from the claim, so that equal runs write
/// the same.
fn share_id(claim: &ClaimRecord, index: usize) -> String {
    let (version, index) = (claim.version.to_string(), index.to_string());
    let half = |part: &str| fnv1a_hash(&[part, &claim.uid, &version, &index]);
    let (high, low) = (half("high"), half("low"));
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    // Version 4, variant 1.
    let (fourth, fifth) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{first:08x}-{second:04x}-4{third:03x}-{fourth:04x}-{fifth:012x}")
}
