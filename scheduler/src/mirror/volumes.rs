//! Claims on volumes as the mirror keeps them, with the volumes and the classes of volumes: where
//! a pod that waits can have what it claims, as kube-scheduler's `VolumeBinding`, `VolumeZone`
//! and `VolumeRestrictions` see it.

mod drivers;
mod record;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{
    AttachedVolume, Labels, Made, Name, NodeSelectorTerm, Operator, Requirement, Volume,
    VolumeAccess, VolumeClaim, VolumeProblem, VolumeReach,
};

pub(crate) use record::{PodVolume, VolumeClaimRecord, VolumeRecord};

use super::{Key, Mirror, PodRecord, put};
use crate::watch::Storage;
use drivers::Drivers;
use record::{Binds, ClassRecord, Standing};

/// Everything about volumes.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    pub(crate) claims: BTreeMap<Key, VolumeClaimRecord>,
    pub(crate) known: BTreeMap<Name, VolumeRecord>,
    classes: BTreeMap<Name, ClassRecord>,
    drivers: Drivers,
    /// Pods with claims on volumes.
    pub(super) pods: BTreeSet<Key>,
}

impl Volumes {
    /// What the pod claims: all of it where it waits, else what no other pod may have, and what its
    /// node takes only so many of.
    pub(crate) fn of_pod(&self, key: &Key, pod: &PodRecord) -> Vec<VolumeClaim> {
        let claims = pod.volumes.iter().map(|volume| self.claim(key, pod, volume));
        let mut claims: Vec<VolumeClaim> = claims.collect();
        if pod.node.is_some() {
            claims.retain(|claim| claim.is_exclusive || claim.attached.is_some());
            for claim in &mut claims {
                claim.access = VolumeAccess::Bound(VolumeReach::default());
            }
        }
        claims
    }

    fn claim(&self, key: &Key, pod: &PodRecord, volume: &PodVolume) -> VolumeClaim {
        let key = volume.key(&key.namespace);
        let known = self.claims.get(&key);
        let access = match known {
            None if volume.is_ephemeral => VolumeAccess::Nowhere(VolumeProblem::NotMade),
            None => VolumeAccess::Nowhere(VolumeProblem::Missing),
            Some(claim) if volume.is_ephemeral && claim.owner.as_ref() != Some(&pod.uid) => {
                VolumeAccess::Nowhere(VolumeProblem::NotOwned)
            }
            Some(claim) => self.access(&key, claim),
        };
        let is_exclusive = known.is_some_and(VolumeClaimRecord::is_exclusive);
        let attached = known.and_then(|claim| self.attached(&key, claim));
        let attached = attached.filter(|volume| self.drivers.is_limited(&volume.driver));
        VolumeClaim { name: key.to_string().into(), is_exclusive, attached, access }
    }

    /// A claim without a volume gets one of its class's driver, as far as anybody knows.
    fn attached(&self, key: &Key, claim: &VolumeClaimRecord) -> Option<AttachedVolume> {
        if let Some(volume) = claim.volume.as_ref().and_then(|volume| self.known.get(volume)) {
            return volume.attached.clone();
        }
        let class = self.classes.get(claim.class.as_ref()?)?;
        let volume = format!("of claim {key}").into();
        Some(AttachedVolume { driver: Name::clone(&class.provisioner), volume })
    }

    fn access(&self, key: &Key, claim: &VolumeClaimRecord) -> VolumeAccess {
        if claim.standing == Standing::Leaving {
            return VolumeAccess::Nowhere(VolumeProblem::Deleting);
        }
        let Some(volume) = &claim.volume else { return self.access_unbound(key, claim) };
        let lost = || VolumeProblem::Lost(Name::clone(volume));
        match self.known.get(volume) {
            _ if claim.standing == Standing::Lost => VolumeAccess::Nowhere(lost()),
            _ if !claim.is_complete => VolumeAccess::Nowhere(VolumeProblem::Unbound),
            None => VolumeAccess::Nowhere(lost()),
            Some(volume) => VolumeAccess::Bound(volume.reach.clone()),
        }
    }

    /// A class that does not exist binds at once, as in kube-scheduler.
    fn access_unbound(&self, key: &Key, claim: &VolumeClaimRecord) -> VolumeAccess {
        let class = claim.class.as_ref().and_then(|class| self.classes.get_key_value(class));
        let Some((name, class)) = class.filter(|(_, class)| class.binds == Binds::WithPod) else {
            return VolumeAccess::Nowhere(VolumeProblem::Unbound);
        };
        if let Some(node) = &claim.selected_node {
            let reach = VolumeReach { affinity: Some(vec![named(node)]), zones: Vec::new() };
            let made = Some(Made { reach, room: None });
            return VolumeAccess::Open { volumes: Vec::new(), made };
        }
        let made = class.makes_volumes().then(|| Made {
            reach: VolumeReach { affinity: class.allowed.clone(), zones: Vec::new() },
            room: self.drivers.room(&class.provisioner, name, claim.bytes),
        });
        let kept = self.known.iter().find(|(_, volume)| volume.is_kept_for(key, claim));
        let mut fitting: Vec<(&Name, &VolumeRecord)> = match kept {
            Some(kept) => vec![kept],
            None => self.known.iter().filter(|(_, volume)| volume.fits(claim)).collect(),
        };
        fitting.sort_by_key(|(name, volume)| (volume.bytes, *name));
        let volume = |(name, volume): (&Name, &VolumeRecord)| {
            Arc::new(Volume { name: Name::clone(name), reach: volume.reach.clone() })
        };
        VolumeAccess::Open { volumes: fitting.into_iter().map(volume).collect(), made }
    }

    /// Which version of a claim or a volume is known.
    pub(super) fn version(&self, kind: Storage, key: &Key) -> Option<u64> {
        if kind == Storage::Claim {
            return self.claims.get(key).map(|claim| claim.version);
        }
        let volume = self.known.get(&key.name).filter(|_| kind == Storage::Volume);
        volume.map(|volume| volume.version)
    }

    /// The pod is there, or changed.
    pub(super) fn note_user(&mut self, key: &Key, pod: &PodRecord) {
        if !pod.volumes.is_empty() {
            self.pods.insert(key.clone());
        }
    }

    /// No pod claims any.
    pub(crate) fn has_no_users(&self) -> bool {
        self.pods.is_empty()
    }

    /// The pod's claims that have no volume yet.
    pub(crate) fn unbound(&self, key: &Key, pods: &BTreeMap<Key, PodRecord>) -> Vec<Key> {
        let volumes = pods.get(key).into_iter().flat_map(|pod| &pod.volumes);
        let keys = volumes.map(|volume| volume.key(&key.namespace));
        keys.filter(|claim| !self.claims.get(claim).is_some_and(VolumeClaimRecord::is_bound))
            .collect()
    }

    /// Pods that use the claim.
    fn pods_of(&self, claim: &Key, pods: &BTreeMap<Key, PodRecord>) -> Vec<Key> {
        let uses = |key: &&Key| {
            key.namespace == claim.namespace
                && pods
                    .get(key)
                    .is_some_and(|pod| pod.volumes.iter().any(|volume| volume.claim == claim.name))
        };
        self.pods.iter().filter(uses).cloned().collect()
    }
}

/// The node of this name.
fn named(node: &Name) -> NodeSelectorTerm {
    let field = Requirement {
        key: "metadata.name".into(),
        operator: Operator::In,
        values: vec![Name::clone(node)],
    };
    NodeSelectorTerm { labels: Vec::new(), fields: vec![field] }
}

/// Zones and regions that a volume's labels name; several are joined by `__`.
fn zones(labels: &Labels) -> Vec<(Name, Vec<Name>)> {
    let named = VolumeClaim::ZONE_LABELS.iter().filter_map(|label| labels.get_key_value(*label));
    let values = |text: &str| text.split("__").map(str::trim).map(Name::from).collect();
    named.map(|(label, text)| (Name::clone(label), values(text))).collect()
}

impl Mirror {
    /// Takes a claim on a volume, a volume, a class of volumes, or what drivers say.
    pub(super) fn upsert_of_volumes(&mut self, kind: Storage, key: Key, object: &Value) {
        match kind {
            Storage::Claim => {
                self.upsert_volume_claim(&key, VolumeClaimRecord::read(object));
            }
            Storage::Volume => self.upsert_volume(key.name, VolumeRecord::read(object)),
            Storage::Class => {
                if put(&mut self.volumes.classes, key.name, ClassRecord::read(object)) {
                    self.volumes_changed();
                }
            }
            Storage::Driver | Storage::Capacity | Storage::Node | Storage::Attachment => {
                self.upsert_of_drivers(kind, key, object);
            }
        }
    }

    /// Takes away one of those.
    pub(super) fn remove_of_volumes(&mut self, kind: Storage, key: &Key, gone_at: u64) {
        if self.volumes.version(kind, key).is_some_and(|version| version > gone_at) {
            return;
        }
        match kind {
            Storage::Claim => {
                self.volumes.claims.remove(key);
                return self.volume_claim_changed(key);
            }
            Storage::Volume => {
                self.volumes.known.remove(&key.name);
                self.attachments_changed(&key.name);
            }
            Storage::Class => {
                self.volumes.classes.remove(&key.name);
            }
            Storage::Driver | Storage::Capacity | Storage::Node | Storage::Attachment => {
                return self.remove_of_drivers(kind, key);
            }
        }
        self.volumes_changed();
    }

    /// All of a kind are listed anew.
    pub(super) fn clear_volumes(&mut self, kind: Storage) {
        match kind {
            Storage::Claim => self.volumes.claims.clear(),
            Storage::Volume => self.volumes.known.clear(),
            Storage::Class => self.volumes.classes.clear(),
            Storage::Driver | Storage::Capacity | Storage::Node | Storage::Attachment => {
                self.clear_drivers(kind);
            }
        }
    }

    fn upsert_volume_claim(&mut self, key: &Key, record: VolumeClaimRecord) {
        if self.volumes.claims.get(key).is_none_or(|known| known.version <= record.version) {
            self.volumes.claims.insert(key.clone(), record);
            self.volume_claim_changed(key);
        }
    }

    fn volume_claim_changed(&mut self, key: &Key) {
        let pods = self.volumes.pods_of(key, &self.pods);
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }

    fn upsert_volume(&mut self, name: Name, record: VolumeRecord) {
        if self.volumes.known.get(&name).is_none_or(|known| known.version <= record.version) {
            self.attachments_changed(&name);
            self.volumes.known.insert(name, record);
            self.volumes_changed();
        }
    }

    /// Volumes came, went or changed, which matters to pods that wait for some.
    fn volumes_changed(&mut self) {
        let waits = |key: &&Key| self.pods.get(key).is_some_and(PodRecord::waits);
        let pods: Vec<Key> = self.volumes.pods.iter().filter(waits).cloned().collect();
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }
}

#[cfg(test)]
mod tests;
