//! The life of pods on nodes.

use schedlab_api::object::{annotation, number, set, text};

use crate::emulator::test_cluster::TestCluster;

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_and_one_without_a_node_does_not() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("bound", "n1", 2, "");
    cluster.create_pod_on_node("free", "''", 2, "");
    cluster.settle().await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    bound Running n1 0,1
    free Pending
    ");
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_runs_and_ends_as_its_annotations_time_it() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node(
        "p",
        "n1",
        1,
        "schedlab.dev/startup: 2s, schedlab.dev/run-time: 10m",
    );
    cluster.settle().await;
    assert_eq!(cluster.pod_lines(), "p ContainerCreating n1 0");
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "p Running n1 0");
    cluster.advance_secs(599).await;
    assert_eq!(cluster.pod_lines(), "p Running n1 0");
    cluster.advance_secs(1).await;
    assert_eq!(cluster.pod_lines(), "p Succeeded n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_exits_with_an_error_fails() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node(
        "p",
        "n1",
        1,
        "schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '3'",
    );
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "p Failed n1 0");
    let pod = cluster.get("pods", "p");
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3);
    assert_eq!(ended["reason"], "Error");
}

#[tokio::test(start_paused = true)]
async fn two_pods_never_share_a_gpu_and_freed_gpus_are_reused() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 3, "schedlab.dev/run-time: 5s");
    cluster.create_pod_on_node("b", "n1", 4, "");
    cluster.settle().await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    a Running n1 0,1,2
    b Running n1 3,4,5,6
    ");
    cluster.advance_secs(6).await;
    cluster.create_pod_on_node("c", "n1", 4, "");
    cluster.settle().await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    a Succeeded n1 0,1,2
    b Running n1 3,4,5,6
    c Running n1 0,1,2,7
    ");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_rejects_a_pod_that_exceeds_its_node() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 6, "");
    cluster.create_pod_on_node("b", "n1", 3, "");
    cluster.create_pod_on_node("c", "n1", 2, "");
    cluster.settle().await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    a Running n1 0,1,2,3,4,5
    b Failed OutOfnvidia.com/gpu n1
    c Running n1 6,7
    ");
    let refused = cluster.get("pods", "b");
    assert_eq!(
        text(&refused, &["status", "message"]),
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 3, used: 6, capacity: 8"
    );
    assert_eq!(cluster.event_reasons("b"), ["OutOfnvidia.com/gpu"]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_rejects_a_pod_that_fails_its_predicates() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    let hostname = ["metadata", "labels", "kubernetes.io/hostname"];
    cluster.edit("nodes", "n1", |node| {
        set(node, &hostname, "n1".into());
    });
    let selector = |node: &str| format!("nodeSelector: {{kubernetes.io/hostname: {node}}}");
    let term = |of: &str, key: &str, operator: &str, node: &str| {
        format!("{{{of}: [{{key: {key}, operator: {operator}, values: [{node}]}}]}}")
    };
    let affinity = |terms: &[String]| {
        let terms = terms.join(", ");
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
             {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    let field = |node: &str| term("matchFields", "metadata.name", "In", node);
    let label = |operator: &str| term("matchExpressions", "kubernetes.io/hostname", operator, "n1");
    for (name, spec) in [
        ("selected", selector("n1")),
        ("foreign", selector("n2")),
        ("near", affinity(&[field("n1")])),
        ("far", affinity(&[label("NotIn")])),
        ("either", affinity(&[field("n2"), label("In")])),
    ] {
        cluster.apply(&format!(
            "
            apiVersion: v1
            kind: Pod
            metadata: {{name: {name}}}
            spec: {{nodeName: n1, containers: [{{name: c, image: i}}], {spec}}}
            "
        ));
    }
    cluster.settle().await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    either Running n1
    far Failed NodeAffinity n1
    foreign Failed NodeAffinity n1
    near Running n1
    selected Running n1
    ");
    let refused = cluster.get("pods", "far");
    assert_eq!(
        text(&refused, &["status", "message"]),
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_rejects_a_pod_with_a_host_port_conflict() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    for (name, address) in [("listens", "127.0.0.1"), ("apart", "127.0.0.2"), ("clashes", "")] {
        cluster.apply(&format!(
            "
            apiVersion: v1
            kind: Pod
            metadata: {{name: {name}}}
            spec:
              nodeName: n1
              containers:
              - {{name: c, image: i, ports: [{{containerPort: 80, hostPort: 8080, hostIP: '{address}'}}]}}
            "
        ));
        cluster.settle().await;
    }
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    apart Running n1
    clashes Failed NodePorts n1
    listens Running n1
    ");
    assert_eq!(cluster.event_reasons("clashes"), ["NodePorts"]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_counts_cpu_in_thousandths() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: big}
        spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 64100m}}}]}
        ",
    );
    cluster.settle().await;
    assert_eq!(
        text(&cluster.get("pods", "big"), &["status", "message"]),
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 64100, used: 0, capacity: 64000"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_to_a_node_that_does_not_exist_waits_and_is_collected() {
    let cluster = TestCluster::new();
    cluster.create_pod_on_node("p", "nowhere", 1, "");
    cluster.advance_secs(39).await;
    assert_eq!(cluster.pod_lines(), "p Pending nowhere");
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_before_its_node_came_runs_when_it_comes() {
    let cluster = TestCluster::new();
    cluster.create_pod_on_node("p", "n1", 1, "");
    cluster.settle().await;
    assert_eq!(cluster.pod_lines(), "p Pending n1");
    cluster.create_gpu_nodes(&["n1"]).await;
    assert_eq!(cluster.pod_lines(), "p Running n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_keeps_its_gpus_until_its_containers_have_ended() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 8, "schedlab.dev/termination: 5s");
    cluster.settle().await;
    cluster.delete("pods", "p");
    cluster.advance_secs(4).await;
    assert_eq!(cluster.pod_lines(), "p Terminating n1 0,1,2,3,4,5,6,7");
    assert_eq!(cluster.event_reasons("p"), ["Killing"]);
    cluster.advance_secs(1).await;
    assert_eq!(cluster.pod_lines(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_stop_is_killed_when_its_grace_is_over() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "schedlab.dev/termination: 10m");
    cluster.settle().await;
    cluster.delete("pods", "p");
    cluster.advance_secs(29).await;
    assert_eq!(cluster.pod_lines(), "p Terminating n1 0");
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "");
    let log = cluster.change_log();
    let last = log.iter().rev().find(|entry| &*entry.key.name == "p").unwrap();
    let code = &last.object["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    assert_eq!(code, 137);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_started_is_deleted_at_once() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "schedlab.dev/startup: 1h");
    cluster.settle().await;
    cluster.delete("pods", "p");
    cluster.settle().await;
    assert_eq!(cluster.pod_lines(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_always_restarts_backs_off_longer_and_longer() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, annotations: {schedlab.dev/run-time: 1s}}
        spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: i}]}
        ",
    );
    let restarts = || {
        let pod = cluster.get("pods", "p");
        number(&pod["status"]["containerStatuses"][0], &["restartCount"]).unwrap()
    };
    cluster.advance_secs(1).await;
    cluster.settle().await;
    assert_eq!((cluster.pod_lines(), restarts()), ("p Running n1".to_owned(), 1));
    cluster.advance_secs(1).await;
    assert_eq!((cluster.pod_lines(), restarts()), ("p CrashLoopBackOff n1".to_owned(), 1));
    cluster.advance_secs(10).await;
    assert_eq!((cluster.pod_lines(), restarts()), ("p Running n1".to_owned(), 2));
    cluster.advance_secs(3600).await;
    assert_eq!(restarts(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_pod_restarted_on_failure_ends_when_it_succeeds() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata:
          name: p
          annotations: {schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '1'}
        spec: {nodeName: n1, restartPolicy: OnFailure, containers: [{name: c, image: i}]}
        ",
    );
    cluster.advance_secs(1).await;
    cluster.settle().await;
    assert_eq!(cluster.pod_lines(), "p Running n1");
    cluster.set_annotation("pods", "p", "schedlab.dev/exit-code", "0");
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "p Succeeded n1");
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_active_deadline_fails() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "");
    cluster.settle().await;
    cluster.edit("pods", "p", |pod| set(pod, &["spec", "activeDeadlineSeconds"], 60.into()));
    cluster.advance_secs(61).await;
    assert_eq!(cluster.pod_lines(), "p Failed DeadlineExceeded n1 0");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_is_refused_in_pods_templates_and_nodes() {
    let cluster = TestCluster::new();
    for (annotation, rule) in [
        ("startup: soon", "must be a duration such as 90s or 1h30m"),
        ("run-time: 5 s", "must be a duration such as 90s or 1h30m"),
        ("termination: -1s", "must be a duration such as 90s or 1h30m"),
        ("exit-code: bad", "must be a whole number"),
        ("exit-code: '1.5'", "must be a whole number"),
        ("down: maybe", "must be true or false"),
    ] {
        let metadata = format!("{{name: p, annotations: {{schedlab.dev/{annotation}}}}}");
        let spec = "{restartPolicy: Never, containers: [{name: c, image: i}]}";
        let (key, value) = annotation.split_once(": ").unwrap();
        let value = value.trim_matches('\'');
        for (document, prefix) in [
            (format!("{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {spec}}}"), ""),
            (
                format!(
                    "{{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, \
                     spec: {{template: {{metadata: {metadata}, spec: {spec}}}}}}}"
                ),
                "spec.template.",
            ),
            (format!("{{apiVersion: v1, kind: Node, metadata: {metadata}}}"), ""),
        ] {
            let refusal = cluster.try_apply(&document).unwrap_err();
            let expected = format!(
                "is invalid: {prefix}metadata.annotations[schedlab.dev/{key}]: \
                 Invalid value: \"{value}\": {rule}"
            );
            assert!(refusal.message.ends_with(&expected), "{}", refusal.message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_from_another_api_server_is_reported_and_ignored() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "", 1, "");
    cluster.update_status("pods", "p", |pod| {
        set(pod, &["metadata", "annotations", "schedlab.dev/run-time"], "soon".into());
    });
    cluster.bind_all("n1");
    cluster.advance_secs(10).await;
    assert_eq!(cluster.pod_lines(), "p Running n1 0");
    assert_eq!(cluster.event_reasons("p"), ["InvalidAnnotation"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_sets_the_timing_of_pods_without_their_own() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.set_annotation("nodes", "n1", "schedlab.dev/run-time", "5s");
    cluster.create_pod_on_node("a", "n1", 1, "");
    cluster.create_pod_on_node("b", "n1", 1, "schedlab.dev/run-time: 1h");
    cluster.advance_secs(6).await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    a Succeeded n1 0
    b Running n1 1
    ");
    cluster.set_annotation("nodes", "n1", "schedlab.dev/exit-code", "3");
    cluster.create_pod_on_node("c", "n1", 1, "");
    cluster.create_pod_on_node("d", "n1", 1, "schedlab.dev/exit-code: '0'");
    cluster.advance_secs(6).await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    a Succeeded n1 0
    b Running n1 1
    c Failed n1 0
    d Succeeded n1 2
    ");
}

#[tokio::test(start_paused = true)]
async fn gpu_annotations_written_by_users_do_not_share_a_gpu() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 1, "schedlab.dev/gpu-devices: '0'");
    cluster.create_pod_on_node("b", "n1", 1, "schedlab.dev/gpu-devices: '0'");
    cluster.settle().await;
    let gpus = ["a", "b"].map(|name| {
        annotation(&cluster.get("pods", name), "schedlab.dev/gpu-devices").unwrap().to_owned()
    });
    assert_ne!(gpus[0], gpus[1]);
}

#[tokio::test(start_paused = true)]
async fn running_pods_on_a_node_have_addresses_of_their_own() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    for name in ["a", "b", "c"] {
        cluster.create_pod_on_node(name, "n1", 0, "");
    }
    cluster.settle().await;
    let addresses: std::collections::BTreeSet<String> = cluster
        .objects_of("pods")
        .iter()
        .map(|pod| text(pod, &["status", "podIP"]).to_owned())
        .collect();
    assert_eq!(addresses.len(), 3);
    assert!(addresses.iter().all(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_idle_virtual_days_cost_no_write() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1", "n2"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "");
    cluster.settle().await;
    let before = cluster.emulator.revision();
    cluster.advance_secs(100 * 24 * 3600).await;
    assert_eq!(cluster.emulator.revision(), before);
    assert_eq!(cluster.emulator.clock().now().to_string().split('T').next(), Some("2026-04-11"));
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_gpu_is_not_allocatable_and_its_pod_keeps_running() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("a", "n1", 2, "");
    cluster.advance_secs(1).await;
    let gpus = |field: &str| {
        cluster.get("nodes", "n1")["status"][field]["nvidia.com/gpu"].as_str().unwrap().to_owned()
    };
    cluster.set_annotation("nodes", "n1", "schedlab.dev/unhealthy-gpus", "0,3");
    cluster.settle().await;
    assert_eq!([gpus("capacity"), gpus("allocatable")], ["8", "6"]);
    cluster.create_pod_on_node("b", "n1", 4, "");
    cluster.create_pod_on_node("c", "n1", 1, "");
    cluster.advance_secs(1).await;
    assert_eq!(
        cluster.pod_lines(),
        "a Running n1 0,1\nb Running n1 2,4,5,6\nc Failed OutOfnvidia.com/gpu n1"
    );
    cluster.set_annotation("nodes", "n1", "schedlab.dev/unhealthy-gpus", "");
    cluster.settle().await;
    assert_eq!(gpus("allocatable"), "8");
}
