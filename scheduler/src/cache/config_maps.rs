//! `ConfigMap`s that pods require. Without them a pod would be bound and its containers would not
//! start.

use std::collections::BTreeSet;

use schedlab_scheduler_core::model::Name;

use super::ClusterCache;
use crate::records::{ObjectKey, PodRecord};

/// The existing `ConfigMap`s, and the pods that require any.
#[derive(Debug, Default)]
pub(crate) struct ConfigMaps {
    known: BTreeSet<ObjectKey>,
    /// The pods that require `ConfigMap`s.
    pub(super) pods: BTreeSet<ObjectKey>,
}

impl ConfigMaps {
    /// The required `ConfigMap`s of the pod that do not exist.
    pub(crate) fn missing_config_maps(&self, pod: &ObjectKey, record: &PodRecord) -> Vec<Name> {
        let is_missing = |name: &&Name| {
            let namespace = Name::clone(&pod.namespace);
            !self.known.contains(&ObjectKey { namespace, name: Name::clone(name) })
        };
        record.config_maps.iter().filter(is_missing).cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

impl ClusterCache {
    pub(super) fn upsert_config_map(&mut self, key: &ObjectKey) {
        if self.config_maps.known.insert(key.clone()) {
            self.config_map_changed(key);
        }
    }

    pub(super) fn remove_config_map(&mut self, key: &ObjectKey) {
        if self.config_maps.known.remove(key) {
            self.config_map_changed(key);
        }
    }

    fn config_map_changed(&mut self, key: &ObjectKey) {
        self.bind_backoffs.cluster_changed = true;
        let is_waiting = |pod: &&ObjectKey| {
            let needs =
                |record: &PodRecord| record.is_waiting() && record.config_maps.contains(&key.name);
            pod.namespace == key.namespace && self.pods.get(pod).is_some_and(needs)
        };
        let pods: Vec<ObjectKey> =
            self.config_maps.pods.iter().filter(is_waiting).cloned().collect();
        if !pods.is_empty() {
            self.revision += 1;
            self.changes.pods.extend(pods);
        }
    }
}
