//! get, describe, explain, api-resources, auth.

use crate::cluster::{Cluster, has_kubectl};

const EVENT: &str = "
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: default}
involvedObject: {kind: Pod, name: web, namespace: default, uid: UID}
type: Warning
reason: FailedScheduling
message: no GPU is free
source: {component: test}
count: 1
firstTimestamp: '2026-01-01T00:00:00Z'
lastTimestamp: '2026-01-01T00:00:00Z'
";

/// Normalizes column widths and ages.
fn squeezed(text: &str) -> String {
    let line = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_age(word) { "<age>" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn is_age(word: &str) -> bool {
    word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_shown_as_users_know_them() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    assert_eq!(
        cluster.run("wait --for=condition=Ready node --all --timeout=20s").lines().count(),
        2
    );
    assert_eq!(
        squeezed(&cluster.run("get nodes")),
        "NAME STATUS ROLES AGE VERSION\n\
         gpu-0 Ready <none> <age> v1.37.2\n\
         gpu-1 Ready <none> <age> v1.37.2"
    );
    assert_eq!(
        squeezed(&cluster.run("get namespaces,priorityclasses -o name")),
        "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\n\
         namespace/kube-system\npriorityclass.scheduling.k8s.io/system-cluster-critical\n\
         priorityclass.scheduling.k8s.io/system-node-critical"
    );
    assert_eq!(cluster.run("get pods"), "No resources found in default namespace.\n");
    assert_eq!(
        cluster.run("get pod none"),
        "Error from server (NotFound): pods \"none\" not found\n"
    );
    assert_eq!(
        cluster.run("get gadgets"),
        "error: the server doesn't have a resource type \"gadgets\"\n"
    );
    let node = squeezed(&cluster.run("describe node gpu-0"));
    assert!(node.contains("Capacity:\ncpu: 96\n"), "{node}");
    assert!(node.contains("nvidia.com/gpu: 8"), "{node}");
    assert_eq!(cluster.run("auth can-i delete pods"), "yes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_described_with_their_events() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    assert_eq!(cluster.run("run web --image=nginx"), "pod/web created\n");
    let uid = cluster.run("get pod web -o 'jsonpath={.metadata.uid}'");
    cluster.file("event.yaml", &EVENT.replace("UID", uid.trim()));
    assert_eq!(cluster.run("create -f event.yaml"), "event/web.1 created\n");
    let pod = squeezed(&cluster.run("describe pod web"));
    assert!(pod.contains("QoS Class: BestEffort"), "{pod}");
    assert!(pod.contains("Tolerations: node.kubernetes.io/not-ready:NoExecute"), "{pod}");
    assert!(pod.contains("Warning FailedScheduling"), "{pod}");
    assert!(pod.contains("test no GPU is free"), "{pod}");
    let events = squeezed(&cluster.run("get events"));
    assert!(events.starts_with("LAST SEEN TYPE REASON OBJECT MESSAGE\n"), "{events}");
    assert!(events.contains("Warning FailedScheduling pod/web no GPU is free"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_what_running_containers_request() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    assert!(cluster.run("top nodes").contains("Metrics API not available"));
    for definition in schedlab_emulator::http::resource_metrics_crds() {
        cluster.file("crd.json", &definition.to_string());
        assert!(cluster.run("create -f crd.json").contains("created"));
    }
    cluster.file("pod.yaml", POD_ON_NODE);
    assert_eq!(cluster.run("create -f pod.yaml"), "pod/busy created\n");
    assert!(cluster.run("wait pod/busy --for=condition=Ready --timeout=20s").contains("met"));
    assert_eq!(
        squeezed(&cluster.run("top pods -l app=busy --containers")),
        "POD NAME CPU(cores) MEMORY(bytes)\nbusy main 1500m 1024Mi\nbusy side 1m 16Mi"
    );
    let nodes = squeezed(&cluster.run("top nodes"));
    assert!(nodes.contains("gpu-0 1501m 1% 1040Mi 0%\ngpu-1 0m 0% 0Mi 0%"), "{nodes}");
    assert!(cluster.run("top pod none").contains("\"none\" not found"));
}

const POD_ON_NODE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: busy, labels: {app: busy}}
spec:
  nodeName: gpu-0
  containers:
  - {name: main, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}}}
  - {name: side, image: i}
";

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_explained() {
    if !has_kubectl() {
        return;
    }
    let cluster = Cluster::start().await;
    let pod = squeezed(&cluster.run("explain pod.spec.containers.resources"));
    assert!(pod.contains("FIELD: resources <ResourceRequirements>"), "{pod}");
    assert!(pod.contains("limits <map[string]Quantity>"), "{pod}");
    let resources = squeezed(&cluster.run("api-resources --namespaced=true -o wide"));
    assert!(
        resources.contains("pods po v1 true Pod create,delete,deletecollection"),
        "{resources}"
    );
}
