//! Pod groups: those of the API, or one for each pod where the scheduler knows none.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::{Name, PodGroup, PodGroupId, QueueProblem, SubGroup};

use super::queues::QueueOf;
use crate::mirror::{GroupRecord, Key, Mirror, PodRecord};

/// KAI's priority of workloads that name no class, or one that does not exist.
const PRIORITY_DEFAULT: i32 = 50;
/// Workloads below this priority are preemptible if they do not say otherwise.
const NON_PREEMPTIBLE_FROM: i32 = 100;

/// Which pod group, by its key, stands where in the snapshot.
pub(super) type Memberships = BTreeMap<Key, PodGroupId>;

/// The PodGroups of the API that have pods which are not finished.
pub(super) fn named(mirror: &Mirror, queue_of: &QueueOf) -> (Vec<PodGroup>, Memberships) {
    let mut keys: Vec<Key> = mirror
        .pods
        .iter()
        .filter(|(_, pod)| pod.ours && !pod.is_finished())
        .filter_map(|(key, pod)| Some(group_key(key, pod.group.as_ref()?)))
        .collect();
    keys.sort();
    keys.dedup();
    let mut groups = Vec::new();
    let mut memberships = Memberships::new();
    for key in keys {
        let Some(record) = mirror.groups.get(&key).filter(|record| record.malformed.is_none())
        else {
            continue;
        };
        memberships.insert(key.clone(), PodGroupId(position(groups.len())));
        groups.push(group(key, record, mirror, queue_of));
    }
    (groups, memberships)
}

/// The key of the pod group that a pod names.
pub(super) fn group_key(pod: &Key, group: &Name) -> Key {
    Key { namespace: Name::clone(&pod.namespace), name: Name::clone(group) }
}

/// A position in a snapshot's list.
pub(super) fn position(length: usize) -> u32 {
    u32::try_from(length).expect("a cluster has fewer than 2^32 objects")
}

fn group(key: Key, record: &GroupRecord, mirror: &Mirror, queue_of: &QueueOf) -> PodGroup {
    let queue = record.queue.clone().unwrap_or_default();
    let queue = match queue_of.get(&queue) {
        Some(Ok(id)) => Ok(Some(*id)),
        Some(Err(problem)) => Err(problem.clone()),
        None => Err(QueueProblem::Missing { queue }),
    };
    let priority = priority(mirror, record.priority_class.as_ref());
    PodGroup {
        namespace: key.namespace,
        name: key.name,
        uid: Name::clone(&record.uid),
        queue,
        priority,
        preemptible: record.preemptible.unwrap_or(priority < NON_PREEMPTIBLE_FROM),
        sub_groups: record.sub_groups.clone(),
        min_sub_group: record.min_sub_group,
        created: record.created,
        last_start: record.last_start,
        last_eviction: record.last_eviction,
        stale_since: record.stale_since,
        staleness_grace: record.staleness_grace,
        preemption_delay: record.preemption_delay,
    }
}

fn priority(mirror: &Mirror, class: Option<&Name>) -> i32 {
    if let Some(class) = class.and_then(|class| mirror.classes.get(class)) {
        return class.value;
    }
    let default = mirror.classes.values().find(|class| class.global_default);
    default.map_or(PRIORITY_DEFAULT, |class| class.value)
}

/// A group of its own for each pod that this scheduler schedules.
pub(super) fn one_for_each_pod(mirror: &Mirror) -> (Vec<PodGroup>, Memberships) {
    let ours = mirror.pods.iter().filter(|(_, pod)| pod.ours && !pod.is_finished());
    let id = |(position, (key, _)): (u32, (&Key, _))| (key.clone(), PodGroupId(position));
    let memberships = (0..).zip(ours.clone()).map(id).collect();
    (ours.map(|(key, pod)| of_one_pod(key, pod)).collect(), memberships)
}

fn of_one_pod(key: &Key, pod: &PodRecord) -> PodGroup {
    let whole =
        SubGroup { name: "default".into(), min_member: 1, parent: None, min_sub_group: None };
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&pod.uid),
        queue: Ok(None),
        priority: pod.priority,
        preemptible: true,
        sub_groups: vec![whole],
        min_sub_group: None,
        created: pod.created,
        last_start: pod.started,
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: std::time::Duration::ZERO,
    }
}
