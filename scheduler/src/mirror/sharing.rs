//! Who shares which GPU, and the reservation pods that hold shared GPUs for a device plugin to see
//! (KAI's binder starts them, and so does ours). A device that pods share is accounted by its
//! sharers; its reservation pod counts only while nobody else holds the device.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_scheduler_core::model::{GpuGroup, Name, PodShape};

use super::{Key, Mirror, PodRecord};

/// With it the names of reservation pods begin.
pub(crate) const RESERVATION_PREFIX: &str = "gpu-reservation-";

/// What a reservation pod holds: one device.
const WHOLE_MILLI: i64 = 1000;

/// Idle reservation pods that are told by name.
const NAMED_MAX: usize = 3;

/// A node, and one of its groups: other schedulers may have the same name for one on another node.
type Device = (Name, GpuGroup);

/// By device.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    sharers: BTreeMap<Device, BTreeSet<Key>>,
    reservations: BTreeMap<Device, Key>,
    /// What each pod shares, or reserves.
    devices: BTreeMap<Key, Vec<Device>>,
}

/// The pod keeps a device for others.
pub(super) fn is_reservation(key: &Key, record: &PodRecord) -> bool {
    key.name.starts_with(RESERVATION_PREFIX) && !record.gpu_groups.is_empty()
}

impl Mirror {
    /// A pod came, went, or has other devices.
    pub(super) fn follow_sharing(&mut self, key: &Key) {
        let pod = self.pods.get(key).filter(|pod| !pod.is_finished());
        let devices = pod.map(devices).unwrap_or_default();
        let reserves = pod.is_some_and(|pod| is_reservation(key, pod));
        let before = self.sharing.devices.get(key).cloned().unwrap_or_default();
        if devices.is_empty() && before.is_empty() {
            return;
        }
        for device in &before {
            if let Some(sharers) = self.sharing.sharers.get_mut(device) {
                sharers.remove(key);
            }
            if self.sharing.reservations.get(device) == Some(key) {
                self.sharing.reservations.remove(device);
            }
        }
        for device in &devices {
            let device = Device::clone(device);
            if reserves {
                self.sharing.reservations.insert(device, key.clone());
            } else {
                self.sharing.sharers.entry(device).or_default().insert(key.clone());
            }
        }
        for device in before.iter().chain(&devices) {
            self.account(device);
        }
        self.sharing.sharers.retain(|_, sharers| !sharers.is_empty());
        if devices.is_empty() {
            self.sharing.devices.remove(key);
        } else {
            self.sharing.devices.insert(key.clone(), devices);
        }
    }

    /// What the reservation pod of a device takes.
    fn account(&mut self, device: &Device) {
        let is_shared = self.sharing.sharers.get(device).is_some_and(|all| !all.is_empty());
        let gpu_milli = if is_shared { 0 } else { WHOLE_MILLI };
        let Some(key) = self.sharing.reservations.get(device).cloned() else { return };
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

impl Mirror {
    /// Reservation pods whose device nobody shares.
    pub(crate) fn idle_reservations(&self) -> BTreeSet<Key> {
        let all = self.sharing.reservations.iter();
        let idle = all.filter(|(device, _)| !self.sharing.sharers.contains_key(*device));
        idle.map(|(_, key)| key.clone()).collect()
    }
}

/// What is to be said of idle reservation pods where this scheduler does not end them.
pub(crate) fn told_idle<'a>(idle: impl Iterator<Item = &'a Key>) -> Option<String> {
    let idle: Vec<String> = idle.map(Key::to_string).collect();
    let (named, more) = idle.split_at(idle.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!named.is_empty()).then(|| {
        format!(
            "gpuReservation: found none, and GPU reservation pods that keep a GPU for nobody \
             ({}{more}), which this scheduler does not end: delete them, or set gpuReservation \
             and binding requests until they are gone",
            named.join(", ")
        )
    })
}

/// Those of its node that it shares, or reserves.
fn devices(pod: &PodRecord) -> Vec<Device> {
    let Some(node) = &pod.node else { return Vec::new() };
    pod.gpu_groups.iter().map(|group| (Name::clone(node), GpuGroup::clone(group))).collect()
}

#[cfg(test)]
mod tests {
    use schedlab_json::{Value, json};

    use super::*;
    use crate::watch::Kind;

    fn pod(name: &str, phase: &str) -> Value {
        pod_on("n1", name, phase)
    }

    fn pod_on(node: &str, name: &str, phase: &str) -> Value {
        json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name,
                          "labels": { "runai-gpu-group": "g" } },
            "spec": { "nodeName": node, "containers": [{ "resources": {
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

    #[test]
    fn a_group_of_the_same_name_on_another_node_is_another_device() {
        let mut mirror = Mirror::new("kai-scheduler");
        let reservation = |name: &str| Key { namespace: "ns".into(), name: name.into() };
        let held = |mirror: &Mirror, name| mirror.pods[&reservation(name)].shape.requests.gpu_milli;
        mirror.upsert(Kind::Pod, &pod_on("n1", "gpu-reservation-1", "Running"));
        mirror.upsert(Kind::Pod, &pod_on("n2", "gpu-reservation-2", "Running"));
        mirror.upsert(Kind::Pod, &pod_on("n2", "sharer", "Running"));
        assert_eq!(held(&mirror, "gpu-reservation-1"), 1000, "nobody shares it");
        assert_eq!(held(&mirror, "gpu-reservation-2"), 0, "the sharer holds it");
        mirror.upsert(Kind::Pod, &pod_on("n1", "sharer-1", "Running"));
        assert_eq!(held(&mirror, "gpu-reservation-1"), 0, "shared now");
    }
}
