//! Assumed state: writes that the API server accepted and that no watch has confirmed yet.

use schedlab_scheduler_core::model::{Name, NumaAllocation, Time};

use super::ClusterCache;
use crate::{parse::Malformed, records::ObjectKey};

impl ClusterCache {
    /// The binding was accepted: from now on the pod uses its node, with these NUMA allocations.
    pub(crate) fn assume_bound(&mut self, key: &ObjectKey, node: &Name, numa: Vec<NumaAllocation>) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.node = Some(Name::clone(node));
            pod.numa = numa;
            self.pod_changed(key.clone());
        }
    }

    /// The pod belongs to a group; the annotation that names it is not written yet.
    pub(crate) fn assume_grouped(&mut self, key: &ObjectKey, group: &Name) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.group = Some(Name::clone(group));
            let group =
                ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
            self.members.entry(group.clone()).or_default().insert(Name::clone(&key.name));
            self.pod_changed(key.clone());
            self.refresh_pool_membership(&group);
        }
    }

    /// The eviction was accepted: from now on the pod is releasing its resources.
    pub(crate) fn assume_releasing(&mut self, key: &ObjectKey, now: Time) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.releasing_since.get_or_insert(now);
            self.pod_changed(key.clone());
        }
    }

    /// No group can be found for the pod as it is.
    pub(crate) fn record_grouping_error(&mut self, key: ObjectKey, wrong: Malformed) {
        if let Some(pod) = self.pods.get(&key) {
            self.grouping_errors.insert(key.clone(), (pod.reported.version, wrong));
            self.pod_changed(key);
        }
    }
}
