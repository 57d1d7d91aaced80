use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::{Value, json};
use schedlab_scheduler::snapshot_file::{CapturedCluster, Overrides};

use super::{Minimised, Minimiser};
use crate::{Case, predicate::Predicate};

/// Twelve nodes, six queues and twenty gangs, one of which is larger than any quota allows.
pub(crate) fn noisy_case() -> Case {
    let node = |number: usize| {
        json!({ "metadata": { "name": format!("n{number}"), "labels": { "rack": "r" } },
                "status": { "allocatable": { "nvidia.com/gpu": "8", "cpu": "64", "pods": "110" },
                            "conditions": [{ "type": "Ready", "status": "True" }] } })
    };
    let queue = |name: &str, parent: Value, limit: i64| {
        let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
        json!({ "metadata": { "name": name }, "spec": { "parentQueue": parent, "resources": {
            "gpu": { "quota": 4, "limit": limit, "overQuotaWeight": 1 }, "cpu": all, "memory": all } } })
    };
    let mut groups = Vec::new();
    let mut pods = Vec::new();
    let mut add = |name: &str, queue: &str, size: usize, node: Option<String>| {
        groups.push(json!({ "metadata": { "namespace": "ns", "name": name },
                            "spec": { "queue": queue, "minMember": size } }));
        for member in 0..size {
            let container = json!({ "name": "main", "resources": {
                "requests": { "nvidia.com/gpu": "1", "cpu": "2" }, "limits": { "nvidia.com/gpu": "1" } } });
            pods.push(json!({
                "metadata": { "namespace": "ns", "name": format!("{name}-{member}"),
                              "annotations": { "pod-group-name": name } },
                "spec": { "schedulerName": "kai-scheduler", "nodeName": node, "containers": [container] },
                "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } }));
        }
    };
    for number in 0..16 {
        add(&format!("noise-{number}"), "b", 1, Some(format!("n{}", number % 12)));
    }
    add("big", "a", 6, None);
    let queues = vec![
        queue("top", Value::Null, -1),
        queue("a", json!("top"), 4),
        queue("b", json!("top"), -1),
        queue("c", json!("top"), -1),
    ];
    let arrays = [
        ("nodes", (0..12).map(node).collect()),
        ("queues", queues),
        ("podGroups", groups),
        ("pods", pods),
    ];
    let objects: BTreeMap<String, Vec<Arc<Value>>> = arrays
        .into_iter()
        .map(|(array, objects): (&str, Vec<Value>)| {
            (array.to_owned(), objects.into_iter().map(Arc::new).collect())
        })
        .collect();
    Case { cluster: CapturedCluster { objects, ..CapturedCluster::default() }, ..Case::default() }
}

fn minimised(threads: usize) -> Minimised {
    let claim: Predicate = "gang big pending because OverLimit".parse().unwrap();
    let holds = |case: &Case| {
        case.replay(&Overrides::default(), 1).is_ok_and(|replay| claim.holds(&replay))
    };
    assert!(holds(&noisy_case()));
    let minimiser =
        Minimiser { holds: &holds, on_progress: &|_, _| {}, threads, is_time_over: &|| false };
    minimiser.minimise(&noisy_case())
}

#[test]
fn a_case_shrinks_to_what_the_claim_needs_whatever_the_number_of_threads() {
    let result = minimised(1);
    let counts =
        result.case.cluster.objects.iter().map(|(array, it)| format!("{array} {}", it.len()));
    insta::assert_snapshot!(counts.collect::<Vec<_>>().join(", "), @"nodes 0, podGroups 1, pods 2, queues 1");
    assert!(result.is_minimal);
    let other = minimised(3);
    assert_eq!(result.case, other.case);
}

#[test]
fn without_any_one_element_the_claim_fails() {
    let claim: Predicate = "gang big pending because OverLimit".parse().unwrap();
    let result = minimised(2);
    for element in &result.elements {
        let mut case = result.case.clone();
        case.cluster = super::element::without(&case.cluster, std::slice::from_ref(element));
        let replay = case.replay(&Overrides::default(), 1).unwrap();
        assert!(case.cluster == result.case.cluster || !claim.holds(&replay), "{element}");
    }
}

#[test]
fn the_queue_of_a_kept_pod_stays() {
    let claims: Vec<Predicate> = ["gang big pending because OverLimit", "gang noise-3 placed"]
        .map(|text| text.parse().unwrap())
        .into();
    let holds = |case: &Case| {
        let replay = case.replay(&Overrides::default(), 1);
        replay.is_ok_and(|replay| claims.iter().all(|claim| claim.holds(&replay)))
    };
    assert!(holds(&noisy_case()));
    let minimiser =
        Minimiser { holds: &holds, on_progress: &|_, _| {}, threads: 2, is_time_over: &|| false };
    let result = minimiser.minimise(&noisy_case());
    let queues = |array: &'static str, pointer: &'static str| {
        let names = result.case.objects(array).map(move |it| it.pointer(pointer).cloned().unwrap());
        names
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(queues("podGroups", "/spec/queue"), queues("queues", "/metadata/name"));
    assert!(result.is_minimal);
}

#[test]
fn mounts_leave_with_the_volumes() {
    let mut case = noisy_case();
    for pod in case.cluster.objects.get_mut("pods").unwrap() {
        let pod = Arc::make_mut(pod);
        pod["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "v", "mountPath": "/v" }]);
    }
    let volumes = super::Element::Field("pods", "/spec/volumes");
    let without = super::element::without(&case.cluster, &[volumes]);
    let text = format!("{:?}", without.objects["pods"]);
    assert!(!text.contains("volume"), "{text}");
}
