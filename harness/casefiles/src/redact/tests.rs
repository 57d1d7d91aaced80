use schedlab_api::{Value, json};
use schedlab_scheduler::{replay::Replay, snapshot_file::Overrides};

use super::{check_redaction, redact};
use crate::{Case, read};

/// A cluster of a customer: two racks, two queues, and workloads that use most of what decisions
/// depend on.
fn private_case() -> Case {
    let node = |name: &str, rack: &str| {
        json!({ "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "uid": format!("uid-of-{name}"),
                    "labels": { "acme.com/rack": rack, "kubernetes.io/hostname": name, "team": "apollo" },
                    "annotations": { "acme.com/owner": "jane.doe" } },
                "spec": { "taints": [{ "key": "acme.com/reserved", "value": "apollo", "effect": "NoSchedule" }] },
                "status": { "allocatable": { "nvidia.com/gpu": "4", "cpu": "8", "memory": "64Gi", "pods": "110" },
                            "addresses": [{ "type": "Hostname", "address": "gpu7.corp.acme.internal" }],
                            "images": [{ "names": ["registry.acme.com/train:v7"], "sizeBytes": 1000 }],
                            "conditions": [{ "type": "Ready", "status": "True", "message": "kubelet of jane" }] } })
    };
    let queue = |name: &str, parent: Value, limit: i64| {
        let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
        json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": { "name": name },
                "spec": { "displayName": "Apollo of Jane", "parentQueue": parent, "resources": {
                    "gpu": { "quota": 2, "limit": limit, "overQuotaWeight": 1 }, "cpu": all, "memory": all } } })
    };
    let group = |name: &str, queue: &str, minimum: u64, constraint: Value| {
        json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": { "namespace": "moon-landing", "name": name, "uid": format!("uid-{name}"),
                              "creationTimestamp": "2026-01-31T12:00:00Z" },
                "spec": { "queue": queue, "minMember": minimum, "topologyConstraint": constraint } })
    };
    let pod = |name: &str, group: &str, rack: &str, node: Value| {
        json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "moon-landing", "name": name, "uid": format!("uid-{name}"),
                    "labels": { "app": "saturn", "kai.scheduler/queue": "apollo" },
                    "annotations": { "pod-group-name": group, "acme.com/token": "hunter2secret" },
                    "ownerReferences": [{ "apiVersion": "acme.com/v1", "kind": "MoonJob", "name": "saturn", "uid": "uid-saturn" }] },
                "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                    "serviceAccountName": "jane", "nodeSelector": { "acme.com/rack": rack },
                    "tolerations": [{ "key": "acme.com/reserved", "operator": "Equal", "value": "apollo" }],
                    "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 1, "podAffinityTerm": { "topologyKey": "acme.com/rack",
                            "labelSelector": { "matchLabels": { "app": "saturn" } } } }] } },
                    "containers": [{ "name": "launch-control", "image": "registry.acme.com/train:v7",
                        "command": ["python", "moonshot.py"], "args": ["--secret=swordfish"],
                        "env": [{ "name": "DB_PASSWORD", "value": "correct-horse-battery" },
                                { "name": "URL", "valueFrom": { "secretKeyRef": { "name": "vault", "key": "url" } } }],
                        "resources": { "limits": { "nvidia.com/gpu": "1" }, "requests": { "nvidia.com/gpu": "1", "cpu": "1" } } }] },
                "status": { "phase": if node.is_null() { "Pending" } else { "Running" }, "podIP": "10.1.2.3" } })
    };
    let topology = json!({ "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
        "metadata": { "name": "acme-racks" }, "spec": { "levels": [{ "nodeLabel": "acme.com/rack" }] } });
    let constraint = json!({ "topology": "acme-racks", "requiredTopologyLevel": "acme.com/rack" });
    let items = json!({ "apiVersion": "v1", "kind": "List", "items": [
        node("gpu7.acme.com", "basement"), node("gpu8.acme.com", "attic"), topology,
        queue("apollo", json!("acme"), 4), queue("gemini", json!("acme"), 2), queue("acme", Value::Null, -1),
        group("saturn", "apollo", 2, constraint), group("agena", "gemini", 3, Value::Null),
        group("titan", "gemini", 1, Value::Null),
        pod("saturn-0", "saturn", "attic", Value::Null), pod("saturn-1", "saturn", "attic", Value::Null),
        pod("agena-0", "agena", "basement", Value::Null), pod("agena-1", "agena", "basement", Value::Null),
        pod("agena-2", "agena", "basement", Value::Null), pod("titan-0", "titan", "basement", json!("gpu7.acme.com")),
        { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "vault" }, "data": { "url": "c3dvcmRmaXNo" } },
        { "apiVersion": "v1", "kind": "Event", "metadata": { "name": "saturn.1", "namespace": "moon-landing" },
          "involvedObject": { "kind": "Pod", "name": "saturn-0", "namespace": "moon-landing" },
          "reason": "Unschedulable", "message": "jane has no quota" },
    ] });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.json");
    std::fs::write(&path, items.to_string()).unwrap();
    read::read_case(&[path], read::DEFAULT_MAX_BYTES).unwrap().case
}

fn replayed(case: &Case) -> Replay {
    case.replay(&Overrides::default(), 5).unwrap()
}

#[test]
fn decisions_on_a_redacted_case_are_those_on_the_original_up_to_names() {
    let original = private_case();
    let redacted = redact(&original);
    let text = replayed(&original).to_string();
    assert!(text.contains("bind moon-landing/saturn-0 to gpu8.acme.com"), "{text}");
    // The name that people see is replaced like the name of a queue.
    assert_eq!(redacted.table.reveal(&replayed(&redacted.case).to_string()), text);
}

#[test]
fn no_word_of_the_original_is_left() {
    let original = private_case();
    let check = check_redaction(&original, &redact(&original).case);
    assert_eq!(check.left.iter().collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(check.private_words > 20, "{check}");
    let whole = check_redaction(&original, &original);
    for word in ["swordfish", "apollo", "acme", "battery", "jane", "MoonJob", "saturn"] {
        assert!(whole.left.contains(word), "{word} is not looked for: {:?}", whole.left);
    }
}

#[test]
fn a_redaction_is_the_same_each_time() {
    let original = private_case();
    assert_eq!(redact(&original).case, redact(&original).case);
}
