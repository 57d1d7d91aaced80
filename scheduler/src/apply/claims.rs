//! Claims of pods that are about to be bound: which devices they get is written to the claim, with
//! the pods for which it is reserved, before any of them is bound. Writes name the version of the
//! claim that was seen, so that two schedulers cannot both allocate it. What was allocated for
//! pods that were not bound then is taken back first, and so is what nobody uses and what keeps a
//! pod off a node (profile `kube`).

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Decision, Reason,
    decision::Deallocation,
    model::{Name, Node, NodeId, PodGroupId, PodId},
};

use super::{
    Applier, Cycle,
    writes::{Chain, Write},
};
use crate::{
    api::{Merge, path},
    mirror::{Access, ClaimRecord, Key, Mirror, Pick, Picked},
    watch::Kind,
};

/// Keeps a claim that is allocated from being deleted.
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The pods that are to use a claim, one at least, and their nodes: one, or, where its devices are
/// of several, some of these.
type Use = Vec<(PodId, NodeId)>;

impl Applier {
    /// Pod groups that cannot be bound now, since a claim of them could not be allocated.
    pub(super) async fn allocate_claims(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let uses = uses(mirror, cycle);
        self.deallocate(mirror, cycle, &uses).await;
        if uses.is_empty() && !has_left_over(mirror) {
            return BTreeSet::new();
        }
        self.take_back(mirror).await;
        let unprotected = uses.keys().filter(|key| !is_protected(mirror, key));
        let protect: Vec<Chain> = unprotected.filter_map(|key| protect(mirror, key)).collect();
        self.write(mirror, protect).await;
        let picked = pick(mirror, cycle, &uses);
        let without = without_devices(mirror, &uses, &picked);
        for ((pod, node), claim) in &without {
            let (pod, node) = (cycle.key(*pod), &cycle.snapshot.nodes[node.0 as usize].name);
            let text = format!(
                "Waits on node {node}, which has no devices for ResourceClaim {claim} beside those \
                 that other claims get there now"
            );
            self.unbound.insert(pod, text);
        }
        let allocate: Vec<Chain> = uses
            .iter()
            .filter_map(|(key, of)| {
                let with = of.iter().filter(|user| !without.contains_key(user));
                allocate(mirror, cycle, (key, &with.copied().collect()), &picked)
            })
            .collect();
        self.write(mirror, allocate).await;
        let lacking = uses.iter().flat_map(|(key, pods)| {
            let reserved = mirror.claims.known.get(key).map(|claim| &claim.reserved);
            pods.iter().map(|(pod, _)| pod).filter(move |pod| {
                let uid = &cycle.snapshot.pods[pod.0 as usize].uid;
                !reserved.is_some_and(|reserved| reserved.iter().any(|(_, known)| known == uid))
            })
        });
        let blocked: BTreeSet<_> = lacking.map(|pod| cycle.group(*pod)).collect();
        self.outcome.retry |= !blocked.is_empty();
        blocked
    }

    /// Claims that are better had elsewhere, unless somebody got them since that was decided.
    async fn deallocate(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        uses: &BTreeMap<Key, Use>,
    ) {
        let free = unused();
        let better_free = cycle.plan.waiting.values().filter_map(|reason| {
            let Reason::Unschedulable { deallocation: Deallocation::Of(claim), .. } = reason else {
                return None;
            };
            Key::read(claim)
        });
        let better_free: BTreeSet<Key> =
            better_free.filter(|key| !uses.contains_key(key)).collect();
        let chains = better_free.iter().filter_map(|key| {
            let claim =
                mirror.claims.known.get(key).filter(|claim| claim.is_reserved_for_nobody())?;
            Some(vec![status(key, claim, &free)])
        });
        let chains = chains.collect();
        self.write(mirror, chains).await;
    }

    async fn take_back(&mut self, mirror: &mut Mirror) {
        let free = unused();
        let claims = mirror.claims.known.iter();
        let left_over = claims.filter(|(key, claim)| claim.is_left_over(key, &mirror.pods));
        let chains = left_over.map(|(key, claim)| vec![status(key, claim, &free)]).collect();
        self.write(mirror, chains).await;
    }
}

/// Nothing that it had stands in the status any more, what drivers said of its devices included.
pub(crate) fn unused() -> Value {
    json!({ "allocation": null, "reservedFor": null, "devices": null })
}

fn has_left_over(mirror: &Mirror) -> bool {
    mirror.claims.known.iter().any(|(key, claim)| claim.is_left_over(key, &mirror.pods))
}

/// The claims of all pods that are to be bound.
fn uses(mirror: &Mirror, cycle: &Cycle<'_>) -> BTreeMap<Key, Use> {
    let mut uses: BTreeMap<Key, Use> = BTreeMap::new();
    for decision in &cycle.plan.decisions {
        let Decision::Bind { pod, node } = decision else { continue };
        let key = cycle.key(*pod);
        let claims = mirror.pods.get(&key).into_iter().flat_map(|record| &record.claims);
        for name in claims.filter_map(|one| one.claim.as_ref()) {
            let claim = Key { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            uses.entry(claim).or_default().push((*pod, *node));
        }
    }
    uses
}

fn is_protected(mirror: &Mirror, key: &Key) -> bool {
    mirror.claims.known.get(key).is_some_and(|claim| protection(claim).is_none())
}

/// The finalizer that a claim needs before it is allocated; `None`: it has it.
pub(crate) fn protection(claim: &ClaimRecord) -> Option<Value> {
    let known = claim.finalizers.iter().map(|one| &**one);
    let finalizers: Vec<&str> = known.clone().chain([FINALIZER]).collect();
    let version = claim.version.to_string();
    let change = || json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
    known.clone().all(|one| one != FINALIZER).then(change)
}

fn protect(mirror: &Mirror, key: &Key) -> Option<Chain> {
    let claim = mirror.claims.known.get(key)?;
    let change = protection(claim)?;
    Some(vec![Write::patch(Kind::ResourceClaim, claim_path(key), Merge::Plain, change)])
}

/// Pods with a claim that gets no devices now, and which it is: others of theirs are not allocated
/// for them either.
fn without_devices<'u>(
    mirror: &Mirror,
    uses: &'u BTreeMap<Key, Use>,
    picked: &BTreeMap<Key, Picked>,
) -> BTreeMap<(PodId, NodeId), &'u Key> {
    let without = uses.iter().filter(|(key, _)| lacks(mirror, key) && !picked.contains_key(*key));
    without.flat_map(|(key, of)| of.iter().map(move |user| (*user, key))).collect()
}

/// The claim can be allocated, and is not.
fn lacks(mirror: &Mirror, key: &Key) -> bool {
    let claim = mirror.claims.known.get(key).filter(|_| is_protected(mirror, key));
    claim.is_some_and(|claim| claim.allocation.is_none())
}

/// Devices for those that have none.
fn pick(mirror: &Mirror, cycle: &Cycle<'_>, uses: &BTreeMap<Key, Use>) -> BTreeMap<Key, Picked> {
    let node = |id: NodeId| &cycle.snapshot.nodes[id.0 as usize];
    let open: Vec<(&Key, Vec<&Node>)> = uses
        .iter()
        .filter(|(key, _)| lacks(mirror, key))
        .map(|(key, of)| (key, of.iter().map(|(_, at)| node(*at)).collect()))
        .collect();
    mirror.claims.pick_all(&open)
}

/// Devices for a claim that has none, and the pods that are to use it.
fn allocate(
    mirror: &Mirror,
    cycle: &Cycle<'_>,
    (key, pods): (&Key, &Use),
    picked: &BTreeMap<Key, Picked>,
) -> Option<Chain> {
    let claim = mirror.claims.known.get(key).filter(|_| is_protected(mirror, key))?;
    let (_, at) = pods.first()?;
    let mut users = claim.reserved_otherwise.clone();
    users.extend(claim.reserved.iter().map(|(name, uid)| user(name, uid)));
    users.extend(pods.iter().map(|(pod, _)| {
        let pod = &cycle.snapshot.pods[pod.0 as usize];
        user(&pod.name, &pod.uid)
    }));
    let mut change = json!({ "reservedFor": users });
    if claim.allocation.is_none() {
        let node = &cycle.snapshot.nodes[at.0 as usize].name;
        change["allocation"] = allocation(mirror, (claim, node), picked.get(key)?);
    }
    Some(vec![status(key, claim, &change)])
}

/// Entry of `status.reservedFor`.
pub(crate) fn user(name: &Name, uid: &Name) -> Value {
    json!({ "resource": "pods", "name": &**name, "uid": &**uid })
}

/// These devices, for a pod on the node.
fn allocation(mirror: &Mirror, (claim, node): (&ClaimRecord, &Name), picked: &Picked) -> Value {
    let results: Vec<Value> = picked
        .iter()
        .map(|Pick { request, device: id, access }| {
            let mut result = json!({ "request": &**request, "driver": &*id.driver,
                                     "pool": &*id.pool, "device": &*id.device });
            if *access == Access::Admin {
                result["adminAccess"] = json!(true);
            }
            result
        })
        .collect();
    let mut served: Vec<&Name> = picked.iter().map(|one| &one.request).collect();
    served.dedup();
    let mut devices = json!({ "results": results });
    let config = mirror.claims.config(claim, &served);
    if !config.is_empty() {
        devices["config"] = config.into_iter().collect();
    }
    let mut allocation = json!({ "devices": devices });
    if let Some(selector) = mirror.claims.node_selector(picked, node) {
        allocation["nodeSelector"] = selector;
    }
    allocation
}

fn status(key: &Key, claim: &ClaimRecord, status: &Value) -> Write {
    let path = format!("{}/status", claim_path(key));
    Write::patch(Kind::ResourceClaim, path, Merge::Plain, status_of(claim.version, status))
}

/// A change of the status, where nobody changed the claim since that version.
pub(crate) fn status_of(version: u64, status: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": version.to_string() }, "status": status })
}

pub(crate) fn claim_path(key: &Key) -> String {
    path("resource.k8s.io/v1", &key.namespace, "resourceclaims", &key.name)
}
