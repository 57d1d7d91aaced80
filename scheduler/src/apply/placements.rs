//! Bindings, the events about them, and pipelined pods.

use std::collections::BTreeSet;

use schedlab_api::{
    Value, annotations,
    conditions::{self, BINDING_ERROR},
    json, labels,
};
use schedlab_scheduler_core::{
    Decision,
    model::{GpuGroup, Name, NodeId, PodGroupId, PodId, PodStatus, Time},
};

use super::{
    Applier, Cycle, Event, EventType, InvolvedObject,
    writes::{OnSuccess, Request, Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::ClusterCache,
    config::{Flavor, NodePool},
    records::{ObjectKey, placements_to_json},
    snapshot_builder::pods_of_group,
    watch::Kind,
};

impl Applier {
    /// Binds a pod. A group annotation that is not written yet is part of the Binding: the API
    /// server copies it to the pod. Labels are written before the Binding: a pod with a node must
    /// have them, and on a pod without node they have no effect.
    pub(super) fn binding_writes(
        &self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) -> WriteSequence {
        let key = cycle.key(pod);
        let node = &cycle.snapshot.nodes[node.0 as usize].name;
        let uid = &cycle.snapshot.pods[pod.0 as usize].uid;
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": &*key.name, "namespace": &*key.namespace, "uid": &**uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": &**node },
        });
        let record = cache.pods.get(&key).filter(|record| !record.reported.has_group_annotation);
        if let Some(group) = record.and_then(|record| record.group.as_ref()) {
            object["metadata"]["annotations"] = json!({ (annotations::POD_GROUP_NAME): &**group });
        }
        let zones = cycle.plan.numa_allocations.get(&pod).cloned().unwrap_or_default();
        if !zones.is_empty() {
            let predicted = placements_to_json(&zones).to_string();
            object["metadata"]["annotations"][annotations::NUMA_PLACEMENT_PREDICTED] =
                json!(predicted);
        }
        let path = object_path("v1", &key.namespace, "pods", &key.name);
        let devices = cycle.plan.gpu_groups.get(&pod).map(|devices| {
            let known = cache.pods.get(&key).into_iter().flat_map(|pod| pod.labels.keys());
            shared_gpu_labels(known.map(|label| &**label), devices)
        });
        let labels = self.missing_pool_label(cycle, pod).map(|(label, value)| {
            let mut change = devices.clone().unwrap_or_default();
            change["metadata"]["labels"][label] = json!(value);
            change
        });
        let labels = labels.or(devices);
        let labels = labels.map(|it| Write::patch(Kind::Pod, path.clone(), PatchKind::Merge, it));
        let request = Request::Bind { path: format!("{path}/binding"), object };
        let bind = Write { request, on_success: OnSuccess::Bound(key, Name::clone(node), zones) };
        labels.into_iter().chain([bind]).collect()
    }

    /// Label of the node pool, if the pod lacks one and is in the pool by its group only. As in
    /// KAI, every pod that runs in a pool has its label.
    pub(super) fn missing_pool_label(&self, cycle: &Cycle<'_>, pod: PodId) -> Option<(&str, &str)> {
        let NodePool { label, value } = self.node_pool.as_ref()?;
        let has = cycle.snapshot.pods[pod.0 as usize].labels.contains_key(label.as_str());
        (!value.is_empty() && !has).then_some((label, value))
    }

    /// Reports the bindings of this cycle: one event per pod, and the start of groups.
    pub(super) async fn report_bindings(&mut self, cache: &mut ClusterCache, cycle: &Cycle<'_>) {
        let pods = &cycle.snapshot.pods;
        let is_active = |status| {
            matches!(status, PodStatus::Bound | PodStatus::Running | PodStatus::OnExcludedNode)
        };
        // Groups that got their first pod now, or had one before.
        let mut active: BTreeSet<PodGroupId> = BTreeSet::new();
        let (mut starts, mut chains) = (Vec::new(), Vec::new());
        for decision in &cycle.plan.decisions {
            let Decision::Bind { pod, node } = decision else {
                continue;
            };
            let (key, node_name) = (cycle.key(*pod), &cycle.snapshot.nodes[node.0 as usize].name);
            if !self.bound.contains(&key) {
                self.start_backoff_if_refused(cache, &key, node_name, cycle.now);
                chains.extend(self.refused_binding_report(cache, &key, node_name, cycle.now));
                continue;
            }
            let had_no_pod = |group: &PodGroupId| {
                let members = pods_of_group(cache, cycle.snapshot, *group);
                !members.into_iter().any(|pod| is_active(pods[pod.0 as usize].status))
            };
            let group = cycle.group(*pod).filter(|group| active.insert(*group));
            if let Some(group) = group.filter(had_no_pod) {
                starts.extend(
                    self.start_annotation(&cycle.snapshot.pod_groups[group.0 as usize], cycle.now),
                );
            }
            chains.push(vec![self.scheduled_write(
                &key,
                &pods[pod.0 as usize].uid,
                node_name,
                cycle.now,
            )]);
        }
        // The event of a pod implies that the start of its group was written.
        self.write(cache, starts).await;
        self.write(cache, chains).await;
    }

    /// Starts the backoff of a pod whose binding or BindRequest was refused.
    fn start_backoff_if_refused(
        &self,
        cache: &mut ClusterCache,
        key: &ObjectKey,
        node: &Name,
        now: Time,
    ) {
        if let Some(why) = self.refused.get(key) {
            cache.record_bind_failure(key, &refused_message(key, node, why), now);
        }
    }

    /// The writes of event and condition with the error of a refused Binding or BindRequest; `None`
    /// if the pod was not refused, or has the condition already.
    pub(super) fn refused_binding_report(
        &self,
        cache: &ClusterCache,
        key: &ObjectKey,
        node: &Name,
        now: Time,
    ) -> Option<WriteSequence> {
        let (why, pod) = (self.refused.get(key)?, cache.pods.get(key)?);
        let message = refused_message(key, node, why);
        let condition = pod.reported.pod_scheduled.as_ref();
        if self.flavor == Flavor::Kube
            || condition.is_some_and(|condition| *condition.message == *message)
        {
            return None;
        }
        let event = Event {
            involved: &InvolvedObject::for_pod(key, &pod.uid),
            event_type: EventType::Warning,
            reason: "FailedBinding",
            message: &message,
            dedup_key: None,
            dedup_scope: &pod.reported.version.to_string(),
        };
        let change = json!({ "status": { "conditions": [{
            "type": conditions::POD_SCHEDULED,
            "status": "False",
            "reason": BINDING_ERROR,
            "message": message,
        }] } });
        let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
        Some(vec![
            Write::create_event(&event, &self.api.name, now),
            Write::patch(Kind::Pod, path, PatchKind::Strategic, change),
        ])
    }

    /// The write of the `Scheduled` event of a pod.
    pub(super) fn scheduled_write(
        &self,
        key: &ObjectKey,
        uid: &Name,
        node: &Name,
        now: Time,
    ) -> Write {
        let (about, message) =
            (InvolvedObject::for_pod(key, uid), self.scheduled_message(key, node));
        Write::create_event(&scheduled_event(&about, &message), &self.api.name, now)
    }

    pub(super) fn scheduled_message(&self, key: &ObjectKey, node: &Name) -> String {
        match self.flavor {
            Flavor::Kai => {
                let pool = &self.pool;
                format!("Successfully assigned pod {key} to node {node} at node-pool {pool}")
            }
            Flavor::Kube => format!("Successfully assigned {key} to {node}"),
        }
    }

    /// Reports the node that a pod waits for. The next cycle may decide otherwise.
    pub(super) fn nominate_nodes(
        &mut self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        pod: PodId,
        node: NodeId,
    ) -> Option<WriteSequence> {
        let key = cycle.key(pod);
        let node = &cycle.snapshot.nodes[node.0 as usize].name;
        match self.flavor {
            Flavor::Kai => {
                let about = InvolvedObject::for_pod(&key, &cycle.snapshot.pods[pod.0 as usize].uid);
                let event = Event {
                    involved: &about,
                    event_type: EventType::Normal,
                    reason: "Pipelined",
                    message: &format!("Pod {key} was pipelined to node {node}"),
                    dedup_key: None,
                    dedup_scope: "",
                };
                let name = event.object_name();
                if self.reported_pipelined.get(&key) == Some(&name) {
                    return None;
                }
                self.reported_pipelined.insert(key, name);
                Some(vec![Write::create_event(&event, &self.api.name, cycle.now)])
            }
            Flavor::Kube => nominated_node_sequence(cache, &key, node),
        }
    }
}

fn refused_message(pod: &ObjectKey, node: &Name, why: &str) -> String {
    format!("Failed to bind pod {pod} to node {node}. {why}")
}

/// Labels with the GPU groups of a pod.
pub(crate) fn shared_gpu_labels<'a>(
    known: impl Iterator<Item = &'a str>,
    devices: &[GpuGroup],
) -> Value {
    let is_old = |label: &&str| {
        label.strip_prefix(labels::GPU_GROUP).is_some_and(|rest| rest.starts_with('/'))
    };
    let mut labels: schedlab_api::Map =
        known.filter(is_old).map(|old| (old.to_owned(), Value::Null)).collect();
    if let [one] = devices {
        labels.insert(labels::GPU_GROUP.to_owned(), json!(&**one));
    } else {
        labels.insert(labels::GPU_GROUP.to_owned(), Value::Null);
        let several = devices.iter();
        labels.extend(several.map(|one| (format!("{}/{one}", labels::GPU_GROUP), json!(&**one))));
    }
    let annotations = json!({ "received-resource-type": "Fraction" });
    json!({ "metadata": { "labels": labels, "annotations": annotations } })
}

/// Event `Scheduled` about a pod.
pub(super) fn scheduled_event<'a>(object: &'a InvolvedObject, message: &'a str) -> Event<'a> {
    let (level, reason) = (EventType::Normal, "Scheduled");
    Event { involved: object, event_type: level, reason, message, dedup_key: None, dedup_scope: "" }
}

fn nominated_node_sequence(
    cache: &ClusterCache,
    key: &ObjectKey,
    node: &str,
) -> Option<WriteSequence> {
    let nominated = cache.pods.get(key).and_then(|pod| pod.nominated_node.as_deref());
    if nominated == Some(node) {
        return None;
    }
    let change = json!({ "status": { "nominatedNodeName": node } });
    let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
    Some(vec![Write::patch(Kind::Pod, path, PatchKind::Merge, change)])
}
