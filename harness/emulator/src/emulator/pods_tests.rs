//! What happens to pods on nodes.

use crate::emulator::lab::Lab;
use crate::object::{annotation, number, set, text};

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_and_one_without_a_node_does_not() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("bound", "n1", 2, "");
    lab.pod("free", "''", 2, "");
    lab.rest().await;
    insta::assert_snapshot!(lab.pods(), @r"
    bound Running n1 0,1
    free Pending
    ");
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_runs_and_ends_at_the_moments_its_annotations_say() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "schedlab.dev/startup: 2s, schedlab.dev/run-time: 10m");
    lab.rest().await;
    assert_eq!(lab.pods(), "p ContainerCreating n1 0");
    lab.secs(2).await;
    assert_eq!(lab.pods(), "p Running n1 0");
    lab.secs(599).await;
    assert_eq!(lab.pods(), "p Running n1 0");
    lab.secs(1).await;
    assert_eq!(lab.pods(), "p Succeeded n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_exits_with_an_error_fails() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '3'");
    lab.secs(2).await;
    assert_eq!(lab.pods(), "p Failed n1 0");
    let pod = lab.get("pods", "p");
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3);
    assert_eq!(ended["reason"], "Error");
}

#[tokio::test(start_paused = true)]
async fn two_pods_never_get_one_device_and_freed_ones_are_given_again() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("a", "n1", 3, "schedlab.dev/run-time: 5s");
    lab.pod("b", "n1", 4, "");
    lab.rest().await;
    insta::assert_snapshot!(lab.pods(), @r"
    a Running n1 0,1,2
    b Running n1 3,4,5,6
    ");
    lab.secs(6).await;
    lab.pod("c", "n1", 4, "");
    lab.rest().await;
    insta::assert_snapshot!(lab.pods(), @r"
    a Succeeded n1 0,1,2
    b Running n1 3,4,5,6
    c Running n1 0,1,2,7
    ");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_refuses_what_its_node_cannot_hold() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("a", "n1", 6, "");
    lab.pod("b", "n1", 3, "");
    lab.pod("c", "n1", 2, "");
    lab.rest().await;
    insta::assert_snapshot!(lab.pods(), @r"
    a Running n1 0,1,2,3,4,5
    b Failed OutOfnvidia.com/gpu n1
    c Running n1 6,7
    ");
    let refused = lab.get("pods", "b");
    assert_eq!(
        text(&refused, &["status", "message"]),
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 3, used: 6, capacity: 8"
    );
    assert_eq!(lab.events("b"), ["OutOfnvidia.com/gpu"]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_refuses_who_must_not_run_on_its_node() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    let hostname = ["metadata", "labels", "kubernetes.io/hostname"];
    lab.edit("nodes", "n1", |node| {
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
        lab.apply(&format!(
            "
            apiVersion: v1
            kind: Pod
            metadata: {{name: {name}}}
            spec: {{nodeName: n1, containers: [{{name: c, image: i}}], {spec}}}
            "
        ));
    }
    lab.rest().await;
    insta::assert_snapshot!(lab.pods(), @r"
    either Running n1
    far Failed NodeAffinity n1
    foreign Failed NodeAffinity n1
    near Running n1
    selected Running n1
    ");
    let refused = lab.get("pods", "far");
    assert_eq!(
        text(&refused, &["status", "message"]),
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_refuses_whose_host_port_is_taken() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    for (name, address) in [("listens", "127.0.0.1"), ("apart", "127.0.0.2"), ("clashes", "")] {
        lab.apply(&format!(
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
        lab.rest().await;
    }
    insta::assert_snapshot!(lab.pods(), @r"
    apart Running n1
    clashes Failed NodePorts n1
    listens Running n1
    ");
    assert_eq!(lab.events("clashes"), ["NodePorts"]);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_counts_cpu_in_thousandths() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: big}
        spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 64100m}}}]}
        ",
    );
    lab.rest().await;
    assert_eq!(
        text(&lab.get("pods", "big"), &["status", "message"]),
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 64100, used: 0, capacity: 64000"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_to_a_node_that_does_not_exist_waits_and_is_collected() {
    let lab = Lab::new();
    lab.pod("p", "nowhere", 1, "");
    lab.secs(39).await;
    assert_eq!(lab.pods(), "p Pending nowhere");
    lab.secs(2).await;
    assert_eq!(lab.pods(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_before_its_node_came_runs_when_it_comes() {
    let lab = Lab::new();
    lab.pod("p", "n1", 1, "");
    lab.rest().await;
    assert_eq!(lab.pods(), "p Pending n1");
    lab.nodes(&["n1"]).await;
    assert_eq!(lab.pods(), "p Running n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_keeps_its_gpus_until_its_containers_have_ended() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 8, "schedlab.dev/termination: 5s");
    lab.rest().await;
    lab.delete("pods", "p");
    lab.secs(4).await;
    assert_eq!(lab.pods(), "p Terminating n1 0,1,2,3,4,5,6,7");
    assert_eq!(lab.events("p"), ["Killing"]);
    lab.secs(1).await;
    assert_eq!(lab.pods(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_stop_is_killed_when_its_grace_is_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "schedlab.dev/termination: 10m");
    lab.rest().await;
    lab.delete("pods", "p");
    lab.secs(29).await;
    assert_eq!(lab.pods(), "p Terminating n1 0");
    lab.secs(2).await;
    assert_eq!(lab.pods(), "");
    let log = lab.log();
    let last = log.iter().rev().find(|entry| &*entry.key.name == "p").unwrap();
    let code = &last.object["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    assert_eq!(code, 137);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_started_goes_at_once() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "schedlab.dev/startup: 1h");
    lab.rest().await;
    lab.delete("pods", "p");
    lab.rest().await;
    assert_eq!(lab.pods(), "");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_always_restarts_backs_off_longer_and_longer() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, annotations: {schedlab.dev/run-time: 1s}}
        spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: i}]}
        ",
    );
    let restarts = || {
        let pod = lab.get("pods", "p");
        number(&pod["status"]["containerStatuses"][0], &["restartCount"]).unwrap()
    };
    lab.secs(1).await;
    lab.rest().await;
    assert_eq!((lab.pods(), restarts()), ("p Running n1".to_owned(), 1));
    lab.secs(1).await;
    assert_eq!((lab.pods(), restarts()), ("p CrashLoopBackOff n1".to_owned(), 1));
    lab.secs(10).await;
    assert_eq!((lab.pods(), restarts()), ("p Running n1".to_owned(), 2));
    lab.secs(3600).await;
    assert_eq!(restarts(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_pod_restarted_on_failure_ends_when_it_succeeds() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata:
          name: p
          annotations: {schedlab.dev/run-time: 1s, schedlab.dev/exit-code: '1'}
        spec: {nodeName: n1, restartPolicy: OnFailure, containers: [{name: c, image: i}]}
        ",
    );
    lab.secs(1).await;
    lab.rest().await;
    assert_eq!(lab.pods(), "p Running n1");
    lab.annotate("pods", "p", "schedlab.dev/exit-code", "0");
    lab.secs(2).await;
    assert_eq!(lab.pods(), "p Succeeded n1");
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_active_deadline_fails() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "");
    lab.rest().await;
    lab.edit("pods", "p", |pod| set(pod, &["spec", "activeDeadlineSeconds"], 60.into()));
    lab.secs(61).await;
    assert_eq!(lab.pods(), "p Failed DeadlineExceeded n1 0");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_is_refused_in_pods_templates_and_nodes() {
    let lab = Lab::new();
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
        for (document, place) in [
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
            let refusal = lab.try_apply(&document).unwrap_err();
            let expected = format!(
                "is invalid: {place}metadata.annotations[schedlab.dev/{key}]: \
                 Invalid value: \"{value}\": {rule}"
            );
            assert!(refusal.message.ends_with(&expected), "{}", refusal.message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_came_in_some_other_way_is_said_and_passed_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "", 1, "");
    lab.say("pods", "p", |pod| {
        set(pod, &["metadata", "annotations", "schedlab.dev/run-time"], "soon".into());
    });
    lab.bind_all("n1");
    lab.secs(10).await;
    assert_eq!(lab.pods(), "p Running n1 0");
    assert_eq!(lab.events("p"), ["InvalidAnnotation"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_sets_the_pace_of_pods_that_do_not_say_theirs() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.annotate("nodes", "n1", "schedlab.dev/run-time", "5s");
    lab.pod("a", "n1", 1, "");
    lab.pod("b", "n1", 1, "schedlab.dev/run-time: 1h");
    lab.secs(6).await;
    insta::assert_snapshot!(lab.pods(), @r"
    a Succeeded n1 0
    b Running n1 1
    ");
    lab.annotate("nodes", "n1", "schedlab.dev/exit-code", "3");
    lab.pod("c", "n1", 1, "");
    lab.pod("d", "n1", 1, "schedlab.dev/exit-code: '0'");
    lab.secs(6).await;
    insta::assert_snapshot!(lab.pods(), @r"
    a Succeeded n1 0
    b Running n1 1
    c Failed n1 0
    d Succeeded n1 2
    ");
}

#[tokio::test(start_paused = true)]
async fn gpus_that_a_user_wrote_on_two_pods_are_not_given_twice() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("a", "n1", 1, "schedlab.dev/gpu-devices: '0'");
    lab.pod("b", "n1", 1, "schedlab.dev/gpu-devices: '0'");
    lab.rest().await;
    let gpus = ["a", "b"].map(|name| {
        annotation(&lab.get("pods", name), "schedlab.dev/gpu-devices").unwrap().to_owned()
    });
    assert_ne!(gpus[0], gpus[1]);
}

#[tokio::test(start_paused = true)]
async fn running_pods_on_a_node_have_addresses_of_their_own() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    for name in ["a", "b", "c"] {
        lab.pod(name, "n1", 0, "");
    }
    lab.rest().await;
    let addresses: std::collections::BTreeSet<String> =
        lab.all("pods").iter().map(|pod| text(pod, &["status", "podIP"]).to_owned()).collect();
    assert_eq!(addresses.len(), 3);
    assert!(addresses.iter().all(|address| address.parse::<std::net::Ipv4Addr>().is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_virtual_days_of_silence_cost_no_write() {
    let lab = Lab::new();
    lab.nodes(&["n1", "n2"]).await;
    lab.pod("p", "n1", 1, "");
    lab.rest().await;
    let before = lab.emulator.revision();
    lab.secs(100 * 24 * 3600).await;
    assert_eq!(lab.emulator.revision(), before);
    assert_eq!(lab.emulator.clock().now().to_string().split('T').next(), Some("2026-04-11"));
}
