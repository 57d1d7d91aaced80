//! What the mirror keeps of what it is told, and of what it assumes.

use insta::assert_snapshot;
use schedlab_json::json;

use schedlab_scheduler_core::model::{Leader, Time};

use super::*;
use crate::watch::Kind;

fn pod(version: u64, uid: &str, spec: &Value) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "p", "uid": uid,
                      "resourceVersion": version.to_string() },
        "spec": spec,
    })
}

fn key() -> Key {
    Key { namespace: "ns".into(), name: "p".into() }
}

#[test]
fn a_binding_holds_until_the_watch_confirms_it() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    mirror.assume_bound(&key(), &"n1".into(), Vec::new());
    mirror.upsert(Kind::Pod, &pod(2, "u", &json!({ "priority": 3 })));
    assert_eq!(mirror.pods[&key()].node.as_deref(), Some("n1"));
    let decided = mirror.revision;
    mirror.upsert(Kind::Pod, &pod(3, "u", &json!({ "priority": 3, "nodeName": "n1" })));
    assert_eq!(mirror.revision, decided, "what was assumed is no news");
}

#[test]
fn a_group_holds_until_its_mark_is_confirmed_or_taken_away() {
    let mut mirror = Mirror::new("kai-scheduler");
    let named = json!({ "schedulerName": "kai-scheduler" });
    mirror.upsert(Kind::Pod, &pod(1, "u", &named));
    mirror.assume_grouped(&key(), &"pg".into());
    mirror.upsert(Kind::Pod, &pod(2, "u", &named));
    assert_eq!(mirror.pods[&key()].group.as_deref(), Some("pg"));
    assert!(mirror.pods[&key()].lacks_mark());
    let decided = mirror.revision;
    let mut marked = pod(3, "u", &named);
    marked["metadata"]["annotations"] = json!({ "pod-group-name": "pg" });
    mirror.upsert(Kind::Pod, &marked);
    assert_eq!(mirror.revision, decided, "what was assumed is no news");
    assert!(!mirror.pods[&key()].lacks_mark());
    mirror.upsert(Kind::Pod, &pod(4, "u", &named));
    assert_eq!(mirror.pods[&key()].group, None);
    assert!(mirror.members.is_empty());
}

#[test]
fn a_pod_is_read_as_it_was_told_of_last() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.hear(Kind::Pod, Unread::of(&pod(1, "u", &json!({ "nodeName": "n1" }))));
    mirror.hear(Kind::Pod, Unread::of(&pod(2, "u", &json!({ "nodeName": "n2" }))));
    assert!(mirror.pods.is_empty() && mirror.has_unread());
    mirror.read_pods();
    assert_eq!((mirror.revision, mirror.has_unread()), (1, false));
    assert_eq!(mirror.pods[&key()].node.as_deref(), Some("n2"));

    mirror.hear(Kind::Pod, Unread::of(&pod(3, "u", &json!({}))));
    mirror.remove(Kind::Pod, key(), 4);
    mirror.read_pods();
    assert!(mirror.pods.is_empty(), "it was gone before it was read");

    mirror.hear(Kind::Pod, Unread::of(&pod(5, "u", &json!({}))));
    mirror.relist(Kind::Pod, &[]);
    mirror.read_pods();
    assert!(mirror.pods.is_empty(), "the list is newer");

    mirror.hear(Kind::Pod, Unread::of(&pod(6, "u", &json!({ "nodeName": "n1" }))));
    mirror.upsert(Kind::Pod, &pod(7, "u", &json!({ "nodeName": "n2" })));
    mirror.read_pods();
    assert_eq!(mirror.pods[&key()].node.as_deref(), Some("n2"), "a later answer stands");
}

#[test]
fn a_pod_made_anew_under_the_same_name_starts_clean() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    mirror.assume_bound(&key(), &"n1".into(), Vec::new());
    mirror.assume_leaving(&key(), Time(0));
    mirror.upsert(Kind::Pod, &pod(2, "other", &json!({})));
    assert!(mirror.pods[&key()].waits());
}

#[test]
fn old_news_do_not_undo_what_an_answer_said() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::Pod, &pod(5, "u", &json!({ "priority": 5 })));
    mirror.upsert(Kind::Pod, &pod(4, "u", &json!({ "priority": 4 })));
    assert_eq!(mirror.pods[&key()].priority, 5);
    mirror.remove(Kind::Pod, key(), 3);
    assert!(mirror.pods.contains_key(&key()));
    mirror.remove(Kind::Pod, key(), 6);
    assert!(mirror.pods.is_empty());
}

#[test]
fn conditions_that_we_write_are_no_news() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::Pod, &pod(1, "u", &json!({})));
    let before = mirror.revision;
    let mut told = pod(2, "u", &json!({}));
    told["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "False" }]);
    mirror.upsert(Kind::Pod, &told);
    assert_eq!(mirror.revision, before);
    assert!(mirror.pods[&key()].told.scheduled.is_some());
}

#[test]
fn a_queue_is_read_again_only_when_it_is_another_state() {
    let mut mirror = Mirror::new("kai-scheduler");
    let queue = |version: u64, priority: i32| {
        json!({
            "metadata": { "name": "q", "uid": "u", "resourceVersion": version.to_string() },
            "spec": { "priority": priority },
        })
    };
    let priority = |mirror: &Mirror| mirror.queues[&Name::from("q")].priority;
    mirror.upsert(Kind::Queue, &queue(1, 1));
    mirror.upsert(Kind::Queue, &queue(1, 7));
    assert_eq!(priority(&mirror), 1, "the state of this version is known");
    mirror.upsert(Kind::Queue, &queue(3, 3));
    mirror.hear(Kind::Queue, Unread::of(&queue(2, 2)));
    assert_eq!(priority(&mirror), 3, "that was before");
}

#[test]
fn a_list_replaces_what_was_known() {
    let mut mirror = Mirror::new("kai-scheduler");
    mirror.upsert(Kind::Pod, &pod(9, "u", &json!({})));
    mirror.relist(Kind::Pod, &[]);
    assert!(mirror.pods.is_empty());
}

#[test]
fn only_nodes_and_pods_of_the_pool_are_seen_as_ones_own() {
    let pool = |value: &str| {
        let (label, value) = ("pool".to_owned(), value.to_owned());
        Mirror::new("kai-scheduler").of_pool(Some(NodePool { label, value }))
    };
    let labelled = |pool: &str| json!({ "metadata": { "name": "a", "labels": { "pool": pool } } });
    let bare = json!({ "metadata": { "name": "bare" } });
    let names = |mirror: &Mirror| mirror.nodes.keys().map(ToString::to_string).collect::<Vec<_>>();
    let (mut x, mut rest) = (pool("x"), pool(""));
    x.relist(Kind::Node, &[labelled("x"), bare.clone()]);
    rest.relist(Kind::Node, &[labelled("x"), bare]);
    assert_eq!((names(&x), names(&rest)), (vec!["a".to_owned()], vec!["bare".to_owned()]));
    x.upsert(Kind::Node, &labelled("y"));
    assert!(x.nodes.is_empty(), "it was labelled anew");
    let queues =
        |mirror: &Mirror| mirror.queues.keys().map(ToString::to_string).collect::<Vec<_>>();
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
    assert_eq!((x.pods[&key()].ours, rest.pods[&key()].ours), (true, false));
}

#[test]
fn a_pod_is_of_the_pool_that_its_group_says_whatever_its_own_label_is() {
    let (label, value) = ("pool".to_owned(), "x".to_owned());
    let pool = Some(NodePool { label, value });
    let mut mirror = Mirror::new("kai-scheduler").of_pool(pool);
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
    let is_ours = |mirror: &mut Mirror| {
        let changes = std::mem::take(&mut mirror.changes);
        (mirror.pods[&key()].ours, changes.pods.contains(&key()))
    };
    mirror.upsert(Kind::Pod, &named(1, ""));
    assert_eq!(is_ours(&mut mirror), (false, true), "nothing is of pool x yet");
    mirror.upsert(Kind::PodGroup, &group(2, "x"));
    assert_eq!(is_ours(&mut mirror), (true, true), "its group is");
    mirror.upsert(Kind::Pod, &named(3, "y"));
    assert_eq!(is_ours(&mut mirror), (true, true), "its own label says another");
    mirror.upsert(Kind::PodGroup, &group(4, "y"));
    mirror.upsert(Kind::Pod, &named(5, "x"));
    assert_eq!(is_ours(&mut mirror), (false, true), "its group was moved");
    mirror.relist(Kind::PodGroup, &[]);
    assert_eq!(is_ours(&mut mirror), (true, true), "without a group its own label counts");
    mirror.upsert(Kind::PodGroup, &group(6, ""));
    assert_eq!(is_ours(&mut mirror), (false, true), "its group is of no pool");
}

#[test]
fn launchers_masters_and_heads_lead_the_others_of_their_group() {
    let leads = |label: &str, role: &str| {
        let mut pod = pod(1, "u", &json!({}));
        pod["metadata"]["labels"] = json!({ label: role });
        PodRecord::read(&pod, "kai-scheduler").leads()
    };
    let (kubeflow, ray) = (Some(Leader::Kubeflow), Some(Leader::Ray));
    assert_eq!(leads("training.kubeflow.org/job-role", "launcher"), kubeflow);
    assert_eq!(leads("training.kubeflow.org/job-role", "master"), kubeflow);
    assert_eq!(leads("ray.io/node-type", "head"), ray);
    assert_eq!(leads("training.kubeflow.org/job-role", "worker"), None);
    assert_eq!(leads("ray.io/node-type", "worker"), None);
    assert_eq!(leads("role", "master"), None);
}

#[test]
fn nodes_that_are_no_workers_are_not_seen_where_only_workers_count() {
    let labelled = |role: &str| {
        let label = format!("node-role.kubernetes.io/{role}");
        json!({ "metadata": { "name": role, "labels": { label: "" } } })
    };
    let nodes = [labelled("cpu-worker"), labelled("gpu-worker"), labelled("worker")];
    let seen = |workers_only| {
        let mut mirror = Mirror::new("kai-scheduler").of_workers(workers_only);
        mirror.relist(Kind::Node, &nodes);
        mirror.nodes.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(seen(true), ["cpu-worker", "gpu-worker"]);
    assert_eq!(seen(false), ["cpu-worker", "gpu-worker", "worker"]);
}

#[test]
fn what_nodes_that_are_left_out_lack_is_known_until_they_are_let_in() {
    let pool = |value: &str| {
        let (label, value) = ("pool".to_owned(), value.to_owned());
        Mirror::new("kai-scheduler").of_pool(Some(NodePool { label, value })).of_workers(true)
    };
    let node =
        |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels } });
    let (gpu, cpu) = ("node-role.kubernetes.io/gpu-worker", "node-role.kubernetes.io/cpu-worker");
    let told = |mirror: &Mirror| {
        let told = mirror.left_out();
        let told = told.iter().map(|of| format!("{} {:?}", of.nodes.join(","), of.lacks));
        told.collect::<Vec<_>>().join("\n")
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
    assert_snapshot!(told(&x), @r#"
    e {Label { key: "pool", value: "x" }}
    d {Label { key: "pool", value: "x" }, GpuWorker, CpuWorker}
    b {Label { key: "pool", value: "x" }, CpuWorker}
    c {GpuWorker, CpuWorker}
    "#);
    assert_snapshot!(told(&rest), @r#"
    c {NoLabel { key: "pool" }, GpuWorker, CpuWorker}
    a,b {NoLabel { key: "pool" }, CpuWorker}
    d {GpuWorker, CpuWorker}
    "#);
    x.changes.everything = false;
    x.upsert(Kind::Node, &nodes[1]);
    assert!(!x.changes.everything, "it lacks what it lacked");
    x.upsert(Kind::Node, &node("b", json!({ "pool": "y" })));
    assert!(x.changes.everything, "it lacks more");
    for name in ["b", "c", "d", "e"] {
        x.upsert(Kind::Node, &node(name, json!({ "pool": "x", cpu: "" })));
    }
    assert_snapshot!(told(&x), @"");
}
