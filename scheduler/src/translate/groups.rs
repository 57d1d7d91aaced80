//! Pod groups: those of the API, or one for each pod where the scheduler knows none.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, PodGroup, QueueProblem, StalenessGrace, SubGroup};

use super::{queues::QueueOf, sub_groups::place};
use crate::{
    config::Flavor,
    mirror::{ClassRecord, GroupRecord, Key, Mirror, PodRecord, Tries},
};

/// KAI's priority of workloads that name no class, or one that does not exist.
const PRIORITY_DEFAULT: i32 = 50;
/// Workloads below this priority are preemptible if they do not say otherwise.
const NON_PREEMPTIBLE_FROM: i32 = 100;

/// KAI's classes, for clusters in which they were not created.
const WELL_KNOWN_CLASSES: [(&str, i32); 4] =
    [("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)];

/// The keys of all pod groups that may have a place in the snapshot.
pub(super) fn keys(mirror: &Mirror, flavor: Flavor) -> BTreeSet<Key> {
    match flavor {
        Flavor::Kai => mirror.members.keys().cloned().collect(),
        Flavor::Kube => mirror.pods.keys().cloned().collect(),
    }
}

/// The group that stands for a key: one that has pods which are not finished.
pub(super) fn translate(
    mirror: &Mirror,
    flavor: Flavor,
    queue_of: &QueueOf,
    key: &Key,
) -> Option<PodGroup> {
    let lives = |pod: &&PodRecord| pod.ours && !pod.is_finished();
    match flavor {
        Flavor::Kai => {
            let record = mirror.groups.get(key)?;
            if !mirror.pods_of(key).any(|(_, pod)| lives(&pod)) {
                return None;
            }
            let group = group(key, record, mirror, queue_of);
            let runs = |pod: &&PodRecord| lives(pod) && !pod.waits();
            let running = mirror.pods_of(key).map(|(_, pod)| pod).filter(runs);
            Some(match &record.malformed {
                None => with_strays(group, running),
                Some(_) => as_it_runs(group, running),
            })
        }
        Flavor::Kube => mirror.pods.get(key).filter(lives).map(|pod| of_one_pod(key, pod)),
    }
}

/// Where a key stands among groups, or where it would.
pub(super) fn find(groups: &[PodGroup], key: &Key) -> Result<usize, usize> {
    groups
        .binary_search_by(|group| (&group.namespace, &group.name).cmp(&(&key.namespace, &key.name)))
}

/// The key of the pod group that a pod names.
pub(super) fn group_key(pod: &Key, group: &Name) -> Key {
    Key { namespace: Name::clone(&pod.namespace), name: Name::clone(group) }
}

/// A position in a snapshot's list.
pub(super) fn position(length: usize) -> u32 {
    u32::try_from(length).expect("a cluster has fewer than 2^32 objects")
}

fn group(key: &Key, record: &GroupRecord, mirror: &Mirror, queue_of: &QueueOf) -> PodGroup {
    let queue = record.queue.clone().unwrap_or_default();
    let queue = match queue_of.get(&queue) {
        Some(Ok(id)) => Ok(Some(*id)),
        Some(Err(problem)) => Err(mirror.why_missing(problem.clone())),
        None => Err(mirror.why_missing(QueueProblem::Missing { queue })),
    };
    let priority = priority(mirror, record.priority_class.as_ref());
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&record.uid),
        queue,
        priority,
        preemptible: record.preemptible.unwrap_or(priority < NON_PREEMPTIBLE_FROM),
        sub_groups: record.sub_groups.clone(),
        min_sub_group: record.min_sub_group,
        topology: record.topology.clone(),
        created: record.created,
        last_start: record.last_start,
        last_eviction: record.last_eviction,
        stale_since: record.stale_since,
        staleness_grace: record.staleness_grace,
        preemption_delay: record.preemption_delay,
        left_alone: record.tries == Tries::Once { was_in_vain: true },
        unusable: Vec::new(),
    }
}

/// Pods that run count in some part of their group even where their label leads nowhere. Which part
/// is short of pods is not known then, and none of them leaves for that.
fn with_strays<'a>(group: PodGroup, mut running: impl Iterator<Item = &'a PodRecord>) -> PodGroup {
    if running.all(|pod| place(&group.sub_groups, pod.sub_group()).is_ok()) {
        return group;
    }
    PodGroup { staleness_grace: Some(StalenessGrace::Never), ..group }
}

/// What runs of a group that cannot be read is charged to its queue, and leaves together. None of
/// what was to be read of its shape holds, nobody starts more of it, and it is not stale.
fn as_it_runs<'a>(group: PodGroup, running: impl Iterator<Item = &'a PodRecord>) -> PodGroup {
    let staying = running.filter(|pod| pod.node.is_some() && pod.leaving_since.is_none());
    PodGroup {
        sub_groups: vec![whole(position(staying.count()))],
        min_sub_group: None,
        topology: None,
        staleness_grace: Some(StalenessGrace::Never),
        left_alone: true,
        ..group
    }
}

/// A group without parts.
fn whole(min_member: u32) -> SubGroup {
    let name = PodGroup::WHOLE.into();
    SubGroup { name, min_member, parent: None, min_sub_group: None, topology: None }
}

/// It exists, or is one of KAI's own.
pub(crate) fn is_known_class(classes: &BTreeMap<Name, ClassRecord>, class: &Name) -> bool {
    classes.contains_key(class) || WELL_KNOWN_CLASSES.iter().any(|(name, _)| *name == &**class)
}

fn priority(mirror: &Mirror, class: Option<&Name>) -> i32 {
    if let Some(stated) = class {
        let well_known = || WELL_KNOWN_CLASSES.iter().find(|(name, _)| *name == &**stated);
        let value = mirror.classes.get(stated).map(|class| class.value);
        if let Some(value) = value.or_else(|| well_known().map(|(_, value)| *value)) {
            return value;
        }
    }
    let default = mirror.classes.values().find(|class| class.global_default);
    default.map_or(PRIORITY_DEFAULT, |class| class.value)
}

/// The group of its own that a pod has where the scheduler knows no others.
fn of_one_pod(key: &Key, pod: &PodRecord) -> PodGroup {
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&pod.uid),
        queue: Ok(None),
        priority: pod.priority,
        preemptible: true,
        sub_groups: vec![whole(1)],
        min_sub_group: None,
        topology: None,
        created: pod.created,
        last_start: pod.started,
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: std::time::Duration::ZERO,
        left_alone: false,
        unusable: Vec::new(),
    }
}
