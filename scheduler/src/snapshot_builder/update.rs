//! Updates a snapshot incrementally, and records what changed. The result equals that of a full
//! rebuild up to the order of shapes, which a test checks.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    Snapshot,
    model::{ListEdit, Pod, PodGroup, PodGroupId, PodId, SnapshotChanges},
};

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

/// Elements to insert into a list and to remove from it, by key.
struct Edits<T> {
    removed: Vec<u32>,
    /// The position before which the new element comes, and the new element, by key.
    inserted: BTreeMap<ObjectKey, (u32, T)>,
}

impl<T> Edits<T> {
    const fn new() -> Self {
        Self { removed: Vec::new(), inserted: BTreeMap::new() }
    }

    /// Applies the edits to the list.
    fn apply(self, list: &mut Vec<T>) -> ListEdit {
        let Self { mut removed, inserted } = self;
        removed.sort_unstable();
        let (before, new): (Vec<u32>, Vec<T>) = inserted.into_values().unzip();
        let edit = ListEdit::new(removed, &before);
        let mut new = new.into_iter();
        edit.apply(list, |_| new.next().expect("an element for each position"));
        edit
    }
}

impl SnapshotBuilder {
    /// Applies the changes. Returns the keys of the groups that may differ.
    pub(super) fn update(&mut self, cache: &ClusterCache, changes: Changes) -> BTreeSet<ObjectKey> {
        let mut pods = changes.pods;
        let mut touched = changes.groups;
        for key in &touched {
            pods.extend(cache.pods_of_group(key).map(|(pod, _)| pod));
        }
        for key in &pods {
            touched.extend(group_of_pod(cache, self.flavor, key));
        }
        let group_edit = self.update_groups(cache, &touched, &mut pods);
        let pod_edit = self.update_pods(cache, &pods);
        for key in &touched {
            self.record_unschedulable_members(cache, key);
        }
        let snapshot = &self.built.snapshot;
        let group = |key: &ObjectKey| find_group(&snapshot.pod_groups, key).ok().map(to_position);
        let pod = |key: &ObjectKey| find_pod(&snapshot.pods, key).ok().map(to_position);
        let groups = touched.iter().filter_map(group).map(PodGroupId).collect();
        let pods = pods.iter().filter_map(pod).map(PodId).collect();
        let nodes = changes.nodes.iter().filter_map(|node| self.nodes.get(node).copied()).collect();
        let everything = false;
        self.changes.add(SnapshotChanges { everything, nodes, group_edit, groups, pod_edit, pods });
        touched
    }

    /// Updates groups. Pods that join or leave one are added to `pods`.
    fn update_groups(
        &mut self,
        cache: &ClusterCache,
        keys: &BTreeSet<ObjectKey>,
        pods: &mut BTreeSet<ObjectKey>,
    ) -> ListEdit {
        let mut edits: Edits<PodGroup> = Edits::new();
        let groups = &mut self.built.snapshot.pod_groups;
        for key in keys {
            let built = groups::build_group(cache, self.flavor, &self.queue_of, key);
            match (find_group(groups, key), built) {
                (Ok(at), Some(group)) => groups[at] = group,
                (Ok(at), None) => edits.removed.push(to_position(at)),
                (Err(at), Some(group)) => {
                    edits.inserted.insert(key.clone(), (to_position(at), group));
                    pods.extend(cache.pods_of_group(key).map(|(pod, _)| pod));
                    pods.extend(cache.gang_pods(key));
                }
                (Err(_), None) => {}
            }
        }
        let length = groups.len();
        let edit = edits.apply(groups);
        if !edit.is_empty() {
            self.renumber_groups(&edit.new_positions(length), pods);
        }
        edit
    }

    /// Gives pods the new positions of their groups. Pods of removed groups are added to `pods`.
    fn renumber_groups(&mut self, positions: &[Option<u32>], pods: &mut BTreeSet<ObjectKey>) {
        for pod in &mut self.built.snapshot.pods {
            let Some(group) = pod.group else { continue };
            pod.group = positions[group.0 as usize].map(PodGroupId);
            if pod.group.is_none() {
                pods.insert(ObjectKey { namespace: pod.namespace.clone(), name: pod.name.clone() });
            }
        }
    }

    fn update_pods(&mut self, cache: &ClusterCache, keys: &BTreeSet<ObjectKey>) -> ListEdit {
        let mut edits: Edits<Pod> = Edits::new();
        for key in keys {
            let entry = self.pod_entry(cache, key);
            let built = &mut self.built;
            built.unschedulable.remove(key);
            match (find_pod(&built.snapshot.pods, key), entry) {
                (Ok(at), PodEntry::Present(pod)) => built.snapshot.pods[at] = pod,
                (Err(at), PodEntry::Present(pod)) => {
                    edits.inserted.insert(key.clone(), (to_position(at), pod));
                }
                (found, PodEntry::Unschedulable(reason)) => {
                    edits.removed.extend(found.ok().map(to_position));
                    built.unschedulable.insert(key.clone(), reason);
                }
                (found, PodEntry::Absent) => edits.removed.extend(found.ok().map(to_position)),
            }
        }
        edits.apply(&mut self.built.snapshot.pods)
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

/// The position of a pod among pods, or in `Err` the position at which to insert it.
fn find_pod(pods: &[Pod], key: &ObjectKey) -> Result<usize, usize> {
    pods.binary_search_by(|pod| (&pod.namespace, &pod.name).cmp(&(&key.namespace, &key.name)))
}

/// The pods of a group of the snapshot, by position: looked up by the names that the cache knows.
pub(crate) fn pods_of_group(
    cache: &ClusterCache,
    snapshot: &Snapshot,
    id: PodGroupId,
) -> BTreeSet<PodId> {
    let PodGroup { namespace, name, .. } = &snapshot.pod_groups[id.0 as usize];
    let group = ObjectKey { namespace: namespace.clone(), name: name.clone() };
    let named = cache.pods_of_group(&group).map(|(pod, _)| pod).chain(cache.gang_pods(&group));
    // With profile `kube` a pod without gang is its own group.
    let named: Vec<ObjectKey> = named.chain([group.clone()]).collect();
    let found = named.iter().filter_map(|pod| find_pod(&snapshot.pods, pod).ok());
    let of_group = found.filter(|at| snapshot.pods[*at].group == Some(id));
    of_group.map(|at| PodId(to_position(at))).collect()
}
