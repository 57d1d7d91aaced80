use jiff::Timestamp;
use schedlab_api::json;
use schedlab_emulator::store::{Key, Resource, Subresource};

use super::*;

mod scheduling_inputs;

/// A log in the making.
#[derive(Default)]
struct Log(Vec<Arc<LogEntry>>);

impl Log {
    fn write(&mut self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let resource = Resource { group: "".into(), plural: plural.into() };
        let key = Key { resource, namespace: namespace.into(), name: name.into() };
        let previous = self.0.iter().rev().find(|entry| entry.key == key);
        let previous = previous.map(|entry| Arc::clone(&entry.object));
        self.0.push(Arc::new(LogEntry {
            revision: self.0.len() as u64 + 1,
            time: Timestamp::UNIX_EPOCH,
            kind: if previous.is_some() { EventKind::Modified } else { EventKind::Added },
            key,
            object: Arc::new(object.clone()),
            previous,
            manager: "test".into(),
            subresource: Subresource::None,
        }));
    }

    fn nodes(&mut self, names: &[&str], pool: &str) {
        for name in names {
            let labels = json!({"pool": pool, "kubernetes.io/hostname": name});
            self.write(
                "nodes",
                &json!({"metadata": {"name": name, "labels": labels},
                        "status": {"allocatable": {"nvidia.com/gpu": "8"}}}),
            );
        }
    }

    /// Creates a pod, and binds and starts it when it has a node.
    fn pod(&mut self, name: &str, workload: &str, node: Option<&str>) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
                         "labels": {"schedlab.dev/workload": workload}},
            "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
            "status": {"phase": "Pending"},
        });
        self.write("pods", &pod);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
            self.write("pods", &pod);
            pod["status"]["phase"] = json!("Running");
            self.write("pods", &pod);
        }
        pod
    }

    fn evict(&mut self, mut pod: Value, by: &str) {
        let message = format!("Pod was reclaimed by workload default/{by}.");
        self.write(
            "events",
            &json!({
                "metadata": {"name": "evicted", "namespace": "default", "annotations": {
                    "evictor-action-type": "reclaim",
                    "evictor-pod-group-name": by,
                    "evictor-pod-group-namespace": "default",
                }},
                "reason": "Evict",
                "message": &message,
                "involvedObject": {"kind": "PodGroup", "namespace": "default", "name": "borrowed"},
            }),
        );
        pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler", "message": message}]);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(1);
        self.write("pods", &pod);
    }
}

#[test]
fn equal_nodes_and_pods_are_interchangeable() {
    let run = |nodes: [&str; 3]| {
        let mut log = Log::default();
        log.nodes(&["n-1", "n-2"], "a");
        for (name, node) in ["train-0", "train-1", "train-2"].iter().zip(nodes) {
            log.pod(name, "train", Some(node));
        }
        run_outcome(&log.0)
    };
    assert_eq!(run(["n-1", "n-1", "n-2"]), run(["n-2", "n-1", "n-2"]));
    assert_ne!(run(["n-1", "n-1", "n-2"]), run(["n-1", "n-1", "n-1"]));
}

#[test]
fn nodes_of_different_pools_are_not_interchangeable() {
    let run = |node: &str| {
        let mut log = Log::default();
        log.nodes(&["n-1"], "a");
        log.nodes(&["n-2"], "b");
        log.pod("train-0", "train", Some(node));
        run_outcome(&log.0)
    };
    assert_ne!(run("n-1"), run("n-2"));
    assert_eq!(run("n-2").nodes["n-2"], ["1 train"]);
}

#[test]
fn an_eviction_has_its_reason_and_no_generated_names() {
    let mut log = Log::default();
    log.nodes(&["n-1"], "a");
    let mut group = log.pod("owned-x7k2p", "owned", None);
    group["metadata"]["annotations"]["pod-group-name"] = json!("pg-owned-x7k2p-123");
    log.write("pods", &group);
    let victim = log.pod("borrowed-0", "borrowed", Some("n-1"));
    log.evict(victim, "pg-owned-x7k2p-123");
    let shown = run_outcome(&log.0);
    let stories: Vec<&String> = shown.workloads["borrowed"].histories.keys().collect();
    assert_eq!(stories, ["bound, started, evicted for owned (reclaim)"]);
    assert_eq!(
        shown.order,
        ["borrowed bound", "borrowed started", "borrowed evicted for owned (reclaim)"]
    );
    assert_eq!(shown.workloads["owned"].pods, BTreeMap::from([("pending".to_owned(), 1)]));
}

#[test]
fn the_name_of_a_group_of_workloads_does_not_depend_on_uids() {
    let run = |uids: [&str; 2]| {
        let mut log = Log::default();
        for (name, uid) in ["ray", "stray"].iter().zip(uids) {
            let message = "PodGroup together has no sub-group tail";
            log.write(
                "pods",
                &json!({
                    "metadata": {"name": name, "namespace": "default", "uid": uid,
                                 "annotations": {"pod-group-name": "together"}},
                    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled",
                        "status": "False", "reason": "Unschedulable", "message": message}]},
                }),
            );
        }
        run_outcome(&log.0)
    };
    let pods = |run: &RunOutcome| format!("{:?}", run.workloads["stray"].pods);
    let (one, other) = (run(["1", "2"]), run(["2", "1"]));
    assert_eq!(pods(&one), r#"{"pending: PodGroup ray has no sub-group tail": 1}"#);
    assert_eq!(one, other);
}
