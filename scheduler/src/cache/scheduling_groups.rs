//! PodGroups of Kubernetes (`scheduling.k8s.io`) and the pods that name one in
//! `spec.schedulingGroup`. They are watched only while such pods exist, so a cluster without
//! that API is not asked for it.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, conditions};
use schedlab_scheduler_core::model::{Name, Time};

use super::ClusterCache;
use crate::{
    config::Flavor,
    parse::{at, int32, list, name, time, uid, version},
    records::{Condition, ObjectKey, PodRecord, Scheduler, find_condition},
};

/// The fields of a PodGroup of Kubernetes that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchedulingGroupRecord {
    pub(crate) uid: Name,
    pub(crate) created: Time,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// `spec.schedulingPolicy.gang.minCount`; `None`: the policy is `basic`.
    pub(crate) min_count: Option<u32>,
    /// `spec.priority`.
    pub(crate) priority: i32,
    /// `spec.disruptionMode.all`: its pods are evicted together.
    pub(crate) disrupts_all: bool,
    /// `spec.schedulingConstraints.topology[0].key`.
    pub(crate) topology_key: Option<Name>,
    /// Names of the `ResourceClaim`s that its pods share.
    pub(crate) claims: BTreeSet<Name>,
    pub(crate) reported: ReportedSchedulingGroupStatus,
}

/// The status that was last written. No decision depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedSchedulingGroupStatus {
    pub(crate) version: u64,
    /// Condition `PodGroupInitiallyScheduled`.
    pub(crate) initially_scheduled: Option<Condition>,
    /// `lastTransitionTime` of that condition.
    pub(crate) since: Option<Name>,
    /// All other conditions.
    pub(crate) other_conditions: Vec<Value>,
}

impl SchedulingGroupRecord {
    fn from_object(object: &Value) -> Self {
        let conditions = list(object, "/status/conditions");
        let is_other = |item: &&Value| {
            item["type"].as_str() != Some(conditions::POD_GROUP_INITIALLY_SCHEDULED)
        };
        Self {
            uid: uid(object),
            created: time(object, "/metadata/creationTimestamp").unwrap_or_default(),
            generation: at(object, "/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
            min_count: int32(object, "/spec/schedulingPolicy/gang/minCount")
                .and_then(|count| u32::try_from(count).ok()),
            priority: int32(object, "/spec/priority").unwrap_or(0),
            disrupts_all: disrupts_all(object),
            topology_key: topology_key(object),
            claims: ["/spec/resourceClaims", "/status/resourceClaimStatuses"]
                .into_iter()
                .flat_map(|entries| list(object, entries))
                .filter_map(|entry| name(entry, "/resourceClaimName"))
                .collect(),
            reported: ReportedSchedulingGroupStatus {
                version: version(object),
                initially_scheduled: find_condition(
                    conditions,
                    conditions::POD_GROUP_INITIALLY_SCHEDULED,
                ),
                since: conditions
                    .iter()
                    .rfind(|item| !is_other(item))
                    .and_then(|item| name(item, "/lastTransitionTime")),
                other_conditions: conditions.iter().filter(is_other).cloned().collect(),
            },
        }
    }

    /// Number of pods that must be placed together.
    pub(crate) fn minimum(&self) -> u32 {
        self.min_count.unwrap_or(1)
    }
}

/// Start of the names of the groups that [`gang_key`] returns.
const GANG_PREFIX: &str = "podgroup/";

/// Key of the group of the snapshot, with profile `kube`, where pods without PodGroup have groups
/// of their own names. No pod has such a name.
pub(crate) fn gang_key(group: &ObjectKey) -> ObjectKey {
    group.sibling(&format!("{GANG_PREFIX}{}", group.name).into())
}

/// The PodGroup of a key that [`gang_key`] returned.
pub(crate) fn scheduling_group_key(gang: &ObjectKey) -> Option<ObjectKey> {
    Some(gang.sibling(&gang.name.strip_prefix(GANG_PREFIX)?.into()))
}

/// The pods of the PodGroup are evicted together.
pub(crate) fn disrupts_all(object: &Value) -> bool {
    at(object, "/spec/disruptionMode/all").is_some_and(|all| !all.is_null())
}

/// The node label of whose values all pods of the PodGroup need one.
pub(crate) fn topology_key(object: &Value) -> Option<Name> {
    name(list(object, "/spec/schedulingConstraints/topology").first()?, "/key")
}

/// The known PodGroups, and the pods that name one.
#[derive(Debug, Default)]
pub(crate) struct SchedulingGroups {
    pub(crate) groups: BTreeMap<ObjectKey, SchedulingGroupRecord>,
    /// Pods of this scheduler that name a PodGroup.
    pods: BTreeSet<ObjectKey>,
    /// Pods of this scheduler by the PodGroup that they name.
    members: BTreeMap<ObjectKey, BTreeSet<Name>>,
    /// Node labels that PodGroups name as topologies.
    pub(crate) topology_keys: BTreeSet<Name>,
}

impl SchedulingGroups {
    /// Whether any pod names a PodGroup.
    pub(super) fn has_pods(&self) -> bool {
        !self.pods.is_empty()
    }

    pub(super) fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.groups.get(key).map(|group| group.reported.version)
    }

    /// The PodGroups that pods of this scheduler name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &ObjectKey> {
        self.members.keys()
    }

    /// Names of the pods of this scheduler that name the PodGroup.
    pub(crate) fn members(&self, key: &ObjectKey) -> impl Iterator<Item = &Name> {
        self.members.get(key).into_iter().flatten()
    }

    pub(super) fn track_pod(&mut self, key: &ObjectKey, pod: &PodRecord) {
        let Some(group) =
            pod.scheduling_group.as_ref().filter(|_| pod.scheduler == Scheduler::This)
        else {
            return self.forget_pod(key);
        };
        self.pods.insert(key.clone());
        self.members.entry(key.sibling(group)).or_default().insert(Name::clone(&key.name));
    }

    pub(super) fn forget_pod(&mut self, key: &ObjectKey) {
        if !self.pods.remove(key) {
            return;
        }
        for (group, pods) in &mut self.members {
            if group.namespace == key.namespace {
                pods.remove(&key.name);
            }
        }
        self.members.retain(|_, pods| !pods.is_empty());
    }

    pub(super) fn clear_pods(&mut self) {
        self.pods.clear();
        self.members.clear();
    }
}

impl ClusterCache {
    /// The PodGroup of a pod, with its name, if all pods of the group share this claim.
    pub(crate) fn group_with_claim(
        &self,
        pod: &ObjectKey,
        claim: &Name,
    ) -> Option<(&Name, &SchedulingGroupRecord)> {
        let name = self.pods.get(pod)?.scheduling_group.as_ref()?;
        let record = self.scheduling_groups.groups.get(&pod.sibling(name))?;
        record.claims.contains(claim).then_some((name, record))
    }

    /// With profile `kube`: the pod is scheduled with the others of its PodGroup.
    pub(crate) fn is_in_gang(&self, pod: &PodRecord) -> bool {
        self.reads_scheduling_groups && pod.scheduling_group.is_some()
    }

    /// With profile `kube`: the pods of the group with this key of [`gang_key`].
    pub(crate) fn gang_pods(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let group = scheduling_group_key(key);
        group.into_iter().flat_map(|group| {
            let names = self.scheduling_groups.members(&group);
            names.map(|pod| group.sibling(pod)).collect::<Vec<_>>()
        })
    }

    pub(super) fn upsert_scheduling_group(&mut self, key: &ObjectKey, object: &Value) {
        let mut record = SchedulingGroupRecord::from_object(object);
        record.topology_key = record.topology_key.filter(|_| self.reads_topology_keys);
        if let Some(topology) = &record.topology_key {
            self.use_label_as_topology(topology);
        }
        if let Some(known) = self.scheduling_groups.groups.get_mut(key) {
            known.reported.clone_from(&record.reported);
            if *known == record {
                return;
            }
        }
        self.scheduling_groups.groups.insert(key.clone(), record);
        self.scheduling_group_changed(key);
    }

    pub(super) fn remove_scheduling_group(&mut self, key: &ObjectKey, version: u64) {
        let groups = &mut self.scheduling_groups.groups;
        if groups.get(key).is_some_and(|known| known.reported.version <= version) {
            groups.remove(key);
            self.scheduling_group_changed(key);
        }
    }

    /// With profile `kai` the PodGroup that is derived from it decides.
    fn scheduling_group_changed(&mut self, key: &ObjectKey) {
        self.revision += 1;
        if self.flavor == Flavor::Kube {
            self.changes.groups.insert(gang_key(key));
            let pods = self.scheduling_groups.members(key).map(|pod| key.sibling(pod));
            self.changes.pods.extend(pods);
        }
    }

    /// Adds a topology whose only level is this node label.
    pub(super) fn use_label_as_topology(&mut self, label: &Name) {
        if self.scheduling_groups.topology_keys.insert(Name::clone(label)) {
            self.mark_everything_changed();
        }
    }
}
