//! Who shares which GPU, and the reservation pods that hold shared GPUs for a device plugin to see
//! (KAI's binder starts them, and so does ours). A device that pods share is accounted by its
//! sharers; its reservation pod counts only while nobody else holds the device.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_scheduler_core::model::{GpuGroup, PodShape};

use super::{Key, Mirror, PodRecord};

/// With it the names of reservation pods begin.
pub(crate) const RESERVATION_PREFIX: &str = "gpu-reservation-";

/// What a reservation pod holds: one device.
const WHOLE_MILLI: i64 = 1000;

/// By group.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    sharers: BTreeMap<GpuGroup, BTreeSet<Key>>,
    reservations: BTreeMap<GpuGroup, Key>,
    /// What each pod shares, or reserves.
    groups: BTreeMap<Key, Vec<GpuGroup>>,
}

/// The pod keeps a device for others.
pub(super) fn is_reservation(key: &Key, record: &PodRecord) -> bool {
    key.name.starts_with(RESERVATION_PREFIX) && !record.gpu_groups.is_empty()
}

impl Mirror {
    /// A pod came, went, or has other devices.
    pub(super) fn follow_sharing(&mut self, key: &Key) {
        let pod = self.pods.get(key).filter(|pod| pod.node.is_some() && !pod.is_finished());
        let groups = pod.map(|pod| pod.gpu_groups.clone()).unwrap_or_default();
        let reserves = pod.is_some_and(|pod| is_reservation(key, pod));
        let before = self.sharing.groups.get(key).cloned().unwrap_or_default();
        if groups.is_empty() && before.is_empty() {
            return;
        }
        for group in &before {
            if let Some(sharers) = self.sharing.sharers.get_mut(group) {
                sharers.remove(key);
            }
            if self.sharing.reservations.get(group) == Some(key) {
                self.sharing.reservations.remove(group);
            }
        }
        for group in &groups {
            let group = GpuGroup::clone(group);
            if reserves {
                self.sharing.reservations.insert(group, key.clone());
            } else {
                self.sharing.sharers.entry(group).or_default().insert(key.clone());
            }
        }
        for group in before.iter().chain(&groups) {
            self.account(group);
        }
        self.sharing.sharers.retain(|_, sharers| !sharers.is_empty());
        if groups.is_empty() {
            self.sharing.groups.remove(key);
        } else {
            self.sharing.groups.insert(key.clone(), groups);
        }
    }

    /// What the reservation pod of a group takes.
    fn account(&mut self, group: &GpuGroup) {
        let is_shared = self.sharing.sharers.get(group).is_some_and(|all| !all.is_empty());
        let gpu_milli = if is_shared { 0 } else { WHOLE_MILLI };
        let Some(key) = self.sharing.reservations.get(group).cloned() else { return };
        let Some(pod) = self.pods.get(&key) else { return };
        if pod.shape.requests.gpu_milli == gpu_milli {
            return;
        }
        let mut shape = PodShape::clone(&pod.shape);
        shape.requests.gpu_milli = gpu_milli;
        let shape = self.interned(Arc::new(shape));
        if let Some(pod) = self.pods.get_mut(&key) {
            pod.shape = shape;
        }
        self.revision += 1;
        self.changes.pods.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::Kind;

    fn pod(name: &str, phase: &str) -> Value {
        json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name,
                          "labels": { "runai-gpu-group": "g" } },
            "spec": { "nodeName": "n1", "containers": [{ "resources": {
                "requests": { "nvidia.com/gpu": if name == "sharer" { "0" } else { "1" } } } }] },
            "status": { "phase": phase },
        })
    }

    #[test]
    fn a_reservation_counts_only_while_nobody_shares_its_device() {
        let mut mirror = Mirror::new("kai-scheduler");
        let key = Key { namespace: "ns".into(), name: "gpu-reservation-1".into() };
        mirror.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        let held = |mirror: &Mirror| mirror.pods[&key].shape.requests.gpu_milli;
        assert_eq!(held(&mirror), 1000, "alone");
        mirror.upsert(Kind::Pod, &pod("sharer", "Running"));
        assert_eq!(held(&mirror), 0, "the sharer holds the device");
        mirror.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        assert_eq!(held(&mirror), 0, "told again");
        let decided = mirror.revision;
        mirror.upsert(Kind::Pod, &pod("sharer", "Succeeded"));
        assert_eq!(held(&mirror), 1000, "the sharer is done");
        assert!(mirror.revision > decided && mirror.changes.pods.contains(&key));
        mirror.upsert(Kind::Pod, &pod("late", "Running"));
        mirror.relist(Kind::Pod, &[]);
        mirror.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        assert_eq!(held(&mirror), 1000, "everything is told anew");
    }
}
