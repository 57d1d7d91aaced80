//! Objects as lists and watches bring them: each kind goes where it is kept.

use std::collections::BTreeSet;

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{
    ClaimRecord, ClassRecord, GroupRecord, Key, Mirror, NodeRecord, NumaRecord, PodRecord,
    QueueRecord, RequestRecord, Sharing, disruption_budget, put, topology,
};
use crate::{
    karta::KartaRecord,
    parse::{Malformed, strings, version},
    watch::Kind,
};

impl Mirror {
    /// Replaces everything of a kind by what a list said.
    pub(crate) fn relist(&mut self, kind: Kind, objects: &[Value]) {
        self.revision += 1;
        self.changes.everything = true;
        match kind {
            Kind::Namespace => self.namespaces.clear(),
            Kind::Node => {
                self.nodes.clear();
                self.other_nodes.clear();
            }
            Kind::PriorityClass => self.classes.clear(),
            Kind::Queue => {
                self.queues.clear();
                self.other_queues.clear();
            }
            Kind::Topology => self.topologies.clear(),
            Kind::Karta => self.kartas.keep(objects),
            Kind::NodeResourceTopology => self.topologies_of_nodes.clear(),
            Kind::PodDisruptionBudget => self.budgets.clear(),
            Kind::DeviceClass => self.claims.clear_classes(),
            Kind::ResourceSlice => self.claims.clear_slices(),
            Kind::ResourceClaim => self.claims.clear_claims(),
            Kind::Storage(kind) => self.clear_volumes(kind),
            Kind::ConfigMap => self.config_maps.clear(),
            Kind::PodGroup => self.groups.clear(),
            Kind::BindRequest => self.clear_requests(),
            Kind::Pod => {
                self.pods.clear();
                self.unread.clear();
                self.members.clear();
                self.claims.pods.clear();
                self.volumes.pods.clear();
                self.config_maps.users.clear();
                self.sharing = Sharing::default();
            }
        }
        for object in objects {
            self.upsert(kind, object);
        }
        if kind == Kind::PodGroup {
            self.members.keys().cloned().collect::<Vec<_>>().iter().for_each(|is| self.follow(is));
        }
    }

    /// Takes an object as a list, or the answer to a write of ours, shows it.
    pub(crate) fn upsert(&mut self, kind: Kind, object: &Value) {
        let key = Key::of(object);
        if self.is_known(kind, &key, version(object)) {
            return;
        }
        match kind {
            Kind::Namespace => {
                if put(&mut self.namespaces, key.name, strings(object, "/metadata/labels")) {
                    self.namespaces_changed();
                }
            }
            Kind::Node => self.upsert_node(key.name, NodeRecord::read(object)),
            Kind::PriorityClass => {
                if put(&mut self.classes, key.name, ClassRecord::read(object)) {
                    self.everything_changed();
                }
            }
            Kind::Queue => self.upsert_queue(key.name, QueueRecord::read(object)),
            Kind::Topology => {
                if put(&mut self.topologies, key.name, topology::read(object)) {
                    self.everything_changed();
                }
            }
            Kind::Karta => {
                if self.kartas.put(key.name, KartaRecord::read(object)) {
                    self.everything_changed();
                }
            }
            Kind::NodeResourceTopology => {
                let record = NumaRecord::read(object);
                if put(&mut self.topologies_of_nodes, Name::clone(&key.name), record) {
                    self.node_changed(key.name);
                }
            }
            Kind::PodDisruptionBudget => {
                if put(&mut self.budgets, key, disruption_budget::read(object)) {
                    self.budgets_changed();
                }
            }
            Kind::DeviceClass => {
                if self.claims.upsert_class(key.name, object) {
                    self.everything_changed();
                }
            }
            Kind::ResourceSlice => {
                if self.claims.upsert_slice(key.name, object) {
                    self.everything_changed();
                }
            }
            Kind::ResourceClaim => self.upsert_claim(&key, ClaimRecord::read(object)),
            Kind::Storage(kind) => {
                self.upsert_of_volumes(kind, key, object);
            }
            Kind::ConfigMap => self.upsert_config_map(&key),
            Kind::PodGroup => {
                let record = self.read_group(object);
                self.upsert_group(key, record);
            }
            Kind::BindRequest => self.upsert_request(key, RequestRecord::read(object)),
            Kind::Pod => self.upsert_pod(key, PodRecord::read(object, &self.scheduler_name)),
        }
    }

    /// Takes an object that has a value of another type somewhere than its kind gives it: it keeps
    /// the room that it has, and nobody is placed by it. Answers what is wrong with it.
    pub(crate) fn upsert_mistyped(
        &mut self,
        kind: Kind,
        object: &Value,
        wrong: Malformed,
    ) -> Malformed {
        let key = Key::of(object);
        match kind {
            Kind::Queue => {
                let mut record = QueueRecord::read(object);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_queue(key.name, record);
                wrong
            }
            Kind::PodGroup => {
                let mut record = self.read_group(object);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_group(key, record);
                wrong
            }
            Kind::Pod => {
                let mut record = PodRecord::read(object, &self.scheduler_name);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_pod(key, record);
                wrong
            }
            Kind::ResourceClaim => {
                let mut record = ClaimRecord::read(object);
                let wrong = record.wanted.err().unwrap_or(wrong);
                record.wanted = Err(wrong.clone());
                self.upsert_claim(&key, record);
                wrong
            }
            // What runs there goes on counting.
            Kind::Node => {
                self.other_nodes.insert(key.name, BTreeSet::new());
                wrong
            }
            Kind::Namespace
            | Kind::PriorityClass
            | Kind::Topology
            | Kind::Karta
            | Kind::DeviceClass
            | Kind::ResourceSlice
            | Kind::Storage(_)
            | Kind::ConfigMap
            | Kind::NodeResourceTopology
            | Kind::PodDisruptionBudget
            | Kind::BindRequest => wrong,
        }
    }

    fn read_group(&self, object: &Value) -> GroupRecord {
        let labels = strings(object, "/metadata/labels");
        let (in_pool, pool_label) = (self.is_in_pool(&labels), self.pool_label(&labels).cloned());
        GroupRecord { in_pool, pool_label, ..GroupRecord::read(object, self.pool_name()) }
    }

    /// This state of the object, or a later one, was the answer to a write of ours, and now the
    /// watch tells of it.
    pub(super) fn is_known(&self, kind: Kind, key: &Key, version: u64) -> bool {
        let known = match kind {
            Kind::Pod => self.pods.get(key).map(|pod| pod.told.version),
            Kind::PodGroup => self.groups.get(key).map(|group| group.told.version),
            Kind::ResourceClaim => self.claims.known.get(key).map(|claim| claim.version),
            Kind::BindRequest => self.requests.get(key).map(|request| request.version),
            Kind::Queue => self.queues.get(&key.name).map(|queue| queue.told.version),
            Kind::Storage(kind) => self.volumes.version(kind, key),
            Kind::Namespace
            | Kind::Node
            | Kind::PriorityClass
            | Kind::Topology
            | Kind::Karta
            | Kind::NodeResourceTopology
            | Kind::DeviceClass
            | Kind::ResourceSlice
            | Kind::ConfigMap
            | Kind::PodDisruptionBudget => None,
        };
        known.is_some_and(|known| version != 0 && version <= known)
    }

    /// Takes away what a watch says is gone, by this version.
    pub(crate) fn remove(&mut self, kind: Kind, key: Key, gone_at: u64) {
        let gone = match kind {
            Kind::Namespace => {
                if self.namespaces.remove(&key.name).is_some() {
                    self.namespaces_changed();
                }
                false
            }
            Kind::Node => {
                let other = self.other_nodes.remove(&key.name).is_some();
                self.nodes.remove(&key.name).is_some() || other
            }
            Kind::PriorityClass => self.classes.remove(&key.name).is_some(),
            Kind::Queue => {
                let other = self.other_queues.remove(&key.name);
                self.queues.remove(&key.name).is_some() || other
            }
            Kind::Topology => self.topologies.remove(&key.name).is_some(),
            Kind::Karta => self.kartas.put(key.name, None),
            Kind::NodeResourceTopology => {
                if self.topologies_of_nodes.remove(&key.name).is_some() {
                    self.node_changed(key.name);
                }
                false
            }
            Kind::PodDisruptionBudget => {
                if self.budgets.remove(&key).is_some() {
                    self.budgets_changed();
                }
                false
            }
            Kind::DeviceClass => self.claims.remove_class(&key.name),
            Kind::ResourceSlice => self.claims.remove_slice(&key.name),
            Kind::ResourceClaim => return self.remove_claim(&key, gone_at),
            Kind::Storage(kind) => {
                return self.remove_of_volumes(kind, &key, gone_at);
            }
            Kind::ConfigMap => return self.remove_config_map(&key),
            Kind::PodGroup => return self.remove_group(key, gone_at),
            Kind::BindRequest => return self.remove_request(key, gone_at),
            Kind::Pod => return self.remove_pod(key, gone_at),
        };
        if gone {
            self.everything_changed();
        }
    }
}

#[cfg(test)]
impl Mirror {
    /// Objects of a test, each of the kind that it names; without a name it is a pod.
    pub(crate) fn of(objects: &[Value]) -> Self {
        let mut mirror = Self::new("kai-scheduler");
        for object in objects {
            let kind = match object["kind"].as_str() {
                Some("Node") => Kind::Node,
                Some("Queue") => Kind::Queue,
                Some("BindRequest") => Kind::BindRequest,
                Some("PodGroup") => Kind::PodGroup,
                Some("DeviceClass") => Kind::DeviceClass,
                Some("ResourceSlice") => Kind::ResourceSlice,
                Some("ResourceClaim") => Kind::ResourceClaim,
                _ => Kind::Pod,
            };
            mirror.upsert(kind, object);
        }
        mirror
    }
}
