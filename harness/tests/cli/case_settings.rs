//! Cases whose decisions depend on the configuration of the scheduler: the claim, the minimised case
//! and the feature use the configuration that was given.

use schedlab_api::{Value, json};

use super::lab::Lab;

/// All GPUs of a node are borrowed, and a pod of their owner waits.
fn borrowed_gpus() -> Value {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "status": { "allocatable": { "nvidia.com/gpu": "8", "cpu": "64", "memory": "64Gi", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] } });
    let queue = |name: &str, quota: i64| {
        let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
        json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": { "name": name },
            "spec": { "resources": { "gpu": { "quota": quota, "limit": -1, "overQuotaWeight": 1 }, "cpu": all, "memory": all } } })
    };
    let group = |name: &str, queue: &str| {
        json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": { "namespace": "ns", "name": name }, "spec": { "queue": queue, "minMember": 1 } })
    };
    let pod = |name: &str, node: Option<&str>| {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "ns", "name": name, "annotations": { "pod-group-name": name } },
            "spec": { "schedulerName": "kai-scheduler", "nodeName": node, "containers": [{ "name": "c",
                "resources": { "limits": { "nvidia.com/gpu": "8" } } }] },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } })
    };
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        node, queue("borrower", 0), queue("owner", 8),
        group("borrowed", "borrower"), pod("borrowed", Some("n1")),
        group("owned", "owner"), pod("owned", None),
    ] })
}

fn lab_with_case() -> Lab {
    let lab = Lab::empty();
    lab.write("case.json", &borrowed_gpus().to_string());
    lab.write("bad.yaml", "actions: [allocate]\n");
    lab.write("good.yaml", "actions: [allocate, reclaim]\n");
    lab
}

#[test]
fn a_feature_has_the_configuration_of_the_case() {
    let lab = lab_with_case();
    let claim = "gang owned pending";
    let wrong = lab.run(&[
        "feature",
        "case.json",
        "--shows",
        "gang owned placed",
        "--config",
        "bad.yaml",
        "-o",
        "x.feature",
    ]);
    assert_eq!(wrong.code, 2, "{}", wrong.all());
    let args =
        ["feature", "case.json", "--shows", claim, "--config", "bad.yaml", "-o", "new/bug.feature"];
    let run = lab.run(&args);
    assert_eq!(run.code, 0, "{}", run.all());
    assert!(run.all().contains("it passes"), "{}", run.all());
    let text = lab.read("new/bug.feature");
    assert!(text.contains("Given the scheduler's configuration:"), "{text}");
    assert_eq!(lab.run(&["run", "new/bug.feature"]).code, 0);
}

#[test]
fn a_minimised_case_keeps_the_difference_between_two_configurations() {
    let lab = lab_with_case();
    let keep = ["--keep", "gang owned pending", "--config", "bad.yaml"];
    let should = ["--should", "gang owned placed", "--should-config"];
    let minimise = |config: &str| {
        let args = [&["minimise", "case.json"][..], &keep, &should, &[config, "-o", "small.zip"]];
        lab.run(&args.concat())
    };
    let same = minimise("bad.yaml");
    assert_eq!(same.code, 2, "{}", same.all());
    let message = "--should: with --should-config the case does not show gang owned placed";
    assert!(same.stderr.contains(message), "{}", same.all());
    let run = minimise("good.yaml");
    assert_eq!(run.code, 0, "{}", run.all());
    for (config, claim) in [("bad.yaml", "gang owned pending"), ("good.yaml", "gang owned placed")]
    {
        let args = ["replay", "small.zip", "--cycles", "3", "--config", config, "--expect", claim];
        let replay = lab.run(&args);
        assert_eq!(replay.code, 0, "{config}: {}", replay.all());
    }
    let alone = lab.run(&[
        "minimise",
        "case.json",
        "--keep",
        "gang owned pending",
        "--should",
        "gang owned placed",
        "-o",
        "x.zip",
    ]);
    assert_eq!(alone.code, 2, "{}", alone.all());
}

#[test]
fn an_empty_input_is_no_result_and_no_proof() {
    let lab = lab_with_case();
    lab.write("empty.yaml", "");
    lab.write("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
    for empty in ["empty.yaml", "list.yaml"] {
        for command in ["replay", "explain"] {
            let run = lab.run(&[command, empty]);
            assert_eq!((run.code, run.stdout.as_str()), (0, "nothing was read\n"), "{}", run.all());
            assert!(run.stderr.contains("nothing was read: got no object"), "{}", run.all());
        }
        for [case, original] in [["case.json", empty], [empty, "case.json"]] {
            let check = lab.run(&["redact", case, "--check", original]);
            assert_eq!(check.code, 2, "{}", check.all());
            let message =
                format!("{empty}: got no object that decisions depend on, expected a case");
            assert!(check.stderr.contains(&message), "{}", check.all());
        }
    }
}

#[test]
fn scattered_gpus_and_the_pods_that_hold_the_nodes_are_explained() {
    let lab = Lab::empty();
    let mut list = borrowed_gpus();
    let items = list["items"].as_array_mut().unwrap();
    items[0]["metadata"]["name"] = json!("n0");
    items.truncate(3);
    let group = |name: &str, preemptibility: &str| {
        json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": { "namespace": "ns", "name": name },
            "spec": { "queue": "owner", "minMember": 1, "preemptibility": preemptibility } })
    };
    let pod = |name: &str, gpus: &str, node: Option<&str>| {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "ns", "name": name, "annotations": { "pod-group-name": name } },
            "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                "nodeSelector": { "kind": "a" }, "containers": [{ "name": "c",
                "resources": { "limits": { "nvidia.com/gpu": gpus } } }] },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } })
    };
    for name in ["n1", "n2"] {
        let mut node = items[0].clone();
        node["metadata"] = json!({ "name": name, "labels": { "kind": "a" } });
        let held = format!("held-{name}");
        items.extend([node, group(&held, "non-preemptible"), pod(&held, "5", Some(name))]);
    }
    items.extend([group("train", "preemptible"), pod("train", "4", None)]);
    lab.write("case.json", &list.to_string());
    let run = lab.run(&["explain", "case.json", "--workload", "ns/train"]);
    assert_eq!(run.code, 0, "{}", run.all());
    let note = "Free GPUs are scattered: 2 nodes match and have 6 free GPUs together, but at most 3 on \
                one node (n1), and a pod needs 4. 2 pods (ns/held-n1 on n1, ns/held-n2 on n2) are \
                non-preemptible, so that no GPU of theirs can be freed.";
    assert!(run.stdout.contains(note), "{}", run.all());
}

#[test]
fn an_explanation_says_that_its_search_stopped_at_the_limit() {
    let lab = lab_with_case();
    let explain = |more: &[&str]| {
        let args = ["explain", "case.json", "--workload", "ns/owned"];
        let run = lab.run(&[&args, more].concat());
        assert_eq!(run.code, 0, "{}", run.all());
        assert!(run.stdout.contains("Pipelined"), "{}", run.all());
        run.stdout
    };
    let note = "The search stopped at the limit of simulated evictions, 1.";
    assert!(explain(&["--simulations", "1"]).contains(note));
    assert!(!explain(&[]).contains("The search stopped"));
    assert!(explain(&["--simulations", "1", "--format", "json"]).contains(note));
}
