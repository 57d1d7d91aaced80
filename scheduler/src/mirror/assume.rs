//! What was just written, and is not confirmed by the watches yet.

use schedlab_scheduler_core::model::{Name, Time, ZoneShare};

use super::{Key, Mirror};
use crate::parse::Malformed;

impl Mirror {
    /// A binding was accepted: the pod holds its node, and so much of its zones, from now on.
    pub(crate) fn assume_bound(&mut self, key: &Key, node: &Name, zones: Vec<ZoneShare>) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.node = Some(Name::clone(node));
            pod.zones = zones;
            self.pod_changed(key.clone());
        }
    }

    /// The pod belongs to a group; the mark that says so is yet to be written.
    pub(crate) fn assume_grouped(&mut self, key: &Key, group: &Name) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.group = Some(Name::clone(group));
            let group = Key { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
            self.members.entry(group.clone()).or_default().insert(Name::clone(&key.name));
            self.pod_changed(key.clone());
            self.follow(&group);
        }
    }

    /// An eviction was accepted: the pod is leaving from now on.
    pub(crate) fn assume_leaving(&mut self, key: &Key, now: Time) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.leaving_since.get_or_insert(now);
            self.pod_changed(key.clone());
        }
    }

    /// A pod cannot be grouped as it stands.
    pub(crate) fn note_ungrouped(&mut self, key: Key, wrong: Malformed) {
        if let Some(pod) = self.pods.get(&key) {
            self.ungrouped.insert(key.clone(), (pod.told.version, wrong));
            self.pod_changed(key);
        }
    }
}
