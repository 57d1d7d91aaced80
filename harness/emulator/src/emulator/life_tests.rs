//! The life of nodes, and what goes when something else is gone.

use crate::emulator::lab::Lab;
use crate::object::{condition, is_deleting, list, name, namespace, set, text, uid};
use crate::store::Propagation;

fn taints(lab: &Lab, node: &str) -> Vec<String> {
    let node = lab.get("nodes", node);
    let taints = list(&node, &["spec", "taints"]).iter();
    taints.map(|one| format!("{}:{}", text(one, &["key"]), text(one, &["effect"]))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_node_becomes_ready_loses_its_taint_and_has_a_lease() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    assert_eq!(condition(&lab.get("nodes", "n1"), "Ready"), Some("True"));
    assert_eq!(taints(&lab, "n1"), [""; 0]);
    let lease = lab.get("leases", "kube-node-lease/n1");
    assert_eq!(text(&lease, &["spec", "holderIdentity"]), "n1");
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_an_authority_for_as_long_as_it_is_there() {
    let lab = Lab::new();
    lab.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    lab.rest().await;
    let places = |plural: &str| {
        let all = lab.all(plural);
        all.iter().map(|one| format!("{}/{}", namespace(one), name(one))).collect::<Vec<_>>()
    };
    let first_four = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let all = |name: &str| {
        let spaces = first_four.into_iter().chain(["team"]);
        spaces.map(|space| format!("{space}/{name}")).collect::<Vec<_>>()
    };
    assert_eq!(places("serviceaccounts"), all("default"));
    assert_eq!(places("configmaps"), all("kube-root-ca.crt"));
    let first = uid(&lab.get("serviceaccounts", "team/default")).to_owned();
    lab.delete("serviceaccounts", "team/default");
    lab.delete("configmaps", "team/kube-root-ca.crt");
    lab.rest().await;
    assert_ne!(uid(&lab.get("serviceaccounts", "team/default")), first);
    assert_eq!(places("configmaps"), all("kube-root-ca.crt"));
    lab.delete("namespaces", "team");
    lab.rest().await;
    assert_eq!(places("serviceaccounts"), all("default")[..4]);
    assert_eq!(places("configmaps"), all("kube-root-ca.crt")[..4]);
    assert_eq!(lab.names("namespaces"), first_four);
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_unknown_and_tainted_after_the_grace_period() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.annotate("nodes", "n1", "schedlab.dev/down", "true");
    lab.secs(39).await;
    assert_eq!(condition(&lab.get("nodes", "n1"), "Ready"), Some("True"));
    lab.secs(2).await;
    assert_eq!(condition(&lab.get("nodes", "n1"), "Ready"), Some("Unknown"));
    assert_eq!(
        taints(&lab, "n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert_eq!(lab.events("n1"), ["NodeNotReady"]);
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_dead_node_when_their_toleration_is_over() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "");
    lab.rest().await;
    lab.annotate("nodes", "n1", "schedlab.dev/down", "true");
    lab.secs(339).await;
    let pod = lab.get("pods", "p");
    assert!(!is_deleting(&pod));
    assert_eq!(condition(&pod, "Ready"), Some("False"));
    lab.secs(3).await;
    let pod = lab.get("pods", "p");
    assert!(is_deleting(&pod));
    assert_eq!(condition(&pod, "DisruptionTarget"), Some("True"));
    lab.secs(3600).await;
    assert_eq!(lab.pods(), "p Terminating n1 0");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_returns_is_ready_and_ends_what_was_to_end() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("stays", "n1", 1, "");
    lab.pod("ends", "n1", 1, "schedlab.dev/run-time: 60s");
    lab.rest().await;
    lab.annotate("nodes", "n1", "schedlab.dev/down", "true");
    lab.secs(100).await;
    insta::assert_snapshot!(lab.pods(), @r"
    ends Running n1 1
    stays Running n1 0
    ");
    lab.annotate("nodes", "n1", "schedlab.dev/down", "false");
    lab.rest().await;
    assert_eq!(condition(&lab.get("nodes", "n1"), "Ready"), Some("True"));
    assert_eq!(taints(&lab, "n1"), [""; 0]);
    assert_eq!(condition(&lab.get("pods", "stays"), "Ready"), Some("True"));
    insta::assert_snapshot!(lab.pods(), @r"
    ends Succeeded n1 1
    stays Running n1 0
    ");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_nodes_pods_and_lease_go() {
    let lab = Lab::new();
    lab.nodes(&["n1", "n2"]).await;
    lab.pod("a", "n1", 1, "");
    lab.pod("b", "n2", 1, "");
    lab.secs(60).await;
    lab.delete("nodes", "n1");
    lab.secs(39).await;
    assert_eq!(lab.names("pods"), ["a", "b"]);
    assert_eq!(lab.names("leases"), ["n2"]);
    lab.secs(2).await;
    assert_eq!(lab.pods(), "b Running n2 0");
}

#[tokio::test(start_paused = true)]
async fn a_no_execute_taint_evicts_pods_that_do_not_tolerate_it() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.pod("p", "n1", 1, "");
    lab.rest().await;
    lab.edit("nodes", "n1", |node| {
        let taint = schedlab_json::json!([{"key": "maintenance", "effect": "NoExecute"}]);
        set(node, &["spec", "taints"], taint);
    });
    lab.secs(2).await;
    assert_eq!(lab.pods(), "");
    assert!(lab.events("p").contains(&"TaintManagerEviction".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_tainted_until_it_is_uncordoned() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.edit("nodes", "n1", |node| set(node, &["spec", "unschedulable"], true.into()));
    lab.rest().await;
    assert_eq!(taints(&lab, "n1"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    lab.edit("nodes", "n1", |node| set(node, &["spec", "unschedulable"], false.into()));
    lab.rest().await;
    assert_eq!(taints(&lab, "n1"), [""; 0]);
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

/// `a` owns `b`, which owns `c`.
async fn chain() -> Lab {
    let lab = Lab::new();
    let mut owner: Option<String> = None;
    for name in ["a", "b", "c"] {
        let made = lab.try_apply(&config_map(name, owner.as_deref())).unwrap();
        owner = Some(format!("{name}={}", uid(&made.object)));
    }
    lab.rest().await;
    assert_eq!(lab.names("configmaps"), ["a", "b", "c"]);
    lab
}

#[tokio::test(start_paused = true)]
async fn a_background_deletion_takes_the_whole_chain() {
    let lab = chain().await;
    lab.delete("configmaps", "a");
    lab.rest().await;
    assert_eq!(lab.names("configmaps"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_takes_dependents_first() {
    let lab = chain().await;
    lab.delete_with("configmaps", "a", Propagation::Foreground);
    lab.rest().await;
    let log = lab.log();
    let gone: Vec<&str> = log
        .iter()
        .filter(|entry| entry.kind == crate::store::EventKind::Deleted)
        .map(|entry| &*entry.key.name)
        .collect();
    assert_eq!(gone, ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphaning_deletion_leaves_dependents_without_owner() {
    let lab = chain().await;
    lab.delete_with("configmaps", "a", Propagation::Orphan);
    lab.rest().await;
    assert_eq!(lab.names("configmaps"), ["b", "c"]);
    assert_eq!(lab.get("configmaps", "b")["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_never_was_is_collected() {
    let lab = Lab::new();
    lab.apply(&config_map("a", None));
    lab.apply(&config_map("b", Some("a=not-the-uid-of-a")));
    lab.rest().await;
    assert_eq!(lab.names("configmaps"), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_is_of_an_unknown_kind_is_kept_until_the_kind_is_known() {
    let lab = Lab::new();
    let owned = |name: &str, more: &str| {
        let ray = "{apiVersion: ray.io/v1, kind: RayCluster, name: rc, uid: '1'}";
        let metadata = format!("{{name: {name}, ownerReferences: [{ray}{more}]}}");
        lab.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}"));
    };
    owned("a", "");
    owned("b", ", {apiVersion: v1, kind: ConfigMap, name: gone, uid: '2'}");
    owned("c", ", {apiVersion: v9, kind: ConfigMap, name: gone, uid: '2'}");
    lab.secs(60).await;
    assert_eq!(lab.names("configmaps"), ["a", "b", "c"]);
    lab.apply(
        "
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: rayclusters.ray.io}
        spec:
          group: ray.io
          scope: Namespaced
          names: {plural: rayclusters, kind: RayCluster}
          versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
        ",
    );
    lab.rest().await;
    assert_eq!(lab.names("configmaps"), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_empties_itself_and_goes() {
    let lab = Lab::new();
    lab.nodes(&["n1"]).await;
    lab.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    lab.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: p, namespace: team}
        spec: {nodeName: n1, containers: [{name: c, image: i}]}
        ",
    );
    lab.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: team}}");
    lab.rest().await;
    lab.delete("namespaces", "team");
    lab.rest().await;
    assert_eq!(text(&lab.get("namespaces", "team"), &["status", "phase"]), "Terminating");
    assert_eq!(lab.pods(), "p Terminating n1");
    assert_eq!(lab.names("configmaps"), [""; 0]);
    lab.secs(2).await;
    assert!(!lab.names("namespaces").contains(&"team".to_owned()));
    assert_eq!(lab.pods(), "");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_go_says_what_is_left_in_it() {
    let lab = Lab::new();
    lab.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}");
    for name in ["a", "b"] {
        let metadata = format!("{{name: {name}, namespace: team, finalizers: [x.io/f]}}");
        lab.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}"));
    }
    lab.rest().await;
    lab.delete("namespaces", "team");
    lab.rest().await;
    let team = lab.get("namespaces", "team");
    let conditions = list(&team, &["status", "conditions"]).iter();
    let told = conditions.map(|one| {
        let of = |field| text(one, &[field]).to_owned();
        format!("{} {} {}: {}", of("type"), of("status"), of("reason"), of("message"))
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
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
        let lab = Lab::with(|options| options.seed = 7);
        lab.nodes(&["n1", "n2"]).await;
        lab.apply(
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
            lab.bind_all("n1");
            lab.secs(1).await;
        }
        lab.log().iter().map(|entry| format!("{entry:?}")).collect()
    }
    let first = history().await;
    assert!(first.len() > 50);
    assert_eq!(first, history().await);
}
