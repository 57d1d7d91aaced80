//! The scheduler cache: the cluster as lists and watches report it, plus assumed state, which was
//! written and is not confirmed by a watch yet. Objects are parsed once, when they change; all maps
//! are ordered by name.
//!
//! The cache only records state. Decisions are made in the core, from the snapshot that
//! `snapshot_builder` makes of it.

mod assume;
mod bind_backoff;
mod bind_failures;
mod bind_request;
mod config_maps;
mod disruption_budget;
mod group;
mod node;
mod objects;
mod queue;
mod resource_claims;
mod scheduling_groups;
mod shared_gpus;
mod topology;
mod volumes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{
    DisruptionBudget, LabelMismatch, Labels, Name, PodShape, Time, Topology,
};

use bind_backoff::BindBackoffs;
pub(crate) use bind_backoff::bind_backoff;
pub(crate) use bind_failures::{BindFailure, remedy as bind_failure_remedy};
pub(crate) use bind_request::BindRequestRecord;
use config_maps::ConfigMaps;
pub(crate) use group::{
    DERIVED_SPEC_ANNOTATION, DISRUPTION_MODE_ANNOTATION, GroupMark, GroupResources, GroupsToReport,
    PodGroupRecord, SchedulingAttempts, is_failed_attempt, well_known_priority,
};
pub(crate) use node::NodeRecord;
pub(crate) use queue::{QueueRecord, ReportedQueueStatus};
use scheduling_groups::SchedulingGroups;
pub(crate) use scheduling_groups::{
    SchedulingGroupRecord, disrupts_all, gang_key, scheduling_group_key, topology_key,
};
use shared_gpus::SharedGpus;
pub(crate) use shared_gpus::idle_reservations_message;
pub(crate) use volumes::VolumeCache;

use crate::{
    config::{Config, Flavor, NodePool},
    dra::ResourceClaims,
    karta::Kartas,
    parse::Malformed,
    records::{IndexedMap, NodeSource, NumaRecord, ObjectKey, PodRecord, Scheduler, numa},
    watch::{OptionalKinds, RawObject},
};

/// The fields of a PriorityClass that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PriorityClassRecord {
    pub(crate) value: i32,
    pub(crate) global_default: bool,
}

impl PriorityClassRecord {
    fn from_object(object: &Value) -> Self {
        Self {
            value: crate::parse::int32(object, "/value").unwrap_or(0),
            global_default: object.get("globalDefault") == Some(&Value::Bool(true)),
        }
    }
}

/// What changed since the snapshot was last updated.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The changes are not listed one by one: nodes were added or deleted, or queues or priority
    /// classes changed.
    pub(crate) everything: bool,
    /// Changed nodes that existed before.
    pub(crate) nodes: BTreeSet<Name>,
    /// Any `PodDisruptionBudget` changed.
    pub(crate) budgets: bool,
    /// Labels of any namespace changed.
    pub(crate) namespaces: bool,
    pub(crate) groups: BTreeSet<ObjectKey>,
    pub(crate) pods: BTreeSet<ObjectKey>,
}

/// The scheduler cache (as in Kubernetes and KAI): watched objects with assumed changes applied.
#[derive(Debug, Default)]
pub(crate) struct ClusterCache {
    scheduler_name: String,
    pool: Option<NodePool>,
    /// Whose API is used.
    flavor: Flavor,
    /// PodGroups of Kubernetes are read: with profile `kai`, or with feature gate
    /// `GenericWorkload`.
    reads_scheduling_groups: bool,
    /// `spec.schedulingConstraints.topology` of PodGroups is read: with profile `kai`, or with
    /// feature gate `TopologyAwareWorkloadScheduling`.
    reads_topology_keys: bool,
    /// Whether only nodes with a worker role label are used.
    workers_only: bool,
    pub(crate) namespaces: BTreeMap<Name, Labels>,
    pub(crate) nodes: BTreeMap<Name, NodeRecord>,
    /// Nodes that are not used, since they are in another node pool or no workers, with the labels
    /// that they lack. A malformed node lacks no label.
    pub(crate) excluded_nodes: BTreeMap<Name, BTreeSet<LabelMismatch>>,
    pub(crate) priority_classes: BTreeMap<Name, PriorityClassRecord>,
    pub(crate) queues: BTreeMap<Name, QueueRecord>,
    /// Queues that are not used, since they are in another node pool.
    pub(crate) excluded_queues: BTreeSet<Name>,
    pub(crate) topologies: BTreeMap<Name, Topology>,
    /// How Kartas group workloads of kinds for which the pod grouper has no rule.
    pub(crate) kartas: Kartas,
    /// `NodeResourceTopology` objects, by the name of the node.
    pub(crate) numa_topologies: BTreeMap<Name, NumaRecord>,
    pub(crate) budgets: BTreeMap<ObjectKey, DisruptionBudget>,
    pub(crate) resource_claims: ResourceClaims,
    pub(crate) volumes: VolumeCache,
    pub(crate) config_maps: ConfigMaps,
    pub(crate) groups: IndexedMap<PodGroupRecord>,
    /// PodGroups of Kubernetes.
    pub(crate) scheduling_groups: SchedulingGroups,
    /// BindRequests, by the pod to bind.
    pub(crate) bind_requests: BTreeMap<ObjectKey, BindRequestRecord>,
    pub(crate) pods: IndexedMap<PodRecord>,
    /// The last watch event of each pod with an event that was not decoded yet.
    undecoded_pods: BTreeMap<ObjectKey, RawObject>,
    /// Pods that no group could be found for, with their resourceVersion and the error.
    pub(crate) grouping_errors: BTreeMap<ObjectKey, (u64, Malformed)>,
    /// Pods of this scheduler by the pod group that they name.
    pub(crate) members: BTreeMap<ObjectKey, BTreeSet<Name>>,
    /// Pod groups that pods of this scheduler name and that do not exist.
    missing_groups: BTreeSet<ObjectKey>,
    pub(crate) changes: Changes,
    /// Groups whose resources are to be reported, if they differ.
    pub(crate) groups_to_report: GroupsToReport,
    bind_backoffs: BindBackoffs,
    shared_gpus: SharedGpus,
    shapes: BTreeSet<Arc<PodShape>>,
    /// Counts the changes on which a decision may depend.
    pub(crate) revision: u64,
}

impl ClusterCache {
    /// One second after the latest time in the cluster: the time of a captured cluster, since a
    /// snapshot states no time.
    pub(crate) fn time_after_last_event(&self) -> Time {
        let pods = self.pods.values();
        let pods = pods.flat_map(|pod| [Some(pod.created), pod.started, pod.releasing_since]);
        let groups = self.groups.values();
        let groups =
            groups.flat_map(|group| [Some(group.created), group.last_start, group.last_eviction]);
        let last = pods.chain(groups).flatten().max().unwrap_or_default();
        Time(last.0.saturating_add(1000))
    }

    pub(crate) fn new(scheduler_name: &str) -> Self {
        Self {
            scheduler_name: scheduler_name.to_owned(),
            reads_scheduling_groups: true,
            reads_topology_keys: true,
            ..Self::default()
        }
    }

    /// With the feature gates of the configuration.
    pub(crate) fn with_feature_gates(self, config: &Config) -> Self {
        Self {
            reads_scheduling_groups: config.reads_scheduling_groups(),
            reads_topology_keys: config.flavor == Flavor::Kai
                || config.feature_gates.topology_aware,
            ..self
        }
    }

    /// Restricts the cache to the objects of a node pool.
    pub(crate) fn with_pool(self, pool: Option<NodePool>) -> Self {
        Self { pool, ..self }
    }

    /// The name of the scheduler's node pool in conditions and events.
    pub(crate) fn pool_name(&self) -> &str {
        NodePool::name(self.pool.as_ref())
    }

    /// Whether an object with these labels is in the node pool of this scheduler: a node, a queue,
    /// a pod group, or a pod without pod group.
    pub(crate) fn is_in_pool(&self, labels: &Labels) -> bool {
        self.pool.as_ref().is_none_or(|NodePool { value, .. }| {
            self.pool_label(labels).map_or("", |found| found) == value
        })
    }

    /// The value of the node pool label; `None` without a node pool, or without the label.
    pub(crate) fn pool_label<'a>(&self, labels: &'a Labels) -> Option<&'a Name> {
        labels.get(self.pool.as_ref()?.label.as_str())
    }

    /// Whether unfinished pods that this scheduler does not place, such as those of another node
    /// pool, name the group.
    pub(crate) fn has_foreign_pods(&self, group: &ObjectKey) -> bool {
        self.pods.iter().any(|(key, pod)| {
            !pod.is_ours
                && !pod.is_finished()
                && key.namespace == group.namespace
                && pod.group.as_ref() == Some(&group.name)
        })
    }

    /// Whether any pod uses objects of these kinds.
    pub(crate) fn has_pods_that_need(&self, need: OptionalKinds) -> bool {
        match need {
            OptionalKinds::Volumes => !self.volumes.pods.is_empty(),
            OptionalKinds::ConfigMaps => !self.config_maps.pods.is_empty(),
            OptionalKinds::SchedulingGroups => self.scheduling_groups.has_pods(),
            OptionalKinds::DeviceTaintRules => self.resource_claims.has_slices(),
        }
    }

    /// Whether this scheduler places the pod. The node pool is that of the pod group; the labels of
    /// the pod count only for a pod without group.
    fn is_ours(&self, key: &ObjectKey, pod: &PodRecord) -> bool {
        let group = pod.group.as_ref().and_then(|name| {
            let namespace = Name::clone(&key.namespace);
            self.groups.get(&ObjectKey { namespace, name: Name::clone(name) })
        });
        pod.scheduler == Scheduler::This
            && group.map_or_else(|| self.is_in_pool(&pod.labels), |group| group.in_pool)
    }

    /// Updates the pods of a group after the group may have moved to another node pool.
    fn refresh_pool_membership(&mut self, group: &ObjectKey) {
        if self.pool.is_none() {
            return;
        }
        let moved = |(key, pod): (ObjectKey, &PodRecord)| {
            (self.is_ours(&key, pod) != pod.is_ours).then_some(key)
        };
        let moved: Vec<ObjectKey> = self.pods_of_group(group).filter_map(moved).collect();
        for key in moved {
            let found = self.pods.get_mut(&key).map(|mut pod| pod.is_ours = !pod.is_ours);
            if found.is_some() {
                self.pod_changed(key);
            }
        }
    }

    /// The pods of this scheduler that name a pod group.
    pub(crate) fn pods_of_group(
        &self,
        group: &ObjectKey,
    ) -> impl Iterator<Item = (ObjectKey, &PodRecord)> {
        self.members.get(group).into_iter().flatten().filter_map(|name| {
            let key =
                ObjectKey { namespace: Name::clone(&group.namespace), name: Name::clone(name) };
            self.pods.get(&key).map(|pod| (key, pod))
        })
    }

    /// Pod groups that pods name and that do not exist.
    pub(crate) fn missing_groups(&self) -> impl Iterator<Item = &ObjectKey> {
        self.missing_groups.iter()
    }

    /// Records whether pods name this group and it does not exist.
    fn update_missing_group(&mut self, group: &ObjectKey) {
        if self.members.contains_key(group) && !self.groups.contains_key(group) {
            self.missing_groups.insert(group.clone());
        } else {
            self.missing_groups.remove(group);
        }
    }

    fn add_member(&mut self, group: &ObjectKey, pod: &Name) {
        self.members.entry(group.clone()).or_default().insert(Name::clone(pod));
        self.update_missing_group(group);
    }

    fn remove_group(&mut self, key: ObjectKey, version: u64) {
        if self.groups.get(&key).is_some_and(|is| is.reported.version <= version) {
            self.groups.remove(&key);
            self.update_missing_group(&key);
            self.group_changed(key);
        }
    }

    fn remove_pod(&mut self, key: ObjectKey, version: u64) {
        self.undecoded_pods.remove(&key);
        if self.pods.get(&key).is_some_and(|is| is.reported.version <= version) {
            if let Some(pod) = self.pods.remove(&key) {
                self.remove_member(&key, &pod);
                self.refresh_claims_of(&key, &pod);
            }
            self.resource_claims.pods.remove(&key);
            self.volumes.pods.remove(&key);
            self.config_maps.pods.remove(&key);
            self.scheduling_groups.forget_pod(&key);
            self.pod_changed(key);
        }
    }

    fn mark_everything_changed(&mut self) {
        self.revision += 1;
        self.bind_backoffs.cluster_changed = true;
        self.changes.everything = true;
    }

    fn node_changed(&mut self, node: Name) {
        self.revision += 1;
        self.bind_backoffs.cluster_changed = true;
        self.changes.nodes.insert(node);
    }

    fn namespaces_changed(&mut self) {
        self.revision += 1;
        self.bind_backoffs.cluster_changed = true;
        self.changes.namespaces = true;
    }

    fn budgets_changed(&mut self) {
        self.revision += 1;
        self.changes.budgets = true;
    }

    fn group_changed(&mut self, key: ObjectKey) {
        self.revision += 1;
        self.refresh_pool_membership(&key);
        self.changes.groups.insert(key);
    }

    fn pod_changed(&mut self, key: ObjectKey) {
        self.revision += 1;
        self.update_shared_gpus(&key);
        self.changes.pods.insert(key);
    }

    /// Inserts a queue, or excludes a queue of another node pool. Changes of the status of a queue
    /// change no decision.
    fn upsert_queue(&mut self, name: Name, record: QueueRecord) {
        if !self.is_in_pool(&record.labels) {
            if self.queues.remove(&name).is_some() | self.excluded_queues.insert(name) {
                self.mark_everything_changed();
            }
            return;
        }
        self.excluded_queues.remove(&name);
        if let Some(known) = self.queues.get_mut(&name) {
            known.reported.clone_from(&record.reported);
            if *known == record {
                return;
            }
        }
        self.queues.insert(name, record);
        self.mark_everything_changed();
    }

    fn upsert_group(&mut self, key: ObjectKey, record: PodGroupRecord) {
        if let Some(mut known) = self.groups.get_mut(&key) {
            if known.reported.version > record.reported.version {
                return;
            }
            self.groups_to_report.keys.insert(key.clone());
            known.reported.clone_from(&record.reported);
            if *known == record {
                return;
            }
        }
        if let Some(label) = record.topology_label() {
            self.use_label_as_topology(&Name::clone(label));
        }
        self.groups.insert(key.clone(), record);
        self.update_missing_group(&key);
        self.group_changed(key);
    }

    fn upsert_pod(&mut self, key: ObjectKey, mut record: PodRecord) {
        record.shape = self.intern_shape(record.shape);
        if record.node.is_none()
            && let Some((node, request)) = self.find_open_bind_request(&key, &record)
        {
            (record.node, record.node_source) = (Some(node), NodeSource::BindRequest);
            if !request.gpu_groups.is_empty() {
                record.gpu_groups.clone_from(&request.gpu_groups);
            }
            if !request.numa.is_empty() && !numa::has_observed_placement(&record.annotations) {
                record.numa.clone_from(&request.numa);
            }
        }
        if let Some(mut known) = self.pods.get_mut(&key) {
            if known.reported.version > record.reported.version {
                return;
            }
            if known.uid == record.uid {
                // Assumed state holds until a watch confirms it.
                record.keep_assumed_node(&known);
                record.releasing_since = record.releasing_since.or(known.releasing_since);
                record.group = record.group.or_else(|| known.assumed_group());
            }
            known.reported.clone_from(&record.reported);
        }
        record.is_ours = self.is_ours(&key, &record);
        if self.pods.get(&key) == Some(&record) {
            return;
        }
        if let Some(group) = record.group.as_ref().filter(|_| record.scheduler == Scheduler::This) {
            let group =
                ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
            self.add_member(&group, &key.name);
        }
        if !record.claims.is_empty() {
            self.resource_claims.pods.insert(key.clone());
            self.refresh_claims_of(&key, &record);
        }
        self.volumes.track_pod(&key, &record);
        if !record.config_maps.is_empty() {
            self.config_maps.pods.insert(key.clone());
        }
        if self.reads_scheduling_groups {
            self.scheduling_groups.track_pod(&key, &record);
        }
        let group = record.group.clone();
        if let Some(previous) = self.pods.insert(key.clone(), record).filter(|is| is.group != group)
        {
            self.remove_member(&key, &previous);
        }
        self.pod_changed(key);
    }

    fn remove_member(&mut self, key: &ObjectKey, pod: &PodRecord) {
        let Some(group) = &pod.group else {
            return;
        };
        let group = ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&key.name);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        self.update_missing_group(&group);
        self.changes.groups.insert(group);
    }

    fn intern_shape(&mut self, shape: Arc<PodShape>) -> Arc<PodShape> {
        if let Some(known) = self.shapes.get(&shape) {
            return Arc::clone(known);
        }
        if self.shapes.len() > 2 * self.pods.len() + 64 {
            self.shapes.retain(|shape| Arc::strong_count(shape) > 1);
        }
        self.shapes.insert(Arc::clone(&shape));
        shape
    }
}

#[cfg(test)]
mod tests;
