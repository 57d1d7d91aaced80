//! The two texts of snapshots: the placement, rendered from objects, and the event stream, rendered
//! from a log.

use std::{collections::BTreeMap, sync::Arc};

use insta::assert_snapshot;
use jiff::{SignedDuration, Timestamp};
use schedlab_api::{Value, json};
use schedlab_conformance::render::{ClusterObjects, FairShares, event_stream, placement_text};
use schedlab_emulator::store::{EventKind, Key, LogEntry, Resource, Subresource};

fn node(name: &str, gpus: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {
            "allocatable": {"nvidia.com/gpu": gpus.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn queue(name: &str, parent: &str, quota: f64, limit: f64) -> Value {
    let none = json!({"quota": -1, "limit": -1});
    json!({
        "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {"gpu": {"quota": quota, "limit": limit}, "cpu": none, "memory": none},
        },
    })
}

/// A pod of a queue, pending or on a node with some devices.
fn pod(name: &str, queue: &str, assignment: Option<(&str, &str)>) -> Value {
    let gpus = assignment.map_or(1, |(_, devices)| devices.split(',').count());
    json!({
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"kai.scheduler/queue": queue},
            "annotations": {"schedlab.dev/gpu-devices": assignment.map(|(_, devices)| devices)},
        },
        "spec": {
            "nodeName": assignment.map(|(node, _)| node),
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": gpus.to_string()}}}],
        },
        "status": {"phase": if assignment.is_some() { "Running" } else { "Pending" }},
    })
}

fn with_pending_reason(mut pod: Value, reason: &str) -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "message": reason});
    pod["status"]["conditions"] = json!([condition]);
    pod
}

/// Makes a pod look like one that a ReplicaSet created.
fn as_generated(mut pod: Value, prefix: &str, owner: &str) -> Value {
    pod["metadata"]["generateName"] = json!(prefix);
    pod["metadata"]["labels"]["pod-template-hash"] = json!("5d9c");
    pod["metadata"]["ownerReferences"] = json!([{"name": owner, "controller": true}]);
    pod
}

fn rendered(nodes: &[Value], pods: &[Value], queues: &[Value], fair: &FairShares) -> String {
    let refs = |objects: &'_ [Value]| -> Vec<Value> { objects.to_vec() };
    let (nodes, pods, queues) = (refs(nodes), refs(pods), refs(queues));
    let cluster = ClusterObjects {
        nodes: &nodes.iter().collect::<Vec<_>>(),
        pods: &pods.iter().collect::<Vec<_>>(),
        queues: &queues.iter().collect::<Vec<_>>(),
        pod_groups: &[],
    };
    placement_text(cluster, fair)
}

#[test]
fn a_placement_shows_all_devices_pending_reasons_and_queues() {
    let mut terminating = pod("late-0", "prod", Some(("gpu-2", "7")));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let pods = [
        pod("train-0", "research", Some(("gpu-1", "0,1,2,3"))),
        pod("train-1", "research", Some(("gpu-2", "0,1,2,3"))),
        terminating,
        as_generated(pod("web-5d9c-zzzzz", "prod", Some(("gpu-1", "5"))), "web-5d9c-", "web-5d9c"),
        as_generated(pod("web-5d9c-aaaaa", "prod", Some(("gpu-2", "6"))), "web-5d9c-", "web-5d9c"),
        with_pending_reason(
            pod("solo", "prod", None),
            "queue prod has reached its limit of 3 GPUs",
        ),
    ];
    let mut cordoned = node("gpu-10", 8);
    cordoned["spec"] = json!({"unschedulable": true});
    let nodes = [node("gpu-2", 8), node("gpu-1", 8), node("gpu-8", 8), node("gpu-9", 8), cordoned];
    let queues = [
        queue("factory", "", 16.0, -1.0),
        queue("research", "factory", 8.0, 12.0),
        queue("prod", "factory", 8.0, 3.0),
    ];
    let fair = BTreeMap::from([("research".to_owned(), 8.0), ("prod".to_owned(), 2.5)]);
    assert_snapshot!(rendered(&nodes, &pods, &queues, &fair), @"
    nodes
      gpu-1    c0  c0  c0  c0  ..  d0  ..  ..
      gpu-2    c1  c1  c1  c1  ..  ..  d1  a0-
      gpu-8,9  ..  ..  ..  ..  ..  ..  ..  ..
      gpu-10   ..  ..  ..  ..  ..  ..  ..  ..  (cordoned)
    workloads
      a  late-*   queue prod  1 leaving
      b  solo     queue prod  1 pending
      c  train-*  queue research  2 running
      d  web      queue prod  2 running
    pending
      b: queue prod has reached its limit of 3 GPUs
    queues (GPUs)  quota  limit   fair   used
      factory         16      -      ?     10
        prod           8      3    2.5      2
        research       8     12      8      8
    ");
}

#[test]
fn random_names_and_the_order_of_lists_do_not_change_a_placement() {
    let nodes = [node("gpu-1", 2)];
    let web = |name: &str, device: &str| {
        as_generated(pod(name, "", Some(("gpu-1", device))), "web-5d9c-", "web-5d9c")
    };
    let first = rendered(
        &nodes,
        &[web("web-5d9c-aaaaa", "0"), web("web-5d9c-bbbbb", "1")],
        &[],
        &FairShares::new(),
    );
    let second = rendered(
        &nodes,
        &[web("web-5d9c-ccccc", "1"), web("web-5d9c-ddddd", "0")],
        &[],
        &FairShares::new(),
    );
    assert_eq!(first, second);
}

#[test]
fn gpu_fractions_count_as_used() {
    let fraction = |name: &str, annotation: (&str, &str)| {
        let mut pod = pod(name, "q", Some(("n", "0")));
        pod["metadata"]["annotations"][annotation.0] = annotation.1.into();
        pod["spec"]["containers"][0]["resources"] = json!({});
        pod
    };
    let mut node = node("n", 2);
    node["metadata"]["labels"]["nvidia.com/gpu.memory"] = "8000".into();
    let pods = [
        fraction("half", ("gpu-fraction", "0.5")),
        fraction("quarter", ("gpu-memory", "2000")),
        pod("whole", "q", Some(("n", "1"))),
    ];
    let text = rendered(&[node], &pods, &[queue("q", "", 2.0, -1.0)], &FairShares::new());
    assert_snapshot!(text.lines().last().unwrap().trim(), @"q                2      -      ?   1.75");
}

#[test]
fn cpu_and_memory_of_queues_are_shown_if_bounded() {
    let mut bounded = queue("q", "", 1.0, -1.0);
    bounded["spec"]["resources"]["cpu"] = json!({"quota": 1500, "limit": 4000});
    bounded["spec"]["resources"]["memory"] = json!({"quota": 2500, "limit": -1});
    let mut pod = pod("a", "q", Some(("n", "0")));
    let requests = json!({"nvidia.com/gpu": "1", "cpu": "750m", "memory": "1G"});
    pod["spec"]["containers"][0]["resources"]["requests"] = requests;
    assert_snapshot!(rendered(&[node("n", 1)], &[pod], &[bounded], &FairShares::new()), @"
    nodes
      n  a
    workloads
      a  a  queue q  1 running
    queues (GPUs)  quota  limit   fair   used
      q                1      -      ?      1
    queues (cores)  quota  limit   used
      q               1.5      4   0.75
    queues (GB)  quota  limit   used
      q            2.5      -      1
    ");
}

/// A log of writes, as the emulator's store keeps it.
#[derive(Default)]
struct Log {
    entries: Vec<Arc<LogEntry>>,
    objects: BTreeMap<Key, Arc<Value>>,
}

impl Log {
    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("the time is valid")
    }

    fn write(&mut self, secs: f64, manager: &str, plural: &str, object: &Value) {
        self.add_entry(secs, manager, plural, object, false);
    }

    fn delete(&mut self, secs: f64, manager: &str, plural: &str, object: &Value) {
        self.add_entry(secs, manager, plural, object, true);
    }

    fn add_entry(
        &mut self,
        secs: f64,
        manager: &str,
        plural: &str,
        object: &Value,
        is_deletion: bool,
    ) {
        let text = |at| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let key = Key {
            resource: Resource { group: "".into(), plural: plural.into() },
            namespace: text("/metadata/namespace").into(),
            name: text("/metadata/name").into(),
        };
        let object = Arc::new(object.clone());
        let previous = self.objects.insert(key.clone(), object.clone());
        let kind = match (&previous, is_deletion) {
            (_, true) => EventKind::Deleted,
            (Some(_), false) => EventKind::Modified,
            (None, false) => EventKind::Added,
        };
        self.entries.push(Arc::new(LogEntry {
            revision: self.entries.len() as u64 + 1,
            time: Self::start() + SignedDuration::from_secs_f64(secs),
            kind,
            key,
            object,
            previous,
            manager: manager.into(),
            subresource: Subresource::None,
        }));
    }
}

#[test]
fn an_event_stream_shows_changes_with_times_and_reasons() {
    let mut log = Log::default();
    let kai = "kai-scheduler";
    log.write(0.0, "admin", "nodes", &node("gpu-1", 8));
    let names = ["web-5d9c-x7k2p", "web-5d9c-9zq4v", "web-5d9c-bb2bb"];
    let web = |name: &str, place| as_generated(pod(name, "q", place), "web-5d9c-", "web-5d9c");
    for name in names {
        log.write(0.0, "replicaset-controller", "pods", &web(name, None));
    }
    for (name, device) in names.iter().zip(["0", "1"]) {
        let mut bound = web(name, Some(("gpu-1", device)));
        bound["status"]["phase"] = json!("Pending");
        log.write(1.001, kai, "pods", &bound);
    }
    let reason = "1 node has too few free GPUs: default/web-5d9c-bb2bb needs 1";
    log.write(1.001, kai, "pods", &with_pending_reason(web(names[2], None), reason));
    for (name, device) in names.iter().zip(["0", "1"]) {
        log.write(3.001, "kubelet", "pods", &web(name, Some(("gpu-1", device))));
    }
    let mut terminating = web(names[0], Some(("gpu-1", "0")));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:30Z");
    terminating["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    log.write(60.004, kai, "pods", &terminating);
    let by = "pg-big-0b5e6a52-1f6e-4b8a-9d53-aa11bb22cc33";
    let message = format!("Pod default/{} was reclaimed by workload default/{by}.", names[0]);
    let group = json!({"kind": "PodGroup", "namespace": "default", "name": "pg-web"});
    let announcement = json!({
        "metadata": {"name": "pg-web.1", "namespace": "default", "annotations": {
            "evictor-action-type": "reclaim",
            "evictor-pod-group-name": by,
            "evictor-pod-group-namespace": "default",
        }},
        "involvedObject": group, "reason": "Evict", "message": &message,
    });
    log.write(60.004, kai, "events", &announcement);
    let involved = json!({"kind": "Pod", "namespace": "default", "name": names[0]});
    let event = json!({
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": involved, "reason": "Evict", "message": message,
    });
    log.write(60.004, kai, "events", &event);
    log.delete(61.0, "kubelet", "pods", &terminating);
    let mut down = node("gpu-1", 8);
    down["status"]["conditions"][0]["status"] = json!("Unknown");
    log.write(3700.0, "node-lifecycle", "nodes", &down);
    log.delete(3760.0, "kubectl", "pods", &web(names[2], None));
    assert_snapshot!(event_stream(&log.entries, Log::start()), @"
    +0s        node gpu-1 created
    +1s        web#0,1 bound to gpu-1
    +1s        web#2 waits: 1 node has too few free GPUs: default/web#2 needs 1
    +3s        web#0,1 started
    +1m00s     web#0 evicted for big (reclaim)
    +1h01m40s  node gpu-1 is not ready
    +1h02m40s  web#2 deleted by kubectl
    ");
}
