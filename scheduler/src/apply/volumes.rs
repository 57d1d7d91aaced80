//! Volumes of pods before these are bound: for a claim with `WaitForFirstConsumer` the chosen
//! volume is reserved, or the node to provision it for is annotated. The volume controller or a
//! provisioner completes this; until then no pod of the group is bound. No state is kept meanwhile:
//! the claim restricts the pod to the nodes of its volume, so that the next cycle decides the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_api::{Value, annotations, json};
use schedlab_scheduler_core::{
    Decision,
    model::{Name, NodeId, PodGroupId, PodId, Time},
    plugins::{VolumeChoice, assign_volumes},
};

use super::{Applier, Cycle, writes::Write};
use crate::{
    api::{PatchKind, object_path},
    cache::{ClusterCache, VolumeCache},
    records::ObjectKey,
    watch::{Kind, StorageKind},
};

/// Time limit for the binding of volumes, as in KAI. After it the pod gives up its node for a
/// backoff.
pub(crate) const VOLUME_BIND_TIMEOUT: Duration = Duration::from_mins(2);

/// A claim without volume, with the pod to bind.
struct UnboundClaim {
    claim: ObjectKey,
    pod: PodId,
    node: NodeId,
}

impl Applier {
    /// Binds volumes. Returns the pod groups, besides those in `blocked`, that cannot be bound now,
    /// since a claim has no volume yet.
    pub(super) async fn bind_volumes(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        blocked: &BTreeSet<Option<PodGroupId>>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let mut open = unbound_claims(cache, cycle);
        open.retain(|one| !blocked.contains(&cycle.group(one.pod)));
        if open.is_empty() {
            self.waiting_for_volumes.clear();
            return BTreeSet::new();
        }
        let snapshot = cycle.snapshot;
        let chosen = assign_volumes(open.iter().map(|one| {
            let pod = &snapshot.pods[one.pod.0 as usize];
            let claims = &snapshot.shapes[pod.shape.0 as usize].volumes;
            (&**claims, &snapshot.nodes[one.node.0 as usize])
        }));
        let mut seen = BTreeSet::new();
        let first = open.iter().filter(|one| seen.insert(&one.claim));
        let chains = first.filter_map(|one| {
            let node = &snapshot.nodes[one.node.0 as usize].name;
            let change = claim_binding_patch(&cache.volumes, &one.claim, node, &chosen)?;
            let kind = Kind::Storage(change.kind);
            Some(vec![Write::patch(kind, change.path, PatchKind::Merge, change.patch)])
        });
        let chains = chains.collect();
        self.write(cache, chains).await;
        for one in &open {
            let node = &cycle.snapshot.nodes[one.node.0 as usize].name;
            let claim = &one.claim.name;
            let text = format!(
                "Waits on node {node} until persistentvolumeclaim {claim:?} \
                 is bound"
            );
            self.held_messages.insert(cycle.key(one.pod), text);
        }
        self.fail_late_volumes(cache, cycle, &open);
        self.outcome.waits_for_others = true;
        open.iter().map(|one| cycle.group(one.pod)).collect()
    }
}

impl Applier {
    /// Counts a binding as failed when the volumes of its pod are not bound in time.
    fn fail_late_volumes(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
        open: &[UnboundClaim],
    ) {
        let mut previous = std::mem::take(&mut self.waiting_for_volumes);
        for one in open {
            let key = cycle.key(one.pod);
            let since = previous.remove(&key).unwrap_or(cycle.now);
            if cycle.now.elapsed_since(since) < VOLUME_BIND_TIMEOUT {
                self.waiting_for_volumes.entry(key).or_insert(since);
                continue;
            }
            let node = &cycle.snapshot.nodes[one.node.0 as usize].name;
            let (claim, secs) = (&one.claim.name, VOLUME_BIND_TIMEOUT.as_secs());
            let message = format!(
                "Failed to bind pod {key} to node {node}. persistentvolumeclaim {claim:?} was not \
                 bound within {secs} s"
            );
            cache.record_bind_failure(&key, &message, cycle.now);
            self.outcome.retry = true;
        }
    }

    /// Time until the first pod gives up waiting for its volumes.
    pub(super) fn next_volume_timeout(&self, now: Time) -> Option<Duration> {
        let since = self.waiting_for_volumes.values().min()?;
        Some(VOLUME_BIND_TIMEOUT.saturating_sub(now.elapsed_since(*since)))
    }
}

/// The claims without volume of all pods to bind.
fn unbound_claims(cache: &ClusterCache, cycle: &Cycle<'_>) -> Vec<UnboundClaim> {
    if cache.volumes.has_no_pods() {
        return Vec::new();
    }
    let mut open = Vec::new();
    for decision in &cycle.plan.decisions {
        let Decision::Bind { pod, node } = decision else { continue };
        let claims = cache.volumes.unbound_claims(&cycle.key(*pod), &cache.pods);
        open.extend(claims.into_iter().map(|claim| UnboundClaim { claim, pod: *pod, node: *node }));
    }
    open
}

/// A patch of a claim or volume.
pub(crate) struct StoragePatch {
    kind: StorageKind,
    pub(crate) path: String,
    /// JSON merge patch (RFC 7396).
    pub(crate) patch: Value,
}

/// The patch that reserves the chosen volume, or sets the node to provision a volume for; `None` if
/// the claim needs no patch any more.
pub(crate) fn claim_binding_patch(
    volumes: &VolumeCache,
    key: &ObjectKey,
    node: &Name,
    chosen: &BTreeMap<Name, VolumeChoice>,
) -> Option<StoragePatch> {
    let claim = volumes.claims.get(key)?;
    match chosen.get(key.to_string().as_str())? {
        VolumeChoice::Existing(name) => {
            let volume = volumes.persistent_volumes.get(name)?;
            if volume.is_reserved_for(key, claim) {
                return None;
            }
            let merged = json!({
                "metadata": {
                    "resourceVersion": volume.version.to_string(),
                    "annotations": { (annotations::BOUND_BY_CONTROLLER): "yes" },
                },
                "spec": { "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": &*key.namespace, "name": &*key.name, "uid": &*claim.uid,
                    "resourceVersion": claim.version.to_string(),
                } },
            });
            let path = object_path("v1", "", "persistentvolumes", name);
            Some(StoragePatch { kind: StorageKind::Volume, path, patch: merged })
        }
        VolumeChoice::Provisioned => {
            if claim.selected_node.as_ref() == Some(node) {
                return None;
            }
            let merged = json!({ "metadata": {
                "resourceVersion": claim.version.to_string(),
                "annotations": { (annotations::SELECTED_NODE): &**node },
            } });
            let path = object_path("v1", &key.namespace, "persistentvolumeclaims", &key.name);
            Some(StoragePatch { kind: StorageKind::Claim, path, patch: merged })
        }
    }
}
