use super::*;

/// A pod of its own workload with something more in it, and its group.
fn inputs(pod: &Value, group: &Value) -> String {
    let mut log = Log::default();
    with(&mut log, "a", pod, group);
    run_outcome(&log.0).workloads["a"].scheduling_inputs.clone()
}

fn with(log: &mut Log, name: &str, more: &Value, group: &Value) {
    let named = format!("pg-{name}-0b5e6a52-1f6e-4b8a-9d53-aa11bb22cc33");
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
                     "labels": {"schedlab.dev/workload": name, "app": name},
                     "annotations": {"pod-group-name": named}},
        "spec": {"containers": [{"name": name, "image": "x",
                                 "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, more);
    log.write("pods", &pod);
    let mut of_it = json!({
        "metadata": {"name": named, "namespace": "default", "uid": format!("uid-of-{name}"),
                     "annotations": {"kai.scheduler/top-owner-metadata": name}},
        "spec": {"minMember": 1, "queue": "q"},
    });
    merge(&mut of_it, group);
    log.write("podgroups", &of_it);
}

fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flat_map(|fields| fields.iter()) {
        match into.as_object_mut().unwrap().get_mut(key.as_str()).filter(|one| one.is_object()) {
            Some(inner) => merge(inner, value),
            None => into[key.as_str()] = value.clone(),
        }
    }
}

fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

fn labelled(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

#[test]
fn every_scheduling_input_distinguishes_workloads() {
    let nothing = json!({});
    let part = |least: u32| json!({"name": "head", "minMember": least});
    let groups = [
        json!({"spec": {"preemptibility": "preemptible"}}),
        json!({"spec": {"minMember": 4}}),
        json!({"spec": {"priorityClassName": "build"}}),
        json!({"spec": {"subGroups": [part(1)]}}),
        json!({"spec": {"subGroups": [part(2)]}}),
        json!({"spec": {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}}),
        json!({"spec": {"preemptionDelay": "30s"}}),
        labelled("kai.scheduler/node-pool", "blue"),
    ];
    let pods = [
        labelled("kai.scheduler/queue", "r"),
        labelled("kai.scheduler/preemptibility", "preemptible"),
        labelled("kai.scheduler/node-pool", "blue"),
        labelled("kueue.x-k8s.io/queue-name", "r"),
        annotated("gpu-fraction", "0.5"),
        annotated("gpu-memory", "2000"),
        annotated("gpu-fraction-num-devices", "2"),
        annotated("kai.scheduler/topology", "t"),
        annotated("kai.scheduler/preemption-delay", "30s"),
        json!({"spec": {"priority": 100}}),
        json!({"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}),
        json!({"spec": {"schedulingGates": [{"name": "wait"}]}}),
        json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "a"}]}}),
        json!({"spec": {"initContainers": [{"resources": {"requests": {"cpu": "4"}}}]}}),
        json!({"spec": {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}}),
    ];
    let of_groups = groups.iter().map(|group| inputs(&nothing, group));
    let of_pods = pods.iter().map(|pod| inputs(pod, &nothing));
    let mut all: Vec<String> = of_groups.chain(of_pods).collect();
    all.push(inputs(&nothing, &nothing));
    let mut apart = all.clone();
    apart.sort();
    apart.dedup();
    assert_eq!(apart.len(), all.len(), "{all:#?}");
}

#[test]
fn random_names_and_additions_of_schedulers_and_servers_do_not() {
    let nothing = json!({});
    let stays = |cause| {
        json!({"key": format!("node.kubernetes.io/{cause}"), "operator": "Exists",
                               "effect": "NoExecute", "tolerationSeconds": 300})
    };
    let token = json!({"name": "kube-api-access-x7k2p", "projected": {"sources": []}});
    let same = [
        json!({"spec": {"tolerations": [stays("not-ready"), stays("unreachable")]}}),
        json!({"spec": {"volumes": [token]}}),
        json!({"spec": {"nodeName": "n-1"}}),
        labelled("runai-gpu-group", "x7k2p"),
        labelled("kai.scheduler/subgroup-name", "head"),
        labelled("app", "other"),
        annotated("kai.scheduler/numa-placement-predicted", "0"),
    ];
    for pod in &same {
        assert_eq!(inputs(pod, &nothing), inputs(&nothing, &nothing), "{pod}");
    }
    let mut log = Log::default();
    with(&mut log, "a", &nothing, &nothing);
    with(&mut log, "b", &nothing, &annotated("kai.scheduler/last-start-timestamp", "x"));
    let shown = run_outcome(&log.0);
    assert_eq!(shown.workloads["a"].scheduling_inputs, shown.workloads["b"].scheduling_inputs);
}

#[test]
fn durations_are_compared_by_rank() {
    let run = |delays: [&str; 3]| {
        let mut log = Log::default();
        for (name, delay) in ["a", "b", "c"].into_iter().zip(delays) {
            with(&mut log, name, &json!({}), &json!({"spec": {"preemptionDelay": delay}}));
        }
        run_outcome(&log.0)
            .workloads
            .into_values()
            .map(|one| one.scheduling_inputs)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(["90s", "10s", "10s"]), run(["9000ms", "1000ms", "1000ms"]));
    let whole = run(["90s", "10s", "10s"]);
    assert!(whole[0] != whole[1] && whole[1] == whole[2], "{whole:#?}");
}

#[test]
fn a_label_is_an_input_if_a_pod_selector_matches_it() {
    let run = |values: &str| {
        let choice = json!({"labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "In", "values": [values]}]}, "topologyKey": "rack"});
        let choice = json!({"spec": {"affinity": {"podAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [choice]}}}});
        let mut log = Log::default();
        for name in ["a", "b"] {
            with(&mut log, name, &json!({}), &json!({}));
        }
        with(&mut log, "near", &choice, &json!({}));
        run_outcome(&log.0)
    };
    let (chosen, other) = (run("a"), run("c"));
    assert_ne!(chosen.workloads["a"].scheduling_inputs, chosen.workloads["b"].scheduling_inputs);
    assert_eq!(other.workloads["a"].scheduling_inputs, other.workloads["b"].scheduling_inputs);
}

#[test]
fn claims_are_compared_by_requests_not_by_names() {
    let run = |count: u32| {
        let mut log = Log::default();
        for (name, count) in [("a", 1), ("b", count)] {
            let claim = format!("{name}-gpu-x7k2p");
            let pod = json!({
                "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]},
                "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim}]},
            });
            with(&mut log, name, &pod, &json!({}));
            log.write("resourceclaims", &json!({
                "metadata": {"name": claim, "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"count": count}}]}},
            }));
        }
        let shown = run_outcome(&log.0);
        shown.workloads["a"].scheduling_inputs == shown.workloads["b"].scheduling_inputs
    };
    assert!(run(1));
    assert!(!run(2));
}
