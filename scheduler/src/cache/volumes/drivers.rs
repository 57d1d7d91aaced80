//! What CSI drivers publish: volume limits of nodes, attached volumes, and storage capacity for new
//! volumes.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{AttachedVolume, LabelSelector, Name, Node};

use super::{super::ClusterCache, VolumeRecord, records::parse_bytes};
use crate::{
    parse::{at, list, name, text},
    records::{ObjectKey, insert_if_changed, selectors},
    watch::StorageKind,
};

/// The CSI objects of the cluster, indexed for the snapshot.
#[derive(Debug, Default)]
pub(super) struct StorageDrivers {
    /// Drivers that publish their capacity (`CSIDriver` with `storageCapacity: true`).
    capacity_reporters: BTreeSet<Name>,
    capacities: BTreeMap<ObjectKey, StorageCapacity>,
    /// Volume limits by node and driver (`CSINode`).
    limits: BTreeMap<Name, BTreeMap<Name, i64>>,
    attachments: BTreeMap<Name, Attachment>,
}

/// The fields of a `CSIStorageCapacity` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StorageCapacity {
    class: Name,
    /// The nodes that can use the volumes; `None`: no node.
    nodes: Option<LabelSelector>,
    /// Size in bytes of the largest volume that can be provisioned.
    bytes: Option<i64>,
}

/// The fields of a `VolumeAttachment` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attachment {
    driver: Name,
    node: Name,
    /// Name of the `PersistentVolume`.
    volume: Name,
}

impl StorageDrivers {
    /// Whether any node limits the number of volumes of the driver.
    pub(super) fn is_limited(&self, driver: &Name) -> bool {
        self.limits.values().any(|limits| limits.contains_key(driver))
    }

    /// Selectors of the nodes on which the driver has capacity for a volume of this class and size;
    /// `None` if the driver publishes no capacity.
    pub(super) fn nodes_with_capacity(
        &self,
        driver: &Name,
        class: &Name,
        bytes: i64,
    ) -> Option<Vec<LabelSelector>> {
        if bytes == 0 || !self.capacity_reporters.contains(driver) {
            return None;
        }
        let suffices = |one: &&StorageCapacity| {
            one.class == *class && one.bytes.is_some_and(|left| left >= bytes)
        };
        let enough = self.capacities.values().filter(suffices);
        Some(enough.filter_map(|one| one.nodes.clone()).collect())
    }

    fn attached_volumes(
        &self,
        node: &Name,
        volumes: &BTreeMap<Name, VolumeRecord>,
    ) -> BTreeSet<AttachedVolume> {
        let here = self.attachments.values().filter(|one| one.node == *node);
        let attached = here.filter_map(|one| {
            let volume = volumes.get(&one.volume)?.attached.as_ref()?;
            let (driver, volume) = (Name::clone(&one.driver), Name::clone(&volume.volume));
            Some(AttachedVolume { driver, volume })
        });
        attached.collect()
    }
}

impl StorageCapacity {
    fn from_object(object: &Value) -> Self {
        let quantity = |field| text(object, field).map(parse_bytes);
        let nodes = at(object, "/nodeTopology").filter(|topology| !topology.is_null());
        Self {
            class: name(object, "/storageClassName").unwrap_or_default(),
            nodes: nodes.and_then(|nodes| selectors::parse_label_selector(nodes).ok()),
            bytes: quantity("/maximumVolumeSize").or_else(|| quantity("/capacity")),
        }
    }
}

impl Attachment {
    fn from_object(object: &Value) -> Self {
        let part = |field| name(object, field).unwrap_or_default();
        Self {
            driver: part("/spec/attacher"),
            node: part("/spec/nodeName"),
            volume: part("/spec/source/persistentVolumeName"),
        }
    }
}

fn volume_limits(node: &Value) -> BTreeMap<Name, i64> {
    let drivers = list(node, "/spec/drivers").iter();
    let limited = drivers.filter_map(|driver| {
        let count = at(driver, "/allocatable/count").and_then(Value::as_i64)?;
        Some((name(driver, "/name")?, count))
    });
    limited.collect()
}

impl ClusterCache {
    /// Adds volume limits and attached volumes to a node.
    pub(in crate::cache) fn add_volume_limits(&self, node: &mut Node) {
        let drivers = &self.volumes.drivers;
        node.volume_limits = drivers.limits.get(&node.name).cloned().unwrap_or_default();
        if !node.volume_limits.is_empty() {
            node.attached_volumes =
                drivers.attached_volumes(&node.name, &self.volumes.persistent_volumes);
        }
    }

    pub(super) fn upsert_driver_object(
        &mut self,
        kind: StorageKind,
        key: ObjectKey,
        object: &Value,
    ) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            StorageKind::Node => {
                if insert_if_changed(&mut drivers.limits, key.name, volume_limits(object)) {
                    // Volumes that were not counted before count now.
                    self.mark_everything_changed();
                }
            }
            StorageKind::Attachment => {
                let attachment = Attachment::from_object(object);
                let node = Name::clone(&attachment.node);
                if insert_if_changed(&mut drivers.attachments, key.name, attachment) {
                    self.node_changed(node);
                }
            }
            StorageKind::Capacity => {
                if insert_if_changed(
                    &mut drivers.capacities,
                    key,
                    StorageCapacity::from_object(object),
                ) {
                    self.volumes_changed();
                }
            }
            StorageKind::Driver => {
                let reports_capacity = at(object, "/spec/storageCapacity").and_then(Value::as_bool);
                let changed = if reports_capacity == Some(true) {
                    drivers.capacity_reporters.insert(key.name)
                } else {
                    drivers.capacity_reporters.remove(&key.name)
                };
                if changed {
                    self.volumes_changed();
                }
            }
            StorageKind::Class | StorageKind::Volume | StorageKind::Claim => {}
        }
    }

    pub(super) fn remove_driver_object(&mut self, kind: StorageKind, key: &ObjectKey) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            StorageKind::Node => {
                if drivers.limits.remove(&key.name).is_some() {
                    self.mark_everything_changed();
                }
            }
            StorageKind::Attachment => {
                if let Some(gone) = drivers.attachments.remove(&key.name) {
                    self.node_changed(gone.node);
                }
            }
            StorageKind::Capacity => {
                if drivers.capacities.remove(key).is_some() {
                    self.volumes_changed();
                }
            }
            StorageKind::Driver => {
                if drivers.capacity_reporters.remove(&key.name) {
                    self.volumes_changed();
                }
            }
            StorageKind::Class | StorageKind::Volume | StorageKind::Claim => {}
        }
    }

    pub(super) fn clear_driver_objects(&mut self, kind: StorageKind) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            StorageKind::Node => drivers.limits.clear(),
            StorageKind::Attachment => drivers.attachments.clear(),
            StorageKind::Capacity => drivers.capacities.clear(),
            StorageKind::Driver => drivers.capacity_reporters.clear(),
            StorageKind::Class | StorageKind::Volume | StorageKind::Claim => {}
        }
    }

    /// Marks the nodes of the attachments of a volume as changed: the volume decides what the
    /// attachments count as.
    pub(super) fn attachments_changed(&mut self, volume: &Name) {
        let attachments = self.volumes.drivers.attachments.values();
        let of_volume = attachments.filter(|one| one.volume == *volume);
        let nodes: Vec<Name> = of_volume.map(|one| Name::clone(&one.node)).collect();
        for node in nodes {
            self.node_changed(node);
        }
    }
}
