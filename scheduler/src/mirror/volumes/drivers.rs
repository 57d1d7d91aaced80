//! What storage drivers (CSI) say: how many volumes a node takes, which are attached to it, and how
//! much storage is left for new ones.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{AttachedVolume, LabelSelector, Name, Node};

use super::{
    super::{Key, Mirror, put, selectors},
    VolumeRecord,
    record::bytes,
};
use crate::{
    parse::{at, list, name, text},
    watch::Storage,
};

/// Everything that drivers say.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    /// Those that say how much storage is left (`CSIDriver`).
    tell_storage: BTreeSet<Name>,
    storage: BTreeMap<Key, StorageLeft>,
    /// By node, how many volumes of a driver (`CSINode`).
    limits: BTreeMap<Name, BTreeMap<Name, i64>>,
    attachments: BTreeMap<Name, Attachment>,
}

/// What is kept of a `CSIStorageCapacity`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StorageLeft {
    class: Name,
    /// `None`: it can be used from nowhere.
    nodes: Option<LabelSelector>,
    /// The largest volume that can be made.
    bytes: Option<i64>,
}

/// What is kept of a `VolumeAttachment`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attachment {
    driver: Name,
    node: Name,
    /// Name of the `PersistentVolume`.
    volume: Name,
}

impl Drivers {
    /// Some node takes so many volumes of the driver and no more.
    pub(super) fn is_limited(&self, driver: &Name) -> bool {
        self.limits.values().any(|limits| limits.contains_key(driver))
    }

    /// The nodes for which a volume of the class can still be made, as far as the driver says.
    pub(super) fn room(
        &self,
        driver: &Name,
        class: &Name,
        bytes: i64,
    ) -> Option<Vec<LabelSelector>> {
        if bytes == 0 || !self.tell_storage.contains(driver) {
            return None;
        }
        let suffices =
            |one: &&StorageLeft| one.class == *class && one.bytes.is_some_and(|left| left >= bytes);
        let enough = self.storage.values().filter(suffices);
        Some(enough.filter_map(|one| one.nodes.clone()).collect())
    }

    fn attached(
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

impl StorageLeft {
    fn read(object: &Value) -> Self {
        let quantity = |field| text(object, field).map(bytes);
        let nodes = at(object, "/nodeTopology").filter(|topology| !topology.is_null());
        Self {
            class: name(object, "/storageClassName").unwrap_or_default(),
            nodes: nodes.and_then(|nodes| selectors::label_selector(nodes).ok()),
            bytes: quantity("/maximumVolumeSize").or_else(|| quantity("/capacity")),
        }
    }
}

impl Attachment {
    fn read(object: &Value) -> Self {
        let part = |field| name(object, field).unwrap_or_default();
        Self {
            driver: part("/spec/attacher"),
            node: part("/spec/nodeName"),
            volume: part("/spec/source/persistentVolumeName"),
        }
    }
}

fn limits(node: &Value) -> BTreeMap<Name, i64> {
    let drivers = list(node, "/spec/drivers").iter();
    let limited = drivers.filter_map(|driver| {
        let count = at(driver, "/allocatable/count").and_then(Value::as_i64)?;
        Some((name(driver, "/name")?, count))
    });
    limited.collect()
}

impl Mirror {
    /// The node with what is attached to it, and how much that may be.
    pub(in crate::mirror) fn with_volumes(&self, node: &mut Node) {
        let drivers = &self.volumes.drivers;
        node.volume_limits = drivers.limits.get(&node.name).cloned().unwrap_or_default();
        if !node.volume_limits.is_empty() {
            node.attached = drivers.attached(&node.name, &self.volumes.known);
        }
    }

    pub(super) fn upsert_of_drivers(&mut self, kind: Storage, key: Key, object: &Value) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            Storage::Node => {
                if put(&mut drivers.limits, key.name, limits(object)) {
                    // Volumes count from now on that did not before.
                    self.everything_changed();
                }
            }
            Storage::Attachment => {
                let attachment = Attachment::read(object);
                let node = Name::clone(&attachment.node);
                if put(&mut drivers.attachments, key.name, attachment) {
                    self.node_changed(node);
                }
            }
            Storage::Capacity => {
                if put(&mut drivers.storage, key, StorageLeft::read(object)) {
                    self.volumes_changed();
                }
            }
            Storage::Driver => {
                let tells = at(object, "/spec/storageCapacity").and_then(Value::as_bool);
                let changed = if tells == Some(true) {
                    drivers.tell_storage.insert(key.name)
                } else {
                    drivers.tell_storage.remove(&key.name)
                };
                if changed {
                    self.volumes_changed();
                }
            }
            Storage::Class | Storage::Volume | Storage::Claim => {}
        }
    }

    pub(super) fn remove_of_drivers(&mut self, kind: Storage, key: &Key) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            Storage::Node => {
                if drivers.limits.remove(&key.name).is_some() {
                    self.everything_changed();
                }
            }
            Storage::Attachment => {
                if let Some(gone) = drivers.attachments.remove(&key.name) {
                    self.node_changed(gone.node);
                }
            }
            Storage::Capacity => {
                if drivers.storage.remove(key).is_some() {
                    self.volumes_changed();
                }
            }
            Storage::Driver => {
                if drivers.tell_storage.remove(&key.name) {
                    self.volumes_changed();
                }
            }
            Storage::Class | Storage::Volume | Storage::Claim => {}
        }
    }

    pub(super) fn clear_drivers(&mut self, kind: Storage) {
        let drivers = &mut self.volumes.drivers;
        match kind {
            Storage::Node => drivers.limits.clear(),
            Storage::Attachment => drivers.attachments.clear(),
            Storage::Capacity => drivers.storage.clear(),
            Storage::Driver => drivers.tell_storage.clear(),
            Storage::Class | Storage::Volume | Storage::Claim => {}
        }
    }

    /// What is attached is known by its volume.
    pub(super) fn attachments_changed(&mut self, volume: &Name) {
        let attachments = self.volumes.drivers.attachments.values();
        let of_volume = attachments.filter(|one| one.volume == *volume);
        let nodes: Vec<Name> = of_volume.map(|one| Name::clone(&one.node)).collect();
        for node in nodes {
            self.node_changed(node);
        }
    }
}
