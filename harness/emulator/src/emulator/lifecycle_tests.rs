//! The lifecycle of nodes, garbage collection and namespace deletion.

use schedlab_api::object::{condition, is_deleting, list, name, namespace, set, text, uid};

use crate::emulator::test_cluster::TestCluster;
use crate::store::Propagation;

fn node_taints(cluster: &TestCluster, node: &str) -> Vec<String> {
    let node = cluster.get("nodes", node);
    let taints = list(&node, &["spec", "taints"]).iter();
    taints.map(|one| format!("{}:{}", text(one, &["key"]), text(one, &["effect"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_node_becomes_ready_loses_its_taint_and_has_a_lease() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    assert_eq!(condition(&cluster.get("nodes", "n1"), "Ready"), Some("True"));
    assert_eq!(node_taints(&cluster, "n1"), [""; 0]);
    let lease = cluster.get("leases", "kube-node-lease/n1");
    assert_eq!(text(&lease, &["spec", "holderIdentity"]), "n1");
}

#[tokio::test(start_paused = true)]
async fn every_namespace_keeps_its_default_account_and_root_ca() {
    let cluster = TestCluster::new();
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    cluster.settle().await;
    let names_of = |plural: &str| {
        let all = cluster.objects_of(plural);
        all.iter().map(|one| format!("{}/{}", namespace(one), name(one))).collect::<Vec<_>>()
    };
    let first_four = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let all = |name: &str| {
        let spaces = first_four.into_iter().chain(["team"]);
        spaces.map(|space| format!("{space}/{name}")).collect::<Vec<_>>()
    };
    assert_eq!(names_of("serviceaccounts"), all("default"));
    assert_eq!(names_of("configmaps"), all("kube-root-ca.crt"));
    let first = uid(&cluster.get("serviceaccounts", "team/default")).to_owned();
    cluster.delete("serviceaccounts", "team/default");
    cluster.delete("configmaps", "team/kube-root-ca.crt");
    cluster.settle().await;
    assert_ne!(uid(&cluster.get("serviceaccounts", "team/default")), first);
    assert_eq!(names_of("configmaps"), all("kube-root-ca.crt"));
    cluster.delete("namespaces", "team");
    cluster.settle().await;
    assert_eq!(names_of("serviceaccounts"), all("default")[..4]);
    assert_eq!(names_of("configmaps"), all("kube-root-ca.crt")[..4]);
    assert_eq!(cluster.object_names_of("namespaces"), first_four);
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_unknown_and_tainted_after_the_grace_period() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.set_annotation("nodes", "n1", "schedlab.dev/down", "true");
    cluster.advance_secs(39).await;
    assert_eq!(condition(&cluster.get("nodes", "n1"), "Ready"), Some("True"));
    cluster.advance_secs(2).await;
    assert_eq!(condition(&cluster.get("nodes", "n1"), "Ready"), Some("Unknown"));
    assert_eq!(
        node_taints(&cluster, "n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert_eq!(cluster.event_reasons("n1"), ["NodeNotReady"]);
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_dead_node_when_their_toleration_is_over() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "");
    cluster.settle().await;
    cluster.set_annotation("nodes", "n1", "schedlab.dev/down", "true");
    cluster.advance_secs(339).await;
    let pod = cluster.get("pods", "p");
    assert!(!is_deleting(&pod));
    assert_eq!(condition(&pod, "Ready"), Some("False"));
    cluster.advance_secs(3).await;
    let pod = cluster.get("pods", "p");
    assert!(is_deleting(&pod));
    assert_eq!(condition(&pod, "DisruptionTarget"), Some("True"));
    cluster.advance_secs(3600).await;
    assert_eq!(cluster.pod_lines(), "p Terminating n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_returning_node_is_ready_and_finishes_pending_deletions() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("stays", "n1", 1, "");
    cluster.create_pod_on_node("ends", "n1", 1, "schedlab.dev/run-time: 60s");
    cluster.settle().await;
    cluster.set_annotation("nodes", "n1", "schedlab.dev/down", "true");
    cluster.advance_secs(100).await;
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    ends Running n1 1
    stays Running n1 0
    ");
    cluster.set_annotation("nodes", "n1", "schedlab.dev/down", "false");
    cluster.settle().await;
    assert_eq!(condition(&cluster.get("nodes", "n1"), "Ready"), Some("True"));
    assert_eq!(node_taints(&cluster, "n1"), [""; 0]);
    assert_eq!(condition(&cluster.get("pods", "stays"), "Ready"), Some("True"));
    insta::assert_snapshot!(cluster.pod_lines(), @r"
    ends Succeeded n1 1
    stays Running n1 0
    ");
}

#[tokio::test(start_paused = true)]
async fn pods_and_lease_of_a_deleted_node_are_deleted() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1", "n2"]).await;
    cluster.create_pod_on_node("a", "n1", 1, "");
    cluster.create_pod_on_node("b", "n2", 1, "");
    cluster.advance_secs(60).await;
    cluster.delete("nodes", "n1");
    cluster.advance_secs(39).await;
    assert_eq!(cluster.object_names_of("pods"), ["a", "b"]);
    assert_eq!(cluster.object_names_of("leases"), ["n2"]);
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "b Running n2 0");
}

#[tokio::test(start_paused = true)]
async fn a_no_execute_taint_evicts_pods_that_do_not_tolerate_it() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.create_pod_on_node("p", "n1", 1, "");
    cluster.settle().await;
    cluster.edit("nodes", "n1", |node| {
        let taint = schedlab_api::json!([{"key": "maintenance", "effect": "NoExecute"}]);
        set(node, &["spec", "taints"], taint);
    });
    cluster.advance_secs(2).await;
    assert_eq!(cluster.pod_lines(), "");
    assert!(cluster.event_reasons("p").contains(&"TaintManagerEviction".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_tainted_until_it_is_uncordoned() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.edit("nodes", "n1", |node| set(node, &["spec", "unschedulable"], true.into()));
    cluster.settle().await;
    assert_eq!(node_taints(&cluster, "n1"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    cluster.edit("nodes", "n1", |node| set(node, &["spec", "unschedulable"], false.into()));
    cluster.settle().await;
    assert_eq!(node_taints(&cluster, "n1"), [""; 0]);
}

fn config_map(name: &str, owner: Option<&str>) -> String {
    let owner = owner.map_or(String::new(), |owner| {
        let (name, uid) = owner.split_once('=').unwrap();
        format!(
            ", ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: {name}, uid: {uid}, blockOwnerDeletion: true}}]"
        )
    });
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}{owner}}}}}")
}

/// A cluster with three ConfigMaps: `a` owns `b`, which owns `c`.
async fn cluster_with_owner_chain() -> TestCluster {
    let cluster = TestCluster::new();
    let mut owner: Option<String> = None;
    for name in ["a", "b", "c"] {
        let made = cluster.try_apply(&config_map(name, owner.as_deref())).unwrap();
        owner = Some(format!("{name}={}", uid(&made.object)));
    }
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("configmaps"), ["a", "b", "c"]);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_background_deletion_deletes_the_whole_chain_of_dependents() {
    let cluster = cluster_with_owner_chain().await;
    cluster.delete("configmaps", "a");
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("configmaps"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_takes_dependents_first() {
    let cluster = cluster_with_owner_chain().await;
    cluster.delete_with("configmaps", "a", Propagation::Foreground);
    cluster.settle().await;
    let log = cluster.change_log();
    let gone: Vec<&str> = log
        .iter()
        .filter(|entry| entry.kind == crate::store::EventKind::Deleted)
        .map(|entry| &*entry.key.name)
        .collect();
    assert_eq!(gone, ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphaning_deletion_leaves_dependents_without_owner() {
    let cluster = cluster_with_owner_chain().await;
    cluster.delete_with("configmaps", "a", Propagation::Orphan);
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("configmaps"), ["b", "c"]);
    assert_eq!(cluster.get("configmaps", "b")["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_nonexistent_owner_is_collected() {
    let cluster = TestCluster::new();
    cluster.apply(&config_map("a", None));
    cluster.apply(&config_map("b", Some("a=not-the-uid-of-a")));
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("configmaps"), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_an_owner_of_unknown_kind_is_kept_until_the_kind_exists() {
    let cluster = TestCluster::new();
    let owned = |name: &str, more: &str| {
        let widget = "{apiVersion: example.com/v1, kind: Widget, name: w, uid: '1'}";
        let metadata = format!("{{name: {name}, ownerReferences: [{widget}{more}]}}");
        cluster.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}"));
    };
    owned("a", "");
    owned("b", ", {apiVersion: v1, kind: ConfigMap, name: gone, uid: '2'}");
    owned("c", ", {apiVersion: v9, kind: ConfigMap, name: gone, uid: '2'}");
    cluster.advance_secs(60).await;
    assert_eq!(cluster.object_names_of("configmaps"), ["a", "b", "c"]);
    cluster.apply(
        "
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: widgets.example.com}
        spec:
          group: example.com
          scope: Namespaced
          names: {plural: widgets, kind: Widget}
          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
        ",
    );
    cluster.settle().await;
    assert_eq!(cluster.object_names_of("configmaps"), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_removed() {
    let cluster = TestCluster::new();
    cluster.create_gpu_nodes(&["n1"]).await;
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, namespace: team}
        spec: {nodeName: n1, containers: [{name: c, image: i}]}
        ",
    );
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: team}}");
    cluster.settle().await;
    cluster.delete("namespaces", "team");
    cluster.settle().await;
    assert_eq!(text(&cluster.get("namespaces", "team"), &["status", "phase"]), "Terminating");
    assert_eq!(cluster.pod_lines(), "p Terminating n1");
    assert_eq!(cluster.object_names_of("configmaps"), [""; 0]);
    cluster.advance_secs(2).await;
    assert!(!cluster.object_names_of("namespaces").contains(&"team".to_owned()));
    assert_eq!(cluster.pod_lines(), "");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_namespace_reports_its_remaining_content() {
    let cluster = TestCluster::new();
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    for name in ["a", "b"] {
        let metadata = format!("{{name: {name}, namespace: team, finalizers: [x.io/f]}}");
        cluster.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}"));
    }
    cluster.settle().await;
    cluster.delete("namespaces", "team");
    cluster.settle().await;
    let team = cluster.get("namespaces", "team");
    let conditions = list(&team, &["status", "conditions"]).iter();
    let lines = conditions.map(|one| {
        let of = |field| text(one, &[field]).to_owned();
        format!("{} {} {}: {}", of("type"), of("status"), of("reason"), of("message"))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered
    NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed
    NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization
    NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances
    NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x.io/f in 2 resource instances
    ");
}

#[tokio::test(start_paused = true)]
async fn equal_runs_write_equal_bytes() {
    async fn history() -> Vec<String> {
        let cluster = TestCluster::with_options(|options| options.seed = 7);
        cluster.create_gpu_nodes(&["n1", "n2"]).await;
        cluster.apply(
            "
            apiVersion: batch/v1
            kind: Job
            metadata: {name: j}
            spec:
              parallelism: 3
              completions: 6
              template:
                metadata: {annotations: {schedlab.dev/run-time: 7s}}
                spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
            ",
        );
        for _ in 0..20 {
            cluster.bind_all("n1");
            cluster.advance_secs(1).await;
        }
        cluster.change_log().iter().map(|entry| format!("{entry:?}")).collect()
    }
    let first = history().await;
    assert!(first.len() > 50);
    assert_eq!(first, history().await);
}
