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

/// The private case in which a pod requires `ConfigMap`s in all ways that there are.
fn case_with_config_maps(existing: &[&str]) -> Case {
    let mut case = private_case();
    let pods = case.cluster.objects.get_mut("pods").unwrap();
    let pod = std::sync::Arc::make_mut(&mut pods[0]);
    pod["spec"]["volumes"] = json!([
        { "name": "settings", "configMap": { "name": "of-volume" } },
        { "name": "all", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt" } },
            { "configMap": { "name": "of-projection" } } ] } },
        { "name": "unused", "configMap": { "name": "unmounted" } },
    ]);
    let container = &mut pod["spec"]["containers"][0];
    container["volumeMounts"] = json!([
        { "name": "settings", "mountPath": "/etc/settings" }, { "name": "all", "mountPath": "/all" } ]);
    container["env"] = json!([{ "name": "MODE", "valueFrom": {
        "configMapKeyRef": { "name": "of-variable", "key": "mode" } } }]);
    let maps = existing.iter().map(|name| {
        json!({ "metadata": { "namespace": "moon-landing", "name": name }, "data": { "key": "apollo" } })
    });
    case.cluster.objects.insert("configMaps".to_owned(), maps.map(std::sync::Arc::new).collect());
    case
}

#[test]
fn missing_config_maps_are_missing_after_the_redaction() {
    let required = ["of-projection", "of-variable", "of-volume"];
    for existing in [&required[..], &required[..2], &[]] {
        let original = case_with_config_maps(&[existing, &["kube-root-ca.crt", "other"]].concat());
        let redacted = redact(&original);
        let text = replayed(&original).to_string();
        assert_eq!(text.contains("Missing required configmaps"), existing.len() < 3, "{text}");
        assert_eq!(redacted.table.reveal(&replayed(&redacted.case).to_string()), text);
        assert_eq!(
            redacted.case.objects("configMaps").count(),
            existing.len(),
            "others are dropped"
        );
        let all = format!("{:?}", redacted.case);
        assert!(!all.contains("volumeMounts") && !all.contains("projected"), "{all}");
    }
}

#[test]
fn well_known_keys_and_products_keep_their_names() {
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/instance-type",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node-role.kubernetes.io/control-plane",
        "topology.kubernetes.io/zone",
        "app.kubernetes.io/managed-by",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.compute.major",
        "nvidia.com/gpu.deploy.operands",
        "nvidia.com/gpu.sharing-strategy",
        "nvidia.com/cuda.driver.major",
        "nvidia.com/mig.capable",
        "nvidia.com/mig.config.state",
    ] {
        assert!(super::public::is_public_key(key), "{key}");
    }
    for product in [
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-A100-PCIE-40GB",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "NVIDIA-H100-80GB-HBM3",
        "NVIDIA-H100-NVL",
        "NVIDIA-H200",
        "NVIDIA-GB200",
        "NVIDIA-L40S",
        "NVIDIA-A10G-SHARED",
        "NVIDIA-RTX-6000-Ada-Generation",
        "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
        "Tesla-V100-SXM2-16GB",
        "Tesla-T4",
    ] {
        assert!(super::public::is_public(product), "{product}");
    }
    assert!(!super::public::is_public_key("node.kubernetes.io/apollo"));
    assert!(!super::public::is_public("Apollo-SXM4"));
}

#[test]
fn tolerations_of_the_state_of_a_node_are_kept() {
    let mut case = private_case();
    let tolerations = json!([
        { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
        { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
    ]);
    let pods = case.cluster.objects.get_mut("pods").unwrap();
    std::sync::Arc::make_mut(&mut pods[0])["spec"]["tolerations"] = tolerations.clone();
    let redacted = redact(&case);
    let kept =
        redacted.case.objects("pods").filter(|pod| pod["spec"]["tolerations"] == tolerations);
    assert_eq!(kept.count(), 1);
}

#[test]
fn a_private_resource_keeps_a_domain_and_is_translated_back() {
    let mut case = private_case();
    for array in ["pods", "nodes"] {
        for object in case.cluster.objects.get_mut(array).unwrap() {
            let object = std::sync::Arc::make_mut(object);
            let at = if array == "pods" {
                "/spec/containers/0/resources/requests"
            } else {
                "/status/allocatable"
            };
            object.pointer_mut(at).unwrap()["acme.com/npu"] = json!("1");
        }
    }
    let redacted = redact(&case);
    let all = format!("{:?}", redacted.case);
    assert!(all.contains("schedlab.dev/resource-1") && !all.contains("npu"), "{all}");
    let text = replayed(&case).to_string();
    assert!(text.contains("acme.com/npu"), "{text}");
    assert_eq!(redacted.table.reveal(&replayed(&redacted.case).to_string()), text);
}
