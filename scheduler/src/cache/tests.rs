//! Watched and assumed state in the cache.

use insta::assert_snapshot;
use schedlab_api::json;

use schedlab_scheduler_core::model::{LeaderRole, Time};

use super::*;
use crate::watch::Kind;

fn pod(version: u64, uid: &str, spec: &Value) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "p", "uid": uid,
                      "resourceVersion": version.to_string() },
        "spec": spec,
    })
}

fn key() -> ObjectKey {
    ObjectKey { namespace: "ns".into(), name: "p".into() }
}

#[test]
fn an_assumed_node_holds_until_the_watch_confirms_it() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    cache.assume_bound(&key(), &"n1".into(), Vec::new());
    cache.upsert(Kind::Pod, &pod(2, "u", &json!({ "priority": 3 })));
    assert_eq!(cache.pods[&key()].node.as_deref(), Some("n1"));
    let decided = cache.revision;
    cache.upsert(Kind::Pod, &pod(3, "u", &json!({ "priority": 3, "nodeName": "n1" })));
    assert_eq!(cache.revision, decided, "what was assumed is no news");
}

#[test]
fn an_assumed_group_holds_until_its_annotation_is_confirmed_or_removed() {
    let mut cache = ClusterCache::new("kai-scheduler");
    let named = json!({ "schedulerName": "kai-scheduler" });
    cache.upsert(Kind::Pod, &pod(1, "u", &named));
    cache.assume_grouped(&key(), &"pg".into());
    cache.upsert(Kind::Pod, &pod(2, "u", &named));
    assert_eq!(cache.pods[&key()].group.as_deref(), Some("pg"));
    assert!(cache.pods[&key()].needs_group_annotation());
    let decided = cache.revision;
    let mut marked = pod(3, "u", &named);
    marked["metadata"]["annotations"] = json!({ "pod-group-name": "pg" });
    cache.upsert(Kind::Pod, &marked);
    assert_eq!(cache.revision, decided, "what was assumed is no news");
    assert!(!cache.pods[&key()].needs_group_annotation());
    cache.upsert(Kind::Pod, &pod(4, "u", &named));
    assert_eq!(cache.pods[&key()].group, None);
    assert!(cache.members.is_empty());
}

#[test]
fn only_the_last_event_of_a_pod_is_decoded() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.on_event(Kind::Pod, RawObject::from_value(&pod(1, "u", &json!({ "nodeName": "n1" }))));
    cache.on_event(Kind::Pod, RawObject::from_value(&pod(2, "u", &json!({ "nodeName": "n2" }))));
    assert!(cache.pods.is_empty() && cache.has_undecoded_pods());
    cache.decode_pods();
    assert_eq!((cache.revision, cache.has_undecoded_pods()), (1, false));
    assert_eq!(cache.pods[&key()].node.as_deref(), Some("n2"));

    cache.on_event(Kind::Pod, RawObject::from_value(&pod(3, "u", &json!({}))));
    cache.remove(Kind::Pod, key(), 4);
    cache.decode_pods();
    assert!(cache.pods.is_empty(), "it was gone before it was read");

    cache.on_event(Kind::Pod, RawObject::from_value(&pod(5, "u", &json!({}))));
    cache.relist(Kind::Pod, &[]);
    cache.decode_pods();
    assert!(cache.pods.is_empty(), "the list is newer");

    cache.on_event(Kind::Pod, RawObject::from_value(&pod(6, "u", &json!({ "nodeName": "n1" }))));
    cache.upsert(Kind::Pod, &pod(7, "u", &json!({ "nodeName": "n2" })));
    cache.decode_pods();
    assert_eq!(cache.pods[&key()].node.as_deref(), Some("n2"), "a later answer stands");
}

#[test]
fn a_recreated_pod_inherits_no_assumed_state() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    cache.assume_bound(&key(), &"n1".into(), Vec::new());
    cache.assume_releasing(&key(), Time(0));
    cache.upsert(Kind::Pod, &pod(2, "other", &json!({})));
    assert!(cache.pods[&key()].is_waiting());
}

#[test]
fn an_older_watch_event_does_not_undo_a_newer_response() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(Kind::Pod, &pod(5, "u", &json!({ "priority": 5 })));
    cache.upsert(Kind::Pod, &pod(4, "u", &json!({ "priority": 4 })));
    assert_eq!(cache.pods[&key()].priority, 5);
    cache.remove(Kind::Pod, key(), 3);
    assert!(cache.pods.contains_key(&key()));
    cache.remove(Kind::Pod, key(), 6);
    assert!(cache.pods.is_empty());
}

#[test]
fn conditions_written_by_the_scheduler_do_not_change_the_revision() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    let before = cache.revision;
    let mut rendered = pod(2, "u", &json!({}));
    rendered["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False" }]);
    cache.upsert(Kind::Pod, &rendered);
    assert_eq!(cache.revision, before);
    assert!(cache.pods[&key()].reported.pod_scheduled.is_some());
}

#[test]
fn a_queue_of_a_known_or_older_version_is_ignored() {
    let mut cache = ClusterCache::new("kai-scheduler");
    let queue = |version: u64, priority: i32| {
        json!({
            "metadata": { "name": "q", "uid": "u", "resourceVersion": version.to_string() },
            "spec": { "priority": priority },
        })
    };
    let priority = |cache: &ClusterCache| cache.queues[&Name::from("q")].priority;
    cache.upsert(Kind::Queue, &queue(1, 1));
    cache.upsert(Kind::Queue, &queue(1, 7));
    assert_eq!(priority(&cache), 1, "the state of this version is known");
    cache.upsert(Kind::Queue, &queue(3, 3));
    cache.on_event(Kind::Queue, RawObject::from_value(&queue(2, 2)));
    assert_eq!(priority(&cache), 3, "that was before");
}

#[test]
fn a_list_replaces_the_known_objects() {
    let mut cache = ClusterCache::new("kai-scheduler");
    cache.upsert(Kind::Pod, &pod(9, "u", &json!({})));
    cache.relist(Kind::Pod, &[]);
    assert!(cache.pods.is_empty());
}

#[test]
fn only_nodes_queues_and_pods_of_the_node_pool_are_used() {
    let pool = |value: &str| {
        let (label, value) = ("pool".to_owned(), value.to_owned());
        ClusterCache::new("kai-scheduler").with_pool(Some(NodePool { label, value }))
    };
    let labelled = |pool: &str| json!({ "metadata": { "name": "a", "labels": { "pool": pool } } });
    let bare = json!({ "metadata": { "name": "bare" } });
    let names =
        |cache: &ClusterCache| cache.nodes.keys().map(ToString::to_string).collect::<Vec<_>>();
    let (mut x, mut rest) = (pool("x"), pool(""));
    x.relist(Kind::Node, &[labelled("x"), bare.clone()]);
    rest.relist(Kind::Node, &[labelled("x"), bare]);
    assert_eq!((names(&x), names(&rest)), (vec!["a".to_owned()], vec!["bare".to_owned()]));
    x.upsert(Kind::Node, &labelled("y"));
    assert!(x.nodes.is_empty(), "it was labelled anew");
    let queues =
        |cache: &ClusterCache| cache.queues.keys().map(ToString::to_string).collect::<Vec<_>>();
    let bare = json!({ "metadata": { "name": "bare" } });
    x.relist(Kind::Queue, &[labelled("x"), bare.clone()]);
    rest.relist(Kind::Queue, &[labelled("x"), bare]);
    assert_eq!((queues(&x), queues(&rest)), (vec!["a".to_owned()], vec!["bare".to_owned()]));
    x.upsert(Kind::Queue, &labelled("y"));
    assert!(x.queues.is_empty(), "it was labelled anew");
    let mut ours = pod(1, "u", &json!({ "schedulerName": "kai-scheduler" }));
    ours["metadata"]["labels"] = json!({ "pool": "x" });
    x.upsert(Kind::Pod, &ours);
    rest.upsert(Kind::Pod, &ours);
    assert_eq!((x.pods[&key()].is_ours, rest.pods[&key()].is_ours), (true, false));
}

#[test]
fn the_pool_label_of_the_pod_group_outweighs_that_of_the_pod() {
    let (label, value) = ("pool".to_owned(), "x".to_owned());
    let pool = Some(NodePool { label, value });
    let mut cache = ClusterCache::new("kai-scheduler").with_pool(pool);
    let labels = |pool: &str| match pool {
        "" => json!({}),
        pool => json!({ "pool": pool }),
    };
    let group = |version: u64, pool: &str| {
        json!({ "metadata": {
            "namespace": "ns", "name": "g", "resourceVersion": version.to_string(),
            "labels": labels(pool),
        } })
    };
    let named = |version: u64, pool: &str| {
        let mut pod = pod(version, "u", &json!({ "schedulerName": "kai-scheduler" }));
        pod["metadata"]["labels"] = labels(pool);
        pod["metadata"]["annotations"] = json!({ "pod-group-name": "g" });
        pod
    };
    let is_ours = |cache: &mut ClusterCache| {
        let changes = std::mem::take(&mut cache.changes);
        (cache.pods[&key()].is_ours, changes.pods.contains(&key()))
    };
    cache.upsert(Kind::Pod, &named(1, ""));
    assert_eq!(is_ours(&mut cache), (false, true), "nothing is of pool x yet");
    cache.upsert(Kind::PodGroup, &group(2, "x"));
    assert_eq!(is_ours(&mut cache), (true, true), "its group is");
    cache.upsert(Kind::Pod, &named(3, "y"));
    assert_eq!(is_ours(&mut cache), (true, true), "its own label says another");
    cache.upsert(Kind::PodGroup, &group(4, "y"));
    cache.upsert(Kind::Pod, &named(5, "x"));
    assert_eq!(is_ours(&mut cache), (false, true), "its group was moved");
    cache.relist(Kind::PodGroup, &[]);
    assert_eq!(is_ours(&mut cache), (true, true), "without a group its own label counts");
    cache.upsert(Kind::PodGroup, &group(6, ""));
    assert_eq!(is_ours(&mut cache), (false, true), "its group is of no pool");
}

#[test]
fn launchers_masters_and_heads_are_leaders() {
    let leads = |label: &str, role: &str| {
        let mut pod = pod(1, "u", &json!({}));
        pod["metadata"]["labels"] = json!({ label: role });
        PodRecord::from_object(&pod, "kai-scheduler").leader_role()
    };
    let (kubeflow, ray) = (Some(LeaderRole::Kubeflow), Some(LeaderRole::Ray));
    assert_eq!(leads("training.kubeflow.org/job-role", "launcher"), kubeflow);
    assert_eq!(leads("training.kubeflow.org/job-role", "master"), kubeflow);
    assert_eq!(leads("ray.io/node-type", "head"), ray);
    assert_eq!(leads("training.kubeflow.org/job-role", "worker"), None);
    assert_eq!(leads("ray.io/node-type", "worker"), None);
    assert_eq!(leads("role", "master"), None);
}

#[test]
fn only_worker_nodes_are_used_when_scheduling_is_restricted_to_them() {
    let labelled = |role: &str| {
        let label = format!("node-role.kubernetes.io/{role}");
        json!({ "metadata": { "name": role, "labels": { label: "" } } })
    };
    let nodes = [labelled("cpu-worker"), labelled("gpu-worker"), labelled("worker")];
    let seen = |workers_only| {
        let mut cache = ClusterCache::new("kai-scheduler").with_workers_only(workers_only);
        cache.relist(Kind::Node, &nodes);
        cache.nodes.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(seen(true), ["cpu-worker", "gpu-worker"]);
    assert_eq!(seen(false), ["cpu-worker", "gpu-worker", "worker"]);
}

#[test]
fn excluded_nodes_are_known_with_their_missing_labels() {
    let pool = |value: &str| {
        let (label, value) = ("pool".to_owned(), value.to_owned());
        ClusterCache::new("kai-scheduler")
            .with_pool(Some(NodePool { label, value }))
            .with_workers_only(true)
    };
    let node =
        |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels } });
    let (gpu, cpu) = ("node-role.kubernetes.io/gpu-worker", "node-role.kubernetes.io/cpu-worker");
    let rendered = |cache: &ClusterCache| {
        let rendered = cache.excluded_nodes();
        let rendered =
            rendered.iter().map(|of| format!("{} {:?}", of.nodes.join(","), of.mismatches));
        rendered.collect::<Vec<_>>().join("\n")
    };
    let nodes = [
        node("a", json!({ "pool": "x", gpu: "" })),
        node("b", json!({ "pool": "y", gpu: "" })),
        node("c", json!({ "pool": "x" })),
        node("d", json!({})),
        node("e", json!({ cpu: "", gpu: "" })),
    ];
    let (mut x, mut rest) = (pool("x"), pool(""));
    x.relist(Kind::Node, &nodes);
    rest.relist(Kind::Node, &nodes);
    assert_snapshot!(rendered(&x), @r#"
    e {Missing { key: "pool", value: "x" }}
    d {Missing { key: "pool", value: "x" }, NotGpuWorker, NotCpuWorker}
    b {Missing { key: "pool", value: "x" }, NotCpuWorker}
    c {NotGpuWorker, NotCpuWorker}
    "#);
    assert_snapshot!(rendered(&rest), @r#"
    c {Unwanted { key: "pool" }, NotGpuWorker, NotCpuWorker}
    a,b {Unwanted { key: "pool" }, NotCpuWorker}
    d {NotGpuWorker, NotCpuWorker}
    "#);
    x.changes.everything = false;
    x.upsert(Kind::Node, &nodes[1]);
    assert!(!x.changes.everything, "it lacks what it lacked");
    x.upsert(Kind::Node, &node("b", json!({ "pool": "y" })));
    assert!(x.changes.everything, "it lacks more");
    for name in ["b", "c", "d", "e"] {
        x.upsert(Kind::Node, &node(name, json!({ "pool": "x", cpu: "" })));
    }
    assert_snapshot!(rendered(&x), @"");
}
