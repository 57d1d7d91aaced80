//! `PersistentVolumeClaim`s, `PersistentVolume`s and storage classes in the cache: from which nodes
//! a waiting pod can use its claims, by the rules of kube-scheduler's `VolumeBinding`, `VolumeZone`
//! and `VolumeRestrictions`.

mod drivers;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{
    AttachedVolume, Labels, Name, NodeSelectorTerm, Operator, ProvisionableVolume, Requirement,
    Volume, VolumeAccess, VolumeClaim, VolumeProblem, VolumeReach,
};

pub(crate) use records::{VolumeClaimRecord, VolumeRecord};

use super::ClusterCache;
use crate::{
    records::{ObjectKey, PodRecord, PodVolumeClaim, insert_if_changed},
    watch::StorageKind,
};
use drivers::StorageDrivers;
use records::{BindingMode, ClaimState, StorageClassRecord};

/// All storage objects: claims, volumes, storage classes and CSI objects.
#[derive(Debug, Default)]
pub(crate) struct VolumeCache {
    pub(crate) claims: BTreeMap<ObjectKey, VolumeClaimRecord>,
    pub(crate) persistent_volumes: BTreeMap<Name, VolumeRecord>,
    classes: BTreeMap<Name, StorageClassRecord>,
    drivers: StorageDrivers,
    /// The pods with claims on volumes.
    pub(super) pods: BTreeSet<ObjectKey>,
}

impl VolumeCache {
    /// The claims of a pod. Of a waiting pod all claims; of a pod with a node only those that are
    /// exclusive or count against the volume limit of the node.
    pub(crate) fn claims_of_pod(&self, key: &ObjectKey, pod: &PodRecord) -> Vec<VolumeClaim> {
        let claims = pod.volumes.iter().map(|volume| self.volume_claim(key, pod, volume));
        let mut claims: Vec<VolumeClaim> = claims.collect();
        if pod.node.is_some() {
            claims.retain(|claim| claim.is_exclusive || claim.attached_volume.is_some());
            for claim in &mut claims {
                claim.access = VolumeAccess::Bound(VolumeReach::default());
            }
        }
        claims
    }

    fn volume_claim(
        &self,
        key: &ObjectKey,
        pod: &PodRecord,
        volume: &PodVolumeClaim,
    ) -> VolumeClaim {
        let key = volume.key(&key.namespace);
        let known = self.claims.get(&key);
        let access = match known {
            None if volume.is_ephemeral => VolumeAccess::Unavailable(VolumeProblem::NotCreated),
            None => VolumeAccess::Unavailable(VolumeProblem::Missing),
            Some(claim) if volume.is_ephemeral && claim.owner.as_ref() != Some(&pod.uid) => {
                VolumeAccess::Unavailable(VolumeProblem::NotOwned)
            }
            Some(claim) => self.claim_access(&key, claim),
        };
        let is_exclusive = known.is_some_and(VolumeClaimRecord::is_exclusive);
        let attached = known.and_then(|claim| self.attached_volume(&key, claim));
        let attached = attached.filter(|volume| self.drivers.is_limited(&volume.driver));
        VolumeClaim {
            name: key.to_string().into(),
            is_exclusive,
            attached_volume: attached,
            access,
        }
    }

    /// The volume that an attachment of the claim counts as on a node. A claim without volume
    /// counts as a volume of the driver of its class.
    fn attached_volume(
        &self,
        key: &ObjectKey,
        claim: &VolumeClaimRecord,
    ) -> Option<AttachedVolume> {
        if let Some(volume) =
            claim.volume.as_ref().and_then(|volume| self.persistent_volumes.get(volume))
        {
            return volume.attached.clone();
        }
        let class = self.classes.get(claim.class.as_ref()?)?;
        let volume = format!("of claim {key}").into();
        Some(AttachedVolume { driver: Name::clone(&class.provisioner), volume })
    }

    fn claim_access(&self, key: &ObjectKey, claim: &VolumeClaimRecord) -> VolumeAccess {
        if claim.state == ClaimState::Deleting {
            return VolumeAccess::Unavailable(VolumeProblem::Deleting);
        }
        let Some(volume) = &claim.volume else { return self.unbound_claim_access(key, claim) };
        let lost = || VolumeProblem::Lost(Name::clone(volume));
        match self.persistent_volumes.get(volume) {
            _ if claim.state == ClaimState::Lost => VolumeAccess::Unavailable(lost()),
            _ if !claim.is_bind_completed => {
                VolumeAccess::Unavailable(VolumeProblem::UnboundImmediate)
            }
            None => VolumeAccess::Unavailable(lost()),
            Some(volume) => VolumeAccess::Bound(volume.reach.clone()),
        }
    }

    /// Where a claim without volume can be used. A claim of a missing class counts as bound
    /// immediately, as in kube-scheduler.
    fn unbound_claim_access(&self, key: &ObjectKey, claim: &VolumeClaimRecord) -> VolumeAccess {
        let class = claim.class.as_ref().and_then(|class| self.classes.get_key_value(class));
        let Some((name, class)) =
            class.filter(|(_, class)| class.binding_mode == BindingMode::WaitForFirstConsumer)
        else {
            return VolumeAccess::Unavailable(VolumeProblem::UnboundImmediate);
        };
        if let Some(node) = &claim.selected_node {
            let reach =
                VolumeReach { affinity: Some(vec![node_name_term(node)]), zones: Vec::new() };
            let made = Some(ProvisionableVolume { reach, nodes_with_capacity: None });
            return VolumeAccess::WaitForFirstConsumer { volumes: Vec::new(), provisionable: made };
        }
        let made = class.has_provisioner().then(|| ProvisionableVolume {
            reach: VolumeReach { affinity: class.allowed_topologies.clone(), zones: Vec::new() },
            nodes_with_capacity: self.drivers.nodes_with_capacity(
                &class.provisioner,
                name,
                claim.bytes,
            ),
        });
        let reserved =
            self.persistent_volumes.iter().find(|(_, volume)| volume.is_reserved_for(key, claim));
        let mut fitting: Vec<(&Name, &VolumeRecord)> = match reserved {
            Some(reserved) => vec![reserved],
            None => self
                .persistent_volumes
                .iter()
                .filter(|(_, volume)| volume.fits_claim(claim))
                .collect(),
        };
        fitting.sort_by_key(|(name, volume)| (volume.bytes, *name));
        let volume = |(name, volume): (&Name, &VolumeRecord)| {
            Arc::new(Volume { name: Name::clone(name), reach: volume.reach.clone() })
        };
        VolumeAccess::WaitForFirstConsumer {
            volumes: fitting.into_iter().map(volume).collect(),
            provisionable: made,
        }
    }

    /// The resourceVersion of a claim or volume in the cache.
    pub(super) fn stored_version(&self, kind: StorageKind, key: &ObjectKey) -> Option<u64> {
        if kind == StorageKind::Claim {
            return self.claims.get(key).map(|claim| claim.version);
        }
        let volume = self.persistent_volumes.get(&key.name).filter(|_| kind == StorageKind::Volume);
        volume.map(|volume| volume.version)
    }

    /// Adds a pod with volume claims to the index of such pods.
    pub(super) fn track_pod(&mut self, key: &ObjectKey, pod: &PodRecord) {
        if !pod.volumes.is_empty() {
            self.pods.insert(key.clone());
        }
    }

    /// Whether no pod has claims on volumes.
    pub(crate) fn has_no_pods(&self) -> bool {
        self.pods.is_empty()
    }

    /// The claims of the pod that have no volume yet.
    pub(crate) fn unbound_claims(
        &self,
        key: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Vec<ObjectKey> {
        let volumes = pods.get(key).into_iter().flat_map(|pod| &pod.volumes);
        let keys = volumes.map(|volume| volume.key(&key.namespace));
        keys.filter(|claim| !self.claims.get(claim).is_some_and(VolumeClaimRecord::is_bound))
            .collect()
    }

    /// Pods that use the claim.
    fn pods_of_claim(
        &self,
        claim: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Vec<ObjectKey> {
        let uses = |key: &&ObjectKey| {
            key.namespace == claim.namespace
                && pods
                    .get(key)
                    .is_some_and(|pod| pod.volumes.iter().any(|volume| volume.claim == claim.name))
        };
        self.pods.iter().filter(uses).cloned().collect()
    }
}

/// A node selector term that selects the node of this name.
fn node_name_term(node: &Name) -> NodeSelectorTerm {
    let field = Requirement {
        key: "metadata.name".into(),
        operator: Operator::In,
        values: vec![Name::clone(node)],
    };
    NodeSelectorTerm { labels: Vec::new(), fields: vec![field] }
}

/// Zone and region labels of a volume, with their values, which are separated by `__`.
fn zone_labels(labels: &Labels) -> Vec<(Name, Vec<Name>)> {
    let named = VolumeClaim::ZONE_LABELS.iter().filter_map(|label| labels.get_key_value(*label));
    let values = |text: &str| text.split("__").map(str::trim).map(Name::from).collect();
    named.map(|(label, text)| (Name::clone(label), values(text))).collect()
}

impl ClusterCache {
    /// Inserts a storage object.
    pub(super) fn upsert_storage(&mut self, kind: StorageKind, key: ObjectKey, object: &Value) {
        match kind {
            StorageKind::Claim => {
                self.upsert_volume_claim(&key, VolumeClaimRecord::from_object(object));
            }
            StorageKind::Volume => self.upsert_volume(key.name, VolumeRecord::from_object(object)),
            StorageKind::Class => {
                if insert_if_changed(
                    &mut self.volumes.classes,
                    key.name,
                    StorageClassRecord::from_object(object),
                ) {
                    self.volumes_changed();
                }
            }
            StorageKind::Driver
            | StorageKind::Capacity
            | StorageKind::Node
            | StorageKind::Attachment => {
                self.upsert_driver_object(kind, key, object);
            }
        }
    }

    /// Removes a storage object.
    pub(super) fn remove_storage(&mut self, kind: StorageKind, key: &ObjectKey, version: u64) {
        if self.volumes.stored_version(kind, key).is_some_and(|known| known > version) {
            return;
        }
        match kind {
            StorageKind::Claim => {
                self.volumes.claims.remove(key);
                return self.volume_claim_changed(key);
            }
            StorageKind::Volume => {
                self.volumes.persistent_volumes.remove(&key.name);
                self.attachments_changed(&key.name);
            }
            StorageKind::Class => {
                self.volumes.classes.remove(&key.name);
            }
            StorageKind::Driver
            | StorageKind::Capacity
            | StorageKind::Node
            | StorageKind::Attachment => {
                return self.remove_driver_object(kind, key);
            }
        }
        self.volumes_changed();
    }

    /// Removes all objects of a kind before a new list is read.
    pub(super) fn clear_storage(&mut self, kind: StorageKind) {
        match kind {
            StorageKind::Claim => self.volumes.claims.clear(),
            StorageKind::Volume => self.volumes.persistent_volumes.clear(),
            StorageKind::Class => self.volumes.classes.clear(),
            StorageKind::Driver
            | StorageKind::Capacity
            | StorageKind::Node
            | StorageKind::Attachment => {
                self.clear_driver_objects(kind);
            }
        }
    }

    fn upsert_volume_claim(&mut self, key: &ObjectKey, record: VolumeClaimRecord) {
        if self.volumes.claims.get(key).is_none_or(|known| known.version <= record.version) {
            self.volumes.claims.insert(key.clone(), record);
            self.volume_claim_changed(key);
        }
    }

    fn volume_claim_changed(&mut self, key: &ObjectKey) {
        self.bind_backoffs.cluster_changed = true;
        let pods = self.volumes.pods_of_claim(key, &self.pods);
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }

    fn upsert_volume(&mut self, name: Name, record: VolumeRecord) {
        if self
            .volumes
            .persistent_volumes
            .get(&name)
            .is_none_or(|known| known.version <= record.version)
        {
            self.attachments_changed(&name);
            self.volumes.persistent_volumes.insert(name, record);
            self.volumes_changed();
        }
    }

    /// Marks the pods that wait for volumes as changed, so that they are tried again.
    fn volumes_changed(&mut self) {
        self.bind_backoffs.cluster_changed = true;
        let is_waiting = |key: &&ObjectKey| self.pods.get(key).is_some_and(PodRecord::is_waiting);
        let pods: Vec<ObjectKey> = self.volumes.pods.iter().filter(is_waiting).cloned().collect();
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }
}

#[cfg(test)]
mod tests;
