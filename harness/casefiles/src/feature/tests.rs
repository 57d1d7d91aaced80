use std::sync::Arc;

use schedlab_api::{Value, json};
use schedlab_scheduler::snapshot_file::{CapturedCluster, Overrides};

use super::{BesideTables, FeatureClaim, FeatureStory, Placement, write_with_tables};
use crate::Case;

/// A case of one node, one queue and one pod group with these pods.
fn case(group: &Value, pods: Vec<Value>) -> Case {
    let node = json!({ "metadata": { "name": "n1", "labels": { "rack": "r1", "kubernetes.io/hostname": "n1" } },
        "status": { "allocatable": { "nvidia.com/gpu": "8", "cpu": "64", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] } });
    let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": 0, "limit": 0, "overQuotaWeight": 1 });
    let queue = json!({ "metadata": { "name": "q" },
        "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } } });
    let group = json!({ "metadata": { "namespace": "ns", "name": "g" }, "spec": group });
    let arrays = [
        ("nodes", vec![node]),
        ("queues", vec![queue]),
        ("podGroups", vec![group]),
        ("pods", pods),
    ];
    let objects = arrays.map(|(array, objects)| {
        (array.to_owned(), objects.into_iter().map(Arc::new).collect::<Vec<_>>())
    });
    let cluster = CapturedCluster { objects: objects.into(), ..CapturedCluster::default() };
    Case { cluster, ..Case::default() }
}

fn pod(name: &str, labels: &Value, spec: &Value) -> Value {
    let mut pod = json!({ "metadata": { "namespace": "ns", "name": name, "labels": labels,
                                        "annotations": { "pod-group-name": "g" } },
        "spec": { "schedulerName": "kai-scheduler", "containers": [{ "name": "c", "resources":
            { "limits": { "nvidia.com/gpu": "1" } } }] },
        "status": { "phase": "Pending" } });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field.as_str()] = value.clone();
    }
    pod
}

fn written(case: &Case, beside: BesideTables) -> String {
    let replay = case.replay(&Overrides::default(), 1).unwrap();
    let claim = FeatureClaim::Shows(vec!["gang g pending".parse().unwrap()]);
    let story =
        FeatureStory { title: "A case", claim: &claim, with_reason: false, settings: &Value::Null };
    write_with_tables(case, &replay, &story, Placement::ByScheduler, beside)
        .unwrap_or_else(|error| error.to_string())
}

#[test]
fn affinity_to_nodes_and_to_its_own_pods_is_in_the_table() {
    let requirement = json!({ "key": "rack", "operator": "In", "values": ["r1", "r2"] });
    let own = json!([{ "topologyKey": "kubernetes.io/hostname",
                       "labelSelector": { "matchLabels": { "app": "g" } } }]);
    let affinity = json!({
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchExpressions": [requirement] }] } },
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": own } });
    let spec = json!({ "affinity": affinity });
    let pods = ["a", "b"].map(|name| pod(name, &json!({ "app": "g" }), &spec));
    let text = written(
        &case(&json!({ "queue": "q", "minMember": 2 }), pods.into()),
        BesideTables::Nothing,
    );
    let cells = |text: &str, first: &str| {
        let mut lines = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let row = lines.find(|cells| cells.get(1) == Some(&first)).unwrap_or_default();
        row.join("|")
    };
    assert_eq!(cells(&text, "g"), "|g|gang|2|q|1|rack in r1 r2|kubernetes.io/hostname|", "{text}");
    assert_eq!(cells(&text, "node"), "|node|1|8|rack=r1|", "{text}");
}

#[test]
fn sub_groups_are_in_the_table_and_a_topology_constraint_is_a_manifest() {
    let sub_groups =
        json!([{ "name": "leader", "minMember": 1 }, { "name": "workers", "minMember": 1 }]);
    let member = |name: &str, sub_group: &str| {
        pod(name, &json!({ "kai.scheduler/subgroup-name": sub_group }), &json!({}))
    };
    let pods = vec![member("a", "leader"), member("b", "workers"), member("c", "workers")];
    let group = json!({ "queue": "q", "minMember": 2, "subGroups": sub_groups });
    let text = written(&case(&group, pods.clone()), BesideTables::Nothing);
    assert!(text.contains("leader 1, workers 1/2"), "{text}");
    let mut constrained = group;
    constrained["topologyConstraint"] = json!({ "topology": "t", "requiredTopologyLevel": "rack" });
    let constrained = case(&constrained, pods);
    let why = written(&constrained, BesideTables::Nothing);
    assert_eq!(why, "pod group g has topologyConstraint");
    let text = written(&constrained, BesideTables::Manifests);
    assert!(
        text.contains("this manifest is applied:") && text.contains("requiredTopologyLevel: rack"),
        "{text}"
    );
}

#[test]
fn settings_of_the_scheduler_are_the_first_step() {
    let group = json!({ "queue": "q", "minMember": 1 });
    let case = case(&group, vec![pod("p", &Value::Null, &json!({}))]);
    let replay = case.replay(&Overrides::default(), 1).unwrap();
    let claim = FeatureClaim::Shows(vec!["gang g pending".parse().unwrap()]);
    let settings = json!({ "placementStrategy": { "gpu": "spread" } });
    let story =
        FeatureStory { title: "A case", claim: &claim, with_reason: false, settings: &settings };
    let text =
        write_with_tables(&case, &replay, &story, Placement::ByScheduler, BesideTables::Nothing);
    let text = text.unwrap();
    let background: Vec<&str> = text.lines().skip(2).take(7).collect();
    insta::assert_snapshot!(background.join("\n"), @r#"
      Background:
        Given the scheduler's configuration:
          """yaml
          placementStrategy:
            gpu: spread
          """
        And a fleet of 1 node with 8 GPUs each
    "#);
}

#[test]
fn what_a_workload_names_is_in_its_namespace() {
    let group = json!({ "queue": "q", "minMember": 1 });
    let volumes =
        json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] });
    let mut case = case(&group, vec![pod("p", &Value::Null, &volumes)]);
    let claim = |namespace: &str| {
        Arc::new(json!({ "metadata": { "namespace": namespace, "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }))
    };
    case.cluster.objects.insert("persistentVolumeClaims".to_owned(), vec![claim("ns")]);
    let text = written(&case, BesideTables::Manifests);
    assert!(text.contains("name: data") && !text.contains("namespace"), "{text}");
    case.cluster.objects.insert("persistentVolumeClaims".to_owned(), vec![claim("a"), claim("b")]);
    let text = written(&case, BesideTables::Manifests);
    assert_eq!(text, "two namespaces have a PersistentVolumeClaim data");
}

#[test]
fn tolerations_that_admission_adds_are_left_out() {
    let added = |key: &str, seconds: i64| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
    let own = json!({ "key": "team", "operator": "Exists" });
    let both = [
        added("node.kubernetes.io/not-ready", 300),
        own.clone(),
        added("node.kubernetes.io/unreachable", 300),
    ];
    let text_of = |tolerations: &Value, beside: BesideTables, group: &Value| {
        let spec = json!({ "tolerations": tolerations });
        written(&case(group, vec![pod("p", &Value::Null, &spec)]), beside)
    };
    let group = json!({ "queue": "q", "minMember": 1 });
    let text = text_of(&json!(both), BesideTables::Nothing, &group);
    assert!(!text.contains("node.kubernetes.io") && text.contains("| team "), "{text}");
    let text = text_of(&json!([both[0], both[2]]), BesideTables::Nothing, &group);
    assert!(!text.contains("tolerations"), "{text}");
    let shorter = json!([added("node.kubernetes.io/not-ready", 30)]);
    let text = text_of(&shorter, BesideTables::Nothing, &group);
    assert!(text.contains("node.kubernetes.io/not-ready:NoExecute"), "{text}");
    let constraint = json!({ "topology": "t", "requiredTopologyLevel": "rack" });
    let group = json!({ "queue": "q", "minMember": 1, "topologyConstraint": constraint });
    let text = text_of(&json!(both), BesideTables::Manifests, &group);
    assert!(!text.contains("node.kubernetes.io") && text.contains("key: team"), "{text}");
}
