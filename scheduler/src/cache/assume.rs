//! Assumed state: writes that the API server accepted and that no watch has confirmed yet.

use schedlab_scheduler_core::model::{Name, NumaAllocation, Time};

use super::ClusterCache;
use crate::{parse::Malformed, records::ObjectKey};

impl ClusterCache {
    /// Assumes that a pod uses the node and NUMA allocations of its accepted Binding, before the
    /// watch event arrives.
    pub(crate) fn assume_bound(&mut self, key: &ObjectKey, node: &Name, numa: Vec<NumaAllocation>) {
        let Some(mut pod) = self.pods.get_mut(key) else { return };
        (pod.node, pod.numa) = (Some(Name::clone(node)), numa);
        drop(pod);
        self.pod_changed(key.clone());
    }

    /// Assumes that a pod belongs to a group before the annotation that names the group is written.
    pub(crate) fn assume_grouped(&mut self, key: &ObjectKey, group: &Name) {
        let Some(mut pod) = self.pods.get_mut(key) else { return };
        pod.group = Some(Name::clone(group));
        drop(pod);
        let group = ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
        self.add_member(&group, &key.name);
        self.pod_changed(key.clone());
        self.refresh_pool_membership(&group);
    }

    /// Assumes that a pod releases its resources, since its eviction was accepted.
    pub(crate) fn assume_releasing(&mut self, key: &ObjectKey, now: Time) {
        let Some(mut pod) = self.pods.get_mut(key) else { return };
        pod.releasing_since.get_or_insert(now);
        drop(pod);
        self.pod_changed(key.clone());
    }

    /// Records why no group can be found for the pod at its current resourceVersion.
    pub(crate) fn record_grouping_error(&mut self, key: ObjectKey, wrong: Malformed) {
        if let Some(pod) = self.pods.get(&key) {
            self.grouping_errors.insert(key.clone(), (pod.reported.version, wrong));
            self.pod_changed(key);
        }
    }
}
