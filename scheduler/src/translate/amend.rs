//! Brings a snapshot up to date where the mirror changed. The result is the one that looking at
//! everything gives, up to the order of shapes; a test compares the two.

use std::collections::BTreeSet;

use schedlab_scheduler_core::model::{Pod, PodGroupId};

use super::{
    Translator,
    groups::{self, find, group_key, position},
    pods::Entry,
};
use crate::{
    config::Flavor,
    mirror::{Changes, Key, Mirror},
};

impl Translator {
    pub(super) fn amend(&mut self, mirror: &Mirror, changes: Changes) {
        let mut pods = changes.pods;
        let mut touched = changes.groups;
        for key in &touched {
            pods.extend(mirror.pods_of(key).map(|(pod, _)| pod));
        }
        for key in &pods {
            touched.extend(group_now(mirror, self.flavor, key));
        }
        for key in &touched {
            self.amend_group(mirror, key, &mut pods);
        }
        for key in pods {
            self.amend_pod(mirror, key);
        }
        for key in &touched {
            self.note_unusable(mirror, key);
        }
    }

    /// Pods whose place changes with the group are added to `pods`.
    fn amend_group(&mut self, mirror: &Mirror, key: &Key, pods: &mut BTreeSet<Key>) {
        let wanted = groups::translate(mirror, self.flavor, &self.queue_of, key);
        let groups = &mut self.translation.snapshot.pod_groups;
        match (find(groups, key), wanted) {
            (Ok(at), Some(wanted)) => groups[at] = wanted,
            (Ok(at), None) => {
                groups.remove(at);
                self.leave_group(at, pods);
            }
            (Err(at), Some(wanted)) => {
                groups.insert(at, wanted);
                self.renumber(at, 1);
                pods.extend(mirror.pods_of(key).map(|(pod, _)| pod));
            }
            (Err(_), None) => {}
        }
    }

    fn leave_group(&mut self, at: usize, pods: &mut BTreeSet<Key>) {
        let gone = PodGroupId(position(at));
        for pod in &mut self.translation.snapshot.pods {
            if pod.group == Some(gone) {
                pod.group = None;
                pods.insert(Key { namespace: pod.namespace.clone(), name: pod.name.clone() });
            }
        }
        self.renumber(at, -1);
    }

    /// Groups from this position on stand one place further up or down.
    fn renumber(&mut self, from: usize, by: i32) {
        let from = PodGroupId(position(from));
        for group in self.translation.snapshot.pods.iter_mut().filter_map(|pod| pod.group.as_mut())
        {
            if *group >= from {
                group.0 = group.0.saturating_add_signed(by);
            }
        }
    }

    fn amend_pod(&mut self, mirror: &Mirror, key: Key) {
        let entry = self.entry(mirror, &key);
        let translation = &mut self.translation;
        translation.troubles.remove(&key);
        let pods = &mut translation.snapshot.pods;
        match (find_pod(pods, &key), entry) {
            (Ok(at), Entry::Present(pod)) => pods[at] = pod,
            (Err(at), Entry::Present(pod)) => pods.insert(at, pod),
            (place, entry) => {
                if let Ok(at) = place {
                    pods.remove(at);
                }
                if let Entry::Trouble(trouble) = entry {
                    translation.troubles.insert(key, trouble);
                }
            }
        }
    }
}

fn group_now(mirror: &Mirror, flavor: Flavor, pod: &Key) -> Option<Key> {
    match flavor {
        Flavor::Kai => Some(group_key(pod, mirror.pods.get(pod)?.group.as_ref()?)),
        Flavor::Kube => Some(pod.clone()),
    }
}

fn find_pod(pods: &[Pod], key: &Key) -> Result<usize, usize> {
    pods.binary_search_by(|pod| (&pod.namespace, &pod.name).cmp(&(&key.namespace, &key.name)))
}
