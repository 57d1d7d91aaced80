//! A cluster as questions and advice see it: a small JSON document with nodes, pods, queues and
//! evictions, and the objects of the learner's namespace.

use std::collections::BTreeMap;

use schedlab_api::{Value, json, object, quantity::thousandths, resources};
use schedlab_conformance::runner::live::{EvictedPod, LiveCluster};
use schedlab_conformance::world::observed::{ObservedCluster, Phase, Pod, WatchedKind};
use schedlab_emulator::store::{EventKind, LogEntry};

/// Kinds that are in the digest as they are, by the plural of their resource.
const WHOLE_KINDS: [&str; 7] =
    ["deployments", "replicasets", "jobs", "podgroups", "trainjobs", "events", "queues"];

/// The cluster as a JSON document:
///
/// * `nodes`: name, ready, gpus, free, labels
/// * `pods`: name, namespace, queue, phase, node, gpus, priorityClass, message, labels
/// * `queues` by name: parent, quota, limit, weight, priority, used, fairShare
/// * `evictions`: pod, queue, for, message, time
/// * `objects` by plural name: the objects themselves
pub fn cluster_digest(cluster: &LiveCluster) -> Value {
    let view = cluster.view();
    let pods: Vec<Pod<'_>> = view.current_pods().collect();
    let evictions = cluster.evictions();
    json!({
        "now": cluster.emulator().clock().now().to_string(),
        "nodes": view.objects_of_kind(WatchedKind::Nodes).map(|node| node_entry(node, &pods)).collect::<Vec<_>>(),
        "pods": pods.iter().map(|pod| pod_entry(*pod, view)).collect::<Vec<_>>(),
        "queues": queue_entries(cluster),
        "evictions": evictions.iter().map(eviction_entry).collect::<Vec<_>>(),
        "objects": whole_objects(cluster),
    })
}

fn node_entry(node: &Value, pods: &[Pod<'_>]) -> Value {
    let name = object::name(node);
    let gpus = thousandths(&node["status"]["allocatable"][resources::GPU]).unwrap_or(0);
    let held = pods.iter().filter(|pod| pod.node_name() == name && holds_gpus(**pod));
    let held: i128 = held.map(|pod| pod.gpu_milli()).sum();
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    json!({
        "name": name,
        "ready": ready.any(|condition| condition["status"] == "True"),
        "gpus": whole(gpus),
        "free": whole(gpus - held),
        "labels": node["metadata"]["labels"].clone(),
    })
}

/// Whether a pod is bound and has not ended.
fn holds_gpus(pod: Pod<'_>) -> bool {
    match pod.current_phase() {
        Phase::Starting | Phase::Running | Phase::Terminating => true,
        Phase::Pending | Phase::Gated | Phase::Succeeded | Phase::Failed => false,
    }
}

fn pod_entry(pod: Pod<'_>, view: &ObservedCluster) -> Value {
    json!({
        "name": pod.pod_name(),
        "namespace": pod.pod_namespace(),
        "queue": pod.queue_name(view).unwrap_or_default(),
        "phase": format!("{:?}", pod.current_phase()),
        "node": pod.node_name(),
        "gpus": whole(pod.gpu_milli()),
        "schedulerName": pod.0["spec"]["schedulerName"].clone(),
        "priorityClass": pod.0["spec"]["priorityClassName"].clone(),
        "podGroup": pod.pod_group(view).map(|group| object::name(group).to_owned()),
        "message": pod.unschedulable_message().unwrap_or_default(),
        "labels": pod.0["metadata"]["labels"].clone(),
        "annotations": pod.0["metadata"]["annotations"].clone(),
    })
}

fn queue_entries(cluster: &LiveCluster) -> Value {
    let progress = cluster.progress();
    let mut entries = json!({});
    for queue in cluster.view().objects_of_kind(WatchedKind::Queues) {
        let name = object::name(queue);
        let gpu = &queue["spec"]["resources"]["gpu"];
        let shares = progress.queues.iter().find(|one| *one.name == *name);
        let used = thousandths(&queue["status"]["allocated"][resources::GPU]);
        entries[name] = json!({
            "parent": queue["spec"]["parentQueue"].clone(),
            "quota": gpu["quota"].clone(),
            "limit": gpu["limit"].clone(),
            "weight": gpu["overQuotaWeight"].clone(),
            "priority": queue["spec"]["priority"].clone(),
            "used": whole(used.unwrap_or(0)),
            "fairShare": shares.map(|one| whole(i128::from(one.fair_share.gpu))),
        });
    }
    entries
}

fn eviction_entry(eviction: &EvictedPod) -> Value {
    json!({
        "pod": eviction.name,
        "queue": eviction.queue,
        "for": eviction.evictor,
        "message": eviction.message,
        "time": eviction.time,
    })
}

/// The last state of the objects that exist, by kind.
fn whole_objects(cluster: &LiveCluster) -> Value {
    let mut objects: BTreeMap<(String, String, String), Value> = BTreeMap::new();
    for entry in cluster.write_log() {
        let LogEntry { key, kind, object, .. } = &*entry;
        let plural = &*key.resource.plural;
        if !WHOLE_KINDS.contains(&plural) {
            continue;
        }
        let place = (plural.to_owned(), key.namespace.to_string(), key.name.to_string());
        match kind {
            EventKind::Deleted => objects.remove(&place),
            EventKind::Added | EventKind::Modified => objects.insert(place, (**object).clone()),
        };
    }
    let mut by_kind = json!({});
    for plural in WHOLE_KINDS {
        let of_kind = objects.iter().filter(|((of, _, _), _)| of == plural);
        by_kind[plural] =
            Value::from(of_kind.map(|(_, object)| object.clone()).collect::<Vec<_>>());
    }
    by_kind
}

/// An amount in thousandths as a number: whole if it is.
fn whole(thousandths: i128) -> Value {
    if thousandths % 1000 == 0 {
        return i64::try_from(thousandths / 1000).map_or(Value::Null, Value::from);
    }
    let parts = i32::try_from(thousandths).unwrap_or(i32::MAX);
    Value::from(f64::from(parts) / 1000.0)
}
