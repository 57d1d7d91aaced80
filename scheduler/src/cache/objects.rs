//! Inserts and removes objects of all kinds. Pods change often, and most changes affect no
//! decision: a pod is decoded when it is needed, from its last watch event.

use std::collections::BTreeSet;

use schedlab_api::Value;
#[cfg(test)]
use schedlab_api::api_versions;
use schedlab_scheduler_core::model::Name;

use super::{
    BindRequestRecord, ClusterCache, NodeRecord, PodGroupRecord, PriorityClassRecord, QueueRecord,
    SharedGpus, disruption_budget, topology,
};
use crate::{
    dra::ClaimRecord,
    karta::KartaRecord,
    parse::{Malformed, strings, version},
    records::{NumaRecord, ObjectKey, PodRecord, insert_if_changed},
    watch::{Kind, RawObject},
};

impl ClusterCache {
    /// Applies a watch event. Pods are only stored, until [`decode_pods`](Self::decode_pods)
    /// decodes them.
    pub(crate) fn on_event(&mut self, kind: Kind, object: RawObject) {
        let key = ObjectKey::from_raw(&object);
        if kind != Kind::Pod {
            self.decode_event(kind, &key, &object);
        } else if !self.has_version(kind, &key, object.version) {
            self.undecoded_pods.insert(key, object);
        }
    }

    fn decode_event(&mut self, kind: Kind, key: &ObjectKey, object: &RawObject) {
        if !self.has_version(kind, key, object.version)
            && let Some(object) = object.decode()
        {
            self.upsert(kind, &object);
        }
    }

    /// Whether there are pod events that were not decoded yet.
    pub(crate) fn has_undecoded_pods(&self) -> bool {
        !self.undecoded_pods.is_empty()
    }

    /// Decodes the pods of all watch events since the last call, each from its last event.
    pub(crate) fn decode_pods(&mut self) {
        for (key, object) in std::mem::take(&mut self.undecoded_pods) {
            self.decode_event(Kind::Pod, &key, &object);
        }
    }

    /// Replaces all objects of a kind by the objects of a list.
    pub(crate) fn relist(&mut self, kind: Kind, objects: &[Value]) {
        self.revision += 1;
        self.changes.everything = true;
        match kind {
            Kind::Namespace => self.namespaces.clear(),
            Kind::Node => {
                self.nodes.clear();
                self.excluded_nodes.clear();
            }
            Kind::PriorityClass => self.priority_classes.clear(),
            Kind::Queue => {
                self.queues.clear();
                self.excluded_queues.clear();
            }
            Kind::Topology => self.topologies.clear(),
            Kind::Karta => self.kartas.retain_listed(objects),
            Kind::NodeResourceTopology => self.numa_topologies.clear(),
            Kind::PodDisruptionBudget => self.budgets.clear(),
            Kind::DeviceClass => self.resource_claims.clear_classes(),
            Kind::ResourceSlice => self.resource_claims.clear_slices(),
            Kind::DeviceTaintRule => self.resource_claims.clear_taint_rules(),
            Kind::ResourceClaim => self.resource_claims.clear_claims(),
            Kind::Storage(kind) => self.clear_storage(kind),
            Kind::ConfigMap => self.config_maps.clear(),
            Kind::SchedulingGroup => self.scheduling_groups.groups.clear(),
            Kind::PodGroup => {
                self.groups.clear();
                self.groups_to_report.everything = true;
            }
            Kind::BindRequest => self.clear_bind_requests(),
            Kind::Pod => {
                self.pods.clear();
                self.undecoded_pods.clear();
                self.members.clear();
                self.missing_groups.clear();
                self.resource_claims.pods.clear();
                self.volumes.pods.clear();
                self.config_maps.pods.clear();
                self.scheduling_groups.clear_pods();
                self.shared_gpus = SharedGpus::default();
            }
        }
        for object in objects {
            self.upsert(kind, object);
        }
        if kind == Kind::PodGroup {
            for group in self.members.keys().cloned().collect::<Vec<_>>() {
                self.update_missing_group(&group);
                self.refresh_pool_membership(&group);
            }
        }
    }

    /// Inserts an object from a list or from the response to a write.
    pub(crate) fn upsert(&mut self, kind: Kind, object: &Value) {
        let key = ObjectKey::from_object(object);
        if self.has_version(kind, &key, version(object)) {
            return;
        }
        match kind {
            Kind::Namespace => {
                if insert_if_changed(
                    &mut self.namespaces,
                    key.name,
                    strings(object, "/metadata/labels"),
                ) {
                    self.namespaces_changed();
                }
            }
            Kind::Node => self.upsert_node(key.name, NodeRecord::from_object(object)),
            Kind::PriorityClass => {
                if insert_if_changed(
                    &mut self.priority_classes,
                    key.name,
                    PriorityClassRecord::from_object(object),
                ) {
                    self.mark_everything_changed();
                }
            }
            Kind::Queue => self.upsert_queue(key.name, QueueRecord::from_object(object)),
            Kind::Topology => {
                if insert_if_changed(&mut self.topologies, key.name, topology::from_object(object))
                {
                    self.mark_everything_changed();
                }
            }
            Kind::Karta => {
                if self.kartas.insert_or_remove(key.name, KartaRecord::from_object(object)) {
                    self.mark_everything_changed();
                }
            }
            Kind::NodeResourceTopology => {
                let record = NumaRecord::from_object(object);
                if insert_if_changed(&mut self.numa_topologies, Name::clone(&key.name), record) {
                    self.node_changed(key.name);
                }
            }
            Kind::PodDisruptionBudget => {
                if insert_if_changed(&mut self.budgets, key, disruption_budget::from_object(object))
                {
                    self.budgets_changed();
                }
            }
            Kind::DeviceClass => {
                if self.resource_claims.upsert_class(key.name, object) {
                    self.mark_everything_changed();
                }
            }
            Kind::ResourceSlice => {
                if self.resource_claims.upsert_slice(key.name, object) {
                    self.mark_everything_changed();
                }
            }
            Kind::DeviceTaintRule => {
                if self.resource_claims.upsert_taint_rule(key.name, object) {
                    self.mark_everything_changed();
                }
            }
            Kind::ResourceClaim => self.upsert_claim(&key, ClaimRecord::from_object(object)),
            Kind::Storage(kind) => {
                self.upsert_storage(kind, key, object);
            }
            Kind::ConfigMap => self.upsert_config_map(&key),
            Kind::SchedulingGroup => self.upsert_scheduling_group(&key, object),
            Kind::PodGroup => {
                let record = self.parse_group(object);
                self.upsert_group(key, record);
            }
            Kind::BindRequest => {
                self.upsert_bind_request(key, BindRequestRecord::from_object(object));
            }
            Kind::Pod => self.upsert_pod(key, PodRecord::from_object(object, &self.scheduler_name)),
        }
    }

    /// Inserts an object with a value of the wrong type. The object keeps the resources that it
    /// uses, and gets no new placements. Returns the error.
    pub(crate) fn upsert_mistyped(
        &mut self,
        kind: Kind,
        object: &Value,
        wrong: Malformed,
    ) -> Malformed {
        let key = ObjectKey::from_object(object);
        match kind {
            Kind::Queue => {
                let mut record = QueueRecord::from_object(object);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_queue(key.name, record);
                wrong
            }
            Kind::PodGroup => {
                let mut record = self.parse_group(object);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_group(key, record);
                wrong
            }
            Kind::Pod => {
                let mut record = PodRecord::from_object(object, &self.scheduler_name);
                let wrong = record.malformed.get_or_insert(wrong).clone();
                self.upsert_pod(key, record);
                wrong
            }
            Kind::ResourceClaim => {
                let mut record = ClaimRecord::from_object(object);
                let wrong = record.requests.err().unwrap_or(wrong);
                record.requests = Err(wrong.clone());
                self.upsert_claim(&key, record);
                wrong
            }
            // The pods on the node still count.
            Kind::Node => {
                self.excluded_nodes.insert(key.name, BTreeSet::new());
                wrong
            }
            Kind::Namespace
            | Kind::PriorityClass
            | Kind::Topology
            | Kind::Karta
            | Kind::DeviceClass
            | Kind::ResourceSlice
            | Kind::DeviceTaintRule
            | Kind::Storage(_)
            | Kind::ConfigMap
            | Kind::NodeResourceTopology
            | Kind::SchedulingGroup
            | Kind::PodDisruptionBudget
            | Kind::BindRequest => wrong,
        }
    }

    fn parse_group(&self, object: &Value) -> PodGroupRecord {
        let labels = strings(object, "/metadata/labels");
        let (in_pool, pool_label) = (self.is_in_pool(&labels), self.pool_label(&labels).cloned());
        PodGroupRecord {
            in_pool,
            pool_label,
            ..PodGroupRecord::from_object(object, self.pool_name())
        }
    }

    /// Whether the cache has the object at this resourceVersion or a later one, as after the
    /// response to a write.
    pub(super) fn has_version(&self, kind: Kind, key: &ObjectKey, version: u64) -> bool {
        let known = match kind {
            Kind::Pod => self.pods.get(key).map(|pod| pod.reported.version),
            Kind::SchedulingGroup => self.scheduling_groups.version(key),
            Kind::PodGroup => self.groups.get(key).map(|group| group.reported.version),
            Kind::ResourceClaim => self.resource_claims.claims.get(key).map(|claim| claim.version),
            Kind::BindRequest => self.bind_requests.get(key).map(|request| request.version),
            Kind::Queue => self.queues.get(&key.name).map(|queue| queue.reported.version),
            Kind::Storage(kind) => self.volumes.stored_version(kind, key),
            Kind::Namespace
            | Kind::Node
            | Kind::PriorityClass
            | Kind::Topology
            | Kind::Karta
            | Kind::NodeResourceTopology
            | Kind::DeviceClass
            | Kind::ResourceSlice
            | Kind::DeviceTaintRule
            | Kind::ConfigMap
            | Kind::PodDisruptionBudget => None,
        };
        known.is_some_and(|known| version != 0 && version <= known)
    }

    /// Removes an object that was deleted at this resourceVersion.
    pub(crate) fn remove(&mut self, kind: Kind, key: ObjectKey, version: u64) {
        let gone = match kind {
            Kind::Namespace => {
                if self.namespaces.remove(&key.name).is_some() {
                    self.namespaces_changed();
                }
                false
            }
            Kind::Node => {
                let other = self.excluded_nodes.remove(&key.name).is_some();
                self.nodes.remove(&key.name).is_some() || other
            }
            Kind::PriorityClass => self.priority_classes.remove(&key.name).is_some(),
            Kind::Queue => {
                let other = self.excluded_queues.remove(&key.name);
                self.queues.remove(&key.name).is_some() || other
            }
            Kind::Topology => self.topologies.remove(&key.name).is_some(),
            Kind::Karta => self.kartas.insert_or_remove(key.name, None),
            Kind::NodeResourceTopology => {
                if self.numa_topologies.remove(&key.name).is_some() {
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
            Kind::DeviceClass => self.resource_claims.remove_class(&key.name),
            Kind::ResourceSlice => self.resource_claims.remove_slice(&key.name),
            Kind::DeviceTaintRule => self.resource_claims.remove_taint_rule(&key.name),
            Kind::ResourceClaim => return self.remove_claim(&key, version),
            Kind::Storage(kind) => {
                return self.remove_storage(kind, &key, version);
            }
            Kind::ConfigMap => return self.remove_config_map(&key),
            Kind::SchedulingGroup => return self.remove_scheduling_group(&key, version),
            Kind::PodGroup => return self.remove_group(key, version),
            Kind::BindRequest => return self.remove_bind_request(key, version),
            Kind::Pod => return self.remove_pod(key, version),
        };
        if gone {
            self.mark_everything_changed();
        }
    }
}

#[cfg(test)]
impl ClusterCache {
    /// A cache with test objects of the kinds that they state; an object without kind is a pod.
    pub(crate) fn from_objects(objects: &[Value]) -> Self {
        let mut cache = Self::new("kai-scheduler");
        for object in objects {
            let kind = match object["kind"].as_str() {
                Some("Node") => Kind::Node,
                Some("Queue") => Kind::Queue,
                Some("BindRequest") => Kind::BindRequest,
                Some("PodGroup") if object["apiVersion"] == api_versions::WORKLOAD => {
                    Kind::SchedulingGroup
                }
                Some("PodGroup") => Kind::PodGroup,
                Some("DeviceClass") => Kind::DeviceClass,
                Some("ResourceSlice") => Kind::ResourceSlice,
                Some("DeviceTaintRule") => Kind::DeviceTaintRule,
                Some("ResourceClaim") => Kind::ResourceClaim,
                _ => Kind::Pod,
            };
            cache.upsert(kind, object);
        }
        cache
    }
}
