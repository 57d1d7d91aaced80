//! Which pods share which GPUs, and the reservation pods that hold shared GPUs for the device
//! plugin (created by KAI's binder and by ours). A shared GPU is charged to its sharers; its
//! reservation pod counts only while no pod shares the GPU.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::object_names;
use schedlab_scheduler_core::model::{GpuGroup, Name, PodShape};

use super::ClusterCache;
use crate::records::{ObjectKey, PodRecord};

/// The GPU request of a reservation pod, in thousandths: one GPU.
const WHOLE_GPU_MILLI: i64 = 1000;

/// Maximum number of idle reservation pods that a message names.
const NAMED_PODS_MAX: usize = 3;

/// Node and GPU group. Other schedulers may use a group name on several nodes.
type NodeGpuGroup = (Name, GpuGroup);

/// Sharers and reservation pods, by GPU.
#[derive(Debug, Default)]
pub(super) struct SharedGpus {
    sharers: BTreeMap<NodeGpuGroup, BTreeSet<ObjectKey>>,
    reservations: BTreeMap<NodeGpuGroup, ObjectKey>,
    /// The GPUs that each pod shares or reserves.
    groups_by_pod: BTreeMap<ObjectKey, Vec<NodeGpuGroup>>,
}

/// Whether the pod is a reservation pod.
pub(super) fn is_reservation(key: &ObjectKey, record: &PodRecord) -> bool {
    key.name.starts_with(object_names::GPU_RESERVATION_PREFIX) && !record.gpu_groups.is_empty()
}

impl ClusterCache {
    /// Updates the index of shared GPUs after a pod was added, changed or removed.
    pub(super) fn update_shared_gpus(&mut self, key: &ObjectKey) {
        let pod = self.pods.get(key).filter(|pod| !pod.is_finished());
        let devices = pod.map(node_gpu_groups).unwrap_or_default();
        let reserves = pod.is_some_and(|pod| is_reservation(key, pod));
        let previous = self.shared_gpus.groups_by_pod.get(key).cloned().unwrap_or_default();
        if devices.is_empty() && previous.is_empty() {
            return;
        }
        for device in &previous {
            if let Some(sharers) = self.shared_gpus.sharers.get_mut(device) {
                sharers.remove(key);
            }
            if self.shared_gpus.reservations.get(device) == Some(key) {
                self.shared_gpus.reservations.remove(device);
            }
        }
        for device in &devices {
            let device = NodeGpuGroup::clone(device);
            if reserves {
                self.shared_gpus.reservations.insert(device, key.clone());
            } else {
                self.shared_gpus.sharers.entry(device).or_default().insert(key.clone());
            }
        }
        for device in previous.iter().chain(&devices) {
            self.update_reservation_pod_request(device);
        }
        self.shared_gpus.sharers.retain(|_, sharers| !sharers.is_empty());
        if devices.is_empty() {
            self.shared_gpus.groups_by_pod.remove(key);
        } else {
            self.shared_gpus.groups_by_pod.insert(key.clone(), devices);
        }
    }

    /// Sets the GPU request that is accounted for the reservation pod of a GPU: none while pods
    /// share the GPU, else one GPU.
    fn update_reservation_pod_request(&mut self, device: &NodeGpuGroup) {
        let is_shared = self.shared_gpus.sharers.get(device).is_some_and(|all| !all.is_empty());
        let gpu_milli = if is_shared { 0 } else { WHOLE_GPU_MILLI };
        let Some(key) = self.shared_gpus.reservations.get(device).cloned() else { return };
        let Some(pod) = self.pods.get(&key) else { return };
        if pod.shape.requests.gpu_milli == gpu_milli {
            return;
        }
        let mut shape = PodShape::clone(&pod.shape);
        shape.requests.gpu_milli = gpu_milli;
        let shape = self.intern_shape(Arc::new(shape));
        if let Some(mut pod) = self.pods.get_mut(&key) {
            pod.shape = shape;
        }
        self.revision += 1;
        self.changes.pods.insert(key);
    }
}

impl ClusterCache {
    /// Reservation pods of GPUs that no pod shares.
    pub(crate) fn idle_reservations(&self) -> BTreeSet<ObjectKey> {
        let all = self.shared_gpus.reservations.iter();
        let idle = all.filter(|(device, _)| !self.shared_gpus.sharers.contains_key(*device));
        idle.map(|(_, key)| key.clone()).collect()
    }
}

/// The warning about idle reservation pods, for a scheduler that does not delete them.
pub(crate) fn idle_reservations_message<'a>(
    idle: impl Iterator<Item = &'a ObjectKey>,
) -> Option<String> {
    let idle: Vec<String> = idle.map(ObjectKey::to_string).collect();
    let (named, more) = idle.split_at(idle.len().min(NAMED_PODS_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!named.is_empty()).then(|| {
        format!(
            "gpuReservation: got none, but there are idle GPU reservation pods ({}{more}), which \
             this scheduler does not delete: delete them, or set gpuReservation \
             and binding requests until they are gone",
            named.join(", ")
        )
    })
}

/// The GPUs of its node that a pod shares or reserves.
fn node_gpu_groups(pod: &PodRecord) -> Vec<NodeGpuGroup> {
    let Some(node) = &pod.node else { return Vec::new() };
    pod.gpu_groups.iter().map(|group| (Name::clone(node), GpuGroup::clone(group))).collect()
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

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
    fn a_reservation_pod_requests_a_gpu_only_while_no_pod_shares_it() {
        let mut cache = ClusterCache::new("kai-scheduler");
        let key = ObjectKey { namespace: "ns".into(), name: "gpu-reservation-1".into() };
        cache.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        let held = |cache: &ClusterCache| cache.pods[&key].shape.requests.gpu_milli;
        assert_eq!(held(&cache), 1000, "alone");
        cache.upsert(Kind::Pod, &pod("sharer", "Running"));
        assert_eq!(held(&cache), 0, "the sharer holds the device");
        cache.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        assert_eq!(held(&cache), 0, "the pod is observed again");
        let decided = cache.revision;
        cache.upsert(Kind::Pod, &pod("sharer", "Succeeded"));
        assert_eq!(held(&cache), 1000, "the sharer is done");
        assert!(cache.revision > decided && cache.changes.pods.contains(&key));
        cache.upsert(Kind::Pod, &pod("late", "Running"));
        cache.relist(Kind::Pod, &[]);
        cache.upsert(Kind::Pod, &pod("gpu-reservation-1", "Running"));
        assert_eq!(held(&cache), 1000, "the pods are listed again");
    }

    #[test]
    fn equal_gpu_groups_on_two_nodes_are_two_gpus() {
        let mut cache = ClusterCache::new("kai-scheduler");
        let reservation = |name: &str| ObjectKey { namespace: "ns".into(), name: name.into() };
        let held =
            |cache: &ClusterCache, name| cache.pods[&reservation(name)].shape.requests.gpu_milli;
        cache.upsert(Kind::Pod, &pod_on("n1", "gpu-reservation-1", "Running"));
        cache.upsert(Kind::Pod, &pod_on("n2", "gpu-reservation-2", "Running"));
        cache.upsert(Kind::Pod, &pod_on("n2", "sharer", "Running"));
        assert_eq!(held(&cache, "gpu-reservation-1"), 1000, "no pod shares it");
        assert_eq!(held(&cache, "gpu-reservation-2"), 0, "the sharer holds it");
        cache.upsert(Kind::Pod, &pod_on("n1", "sharer-1", "Running"));
        assert_eq!(held(&cache, "gpu-reservation-1"), 0, "shared now");
    }
}
