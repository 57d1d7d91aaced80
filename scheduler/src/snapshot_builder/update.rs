//! Updates a snapshot incrementally. The result equals that of a full rebuild up to the order of
//! shapes, which a test checks.

use std::collections::BTreeSet;

use schedlab_scheduler_core::model::{Pod, PodGroupId};

use super::{
    SnapshotBuilder,
    groups::{self, find_group, group_key, to_position},
    pods::PodEntry,
};
use crate::{
    cache::{Changes, ClusterCache, gang_key},
    config::Flavor,
    records::ObjectKey,
};

impl SnapshotBuilder {
    pub(super) fn update(&mut self, cache: &ClusterCache, changes: Changes) {
        let mut pods = changes.pods;
        let mut touched = changes.groups;
        for key in &touched {
            pods.extend(cache.pods_of_group(key).map(|(pod, _)| pod));
        }
        for key in &pods {
            touched.extend(group_of_pod(cache, self.flavor, key));
        }
        for key in &touched {
            self.update_group(cache, key, &mut pods);
        }
        for key in pods {
            self.update_pod(cache, key);
        }
        for key in &touched {
            self.record_unschedulable_members(cache, key);
        }
    }

    /// Updates a group. Pods that join or leave it are added to `pods`.
    fn update_group(
        &mut self,
        cache: &ClusterCache,
        key: &ObjectKey,
        pods: &mut BTreeSet<ObjectKey>,
    ) {
        let built = groups::build_group(cache, self.flavor, &self.queue_of, key);
        let groups = &mut self.built.snapshot.pod_groups;
        match (find_group(groups, key), built) {
            (Ok(at), Some(group)) => groups[at] = group,
            (Ok(at), None) => {
                groups.remove(at);
                self.detach_pods_of_group(at, pods);
            }
            (Err(at), Some(group)) => {
                groups.insert(at, group);
                self.renumber_groups(at, 1);
                pods.extend(cache.pods_of_group(key).map(|(pod, _)| pod));
                pods.extend(cache.gang_pods(key));
            }
            (Err(_), None) => {}
        }
    }

    fn detach_pods_of_group(&mut self, position: usize, pods: &mut BTreeSet<ObjectKey>) {
        let gone = PodGroupId(to_position(position));
        for pod in &mut self.built.snapshot.pods {
            if pod.group == Some(gone) {
                pod.group = None;
                pods.insert(ObjectKey { namespace: pod.namespace.clone(), name: pod.name.clone() });
            }
        }
        self.renumber_groups(position, -1);
    }

    /// Moves the IDs of all groups from position `from` on up or down by one.
    fn renumber_groups(&mut self, from: usize, by: i32) {
        let from = PodGroupId(to_position(from));
        for group in self.built.snapshot.pods.iter_mut().filter_map(|pod| pod.group.as_mut()) {
            if *group >= from {
                group.0 = group.0.saturating_add_signed(by);
            }
        }
    }

    fn update_pod(&mut self, cache: &ClusterCache, key: ObjectKey) {
        let entry = self.pod_entry(cache, &key);
        let built = &mut self.built;
        built.unschedulable.remove(&key);
        let pods = &mut built.snapshot.pods;
        match (find_pod(pods, &key), entry) {
            (Ok(at), PodEntry::Present(pod)) => pods[at] = pod,
            (Err(at), PodEntry::Present(pod)) => pods.insert(at, pod),
            (found, entry) => {
                if let Ok(at) = found {
                    pods.remove(at);
                }
                if let PodEntry::Unschedulable(reason) = entry {
                    built.unschedulable.insert(key, reason);
                }
            }
        }
    }
}

fn group_of_pod(cache: &ClusterCache, flavor: Flavor, pod: &ObjectKey) -> Option<ObjectKey> {
    match flavor {
        Flavor::Kai => Some(group_key(pod, cache.pods.get(pod)?.group.as_ref()?)),
        Flavor::Kube => {
            let record = cache.pods.get(pod).filter(|record| cache.is_in_gang(record));
            let gang = record.and_then(|record| record.scheduling_group.as_ref());
            Some(gang.map_or_else(|| pod.clone(), |gang| gang_key(&pod.sibling(gang))))
        }
    }
}

fn find_pod(pods: &[Pod], key: &ObjectKey) -> Result<usize, usize> {
    pods.binary_search_by(|pod| (&pod.namespace, &pod.name).cmp(&(&key.namespace, &key.name)))
}
