//! Assigns volumes to unbound claims: a bipartite matching in which no volume is assigned twice. It
//! is computed anew on every query, so nothing has to be undone when a pod goes elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{has_storage, is_reachable_from};
use crate::model::{
    Name, Node, ProvisionableVolume, Volume, VolumeAccess, VolumeClaim, VolumeReach,
};

/// How an unbound claim gets a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChoice {
    /// The claim is bound to an existing volume with this name.
    Existing(Name),
    /// A volume is provisioned for the claim.
    Provisioned,
}

/// Unbound claims, each with the nodes of the pods that use it.
#[derive(Clone, Debug, Default)]
pub(in crate::plugins) struct VolumeMatching<'s> {
    claims: BTreeMap<&'s Name, OpenClaim<'s>>,
}

#[derive(Clone, Debug)]
struct OpenClaim<'s> {
    volumes: &'s [Arc<Volume>],
    provisioning: Option<&'s ProvisionableVolume>,
    nodes: Vec<&'s Node>,
}

/// An assignment of volumes to unbound claims.
#[derive(Clone, Debug, Default)]
pub(in crate::plugins) struct VolumeAssignment<'s> {
    claim_of: BTreeMap<&'s Name, &'s Name>,
    provisioned: BTreeSet<&'s Name>,
    /// Whether some claim got no volume.
    is_incomplete: bool,
}

impl OpenClaim<'_> {
    /// Whether all pods that use the claim can reach the volume.
    fn is_reachable(&self, reach: &VolumeReach) -> bool {
        self.nodes.iter().all(|node| is_reachable_from(reach, node))
    }

    /// Whether a volume can be provisioned that all pods of the claim can use. The pods must be on
    /// one node, since it is unknown which nodes can reach a new volume.
    fn can_be_provisioned(&self) -> bool {
        let is_one_node = self.nodes.iter().all(|node| node.name == self.nodes[0].name);
        let has_storage = |provisionable: &ProvisionableVolume| {
            self.nodes.iter().all(|node| has_storage(provisionable, node))
        };
        is_one_node
            && self.provisioning.is_some_and(|provisionable| {
                self.is_reachable(&provisionable.reach) && has_storage(provisionable)
            })
    }
}

impl<'s> VolumeMatching<'s> {
    /// Adds the unbound volume claims of a pod on the node.
    pub(in crate::plugins) fn add_claims(&mut self, claims: &'s [VolumeClaim], node: &'s Node) {
        for claim in claims {
            if let VolumeAccess::WaitForFirstConsumer { volumes, provisionable } = &claim.access {
                let open_claim =
                    OpenClaim { volumes, provisioning: provisionable.as_ref(), nodes: Vec::new() };
                self.claims.entry(&claim.name).or_insert(open_claim).nodes.push(node);
            }
        }
    }

    /// Adds the unbound claims of another matching.
    fn add_matching(&mut self, others: Self) {
        for (name, OpenClaim { volumes, provisioning, nodes }) in others.claims {
            let open_claim = OpenClaim { volumes, provisioning, nodes: Vec::new() };
            self.claims.entry(name).or_insert(open_claim).nodes.extend(nodes);
        }
    }

    /// Assigns volumes to as many claims as possible, first to claims for which no volume can be
    /// provisioned.
    pub(in crate::plugins) fn assign_volumes(&self) -> VolumeAssignment<'s> {
        let mut assignment = VolumeAssignment::default();
        let (provisionable, bound): (Vec<_>, Vec<_>) =
            self.claims.iter().partition(|(_, claim)| claim.can_be_provisioned());
        for (claim, open_claim) in bound.into_iter().chain(provisionable) {
            if self.assign_volume(claim, &mut assignment, &mut BTreeSet::new()) {
                continue;
            }
            if open_claim.can_be_provisioned() {
                assignment.provisioned.insert(claim);
            } else {
                assignment.is_incomplete = true;
            }
        }
        assignment
    }

    /// Assigns a volume to the claim. If none is free, a claim that has a suitable one is
    /// reassigned another (an augmenting path).
    fn assign_volume(
        &self,
        claim: &'s Name,
        assignment: &mut VolumeAssignment<'s>,
        visited: &mut BTreeSet<&'s Name>,
    ) -> bool {
        let open_claim = &self.claims[claim];
        let reachable =
            || open_claim.volumes.iter().filter(|volume| open_claim.is_reachable(&volume.reach));
        let is_free = |volume: &&Arc<Volume>| !assignment.claim_of.contains_key(&volume.name);
        if let Some(free) = reachable().find(is_free) {
            assignment.claim_of.insert(&free.name, claim);
            return true;
        }
        for volume in reachable() {
            if !visited.insert(&volume.name) {
                continue;
            }
            let previous = assignment.claim_of[&volume.name];
            if self.assign_volume(previous, assignment, visited) {
                assignment.claim_of.insert(&volume.name, claim);
                return true;
            }
        }
        false
    }
}

impl<'s> VolumeAssignment<'s> {
    /// Whether one more pod with the unbound claims `added` can be placed in addition to the pods
    /// of `matching`, whose assignment `self` is.
    pub(in crate::plugins) fn can_add(
        &self,
        matching: &VolumeMatching<'s>,
        added: VolumeMatching<'s>,
    ) -> bool {
        if added.claims.is_empty() {
            return true;
        }
        if added.claims.keys().all(|claim| !matching.claims.contains_key(*claim)) {
            let mut free = added.clone();
            let own: Vec<Vec<Arc<Volume>>> = free
                .claims
                .values()
                .map(|open_claim| self.unassigned_volumes(open_claim))
                .collect();
            for (open_claim, volumes) in free.claims.values_mut().zip(&own) {
                open_claim.volumes = volumes;
            }
            if !free.assign_volumes().is_incomplete {
                return true;
            }
        }
        let mut combined = matching.clone();
        combined.add_matching(added);
        !combined.assign_volumes().is_incomplete
    }

    fn unassigned_volumes(&self, open_claim: &OpenClaim<'_>) -> Vec<Arc<Volume>> {
        let free = |volume: &&Arc<Volume>| !self.claim_of.contains_key(&volume.name);
        open_claim.volumes.iter().filter(free).cloned().collect()
    }

    /// The assigned volumes by claim name.
    pub(in crate::plugins) fn volumes_by_claim(self) -> BTreeMap<Name, VolumeChoice> {
        let existing = self.claim_of.into_iter();
        let existing =
            existing.map(|(volume, claim)| (claim.clone(), VolumeChoice::Existing(volume.clone())));
        existing
            .chain(
                self.provisioned
                    .into_iter()
                    .map(|claim| (claim.clone(), VolumeChoice::Provisioned)),
            )
            .collect()
    }
}
