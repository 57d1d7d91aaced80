//! The cluster as the scheduler knows it: what the watches said, plus what was just decided
//! and written but not yet confirmed. Objects are read once, when they change; everything is
//! sorted by name.

mod assume;
mod bind_request;
mod claims;
mod condition;
mod config_maps;
mod disruption_budget;
mod gpu;
mod group;
mod hear;
mod node;
mod numa;
mod objects;
mod pod;
mod queue;
mod requests;
mod selectors;
mod sharing;
mod topology;
mod unbound;
mod volumes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{DisruptionBudget, Labels, Lack, Name, PodShape, Topology};

pub(crate) use bind_request::RequestRecord;
pub(crate) use claims::{
    Access, Allocation, ClaimProblem, ClaimRecord, Claimed, Claims, Pick, Picked, PodClaim,
    SliceFault,
};
pub(crate) use condition::Condition;
use condition::{condition, conditions};
pub(crate) use config_maps::CONFIG_MAPS;
use config_maps::ConfigMaps;
pub(crate) use gpu::{GROUP_LABEL, groups as gpu_groups};
pub(crate) use group::{GroupRecord, GroupResources, Tries, marks};
pub(crate) use node::NodeRecord;
pub(crate) use numa::{NumaRecord, PREDICTED, written_shares};
use pod::Place;
pub(crate) use pod::{
    CLASS_LABEL, Owner, Phase, PodRecord, SUB_GROUP_LABEL, Scheduler, controller, owner_above,
};
pub(crate) use queue::{QueueRecord, QueueTold};

use sharing::Sharing;
pub(crate) use sharing::{RESERVATION_PREFIX, told_idle};
pub(crate) use unbound::{BINDING_ERROR, Unbound};
pub(crate) use volumes::{PodVolume, Volumes};

use crate::{
    config::NodePool,
    karta::Kartas,
    parse::{Malformed, text},
    watch::{Need, Unread},
};

/// Namespace and name; the namespace is empty for what has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
}

impl Key {
    pub(crate) fn of(object: &Value) -> Self {
        let part = |pointer| text(object, pointer).unwrap_or_default().into();
        Self { namespace: part("/metadata/namespace"), name: part("/metadata/name") }
    }

    /// As its `Display` has it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Some(Self { namespace: namespace.into(), name: name.into() })
    }

    pub(crate) fn of_unread(object: &Unread) -> Self {
        Self { namespace: Name::clone(&object.namespace), name: Name::clone(&object.name) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a PriorityClass says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassRecord {
    pub(crate) value: i32,
    pub(crate) global_default: bool,
}

impl ClassRecord {
    fn read(object: &Value) -> Self {
        Self {
            value: crate::parse::int32(object, "/value").unwrap_or(0),
            global_default: object.get("globalDefault") == Some(&Value::Bool(true)),
        }
    }
}

/// Keeps a record under a key. Answers whether anything is different now.
fn put<K: Ord, R: PartialEq>(records: &mut BTreeMap<K, R>, key: K, record: R) -> bool {
    if records.get(&key) == Some(&record) {
        return false;
    }
    records.insert(key, record);
    true
}

/// What changed since somebody last looked.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Too much to list: nodes came or went, queues or priority classes changed.
    pub(crate) everything: bool,
    /// Nodes that are still there.
    pub(crate) nodes: BTreeSet<Name>,
    /// Disruption budgets, one or many.
    pub(crate) budgets: bool,
    /// Labels of namespaces, one or many.
    pub(crate) namespaces: bool,
    pub(crate) groups: BTreeSet<Key>,
    pub(crate) pods: BTreeSet<Key>,
}

/// The cluster as it was told, and as it was just changed.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    scheduler_name: String,
    pool: Option<NodePool>,
    /// Only nodes with a worker's label are seen.
    workers_only: bool,
    pub(crate) namespaces: BTreeMap<Name, Labels>,
    pub(crate) nodes: BTreeMap<Name, NodeRecord>,
    /// Nodes that are there and not looked at: of other pools, or no workers, and what they lack.
    /// One that cannot be read lacks nothing.
    pub(crate) other_nodes: BTreeMap<Name, BTreeSet<Lack>>,
    pub(crate) classes: BTreeMap<Name, ClassRecord>,
    pub(crate) queues: BTreeMap<Name, QueueRecord>,
    /// Queues that are there and not looked at: of other pools.
    pub(crate) other_queues: BTreeSet<Name>,
    pub(crate) topologies: BTreeMap<Name, Topology>,
    /// What says how kinds of workloads are grouped that the grouper does not know.
    pub(crate) kartas: Kartas,
    /// Zones of nodes, by the node's name.
    pub(crate) topologies_of_nodes: BTreeMap<Name, NumaRecord>,
    pub(crate) budgets: BTreeMap<Key, DisruptionBudget>,
    pub(crate) claims: Claims,
    pub(crate) volumes: Volumes,
    pub(crate) config_maps: ConfigMaps,
    pub(crate) groups: BTreeMap<Key, GroupRecord>,
    /// BindRequests, by the pod that each is about.
    pub(crate) requests: BTreeMap<Key, RequestRecord>,
    pub(crate) pods: BTreeMap<Key, PodRecord>,
    /// Pods as watches told of them last, which nobody needed to know yet.
    unread: BTreeMap<Key, Unread>,
    /// Pods that could not be grouped as they stood at this version, and why.
    pub(crate) ungrouped: BTreeMap<Key, (u64, Malformed)>,
    /// Names of the pods that name us, by the pod group that they name.
    pub(crate) members: BTreeMap<Key, BTreeSet<Name>>,
    pub(crate) changes: Changes,
    sharing: Sharing,
    shapes: BTreeSet<Arc<PodShape>>,
    /// Counts the changes on which a decision may depend.
    pub(crate) revision: u64,
}

impl Mirror {
    pub(crate) fn new(scheduler_name: &str) -> Self {
        Self { scheduler_name: scheduler_name.to_owned(), ..Self::default() }
    }

    /// Of the nodes and pods of a pool only.
    pub(crate) fn of_pool(self, pool: Option<NodePool>) -> Self {
        Self { pool, ..self }
    }

    /// What conditions and events call the pool.
    pub(crate) fn pool_name(&self) -> &str {
        NodePool::name(self.pool.as_ref())
    }

    /// A node, a queue, a pod group or a pod without one that has these labels is of what is
    /// scheduled here.
    pub(crate) fn is_in_pool(&self, labels: &Labels) -> bool {
        self.pool.as_ref().is_none_or(|NodePool { value, .. }| {
            self.pool_label(labels).map_or("", |found| found) == value
        })
    }

    /// The node pool that these labels name.
    pub(crate) fn pool_label<'a>(&self, labels: &'a Labels) -> Option<&'a Name> {
        labels.get(self.pool.as_ref()?.label.as_str())
    }

    /// Pods of others, as of another node pool's scheduler, name the group.
    pub(crate) fn lives_elsewhere(&self, group: &Key) -> bool {
        self.pods.iter().any(|(key, pod)| {
            !pod.ours
                && !pod.is_finished()
                && key.namespace == group.namespace
                && pod.group.as_ref() == Some(&group.name)
        })
    }

    /// There are pods that name such objects.
    pub(crate) fn needs(&self, need: Need) -> bool {
        match need {
            Need::Volumes => !self.volumes.pods.is_empty(),
            Need::ConfigMaps => !self.config_maps.users.is_empty(),
        }
    }

    /// A pod is of the pool of its group, whatever its own labels say.
    fn is_ours(&self, key: &Key, pod: &PodRecord) -> bool {
        let group = pod.group.as_ref().and_then(|name| {
            let namespace = Name::clone(&key.namespace);
            self.groups.get(&Key { namespace, name: Name::clone(name) })
        });
        pod.scheduler == Scheduler::This
            && group.map_or_else(|| self.is_in_pool(&pod.labels), |group| group.in_pool)
    }

    /// Pods come and go with their group.
    fn follow(&mut self, group: &Key) {
        if self.pool.is_none() {
            return;
        }
        let moved =
            |(key, pod): (Key, &PodRecord)| (self.is_ours(&key, pod) != pod.ours).then_some(key);
        let moved: Vec<Key> = self.pods_of(group).filter_map(moved).collect();
        for key in moved {
            if let Some(pod) = self.pods.get_mut(&key) {
                pod.ours = !pod.ours;
                self.pod_changed(key);
            }
        }
    }

    /// The pods that name us and a pod group.
    pub(crate) fn pods_of(&self, group: &Key) -> impl Iterator<Item = (Key, &PodRecord)> {
        self.members.get(group).into_iter().flatten().filter_map(|name| {
            let key = Key { namespace: Name::clone(&group.namespace), name: Name::clone(name) };
            self.pods.get(&key).map(|pod| (key, pod))
        })
    }

    /// Pod groups that pods name, and that are not there.
    pub(crate) fn missing_groups(&self) -> impl Iterator<Item = &Key> {
        let mut groups = self.groups.keys().peekable();
        self.members.keys().filter(move |named| {
            while groups.next_if(|group| group < named).is_some() {}
            groups.peek() != Some(named)
        })
    }

    fn remove_group(&mut self, key: Key, gone_at: u64) {
        if self.groups.get(&key).is_some_and(|is| is.told.version <= gone_at) {
            self.groups.remove(&key);
            self.group_changed(key);
        }
    }

    fn remove_pod(&mut self, key: Key, gone_at: u64) {
        self.unread.remove(&key);
        if self.pods.get(&key).is_some_and(|is| is.told.version <= gone_at) {
            if let Some(pod) = self.pods.remove(&key) {
                self.leave(&key, &pod);
                self.look_at_claims_of(&key, &pod);
            }
            self.claims.pods.remove(&key);
            self.volumes.pods.remove(&key);
            self.config_maps.users.remove(&key);
            self.pod_changed(key);
        }
    }

    fn everything_changed(&mut self) {
        self.revision += 1;
        self.changes.everything = true;
    }

    fn node_changed(&mut self, node: Name) {
        self.revision += 1;
        self.changes.nodes.insert(node);
    }

    fn namespaces_changed(&mut self) {
        self.revision += 1;
        self.changes.namespaces = true;
    }

    fn budgets_changed(&mut self) {
        self.revision += 1;
        self.changes.budgets = true;
    }

    fn group_changed(&mut self, key: Key) {
        self.revision += 1;
        self.follow(&key);
        self.changes.groups.insert(key);
    }

    fn pod_changed(&mut self, key: Key) {
        self.revision += 1;
        self.follow_sharing(&key);
        self.changes.pods.insert(key);
    }

    /// What is told on a queue changes no decision. One that is of another pool is not looked at.
    fn upsert_queue(&mut self, name: Name, record: QueueRecord) {
        if !self.is_in_pool(&record.labels) {
            if self.queues.remove(&name).is_some() | self.other_queues.insert(name) {
                self.everything_changed();
            }
            return;
        }
        self.other_queues.remove(&name);
        if let Some(known) = self.queues.get_mut(&name) {
            known.told.clone_from(&record.told);
            if *known == record {
                return;
            }
        }
        self.queues.insert(name, record);
        self.everything_changed();
    }

    fn upsert_group(&mut self, key: Key, record: GroupRecord) {
        if let Some(known) = self.groups.get_mut(&key) {
            if known.told.version > record.told.version {
                return;
            }
            known.told.clone_from(&record.told);
            if *known == record {
                return;
            }
        }
        self.groups.insert(key.clone(), record);
        self.group_changed(key);
    }

    fn upsert_pod(&mut self, key: Key, mut record: PodRecord) {
        record.shape = self.interned(record.shape);
        if record.node.is_none()
            && let Some((node, request)) = self.request_for(&key, &record)
        {
            (record.node, record.place) = (Some(node), Place::Requested);
            if !request.gpu_groups.is_empty() {
                record.gpu_groups.clone_from(&request.gpu_groups);
            }
            if !request.zones.is_empty() && !numa::is_observed(&record.annotations) {
                record.zones.clone_from(&request.zones);
            }
        }
        if let Some(known) = self.pods.get_mut(&key) {
            if known.told.version > record.told.version {
                return;
            }
            if known.uid == record.uid {
                // What we assumed holds until it is confirmed; neither is ever taken back.
                record.keep_place_of(known);
                record.leaving_since = record.leaving_since.or(known.leaving_since);
                record.group = record.group.or_else(|| known.unmarked_group());
            }
            known.told.clone_from(&record.told);
        }
        record.ours = self.is_ours(&key, &record);
        if self.pods.get(&key) == Some(&record) {
            return;
        }
        if let Some(group) = record.group.as_ref().filter(|_| record.scheduler == Scheduler::This) {
            let group = Key { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
            self.members.entry(group).or_default().insert(Name::clone(&key.name));
        }
        if !record.claims.is_empty() {
            self.claims.pods.insert(key.clone());
            self.look_at_claims_of(&key, &record);
        }
        self.volumes.note_user(&key, &record);
        if !record.config_maps.is_empty() {
            self.config_maps.users.insert(key.clone());
        }
        let group = record.group.clone();
        if let Some(before) = self.pods.insert(key.clone(), record).filter(|is| is.group != group) {
            self.leave(&key, &before);
        }
        self.pod_changed(key);
    }

    fn leave(&mut self, key: &Key, pod: &PodRecord) {
        let Some(group) = &pod.group else {
            return;
        };
        let group = Key { namespace: Name::clone(&key.namespace), name: Name::clone(group) };
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(&key.name);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        self.changes.groups.insert(group);
    }

    fn interned(&mut self, shape: Arc<PodShape>) -> Arc<PodShape> {
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
