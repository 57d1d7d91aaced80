//! Snapshots of test objects, as text with everything the result depends on.

mod claims;
mod malformed;
mod updates;

use std::fmt::Write as _;

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler_core::model::PodStatus;

use super::*;
use crate::{config::NodePool, records::ObjectKey, watch::Kind};

fn cache(objects: &[Value]) -> ClusterCache {
    let mut cache = ClusterCache::new("kai-scheduler");
    for object in objects {
        let kind = match object["kind"].as_str().unwrap() {
            "Namespace" => Kind::Namespace,
            "Node" => Kind::Node,
            "PriorityClass" => Kind::PriorityClass,
            "Queue" => Kind::Queue,
            "PodGroup" => Kind::PodGroup,
            "Topology" => Kind::Topology,
            "DeviceClass" => Kind::DeviceClass,
            "ResourceSlice" => Kind::ResourceSlice,
            "ResourceClaim" => Kind::ResourceClaim,
            _ => Kind::Pod,
        };
        cache.upsert(kind, object);
    }
    cache
}

fn build(mut cache: ClusterCache, flavor: Flavor) -> BuiltSnapshot {
    let mut builder = SnapshotBuilder::new(flavor, 0);
    builder.refresh(&mut cache);
    builder.built
}

fn rendered(objects: &[Value]) -> String {
    let built = build(cache(objects), Flavor::Kai);
    let snapshot = &built.snapshot;
    let mut text = String::new();
    for pod in &snapshot.pods {
        let group = pod.group.map(|id| &snapshot.pod_groups[id.0 as usize].name);
        let node = pod.node.map(|id| &snapshot.nodes[id.0 as usize].name);
        let gpus = snapshot.shapes[pod.shape.0 as usize].requests.gpu_milli;
        let (group, node) = (group.map_or("-", |name| name), node.map_or("-", |name| name));
        writeln!(text, "{} {:?} group={group} node={node} gpu={gpus}", pod.name, pod.status)
            .unwrap();
    }
    for group in &snapshot.pod_groups {
        let queue = match &group.queue {
            Ok(id) => id.map_or("-", |id| &snapshot.queues[id.0 as usize].name).to_owned(),
            Err(problem) => problem.to_string(),
        };
        let preemptible = if group.preemptible { " preemptible" } else { "" };
        writeln!(text, "{} priority={}{preemptible} queue={queue}", group.name, group.priority)
            .unwrap();
    }
    for (key, reason) in &built.unschedulable {
        writeln!(text, "{key}: {reason}").unwrap();
    }
    text
}

fn node(name: &str) -> Value {
    json!({
        "kind": "Node",
        "metadata": { "name": name },
        "status": {
            "allocatable": { "nvidia.com/gpu": "8" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn queue(name: &str, parent: &str) -> Value {
    json!({ "kind": "Queue", "metadata": { "name": name }, "spec": { "parentQueue": parent } })
}

fn group(name: &str, spec: &Value) -> Value {
    json!({ "kind": "PodGroup", "metadata": { "name": name, "namespace": "ns" }, "spec": spec })
}

fn pod(name: &str, group: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "ns", "annotations": { "pod-group-name": group } },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        },
        "status": { "phase": "Pending" },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key.as_str()] = value.clone();
    }
    pod
}

fn in_phase(mut pod: Value, phase: &str) -> Value {
    pod["status"]["phase"] = json!(phase);
    pod
}

fn leaving(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    pod
}

#[test]
fn pod_status_follows_from_the_object() {
    let on_n1 = json!({ "nodeName": "n1" });
    let objects = [
        node("n1"),
        queue("q", ""),
        group("g", &json!({ "queue": "q" })),
        pod("bound", "g", &on_n1),
        in_phase(pod("running", "g", &on_n1), "Running"),
        leaving(in_phase(pod("leaving", "g", &on_n1), "Running")),
        leaving(pod("given-up", "g", &json!({}))),
        in_phase(pod("done", "g", &on_n1), "Succeeded"),
        in_phase(pod("failed", "g", &on_n1), "Failed"),
        pod("gated", "g", &json!({ "schedulingGates": [{ "name": "x" }] })),
        pod("waits", "g", &json!({})),
    ];
    assert_snapshot!(rendered(&objects), @r"
    bound Bound group=g node=n1 gpu=1000
    done Succeeded group=g node=- gpu=1000
    gated Gated group=g node=- gpu=1000
    leaving Releasing group=g node=n1 gpu=1000
    running Running group=g node=n1 gpu=1000
    waits Pending group=g node=- gpu=1000
    g priority=50 preemptible queue=q
    ");
}

#[test]
fn flattened_queues_have_no_parents_and_top_queues_do_not_exist() {
    let objects = [
        queue("top", ""),
        queue("middle", "top"),
        queue("leaf", "middle"),
        group("g1", &json!({ "queue": "top" })),
        group("g2", &json!({ "queue": "middle" })),
        group("g3", &json!({ "queue": "leaf" })),
        pod("p1", "g1", &json!({})),
        pod("p2", "g2", &json!({})),
        pod("p3", "g3", &json!({})),
    ];
    let config = Config { full_hierarchy_fairness: false, ..Config::kai() };
    let mut builder = SnapshotBuilder::from_config(&config);
    builder.refresh(&mut cache(&objects));
    let snapshot = &builder.built.snapshot;
    let queues: Vec<_> = snapshot.queues.iter().map(|queue| (&*queue.name, queue.parent)).collect();
    assert_eq!(queues, [("leaf", None), ("middle", None)]);
    let of = snapshot.pod_groups.iter().map(|group| match &group.queue {
        Ok(id) => snapshot.queues[id.unwrap().0 as usize].name.to_string(),
        Err(problem) => problem.to_string(),
    });
    assert_eq!(of.collect::<Vec<_>>(), ["Queue 'top' does not exist", "middle", "leaf"]);
}

#[test]
fn a_pod_of_a_deleted_node_is_charged_until_it_is_deleted() {
    let objects = [
        group("g", &json!({})),
        in_phase(pod("ghost", "g", &json!({ "nodeName": "gone" })), "Running"),
        pod("waits", "g", &json!({})),
    ];
    assert_snapshot!(rendered(&objects), @r"
    ghost Running group=g node=- gpu=1000
    waits Pending group=g node=- gpu=1000
    g priority=50 preemptible queue=The workload names no queue: spec.queue of its pod group is empty
    ");
}

#[test]
fn a_pod_of_a_node_of_another_pool_is_away_until_that_node_is_gone() {
    let elsewhere = |label: &str| {
        let mut elsewhere = node("n1");
        elsewhere["metadata"]["labels"] = json!({ "pool": label });
        elsewhere
    };
    let mut cache =
        cache(&[]).with_pool(Some(NodePool { label: "pool".into(), value: "ours".into() }));
    let mut ours = in_phase(pod("p", "g", &json!({ "nodeName": "n1" })), "Running");
    ours["metadata"]["labels"]["pool"] = json!("ours");
    let mut group = group("g", &json!({}));
    group["metadata"]["labels"] = json!({ "pool": "ours" });
    cache.upsert(Kind::PodGroup, &group);
    cache.upsert(Kind::Pod, &ours);
    let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
    let mut status = |cache: &mut ClusterCache| {
        builder.refresh(cache);
        builder.built.snapshot.pods[0].status
    };
    assert_eq!(status(&mut cache), PodStatus::Running);
    cache.upsert(Kind::Node, &elsewhere("theirs"));
    assert_eq!(status(&mut cache), PodStatus::OnExcludedNode);
    cache.upsert(Kind::Node, &elsewhere("ours"));
    assert_eq!(status(&mut cache), PodStatus::Running);
    cache.upsert(Kind::Node, &elsewhere("theirs"));
    assert_eq!(status(&mut cache), PodStatus::OnExcludedNode);
    cache.remove(Kind::Node, ObjectKey { namespace: "".into(), name: "n1".into() }, 1 << 40);
    assert_eq!(status(&mut cache), PodStatus::Running);
}

#[test]
fn pods_of_other_schedulers_use_resources_and_are_not_scheduled() {
    let foreign = |name, node: &Value| {
        let mut spec = json!({ "schedulerName": "default-scheduler" });
        spec["nodeName"] = node.clone();
        pod(name, "g", &spec)
    };
    let objects = [node("n1"), foreign("there", &json!("n1")), foreign("waits", &Value::Null)];
    assert_snapshot!(rendered(&objects), @"there Bound group=- node=n1 gpu=1000");
}

#[test]
fn a_broken_queue_is_reported_on_the_groups_that_name_it() {
    let objects = [
        queue("root", ""),
        queue("leaf", "root"),
        queue("orphan", "nobody"),
        queue("below-orphan", "orphan"),
        queue("round", "trip"),
        queue("trip", "round"),
        json!({ "kind": "Queue", "metadata": { "name": "bad" },
                "spec": { "resources": { "gpu": { "limit": 1e30 } } } }),
        json!({ "kind": "Queue", "metadata": { "name": "most" },
                "spec": { "resources": { "gpu": { "limit": 9_200_000_000_000_000_u64 } } } }),
        group("g0", &json!({ "queue": "leaf" })),
        group("g1", &json!({ "queue": "root" })),
        group("g2", &json!({ "queue": "below-orphan" })),
        group("g3", &json!({ "queue": "round" })),
        group("g4", &json!({ "queue": "bad" })),
        group("g5", &json!({ "queue": "nobody" })),
        group("g6", &json!({ "queue": "most" })),
    ];
    let pods = (0..7).map(|n| pod(&format!("p{n}"), &format!("g{n}"), &json!({})));
    let objects: Vec<Value> = objects.into_iter().chain(pods).collect();
    assert_snapshot!(rendered(&objects), @r"
    p0 Pending group=g0 node=- gpu=1000
    p1 Pending group=g1 node=- gpu=1000
    p2 Pending group=g2 node=- gpu=1000
    p3 Pending group=g3 node=- gpu=1000
    p4 Pending group=g4 node=- gpu=1000
    p5 Pending group=g5 node=- gpu=1000
    p6 Pending group=g6 node=- gpu=1000
    g0 priority=50 preemptible queue=leaf
    g1 priority=50 preemptible queue=Queue 'root' accepts no workloads: it has child queues, such as 'leaf'
    g2 priority=50 preemptible queue=Queue 'below-orphan' cannot be used: the parent 'nobody' of its ancestor 'orphan' does not exist
    g3 priority=50 preemptible queue=Queue 'round' cannot be used: spec.parentQueue forms a cycle: round -> trip -> round
    g4 priority=50 preemptible queue=Queue 'bad' cannot be used: spec.resources.gpu.limit: got 1e+30, expected -1 (unlimited), or 0 to 9200000000000000 devices
    g5 priority=50 preemptible queue=Queue 'nobody' does not exist
    g6 priority=50 preemptible queue=most
    ");
}

#[test]
fn priority_comes_from_the_class_and_decides_preemptibility_unless_the_field_is_set() {
    let class = |name: &str, value: i32| json!({ "kind": "PriorityClass", "metadata": { "name": name }, "value": value });
    let objects = [
        class("build", 100),
        group("a", &json!({ "queue": "q", "priorityClassName": "build" })),
        group(
            "b",
            &json!({ "queue": "q", "priorityClassName": "build",
                            "preemptibility": "preemptible" }),
        ),
        group("c", &json!({ "queue": "q", "preemptibility": "non-preemptible" })),
        queue("q", ""),
        pod("a", "a", &json!({})),
        pod("b", "b", &json!({})),
        pod("c", "c", &json!({})),
    ];
    assert_snapshot!(rendered(&objects), @r"
    a Pending group=a node=- gpu=1000
    b Pending group=b node=- gpu=1000
    c Pending group=c node=- gpu=1000
    a priority=100 queue=q
    b priority=100 preemptible queue=q
    c priority=50 queue=q
    ");
}

#[test]
fn malformed_objects_are_reported_and_do_not_block_others() {
    let negative = json!({ "containers": [{ "name": "a", "resources":
        { "requests": { "nvidia.com/gpu": "-4" } } }] });
    let mut standing = negative.clone();
    standing["nodeName"] = json!("n1");
    let mut labelled = pod("lost", "g", &json!({}));
    labelled["metadata"]["labels"] = json!({ "kai.scheduler/subgroup-name": "x" });
    let mut good = pod("good", "g", &json!({}));
    good["metadata"]["labels"] = json!({ "kai.scheduler/subgroup-name": "a" });
    let mut without = pod("without", "g", &json!({}));
    without["metadata"]["annotations"] = Value::Null;
    let objects = [
        node("n1"),
        queue("q", ""),
        group("g", &json!({ "queue": "q", "subGroups": [{ "name": "a", "minMember": 1 }] })),
        group("bad", &json!({ "queue": "q", "stalenessGracePeriod": "soon" })),
        good,
        pod("negative", "g", &negative),
        pod("standing", "g", &standing),
        pod("of-bad", "bad", &json!({})),
        pod("of-none", "none", &json!({})),
        labelled,
        without,
    ];
    assert_snapshot!(rendered(&objects), @r#"
    good Pending group=g node=- gpu=1000
    standing Bound group=g node=n1 gpu=0
    bad priority=50 preemptible queue=q
    g priority=50 preemptible queue=q
    ns/lost: PodGroup g has no sub-group x, named in label kai.scheduler/subgroup-name
    ns/negative: The pod cannot be scheduled: spec.containers[a].resources.requests.nvidia.com/gpu: got "-4", expected a quantity from 0 to 9223372036854775.807
    ns/of-bad: PodGroup bad cannot be scheduled: spec.stalenessGracePeriod: got "soon", expected a duration such as 90s or 1h30m
    ns/of-none: PodGroup none, named in annotation pod-group-name, does not exist
    ns/without: The pod belongs to no PodGroup: name one in annotation pod-group-name
    "#);
}

#[test]
fn the_snapshot_does_not_depend_on_the_order_of_objects() {
    let mut objects = vec![
        node("n1"),
        node("n2"),
        queue("q", ""),
        group("g", &json!({ "queue": "q" })),
        pod("a", "g", &json!({})),
        pod("b", "g", &json!({ "nodeName": "n2" })),
    ];
    let forwards = build(cache(&objects), Flavor::Kai);
    objects.reverse();
    assert_eq!(build(cache(&objects), Flavor::Kai), forwards);
}

#[test]
fn for_kube_each_pod_is_a_group_of_its_own_without_queue() {
    let mut scheduled = pod("a", "g", &json!({ "priority": 7 }));
    scheduled["metadata"]["namespace"] = json!("other");
    let objects = [pod("b", "", &json!({})), scheduled];
    let snapshot = build(cache(&objects), Flavor::Kube).snapshot;
    let groups: Vec<_> = snapshot
        .pod_groups
        .iter()
        .map(|group| format!("{}/{} {}", group.namespace, group.name, group.priority))
        .collect();
    assert_eq!(groups, ["ns/b 0", "other/a 7"]);
    assert!(snapshot.pod_groups.iter().all(|group| group.queue == Ok(None)));
}

#[test]
fn a_pod_affinity_term_selects_namespaces_by_name_and_by_label() {
    let term = |of: Value| {
        let mut term = json!({ "topologyKey": "zone", "labelSelector": {} });
        term.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        let spec = json!({ "affinity": { "podAntiAffinity": required } });
        let snapshot = build(cache(&[pod("a", "", &spec)]), Flavor::Kube).snapshot;
        format!("{:?}", snapshot.shapes[0].pod_anti_affinity[0].namespaces)
    };
    let selector = json!({ "matchExpressions": [{ "key": "team", "operator": "Exists" }] });
    assert_snapshot!(
        [
            term(json!({})),
            term(json!({ "namespaceSelector": null })),
            term(json!({ "namespaceSelector": {} })),
            term(json!({ "namespaces": ["x"], "namespaceSelector": selector })),
        ]
        .join("\n"),
        @r#"
    None
    None
    Some(NamespaceSet { names: [], selector: Some(LabelSelector { requirements: [] }) })
    Some(NamespaceSet { names: ["x"], selector: Some(LabelSelector { requirements: [Requirement { key: "team", operator: Exists, values: [] }] }) })
    "#
    );
}

#[test]
fn changes_of_namespace_labels_reach_the_snapshot() {
    let namespace = |labels: Value| json!({ "metadata": { "name": "ns", "labels": labels } });
    let mut cache = ClusterCache::new("kai-scheduler");
    let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
    let mut labels = |change: &dyn Fn(&mut ClusterCache)| {
        change(&mut cache);
        let revision = cache.revision;
        builder.refresh(&mut cache);
        format!("{revision} {:?}", builder.built.snapshot.namespaces)
    };
    let rendered = [
        labels(&|cache| cache.upsert(Kind::Namespace, &namespace(json!({ "team": "a" })))),
        labels(&|cache| cache.upsert(Kind::Namespace, &namespace(json!({ "team": "a" })))),
        labels(&|cache| cache.upsert(Kind::Namespace, &namespace(json!({ "team": "b" })))),
        labels(&|cache| {
            cache.remove(Kind::Namespace, ObjectKey::from_object(&namespace(json!({}))), 9);
        }),
        labels(&|cache| cache.relist(Kind::Namespace, &[namespace(json!({ "team": "c" }))])),
    ];
    assert_snapshot!(rendered.join("\n"), @r#"
    1 {"ns": {"team": "a"}}
    1 {"ns": {"team": "a"}}
    2 {"ns": {"team": "b"}}
    3 {}
    5 {"ns": {"team": "c"}}
    "#);
}
