//! Volumes of pods that are about to be bound: where a claim waits for its first consumer, a volume
//! is kept for it, or it is told on which node one is to be made. Others complete that, the
//! cluster's volume controller or a provisioner; until they have, none of the group's pods is
//! bound. Nothing has to be remembered meanwhile: the claim leads to where its volume is, so that
//! the next cycle decides the same, and keeps the room.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Decision,
    model::{Name, NodeId, PodGroupId, PodId},
    plugins::{Chosen, chosen_volumes},
};

use super::{Applier, Cycle, writes::Write};
use crate::{
    api::{Merge, path},
    mirror::{Key, Mirror, Volumes},
    watch::{Kind, Storage},
};

/// On a volume: it was not its user who chose the claim.
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: where its provisioner makes the volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim that has no volume yet, and the pod that is to be bound.
struct Open {
    claim: Key,
    pod: PodId,
    node: NodeId,
}

impl Applier {
    /// Pod groups that cannot be bound now, besides those of `blocked`: a claim of theirs has no
    /// volume yet.
    pub(super) async fn bind_volumes(
        &mut self,
        mirror: &mut Mirror,
        cycle: &Cycle<'_>,
        blocked: &BTreeSet<Option<PodGroupId>>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let mut open = open(mirror, cycle);
        open.retain(|one| !blocked.contains(&cycle.group(one.pod)));
        if open.is_empty() {
            return BTreeSet::new();
        }
        let snapshot = cycle.snapshot;
        let chosen = chosen_volumes(open.iter().map(|one| {
            let pod = &snapshot.pods[one.pod.0 as usize];
            let claims = &snapshot.shapes[pod.shape.0 as usize].volumes;
            (&**claims, &snapshot.nodes[one.node.0 as usize])
        }));
        let mut seen = BTreeSet::new();
        let first = open.iter().filter(|one| seen.insert(&one.claim));
        let chains = first.filter_map(|one| {
            let node = &snapshot.nodes[one.node.0 as usize].name;
            let change = binding(&mirror.volumes, (&one.claim, node), &chosen)?;
            let kind = Kind::Storage(change.of);
            Some(vec![Write::patch(kind, change.path, Merge::Plain, change.merged)])
        });
        let chains = chains.collect();
        self.write(mirror, chains).await;
        for one in &open {
            let node = &cycle.snapshot.nodes[one.node.0 as usize].name;
            let claim = &one.claim.name;
            let text = format!(
                "Waits on node {node}, where it has room, until persistentvolumeclaim {claim:?} \
                 is bound"
            );
            self.unbound.insert(cycle.key(one.pod), text);
        }
        self.outcome.held = true;
        open.iter().map(|one| cycle.group(one.pod)).collect()
    }
}

/// The claims without volumes of all pods that are to be bound.
fn open(mirror: &Mirror, cycle: &Cycle<'_>) -> Vec<Open> {
    if mirror.volumes.has_no_users() {
        return Vec::new();
    }
    let mut open = Vec::new();
    for decision in &cycle.plan.decisions {
        let Decision::Bind { pod, node } = decision else { continue };
        let claims = mirror.volumes.unbound(&cycle.key(*pod), &mirror.pods);
        open.extend(claims.into_iter().map(|claim| Open { claim, pod: *pod, node: *node }));
    }
    open
}

/// What is to be written of a claim or a volume.
pub(crate) struct Change {
    of: Storage,
    pub(crate) path: String,
    /// RFC 7396.
    pub(crate) merged: Value,
}

/// Keeps the chosen volume for the claim, or has one made for the node; nothing, where that was
/// done.
pub(crate) fn binding(
    volumes: &Volumes,
    (key, node): (&Key, &Name),
    chosen: &BTreeMap<Name, Chosen>,
) -> Option<Change> {
    let claim = volumes.claims.get(key)?;
    match chosen.get(key.to_string().as_str())? {
        Chosen::Volume(name) => {
            let volume = volumes.known.get(name)?;
            if volume.is_kept_for(key, claim) {
                return None;
            }
            let merged = json!({
                "metadata": {
                    "resourceVersion": volume.version.to_string(),
                    "annotations": { BY_CONTROLLER: "yes" },
                },
                "spec": { "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": &*key.namespace, "name": &*key.name, "uid": &*claim.uid,
                    "resourceVersion": claim.version.to_string(),
                } },
            });
            let path = path("v1", "", "persistentvolumes", name);
            Some(Change { of: Storage::Volume, path, merged })
        }
        Chosen::Made => {
            if claim.selected_node.as_ref() == Some(node) {
                return None;
            }
            let merged = json!({ "metadata": {
                "resourceVersion": claim.version.to_string(),
                "annotations": { SELECTED_NODE: &**node },
            } });
            let path = path("v1", &key.namespace, "persistentvolumeclaims", &key.name);
            Some(Change { of: Storage::Claim, path, merged })
        }
    }
}
