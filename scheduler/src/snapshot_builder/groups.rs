//! Pod groups of the snapshot: those of the API, or one for each pod with profile `kube`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_scheduler_core::model::{
    Name, PodGroup, QueueProblem, StalenessGrace, SubGroup, Topology, TopologyConstraint,
    TopologyLevel,
};

use super::{queues::QueueLookup, sub_groups::sub_group_index};
use crate::{
    cache::{
        ClusterCache, PodGroupRecord, PriorityClassRecord, SchedulingAttempts,
        SchedulingGroupRecord, gang_key, scheduling_group_key, well_known_priority,
    },
    config::Flavor,
    records::{ObjectKey, PodRecord},
};

/// KAI's priority of workloads without class or with a missing one.
const DEFAULT_PRIORITY: i32 = 50;
/// The priority from which workloads are non-preemptible, unless they set `preemptibility`.
const NON_PREEMPTIBLE_PRIORITY_MIN: i32 = 100;

/// Keys of all pod groups that may be in the snapshot.
pub(super) fn group_keys(cache: &ClusterCache, flavor: Flavor) -> BTreeSet<ObjectKey> {
    match flavor {
        Flavor::Kai => cache.members.keys().cloned().collect(),
        Flavor::Kube => {
            let is_single = |pod: &&PodRecord| !cache.is_in_gang(pod);
            let pods = cache.pods.iter().filter(|(_, pod)| is_single(pod)).map(|(key, _)| key);
            pods.cloned().chain(cache.scheduling_groups.named().map(gang_key)).collect()
        }
    }
}

/// The pod group with this key; `None` if it has no unfinished pods.
pub(super) fn build_group(
    cache: &ClusterCache,
    flavor: Flavor,
    queue_of: &QueueLookup,
    key: &ObjectKey,
) -> Option<PodGroup> {
    let lives = |pod: &&PodRecord| pod.is_ours && !pod.is_finished();
    match flavor {
        Flavor::Kai => {
            let record = cache.groups.get(key)?;
            if !cache.pods_of_group(key).any(|(_, pod)| lives(&pod)) {
                return None;
            }
            let group = group_from_record(key, record, cache, queue_of);
            let runs = |pod: &&PodRecord| lives(pod) && !pod.is_waiting();
            let running = cache.pods_of_group(key).map(|(_, pod)| pod).filter(runs);
            Some(match &record.malformed {
                None => never_stale_if_unlabelled(group, running),
                Some(_) => charge_of_malformed_group(group, running),
            })
        }
        Flavor::Kube => {
            let Some(group) = scheduling_group_key(key) else {
                let single = |pod: &&PodRecord| lives(pod) && !cache.is_in_gang(pod);
                return cache.pods.get(key).filter(single).map(|pod| single_pod_group(key, pod));
            };
            let mut members = cache.scheduling_groups.members(&group);
            let is_needed = members
                .any(|pod| cache.pods.get(&group.sibling(pod)).is_some_and(|pod| lives(&pod)));
            let record = cache.scheduling_groups.groups.get(&group).filter(|_| is_needed)?;
            Some(gang(key, record))
        }
    }
}

/// The Topology objects, and a topology for each node label that groups name as theirs.
pub(super) fn topologies(cache: &ClusterCache) -> Vec<Topology> {
    let labels = cache.scheduling_groups.topology_keys.iter();
    let of_label = |label: &Name| {
        let level = TopologyLevel { label: Name::clone(label), alias: None };
        (Name::clone(label), Topology { name: Name::clone(label), levels: vec![level] })
    };
    let mut topologies: BTreeMap<Name, Topology> = labels.map(of_label).collect();
    let named = cache.topologies.iter();
    topologies.extend(named.map(|(name, topology)| (Name::clone(name), topology.clone())));
    topologies.into_values().collect()
}

/// The position of a key among groups, or in `Err` the position at which to insert it.
pub(crate) fn find_group(groups: &[PodGroup], key: &ObjectKey) -> Result<usize, usize> {
    groups
        .binary_search_by(|group| (&group.namespace, &group.name).cmp(&(&key.namespace, &key.name)))
}

/// Key of the pod group that a pod names.
pub(super) fn group_key(pod: &ObjectKey, group: &Name) -> ObjectKey {
    ObjectKey { namespace: Name::clone(&pod.namespace), name: Name::clone(group) }
}

/// Converts a position in a list of the snapshot to the type of IDs.
pub(super) fn to_position(length: usize) -> u32 {
    u32::try_from(length).expect("a cluster has fewer than 2^32 objects")
}

fn group_from_record(
    key: &ObjectKey,
    record: &PodGroupRecord,
    cache: &ClusterCache,
    queue_of: &QueueLookup,
) -> PodGroup {
    let queue = record.queue.clone().unwrap_or_default();
    let queue = match queue_of.get(&queue) {
        Some(Ok(id)) => Ok(Some(*id)),
        Some(Err(problem)) => Err(cache.explain_missing_queue(problem.clone())),
        None => Err(cache.explain_missing_queue(QueueProblem::Missing { queue })),
    };
    let priority = class_priority(cache, record.priority_class.as_ref());
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&record.uid),
        queue,
        priority,
        preemptible: record.preemptible.unwrap_or(priority < NON_PREEMPTIBLE_PRIORITY_MIN),
        sub_groups: record.sub_groups.clone(),
        min_sub_group: record.min_sub_group,
        topology: record.topology.clone(),
        evicted_together: record.evicted_together,
        created: record.created,
        last_start: record.last_start,
        last_eviction: record.last_eviction,
        stale_since: record.stale_since,
        staleness_grace: record.staleness_grace,
        preemption_delay: record.preemption_delay,
        is_skipped: record.attempts == SchedulingAttempts::Single { has_failed: true },
        unschedulable_members: Vec::new(),
    }
}

/// Makes a group never stale if one of its running pods names no sub-group. Such a pod counts in
/// some sub-group, so it is unknown which sub-group lacks pods.
fn never_stale_if_unlabelled<'a>(
    group: PodGroup,
    mut running: impl Iterator<Item = &'a PodRecord>,
) -> PodGroup {
    if running.all(|pod| sub_group_index(&group.sub_groups, pod.sub_group()).is_ok()) {
        return group;
    }
    PodGroup { staleness_grace: Some(StalenessGrace::Never), ..group }
}

/// A malformed group, reduced to its running pods: they are charged to its queue and evicted
/// together. No more pods are started, and the group is never stale.
fn charge_of_malformed_group<'a>(
    group: PodGroup,
    running: impl Iterator<Item = &'a PodRecord>,
) -> PodGroup {
    let staying = running.filter(|pod| pod.node.is_some() && pod.releasing_since.is_none());
    PodGroup {
        sub_groups: vec![single_sub_group(to_position(staying.count()))],
        min_sub_group: None,
        topology: None,
        staleness_grace: Some(StalenessGrace::Never),
        is_skipped: true,
        ..group
    }
}

/// The only sub-group of a group that defines none.
fn single_sub_group(min_member: u32) -> SubGroup {
    let name = PodGroup::DEFAULT_SUB_GROUP.into();
    SubGroup { name, min_member, parent: None, min_sub_group: None, topology: None }
}

/// Whether the PriorityClass exists, or is one of KAI's own.
pub(crate) fn is_known_class(classes: &BTreeMap<Name, PriorityClassRecord>, class: &Name) -> bool {
    classes.contains_key(class) || well_known_priority(class).is_some()
}

fn class_priority(cache: &ClusterCache, class: Option<&Name>) -> i32 {
    if let Some(stated) = class {
        let value = cache.priority_classes.get(stated).map(|class| class.value);
        if let Some(value) = value.or_else(|| well_known_priority(stated)) {
            return value;
        }
    }
    let default = cache.priority_classes.values().find(|class| class.global_default);
    default.map_or(DEFAULT_PRIORITY, |class| class.value)
}

/// The group of a single pod, with profile `kube`.
fn single_pod_group(key: &ObjectKey, pod: &PodRecord) -> PodGroup {
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&pod.uid),
        queue: Ok(None),
        priority: pod.priority,
        preemptible: true,
        sub_groups: vec![single_sub_group(1)],
        min_sub_group: None,
        topology: None,
        evicted_together: false,
        created: pod.created,
        last_start: pod.started,
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: Duration::ZERO,
        is_skipped: false,
        unschedulable_members: Vec::new(),
    }
}

/// The group of a PodGroup of Kubernetes, with profile `kube`.
fn gang(key: &ObjectKey, record: &SchedulingGroupRecord) -> PodGroup {
    let topology = record.topology_key.as_ref().map(|label| TopologyConstraint {
        topology: Name::clone(label),
        required: Some(Name::clone(label)),
        preferred: None,
    });
    PodGroup {
        namespace: Name::clone(&key.namespace),
        name: Name::clone(&key.name),
        uid: Name::clone(&record.uid),
        queue: Ok(None),
        priority: record.priority,
        preemptible: true,
        sub_groups: vec![single_sub_group(record.minimum())],
        min_sub_group: None,
        topology,
        evicted_together: record.disrupts_all,
        created: record.created,
        last_start: None,
        last_eviction: None,
        stale_since: None,
        staleness_grace: Some(StalenessGrace::Never),
        preemption_delay: Duration::ZERO,
        is_skipped: false,
        unschedulable_members: Vec::new(),
    }
}
